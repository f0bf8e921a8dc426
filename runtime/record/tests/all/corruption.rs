//! Tests that a check detects every kind of corruption of every file of a trial.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use pretty_assertions::assert_eq;
use proctor_record::{Blobs, CheckedTrial, GradingFiles, Journal, Remedy, RunDir};
use proctor_types::{
    Arm, ArmId, Budget, CONFIG_VERSION, Ending, Event, Fault, FaultLayer, Label, LeakCheckSpec,
    NetworkPolicy, Outcome, RULES_VERSION, RUN_SCHEMA_VERSION, RunRecord, RunTask, SandboxSpec,
    Spending, StatementSpec, Task, TaskId, TrialId, Verdict,
};
use serde_json::{Map, Value, json};

struct TestRun {
    folder: tempfile::TempDir,
    arm: ArmId,
}

const PATCHES: [&[u8]; 2] = [b"diff --git a/x b/x\nthe first\n", b"diff --git a/x b/x\nother\n"];

fn verdict(task: &str, is_resolved: bool) -> Verdict {
    serde_json::from_value(json!({
        "schema_version": 1, "task": task, "resolved": is_resolved, "passed_rate": 1.0 / 3.0,
        "fail_to_pass": {"passed": ["f"], "failed": []},
        "pass_to_pass": {"passed": [], "failed": []}, "tests": {"f": "passed"},
        "policies": {}, "integrity": "clean", "evidence": []
    }))
    .unwrap()
}

fn outcome(seconds: f64) -> Outcome {
    Outcome {
        schema_version: 1,
        ending: Ending::Submitted,
        try_number: 1,
        spent: Spending::default(),
        tool_calls: None,
        malformed_calls: 0,
        wall_seconds: seconds,
        waited_seconds: 0.0,
        tool_seconds: 0.0,
        left_out: vec![],
        not_enforced: vec![],
        noise: None,
        responders: Default::default(),
        changes: Default::default(),
        interruptions: Default::default(),
    }
}

impl TestRun {
    /// Creates a run of one task, one arm and two attempts. Both are graded: the first as resolved,
    /// the second as unresolved.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path().join("run")).unwrap();
        let task: Task = serde_json::from_value(json!({
            "schema_version": 1, "id": "t", "statement": "s", "environment": {},
            "fail_to_pass": ["f"], "test_command": []
        }))
        .unwrap();
        let arm = Arm {
            control: false,
            forked_from: None,
            id: ArmId::new(""),
            name: "a".into(),
            scaffold: "noop".into(),
            model: None,
            budget: Budget { steps: Some(50), ..Budget::default() },
            sandbox: SandboxSpec::default(),
            network: NetworkPolicy::default(),
            leak_check: LeakCheckSpec::default(),
            statement: StatementSpec::default(),
            prompts: Value::Null,
            settings: Value::Null,
        };
        let arm = arm.with_computed_id();
        let record = RunRecord {
            schema_version: RUN_SCHEMA_VERSION,
            rules: RULES_VERSION,
            proctor: "0".into(),
            created: 1,
            attempts: 2,
            jobs: 1,
            arms: vec![arm.clone()],
            tasks: vec![RunTask {
                digest: task.digest(),
                task,
                base_dir: PathBuf::from("/"),
                source: None,
                host_bound: false,
            }],
            config_version: CONFIG_VERSION,
            config: serde_json::from_value(json!({"rate": 0.1})).unwrap(),
            host: json!({}),
            agent: String::new(),
            certificate: None,
            flaky: Default::default(),
            selection: None,
            absent: std::collections::BTreeSet::new(),
            changes: Vec::new(),
        };
        run.write_run(&record).unwrap();
        let made = Self { folder, arm: arm.id };
        for attempt in [1, 2] {
            made.add_trial(&run, attempt);
        }
        made
    }

    fn trial_id(&self, attempt: u32) -> TrialId {
        TrialId { task: TaskId::new("t"), arm: self.arm.clone(), attempt }
    }

    fn add_trial(&self, run: &RunDir, attempt: u32) {
        let id = self.trial_id(attempt);
        let dir = run.create_trial_dir(&id).unwrap();
        let patch = PATCHES[attempt as usize - 1];
        let blobs = run.trial_blobs(&dir);
        let hash = blobs.put(patch).unwrap();
        let mut journal = Journal::create(dir.trajectory_path(), 1).unwrap();
        let started = Event::TrialStarted {
            task: id.task.clone(),
            arm: id.arm.to_string(),
            attempt: id.attempt,
        };
        journal.append(0, started).unwrap();
        for step in 1..=5_u64 {
            let note = Map::from_iter([("step".to_owned(), json!(step))]);
            journal.append(step, Event::Noted { note }).unwrap();
        }
        let collected = Event::PatchCollected { bytes: patch.len() as u64, files: 1, hash };
        journal.append(5, collected).unwrap();
        dir.write_patch(patch).unwrap();
        // Use a number whose last digit an inexact parser gets wrong.
        let outcome = outcome(f64::from(attempt) * 1.000_000_000_000_000_2e-3);
        let ended =
            Event::TrialEnded { outcome: Box::new(outcome.clone()), packed: blobs.pack_size() };
        journal.append(5, ended).unwrap();
        dir.write_outcome(&outcome).unwrap();
        let verdict = verdict("t", attempt == 1);
        let grading = GradingFiles { patch, verdict: &verdict, log: b"log", results: b"results" };
        dir.store_grading(&id, grading).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn file_path(&self, attempt: u32, name: &str) -> PathBuf {
        let run = RunDir::open_read_only(self.path()).unwrap();
        run.trial_dir(&self.trial_id(attempt)).path().join(name)
    }

    /// Checks the trial as a new process would.
    fn check(&self, attempt: u32) -> CheckedTrial {
        RunDir::open_read_only(self.path()).unwrap().check_trial(&self.trial_id(attempt))
    }

    fn verify(&self, attempt: u32) -> CheckedTrial {
        let run = RunDir::open_read_only(self.path()).unwrap();
        run.verifier().verify_trial(&self.trial_id(attempt))
    }

    fn restore(&self, attempt: u32) -> usize {
        let run = RunDir::open(self.path()).unwrap();
        let mut checked = run.check_trial(&self.trial_id(attempt));
        let dir = run.trial_dir(&self.trial_id(attempt));
        dir.restore(&run.trial_blobs(&dir), &mut checked).unwrap().len()
    }
}

/// Corrupts one file. `other` is the same file of the other trial.
type CorruptFn = fn(path: &Path, other: &Path);

fn flip_middle_bit(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x04;
    fs::write(path, bytes).unwrap();
}

/// An entry other than a regular file that may exist at a file's path: its description, and a
/// function that creates it.
type NonFileCase = (&'static str, fn(&Path));

const NON_FILES: [NonFileCase; 4] = [
    ("a folder at its path", |path| fs::create_dir(path).unwrap()),
    ("a pipe at its path", |path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }),
    ("a device at its path", |path| symlink("/dev/zero", path).unwrap()),
    ("a dangling link at its path", |path| symlink(missing_target_path(path), path).unwrap()),
];

fn missing_target_path(path: &Path) -> PathBuf {
    path.with_extension("nowhere")
}

fn replace_with_non_file(path: &Path, non_file_index: usize) {
    fs::remove_file(path).unwrap();
    NON_FILES[non_file_index].1(path);
}

const CORRUPTIONS: [(&str, CorruptFn); 12] = [
    ("flipped byte", |path, _| flip_middle_bit(path)),
    ("truncated tail", |path, _| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 3]).unwrap();
    }),
    ("truncated middle", |path, _| {
        let bytes = fs::read(path).unwrap();
        let third = bytes.len() / 3;
        fs::write(path, [&bytes[..third], &bytes[2 * third..]].concat()).unwrap();
    }),
    ("lost file", |path, _| fs::remove_file(path).unwrap()),
    ("swapped with another trial", |path, other| {
        let (mine, theirs) = (fs::read(path).unwrap(), fs::read(other).unwrap());
        fs::write(path, theirs).unwrap();
        fs::write(other, mine).unwrap();
    }),
    ("emptied", |path, _| fs::write(path, "").unwrap()),
    (NON_FILES[0].0, |path, _| replace_with_non_file(path, 0)),
    (NON_FILES[1].0, |path, _| replace_with_non_file(path, 1)),
    (NON_FILES[2].0, |path, _| replace_with_non_file(path, 2)),
    (NON_FILES[3].0, |path, _| replace_with_non_file(path, 3)),
    ("filled with zeros", |path, _| {
        let length = fs::metadata(path).unwrap().len() as usize;
        fs::write(path, vec![0; length]).unwrap();
    }),
    ("old time put back", |path, _| {
        let keeper = path.with_extension("time");
        assert!(Command::new("cp").arg("-p").arg(path).arg(&keeper).status().unwrap().success());
        flip_middle_bit(path);
        let touch = Command::new("touch").arg("-r").arg(&keeper).arg(path).status().unwrap();
        assert!(touch.success());
        fs::remove_file(keeper).unwrap();
    }),
];

#[test]
fn check_accepts_an_intact_trial() {
    let made = TestRun::new();
    for _ in 0..2 {
        let checked = made.check(1);
        assert_eq!(checked.corruptions, vec![]);
        assert!(checked.verdict.unwrap().resolved && checked.is_finished);
        assert!(!made.check(2).verdict.unwrap().resolved);
        assert_eq!(made.verify(1).corruptions, vec![]);
    }
}

/// The journal is authoritative, so files are restored from it byte for byte.
#[test]
fn check_restores_files_from_the_journal() {
    for name in ["patch.diff", "outcome.json", "verdict.json"] {
        for (what, harm) in CORRUPTIONS {
            let made = TestRun::new();
            let before = made.check(1);
            harm(&made.file_path(1, name), &made.file_path(2, name));
            let checked = made.check(1);
            let [damage] = checked.corruptions.as_slice() else {
                panic!("{name}, {what}: {:?}", checked.corruptions)
            };
            assert_eq!(damage.path, made.file_path(1, name), "{what}");
            assert!(matches!(damage.remedy, Remedy::Restore(_)), "{name}, {what}: {damage}");
            assert_eq!(
                (&checked.outcome, &checked.verdict, &checked.patch),
                (&before.outcome, &before.verdict, &before.patch),
                "{name}, {what}"
            );
            assert_eq!(made.restore(1), 1);
            assert_eq!(made.check(1), before, "{name}, {what}");
            assert_eq!(fs::read(made.file_path(1, "patch.diff")).unwrap(), PATCHES[0]);
            let aside = made.file_path(1, &format!("{name}.damaged"));
            let kept = fs::symlink_metadata(&aside).is_ok();
            assert_eq!(kept, what != "lost file", "{what}: the corrupt file was not kept");
        }
    }
}

/// The journal is the reference for all other files, so it cannot be restored from them.
#[test]
fn corrupt_journal_withholds_the_verdict() {
    for (what, harm) in CORRUPTIONS {
        let made = TestRun::new();
        made.check(1);
        harm(&made.file_path(1, "trajectory.jsonl"), &made.file_path(2, "trajectory.jsonl"));
        let checked = made.check(1);
        let path = made.file_path(1, "trajectory.jsonl");
        assert!(
            checked.is_unrecoverable() && checked.is_finished && checked.verdict.is_none(),
            "{what}"
        );
        let named = checked.corruptions.iter().find(|one| one.withholds_verdict()).unwrap();
        assert_eq!(named.path, path, "{what}");
        if ["flipped byte", "old time put back"].contains(&what) {
            assert_eq!(named.line, Some(6), "{what}: {named}");
            assert!(named.to_string().starts_with(&format!("{}:6: ", path.display())), "{named}");
        }
        // The other trial's verdict is unaffected.
        let other = made.check(2);
        assert_eq!(other.verdict.is_some(), what != "swapped with another trial", "{what}");
    }
}

/// Grading the trial again fixes a corrupt grading journal, because the verdict depends only on the
/// patch.
#[test]
fn corrupt_gradings_require_regrading() {
    for (what, harm) in CORRUPTIONS {
        let made = TestRun::new();
        made.check(1);
        harm(&made.file_path(1, "grade/journal.jsonl"), &made.file_path(2, "grade/journal.jsonl"));
        let checked = made.check(1);
        assert!(
            checked.verdict.is_none() && !checked.is_unrecoverable(),
            "{what}: {:?}",
            checked.corruptions
        );
        assert!(checked.corruptions.iter().all(|one| one.remedy == Remedy::Regrade), "{what}");
        assert!(!checked.corruptions.is_empty(), "{what}");
        let (run, id) = (RunDir::open(made.path()).unwrap(), made.trial_id(1));
        let verdict = verdict("t", true);
        let grading =
            GradingFiles { patch: PATCHES[0], verdict: &verdict, log: b"log", results: b"results" };
        run.trial_dir(&id).store_grading(&id, grading).unwrap();
        drop(run);
        let again = made.check(1);
        assert_eq!((again.corruptions, again.verdict), (vec![], Some(verdict)), "{what}");
    }
}

/// If something other than a file exists at the path of a grading file, grading moves it aside, and
/// leaves no partial files behind.
#[test]
fn grading_moves_non_files_aside() {
    for name in ["grade/log.txt", "grade/results.jsonl", "grade/journal.jsonl", "verdict.json"] {
        for (what, put) in NON_FILES {
            let made = TestRun::new();
            let path = made.file_path(1, name);
            fs::remove_file(&path).unwrap();
            put(&path);
            fs::write(made.file_path(1, "grade/.tmp-killed"), "half").unwrap();
            let (run, id) = (RunDir::open(made.path()).unwrap(), made.trial_id(1));
            let dir = run.trial_dir(&id);
            dir.withdraw_verdict("again").unwrap();
            let verdict = verdict("t", true);
            let grading = GradingFiles {
                patch: PATCHES[0],
                verdict: &verdict,
                log: b"log",
                results: b"results",
            };
            dir.store_grading(&id, grading).unwrap();
            assert_eq!(made.verify(1).corruptions, vec![], "{name}, {what}");
            assert!(!fs::symlink_metadata(&path).unwrap().is_symlink(), "{name}, {what}");
            let aside = made.file_path(1, &format!("{name}.damaged"));
            assert!(fs::symlink_metadata(&aside).is_ok(), "{name}, {what}: it was not kept");
            assert!(
                !missing_target_path(&path).exists(),
                "{name}, {what}: a file was created elsewhere"
            );
            assert!(!made.file_path(1, "grade/.tmp-killed").exists());
        }
    }
}

#[test]
fn grading_moves_non_directories_aside() {
    for (what, put) in NON_FILES.into_iter().skip(1) {
        let made = TestRun::new();
        let (run, id) = (RunDir::open(made.path()).unwrap(), made.trial_id(1));
        let dir = run.trial_dir(&id);
        fs::remove_dir_all(dir.grading_dir()).unwrap();
        put(&dir.grading_dir());
        assert!(made.check(1).verdict.is_none(), "{what}");
        let verdict = verdict("t", true);
        let grading =
            GradingFiles { patch: PATCHES[0], verdict: &verdict, log: b"log", results: b"results" };
        dir.store_grading(&id, grading).unwrap();
        assert_eq!(made.verify(1).corruptions, vec![], "{what}");
    }
}

#[test]
fn failed_grading_keeps_its_reason_and_log_until_a_verdict_follows() {
    let made = TestRun::new();
    let (run, id) = (RunDir::open(made.path()).unwrap(), made.trial_id(1));
    let dir = run.trial_dir(&id);
    fs::remove_dir_all(dir.grading_dir()).unwrap();
    fs::remove_file(dir.verdict_path()).unwrap();
    let fault = Fault::new(FaultLayer::Grade, "reward.txt contains \"nan\"");
    for (log, will_retry) in [(&b"first"[..], true), (&b""[..], true), (&b"second"[..], false)] {
        dir.store_grading_failure(&id, &fault.clone().log(log), will_retry).unwrap();
    }
    let checked = made.verify(1);
    assert_eq!((checked.verdict, checked.corruptions), (None, vec![]));
    let failure = checked.grading_failure.unwrap();
    assert_eq!((failure.fault, failure.log_file.as_deref()), (fault.clone(), Some("failed-2.txt")));
    for (name, content) in [("failed-1.txt", "first"), ("failed-2.txt", "second")] {
        assert_eq!(fs::read_to_string(dir.grading_dir().join(name)).unwrap(), content);
    }
    fs::write(dir.grading_dir().join("failed-1.txt"), "other").unwrap();
    let corruptions = made.verify(1).corruptions;
    assert_eq!(corruptions.len(), 1, "{corruptions:?}");
    assert!(corruptions[0].path.ends_with("grade/failed-1.txt"), "{corruptions:?}");
    fs::write(dir.grading_dir().join("failed-1.txt"), "first").unwrap();
    let verdict = verdict("t", true);
    let grading =
        GradingFiles { patch: PATCHES[0], verdict: &verdict, log: b"log", results: b"results" };
    dir.store_grading(&id, grading).unwrap();
    let again = made.verify(1);
    assert_eq!(
        (again.verdict, again.grading_failure, again.corruptions),
        (Some(verdict), None, vec![])
    );
}

#[test]
fn withdrawn_verdict_is_restored_after_failed_gradings() {
    let made = TestRun::new();
    let (run, id) = (RunDir::open(made.path()).unwrap(), made.trial_id(1));
    let dir = run.trial_dir(&id);
    dir.withdraw_verdict("again").unwrap();
    let fault = Fault::new(FaultLayer::Grade, "the verifier did not end").log(&b"output"[..]);
    dir.store_grading_failure(&id, &fault, false).unwrap();
    assert_eq!(made.check(1).grading_failure.unwrap().fault.what, fault.what);
    assert_eq!(dir.restore_verdict().unwrap(), Some(verdict("t", true)));
    let restored = made.verify(1);
    assert_eq!((restored.verdict, restored.corruptions), (Some(verdict("t", true)), vec![]));
    assert_eq!(restored.grading_failure, None);
}

/// The cache of earlier checks only saves time: without it, every check reads everything.
#[test]
fn check_ignores_a_cache_that_is_not_a_file() {
    for (what, put) in NON_FILES {
        let made = TestRun::new();
        let before = made.check(1);
        let path = made.path().join("checked.jsonl");
        fs::remove_file(&path).unwrap();
        put(&path);
        assert_eq!(made.check(1), before, "{what}");
        assert!(!missing_target_path(&path).exists(), "{what}: a file was created elsewhere");
    }
}

#[test]
fn writers_reject_non_files() {
    for (what, put) in NON_FILES {
        let made = TestRun::new();
        let lock = made.path().join("lock");
        fs::remove_file(&lock).unwrap();
        put(&lock);
        let error = RunDir::open(made.path()).unwrap_err().to_string();
        let reasons = ["cannot be locked: dangling", "cannot be locked: not a regular file"];
        assert!(
            reasons.iter().any(|one| error.contains(one)) || what.contains("folder"),
            "{error}"
        );
        fs::remove_file(&lock).or_else(|_| fs::remove_dir(&lock)).unwrap();

        let run = RunDir::open(made.path()).unwrap();
        put(&made.path().join("labels.jsonl"));
        let label = Label {
            v: 1,
            at: 1,
            trial: made.trial_id(1),
            step: None,
            label: "good".into(),
            comment: None,
            removed: false,
        };
        assert!(run.add_label(&label).is_err(), "{what}");

        let journal = made.file_path(1, "trajectory.jsonl");
        fs::remove_file(&journal).unwrap();
        put(&journal);
        assert!(Journal::open(&journal).is_err(), "{what}");

        let dir = run.trial_dir(&made.trial_id(2));
        fs::remove_file(dir.pack_path()).unwrap();
        put(&dir.pack_path());
        assert!(run.trial_blobs(&dir).put(b"a blob").is_err(), "{what}");
        for path in [lock, journal, dir.pack_path(), made.path().join("labels.jsonl")] {
            assert!(!missing_target_path(&path).exists(), "{what}: a file was created elsewhere");
        }
    }
}

/// The next try can write its files, no matter what the previous try left behind at their paths.
#[test]
fn next_try_moves_non_files_aside() {
    for (what, put) in NON_FILES {
        let made = TestRun::new();
        let run = RunDir::open(made.path()).unwrap();
        let dir = run.create_trial_dir(&made.trial_id(3)).unwrap();
        put(&dir.trajectory_path());
        let number = dir.next_try_number().unwrap();
        assert_eq!(number, 2, "{what}");
        dir.begin_try(number).unwrap();
        Journal::create(dir.trajectory_path(), number).unwrap();
        put(&dir.outcome_path());
        dir.remove_outcome().unwrap();
        dir.write_outcome(&outcome(1.0)).unwrap();
    }
}

/// If a try is unfinished, the trial runs again. A journal that belongs to another trial must not
/// count as an unfinished try.
#[test]
fn check_rejects_the_journal_of_another_trial() {
    let made = TestRun::new();
    let id = made.trial_id(3);
    let run = RunDir::open(made.path()).unwrap();
    let dir = run.create_trial_dir(&id).unwrap();
    let mut journal = Journal::create(dir.trajectory_path(), 1).unwrap();
    let (task, arm) = (id.task.clone(), id.arm.to_string());
    journal.append(0, Event::TrialStarted { task, arm, attempt: 3 }).unwrap();
    drop((journal, run));
    let checked = made.check(3);
    assert!(!checked.is_finished && checked.corruptions.is_empty());
    flip_middle_bit(&dir.trajectory_path());
    let checked = made.check(3);
    assert!(!checked.is_finished && !checked.is_unrecoverable() && checked.corruptions.len() == 1);
    // Replace the journal of a finished trial.
    fs::copy(dir.trajectory_path(), made.file_path(1, "trajectory.jsonl")).unwrap();
    assert!(made.check(1).is_finished && made.check(1).is_unrecoverable());
    flip_middle_bit(&dir.trajectory_path());
    fs::copy(dir.trajectory_path(), made.file_path(2, "trajectory.jsonl")).unwrap();
    let checked = made.check(2);
    assert!(checked.is_finished && checked.is_unrecoverable());
    assert!(
        checked.corruptions[0].reason.contains("another trial, t/"),
        "{:?}",
        checked.corruptions
    );
}

#[test]
fn check_ignores_a_repeated_line() {
    let made = TestRun::new();
    let path = made.file_path(1, "trajectory.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    for line in [0, 3, text.lines().count() - 1] {
        let mut lines: Vec<_> = text.lines().collect();
        lines.insert(line, lines[line]);
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        let checked = made.check(1);
        let [damage] = checked.corruptions.as_slice() else { panic!("{:?}", checked.corruptions) };
        assert_eq!((damage.line, &damage.remedy), (Some(line + 2), &Remedy::LostEvidence));
        assert!(checked.verdict.unwrap().resolved);
    }
    // A repeated line in another position is out of order.
    let mut lines: Vec<_> = text.lines().collect();
    lines.push(lines[2]);
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    assert!(made.check(1).is_unrecoverable());
}

#[test]
fn check_rejects_a_verdict_without_a_grading() {
    let made = TestRun::new();
    let path = made.file_path(2, "verdict.json");
    let forged = fs::read_to_string(&path).unwrap().replace("false", "true");
    fs::write(&path, &forged).unwrap();
    let checked = made.check(2);
    assert!(!checked.verdict.unwrap().resolved);
    assert_eq!(checked.corruptions.len(), 1);
    // The verdict is also rejected if nothing was ever graded.
    fs::remove_dir_all(made.file_path(2, "grade")).unwrap();
    let checked = made.check(2);
    assert_eq!((checked.verdict, &checked.corruptions[0].remedy), (None, &Remedy::Regrade));
}

#[test]
fn lost_patch_withholds_the_verdict() {
    let made = TestRun::new();
    flip_middle_bit(&made.file_path(1, "patch.diff"));
    fs::remove_file(made.file_path(1, "blobs.pack")).unwrap();
    let checked = made.check(1);
    assert!(checked.is_unrecoverable() && checked.verdict.is_none());
    assert_eq!(checked.corruptions[0].path, made.file_path(1, "patch.diff"));
    // When the patch has been restored from a copy, the trial is intact again.
    fs::write(made.file_path(1, "patch.diff"), PATCHES[0]).unwrap();
    assert!(made.check(1).verdict.unwrap().resolved);
}

#[test]
fn verify_finds_corrupt_blobs_and_logs() {
    for (name, remedy) in [
        ("blobs.pack", Remedy::LostEvidence),
        ("grade/log.txt", Remedy::LostEvidence),
        ("grade/results.jsonl", Remedy::LostEvidence),
    ] {
        let made = TestRun::new();
        flip_middle_bit(&made.file_path(1, name));
        assert_eq!(made.check(1).corruptions, vec![], "{name}");
        let verified = made.verify(1);
        assert!(!verified.corruptions.is_empty(), "{name}");
        assert!(verified.corruptions.iter().all(|one| one.remedy == remedy), "{name}");
    }
}

#[test]
fn verify_reports_a_lost_pack_once() {
    let made = TestRun::new();
    let pack = made.file_path(1, "blobs.pack");
    fs::remove_file(&pack).unwrap();
    let damage = made.verify(1).corruptions;
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(damage[0].path, pack);
    assert!(
        damage[0].to_string().ends_with("with 1 blob that the journal refers to"),
        "{}",
        damage[0]
    );
    let run = RunDir::open_read_only(made.path()).unwrap();
    let blobs = run.trial_blobs(&run.trial_dir(&made.trial_id(1)));
    let error = blobs.get(&Blobs::hash(PATCHES[0])).unwrap_err().to_string();
    assert!(error.starts_with(&pack.display().to_string()), "{error}");
    // An emptied pack exists but has no content.
    fs::write(&pack, "").unwrap();
    let damage = made.verify(1).corruptions;
    assert!(matches!(&damage[..], [one] if one.path == pack), "{damage:?}");
}

/// A check that trusts earlier checks must have the same result as one that reads everything.
#[test]
fn check_notices_a_truncated_pack() {
    let harms: [fn(&Path); 4] = [
        |pack| fs::write(pack, "").unwrap(),
        |pack| {
            let bytes = fs::read(pack).unwrap();
            fs::write(pack, &bytes[..bytes.len() - 3]).unwrap();
        },
        |pack| fs::remove_file(pack).unwrap(),
        |pack| {
            fs::remove_file(pack).unwrap();
            fs::create_dir(pack).unwrap();
        },
    ];
    for harm in harms {
        let made = TestRun::new();
        assert_eq!(made.check(1).corruptions, vec![]);
        let pack = made.file_path(1, "blobs.pack");
        harm(&pack);
        let checked = made.check(1);
        assert!(!checked.corruptions.is_empty());
        assert!(
            checked.corruptions.iter().all(|one| one.path == pack),
            "{:?}",
            checked.corruptions
        );
        assert_eq!(made.verify(1), checked);
        assert_eq!(made.check(2).corruptions, vec![]);
    }
}

/// The cost of a discarded try is recorded only in that try's journal.
#[test]
fn check_reports_missing_discarded_tries() {
    /// Corrupts a directory of tries.
    type CorruptDirFn = fn(&Path);
    let harms: [(&str, CorruptDirFn); 5] = [
        ("tries/2/trajectory.jsonl", |tries| fs::remove_dir_all(tries.join("2")).unwrap()),
        ("tries/1/trajectory.jsonl", |tries| {
            fs::remove_file(tries.join("1/trajectory.jsonl")).unwrap();
        }),
        ("tries/1/trajectory.jsonl", |tries| {
            fs::write(tries.join("1/trajectory.jsonl"), "").unwrap();
        }),
        ("tries/1/trajectory.jsonl", |tries| fs::remove_dir_all(tries).unwrap()),
        ("tries", |tries| {
            fs::remove_dir_all(tries).unwrap();
            fs::write(tries, "").unwrap();
        }),
    ];
    for (named, harm) in harms {
        let made = TestRun::new();
        let (id, run) = (made.trial_id(3), RunDir::open(made.path()).unwrap());
        let dir = run.create_trial_dir(&id).unwrap();
        for try_number in 1..=3 {
            dir.begin_try(try_number).unwrap();
            let mut journal = Journal::create(dir.trajectory_path(), try_number).unwrap();
            journal.append(0, Event::trial_started(&id)).unwrap();
            dir.write_patch(b"").unwrap();
        }
        drop(run);
        assert_eq!((made.check(3).corruptions, made.verify(3).corruptions), (vec![], vec![]));
        harm(&dir.tries_dir());
        for checked in [made.check(3), made.verify(3)] {
            let first = &checked.corruptions[0];
            assert_eq!(first.path, made.file_path(3, named), "{first}");
            assert!(
                checked.corruptions.iter().all(|one| one.remedy == Remedy::LostEvidence),
                "{first}"
            );
        }
    }
}

/// If the last line has no newline, its checksum shows that it is complete.
#[test]
fn check_accepts_a_journal_without_its_last_newline() {
    let made = TestRun::new();
    let whole = made.check(1);
    for name in ["trajectory.jsonl", "grade/journal.jsonl"] {
        let path = made.file_path(1, name);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, bytes.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!((made.check(1), made.verify(1)), (whole.clone(), whole.clone()), "{name}");
        assert_eq!(
            proctor_record::EventReader::open(&path).unwrap().count(),
            bytes.split(|b| *b == b'\n').count() - 1
        );
        // When the journal is opened for writing, the last line is completed.
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes, "{name}");
        let note = Map::from_iter([("after".to_owned(), json!(1))]);
        journal.append(5, Event::Noted { note }).unwrap();
        drop(journal);
        assert_eq!(proctor_record::read_journal(&path).unwrap().bad_lines, vec![], "{name}");
        fs::write(&path, bytes).unwrap();
    }
}

/// Without its verdict and grading journal, a trial looks as if it was never graded. The report
/// shows that the trial was graded.
#[test]
fn verify_reports_missing_gradings_from_the_report() {
    let made = TestRun::new();
    let run = RunDir::open_read_only(made.path()).unwrap();
    let id = |attempt: u32| json!({"task": "t", "arm": made.arm, "attempt": attempt, "resolved": attempt == 1});
    run.write_report(&json!({"tasks": [id(1), id(2)]})).unwrap();
    for attempt in [1, 2] {
        assert_eq!(made.verify(attempt).corruptions, vec![]);
        fs::remove_file(made.file_path(attempt, "verdict.json")).unwrap();
        match attempt {
            1 => fs::remove_file(made.file_path(1, "grade/journal.jsonl")).unwrap(),
            _ => fs::remove_dir_all(made.file_path(2, "grade")).unwrap(),
        }
        let verified = made.verify(attempt);
        assert_eq!(verified.verdict, None);
        let damage = &verified.corruptions[..];
        assert!(matches!(damage, [one] if one.remedy == Remedy::Regrade), "{damage:?}");
        assert!(damage[0].path.ends_with("grade/journal.jsonl"), "{}", damage[0]);
    }
    // A trial whose directory is gone must not count as never started.
    fs::remove_dir_all(made.file_path(2, "")).unwrap();
    let damage = made.verify(2).corruptions;
    assert!(matches!(&damage[..], [one] if one.remedy == Remedy::RestoreTrial), "{damage:?}");
    // A trial without a verdict in the report was never graded.
    run.write_report(&json!({"tasks": [{"task": "t", "arm": made.arm, "attempt": 1}]})).unwrap();
    assert_eq!(made.verify(1).corruptions, vec![]);
}

#[test]
fn run_without_plan_is_rejected_and_not_overwritten() {
    let made = TestRun::new();
    for name in ["run.json", "run.json.gz"] {
        fs::remove_file(made.path().join(name)).unwrap();
    }
    let errors = [
        RunDir::open_read_only(made.path()).unwrap_err(),
        RunDir::open(made.path()).unwrap_err(),
        RunDir::create(made.path()).unwrap_err(),
    ];
    for error in errors.map(|error| error.to_string()) {
        assert!(error.contains("both missing") && error.contains("restore one"), "{error}");
    }
}

#[test]
fn run_json_is_restored_from_its_copy() {
    for (what, harm) in CORRUPTIONS {
        if what.starts_with("swapped") {
            continue;
        }
        let made = TestRun::new();
        let (path, copy) = (made.path().join("run.json"), made.path().join("run.json.gz"));
        let whole = fs::read(&path).unwrap();
        let plan = RunDir::open_read_only(made.path()).unwrap().read_run().unwrap();
        harm(&path, &path);
        let run = RunDir::open(made.path()).unwrap();
        let (read, damage) = run.check_run().unwrap();
        assert_eq!(read, plan, "{what}");
        let damage = damage.unwrap().to_string();
        assert!(damage.starts_with(&path.display().to_string()), "{damage}");
        run.restore_run().unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole, "{what}");
        // If both files are corrupt, reading fails, and the hint must not suggest a repair that
        // loses data.
        harm(&path, &path);
        flip_middle_bit(&copy);
        let error = run.read_run().unwrap_err().to_string();
        assert!(error.contains("run.json") && error.contains("from a copy"), "{error}");
        assert!(!error.contains("move"), "{error}");
    }
}

#[test]
fn run_json_rejects_arms_and_tasks_with_wrong_ids() {
    for (from, to) in
        [("\"steps\": 50", "\"steps\": 51"), ("\"statement\": \"s\"", "\"statement\": \"z\"")]
    {
        let made = TestRun::new();
        let path = made.path().join("run.json");
        let run = RunDir::open(made.path()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        let mut changed: Value = serde_json::from_str(&text.replacen(from, to, 1)).unwrap();
        changed.as_object_mut().unwrap().remove("sum");
        // Write the changed plan with a valid checksum.
        run.write_run(&serde_json::from_value(changed).unwrap()).unwrap();
        let error = run.read_run().unwrap_err().to_string();
        assert!(error.contains("does not match its"), "{error}");
    }
}
