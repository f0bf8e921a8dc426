//! Combines all findings about each task and derives its quality marks.

use std::collections::{BTreeMap, BTreeSet};

use proctor_patch::{Patch, Side};
use proctor_types::{
    AttackedTask, Certificate, CertifiedTask, DependencySigns, QualityMark, SignSource, Task,
    TaskQuality, file_from_test_id,
};

use crate::quality::{
    duplicates::find_duplicates,
    leak,
    settings::{Settings, SignRules},
    signs::{TestTexts, find_signs},
};

/// A task to judge, with access to its files on this host.
#[derive(Debug, Clone, Copy)]
pub struct JudgedTask<'a> {
    pub task: &'a Task,
    /// Reads files from the task's source.
    pub files: &'a dyn ReadFile,
}

/// Reads files relative to the work directory.
pub trait ReadFile: std::fmt::Debug {
    fn read(&self, path: &str) -> Option<Vec<u8>>;
}

/// Judges the tasks of a dataset. Returns the results in the same order.
///
/// # Errors
/// The built-in thresholds are invalid.
pub fn judge_tasks(
    judged_tasks: &[JudgedTask<'_>],
    certificate: Option<&Certificate>,
) -> Result<Vec<TaskQuality>, String> {
    let settings = Settings::get()?;
    let (network, date) = (settings.network_rules()?, settings.date_rules()?);
    let tasks: Vec<&Task> = judged_tasks.iter().map(|subject| subject.task).collect();
    let repeats = find_duplicates(&tasks, &settings.duplicates);
    let mut judged = Vec::new();
    for (subject, repeats) in judged_tasks.iter().zip(repeats) {
        let task = subject.task;
        let digest = task.digest();
        let certified = certificate.and_then(|it| {
            let of = |one: &&CertifiedTask| one.task == task.id && one.digest == digest;
            Some((it.repeat, it.tasks.iter().find(of)?))
        });
        let attacked = certificate.and_then(|it| it.attacks.as_ref()).and_then(|attacks| {
            attacks.tasks.iter().find(|one| one.task == task.id && one.digest == digest)
        });
        let texts = test_texts(subject, settings.limits.file_bytes);
        let look = |rules: &SignRules| find_signs(task, &texts, rules, settings.limits);
        let gold_fails = gold_fails(certified, attacked);
        let mut quality = TaskQuality {
            task: task.id.clone(),
            marks: BTreeSet::new(),
            leak_score: leak::leak_score(task, &settings.leak),
            gold_fails,
            noop_passes: noop_passes(certified, attacked),
            flaky: certified.map(|(_, it)| it.flaky.keys().cloned().collect()).unwrap_or_default(),
            resource_sensitive: certified
                .map(|(_, it)| it.resource_sensitive.clone())
                .unwrap_or_default(),
            attacks: attacked.filter(|task| task.was_attacked()).map(successful_attacks),
            duplicate_of: repeats.into_iter().map(|at| tasks[at].id.clone()).collect(),
            // Grading has no network access, so tests that passed do not need the network.
            network: match gold_fails {
                Some(false) => DependencySigns { by: SignSource::Runs, found: Vec::new(), more: 0 },
                _ => look(&network),
            },
            date: look(&date),
            digest,
        };
        quality.marks = quality_marks(&quality, task, settings.leak.marks);
        judged.push(quality);
    }
    Ok(judged)
}

type CertificateEntry<'a> = Option<(u32, &'a CertifiedTask)>;

fn gold_fails(entry: CertificateEntry<'_>, attacked_task: Option<&AttackedTask>) -> Option<bool> {
    if let Some((repeat, task)) = entry {
        return Some(task.gold_resolved < repeat);
    }
    // Only tasks that gold resolves are attacked.
    let mut of_pack =
        attacked_task?.attacks.iter().filter(|(name, _)| !is_own_cheat(name)).peekable();
    of_pack.peek()?;
    Some(of_pack.all(|(_, one)| one.not_applicable.is_some()))
}

fn noop_passes(entry: CertificateEntry<'_>, attacked_task: Option<&AttackedTask>) -> Option<bool> {
    if let Some((_, task)) = entry {
        return Some(task.noop_resolved > 0);
    }
    let noop = attacked_task?.attacks.get(NOOP_ATTACK)?;
    (!noop.policies.is_empty()).then(|| noop.policies.values().any(|one| one.is_success()))
}

const NOOP_ATTACK: &str = "noop";

fn is_own_cheat(attack: &str) -> bool {
    attack.starts_with(proctor_types::CHEAT_ATTACK_PREFIX)
}

fn successful_attacks(task: &AttackedTask) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (attack, one) in &task.attacks {
        for (policy, _) in one.policies.iter().filter(|(_, outcome)| outcome.is_success()) {
            found.entry(policy.clone()).or_default().push(attack.clone());
        }
    }
    found
}

fn quality_marks(quality: &TaskQuality, task: &Task, leak_threshold: f64) -> BTreeSet<QualityMark> {
    let decides = |id: &&String| task.fail_to_pass.contains(id) || task.pass_to_pass.contains(id);
    let unsteady = quality.flaky.iter().chain(&quality.resource_sensitive);
    // Use the policy that decides in a run whether a task is resolved.
    let counts = if task.benchmark.is_some() { "official" } else { "strict" };
    let attacked = quality.attacks.as_ref().is_some_and(|found| found.contains_key(counts));
    let all = [
        (QualityMark::Leaky, quality.leak_score.is_some_and(|score| score >= leak_threshold)),
        (QualityMark::GoldFails, quality.gold_fails == Some(true)),
        (QualityMark::NoopPasses, quality.noop_passes == Some(true)),
        (QualityMark::Flaky, unsteady.into_iter().any(|id| decides(&id))),
        (QualityMark::Attacked, attacked),
        (QualityMark::Duplicate, !quality.duplicate_of.is_empty()),
    ];
    all.into_iter().filter(|(_, is_so)| *is_so).map(|(mark, _)| mark).collect()
}

/// Returns the contents of the task's test files. Each consists of the lines that the test patch
/// adds and, if the source contains the file, its original content.
fn test_texts(judged_task: &JudgedTask<'_>, max_bytes: usize) -> TestTexts {
    let task = judged_task.task;
    let ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
    let paths: BTreeSet<&str> = ids.map(|id| file_from_test_id(id)).collect();
    let mut texts = TestTexts::new();
    let patch = task.test_patch.as_ref().map(|text| Patch::parse(text.as_bytes()));
    for path in paths {
        let whole = judged_task.files.read(path).filter(|bytes| bytes.len() <= max_bytes);
        let mut text = whole.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let files = patch.iter().flat_map(|patch| &patch.files);
        for file in files.filter(|file| file.path().to_escaped() == path) {
            let text = text.get_or_insert_default();
            for (side, lines) in file.hunks().iter().flat_map(|hunk| hunk.runs()) {
                if side == Side::New {
                    lines.iter().for_each(|line| text.push_str(&format!("{}\n", line.text())));
                }
            }
        }
        texts.extend(text.map(|text| (path.to_owned(), text)));
    }
    texts
}

#[cfg(test)]
pub(crate) mod tests {
    use QualityMark::{Attacked, Flaky, GoldFails, NoopPasses};
    use serde_json::json;

    use super::*;

    /// Creates a task whose gold patch adds one file.
    pub(crate) fn task(id: &str, statement: &str, code: &str) -> Task {
        let added: String = code.lines().map(|line| format!("+{line}\n")).collect();
        let count = code.lines().count();
        let gold = format!(
            "diff --git a/a.py b/a.py\nnew file mode 100644\n--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,{count} @@\n{added}"
        );
        serde_json::from_value(json!({
            "schema_version": 1, "id": id, "statement": statement, "environment": {"base": "host"},
            "fail_to_pass": ["t.py::test_a", "t.py::test_b"], "test_command": ["pytest"], "gold": gold
        }))
        .unwrap()
    }

    #[derive(Debug)]
    struct NoFiles;

    impl ReadFile for NoFiles {
        fn read(&self, _: &str) -> Option<Vec<u8>> {
            None
        }
    }

    fn certificate(tasks: serde_json::Value, attacks: serde_json::Value) -> Certificate {
        serde_json::from_value(json!({
            "schema_version": 1, "proctor": "0", "grader": "g", "made": 1, "backend": "native", "host": {},
            "repeat": 3, "tasks": tasks, "attacks": attacks
        }))
        .unwrap()
    }

    #[test]
    fn judge_tasks_uses_certificate_only_for_unchanged_tasks() {
        let tasks =
            ["sound", "broken", "weak", "changed"].map(|id| task(id, id, &format!("{id} = 1\n")));
        let entry = |at: usize, gold: u32, noop: u32, flaky: serde_json::Value| {
            json!({"task": tasks[at].id, "digest": tasks[at].digest(), "gold_resolved": gold, "noop_resolved": noop,
                   "flaky": flaky, "gold_seconds": [1.0]})
        };
        let mut changed = entry(3, 0, 3, json!({}));
        changed["digest"] = "other".into();
        let unsteady = json!({"t.py::test_a": {"passed": 2, "failed": 1}});
        let certified = json!([
            entry(0, 3, 0, json!({"t.py::test_c": {"passed": 1, "failed": 2}})),
            entry(1, 2, 0, unsteady),
            entry(2, 3, 1, json!({})),
            changed
        ]);
        let attacks = json!({"pack": "p", "dataset": "d", "attacks": [{"name": "noop"}], "tasks": [
            {"task": "broken", "digest": tasks[1].digest(),
             "attacks": {"noop": {"not_applicable": "gold does not resolve the task"}}},
            {"task": "weak", "digest": tasks[2].digest(), "attacks": {"noop": {"policies": {"strict": "passed"}}}}]});
        let certificate = certificate(certified, attacks);
        let subjects: Vec<JudgedTask<'_>> =
            tasks.iter().map(|task| JudgedTask { task, files: &NoFiles }).collect();
        let judged = judge_tasks(&subjects, Some(&certificate)).unwrap();
        let marks: Vec<Vec<QualityMark>> =
            judged.iter().map(|one| one.marks.iter().copied().collect()).collect();
        assert_eq!(marks, [vec![], vec![GoldFails, Flaky], vec![NoopPasses, Attacked], vec![]]);
        assert_eq!(
            judged[0].network,
            DependencySigns { by: SignSource::Runs, found: vec![], more: 0 }
        );
        assert_eq!((judged[3].gold_fails, judged[3].date.by), (None, SignSource::Nothing));
        assert_eq!(judged[2].attacks.as_ref().unwrap()["strict"], ["noop"]);
        assert_eq!((judged[1].task.as_str(), &judged[1].attacks), ("broken", &None));
        let digests = tasks.iter().map(|task| (&task.id, task.digest()));
        let digests: Vec<_> = digests.collect();
        let digests = digests.iter().map(|(id, digest)| (*id, digest.as_str()));
        let cited = certificate.attacks.as_ref().unwrap().summary_sentence(digests);
        assert!(cited.contains("on 1 task:") && cited.contains("not attacked: 3 of 4"), "{cited}");
    }
}
