//! Creates the fingerprints of a task's hidden content.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use proctor_sandbox_api::wire::{Block, NameSet, Secrets, WINDOW_LINES, fingerprint};
use proctor_types::{Fault, Task, sha256_hex};
use serde::{Deserialize, Serialize};

use super::{
    names::extract_names,
    patch_lines::{PatchLines, patch_lines_by_file},
    policy::{FingerprintThresholds, LeakPolicy},
};

/// Fingerprints, with a description for each. The descriptions are for users and are never sent to
/// the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LabeledSecrets {
    pub secrets: Secrets,
    /// Descriptions of the blocks in `secrets`, in the same order.
    pub blocks: Vec<String>,
    /// Descriptions of the sets of names in `secrets`, in the same order.
    pub names: Vec<String>,
}

/// Returns a digest of the task data from which the fingerprints are created. The digest does not
/// cover hidden files, because they are read from the environment.
pub(crate) fn secrets_digest(task: &Task) -> String {
    let parts =
        [&task.mask, &task.gold, &task.test_patch].map(|part| part.as_deref().unwrap_or_default());
    let text = serde_json::json!([parts, task.hidden, task.workdir, task.from_scratch]).to_string();
    sha256_hex(text.as_bytes())
}

/// Creates a task's fingerprints. `hidden` and `source` map paths below the work directory to file
/// contents.
pub(crate) fn build_secrets(
    task: &Task,
    hidden: &BTreeMap<String, Vec<u8>>,
    source: &BTreeMap<String, Vec<u8>>,
    policy: &LeakPolicy,
) -> Result<LabeledSecrets, Fault> {
    let mut out = SecretsBuilder {
        policy,
        visible_hashes: HashSet::new(),
        labeled_secrets: LabeledSecrets::default(),
    };
    let roots = policy.import_roots.iter().chain(&policy.vendor_folders);
    out.labeled_secrets.secrets.import_roots = roots.cloned().collect();
    let mask = task.mask.as_deref().map(patch_lines_by_file).unwrap_or_default();
    let gold = task.gold.as_deref().map(patch_lines_by_file).unwrap_or_default();
    // Lines that stay in the work directory are not secret.
    for side in mask.values() {
        out.add_visible_lines(side.context_runs.iter().chain(&side.added_runs));
    }
    for side in gold.values() {
        out.add_visible_lines(side.context_runs.iter().chain(&side.removed_runs));
    }
    let mut modules = BTreeSet::new();
    for (path, side) in &mask {
        out.add_masked_code(path, &side.removed_runs);
        out.add_names(path, side);
        modules.extend(module_name(path, policy));
    }
    for (path, side) in &gold {
        if !(task.from_scratch.is_some()
            && side.creates_file()
            && is_trivial_file(path, &side.added_runs, policy))
        {
            out.add_masked_code(path, &side.added_runs);
        }
        modules.extend(module_name(path, policy));
    }
    for (path, content) in source.iter().filter(|(path, _)| path.ends_with(".py")) {
        let lines = [strip_leading_comment(to_lines(content))];
        if !is_trivial_file(path, &lines, policy) {
            let windows = out.build_longest_windows(&lines);
            out.add_block(
                format!("the original source {path}"),
                &windows,
                policy.prints.code_share,
            );
        }
        modules.extend(module_name(path, policy));
    }
    out.labeled_secrets.secrets.modules = modules.into_iter().collect();
    for (path, content) in hidden {
        out.add_hidden_file(path, &[to_lines(content)]);
    }
    for (path, side) in task.test_patch.as_deref().map(patch_lines_by_file).unwrap_or_default() {
        out.add_hidden_file(&path, &side.added_runs);
    }
    out.limit_window_count(policy.prints.windows);
    Ok(out.labeled_secrets)
}

fn to_lines(content: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(content).lines().map(str::to_owned).collect()
}

/// Returns a file's lines without its leading comment. Many files start with the same license. With
/// the comment, each of them would count as a copy of a small hidden file.
fn strip_leading_comment(mut lines: Vec<String>) -> Vec<String> {
    let is_head = |line: &String| line.trim().is_empty() || line.starts_with('#');
    lines.drain(..lines.iter().take_while(|line| is_head(line)).count());
    lines
}

/// Whether this is a short Python file that defines nothing, such as a generated version file. Such
/// files look the same in many packages, so a similar file elsewhere is not a copy. Nor does such a
/// file help to solve a from-scratch task, which requests functions and classes.
fn is_trivial_file(path: &str, runs: &[Vec<String>], policy: &LeakPolicy) -> bool {
    let prints = &policy.prints;
    let mut lines = runs.iter().flatten().filter(|line| !line.trim().is_empty());
    let defines = |line: &String| prints.defining.iter().any(|word| line.contains(word.as_str()));
    path.ends_with(".py") && lines.clone().count() <= prints.plain_lines && !lines.any(defines)
}

/// Returns the modules that files define, judging by their paths in the repository.
pub(crate) fn module_names(
    paths: impl Iterator<Item = String>,
    policy: &LeakPolicy,
) -> BTreeSet<String> {
    paths.filter_map(|path| module_name(&path, policy)).collect()
}

/// Returns `package/module` for `src/package/module.py`; `None` for tests and configuration.
fn module_name(path: &str, policy: &LeakPolicy) -> Option<String> {
    let stem = path.strip_suffix(".py")?;
    let mut parts: Vec<&str> = stem.split('/').collect();
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_test = |part: &&str| policy.test_folders.iter().any(|folder| folder == part);
    if policy.not_modules.iter().any(|no| no == name) || parts.iter().any(is_test) {
        return None;
    }
    while parts.len() > 1 && policy.source_roots.iter().any(|root| root == parts[0]) {
        parts.remove(0);
    }
    Some(parts.join("/"))
}

struct SecretsBuilder<'a> {
    policy: &'a LeakPolicy,
    /// Hashes of windows in lines that stay visible to the agent.
    visible_hashes: HashSet<u64>,
    labeled_secrets: LabeledSecrets,
}

/// Distinct windows in order. `lines_per_window` is the number of lines per window, and
/// `byte_count` the total number of bytes without whitespace.
struct Windows {
    lines_per_window: usize,
    hashes: Vec<u64>,
    byte_count: usize,
}

impl SecretsBuilder<'_> {
    fn thresholds(&self) -> &FingerprintThresholds {
        &self.policy.prints
    }

    fn add_visible_lines<'r>(&mut self, runs: impl Iterator<Item = &'r Vec<String>>) {
        for run in runs {
            let hashes: Vec<u64> = run
                .iter()
                .filter_map(|line| fingerprint::hash_line(line.as_bytes()))
                .map(|l| l.0)
                .collect();
            for length in 1..=WINDOW_LINES {
                self.visible_hashes.extend(hashes.windows(length).map(fingerprint::hash_window));
            }
        }
    }

    fn build_windows(&self, runs: &[Vec<String>], lines_per_window: usize) -> Windows {
        let mut out = Windows { lines_per_window, hashes: Vec::new(), byte_count: 0 };
        let mut seen = HashSet::new();
        for run in runs {
            let lines: Vec<(u64, usize)> =
                run.iter().filter_map(|line| fingerprint::hash_line(line.as_bytes())).collect();
            out.byte_count += lines.iter().map(|(_, bytes)| bytes).sum::<usize>();
            for window in lines.windows(lines_per_window) {
                let bytes: usize = window.iter().map(|(_, bytes)| bytes).sum();
                let hashes: Vec<u64> = window.iter().map(|(hash, _)| *hash).collect();
                let hash = fingerprint::hash_window(&hashes);
                if bytes >= self.thresholds().window_bytes
                    && !self.visible_hashes.contains(&hash)
                    && seen.insert(hash)
                {
                    out.hashes.push(hash);
                }
            }
        }
        out
    }

    /// Returns windows of three lines or, if there are none, of two lines or one.
    fn build_longest_windows(&self, runs: &[Vec<String>]) -> Windows {
        let mut windows = self.build_windows(runs, WINDOW_LINES);
        while windows.hashes.is_empty() && windows.lines_per_window > 1 {
            windows = self.build_windows(runs, windows.lines_per_window - 1);
        }
        windows
    }

    fn add_block(&mut self, label: String, windows: &Windows, share: f64) {
        let count = windows.hashes.len();
        if count == 0 || windows.byte_count < self.thresholds().block_bytes {
            return;
        }
        // If there are at most three windows, require all of them, because one or two could match
        // by coincidence.
        let need = if count <= 3 { count } else { (count as f64 * share).ceil() as usize };
        self.labeled_secrets.blocks.push(label);
        self.labeled_secrets.secrets.blocks.push(Block {
            need: need as u32,
            lines: windows.lines_per_window as u8,
            windows: windows.hashes.clone(),
        });
    }

    /// Adds all masked lines of a file as one block, and each long run of lines as another.
    fn add_masked_code(&mut self, path: &str, runs: &[Vec<String>]) {
        let share = self.thresholds().code_share;
        let whole = self.build_longest_windows(runs);
        self.add_block(format!("masked code of {path}"), &whole, share);
        if runs.len() < 2 {
            return;
        }
        for run in runs {
            let windows = self.build_windows(std::slice::from_ref(run), WINDOW_LINES);
            if windows.hashes.len() >= self.thresholds().run_windows {
                self.add_block(format!("masked code of {path}"), &windows, share);
            }
        }
    }

    fn add_hidden_file(&mut self, path: &str, runs: &[Vec<String>]) {
        let windows = self.build_longest_windows(runs);
        let share = self.thresholds().test_share;
        self.add_block(format!("the hidden file {path}"), &windows, share);
    }

    /// Adds a set of the names that occur only in the masked part of a module.
    fn add_names(&mut self, path: &str, patch_lines: &PatchLines) {
        let Some(module) = module_name(path, self.policy) else { return };
        let kept: BTreeSet<&str> = patch_lines
            .context_runs
            .iter()
            .chain(&patch_lines.added_runs)
            .flat_map(|run| extract_names(run.iter().map(String::as_str)))
            .collect();
        let gone: BTreeSet<&str> = patch_lines
            .removed_runs
            .iter()
            .flat_map(|run| extract_names(run.iter().map(String::as_str)))
            .filter(|name| !kept.contains(name))
            .filter(|name| !(name.starts_with("__") && name.ends_with("__")))
            .filter(|name| !self.thresholds().common_names.contains(*name))
            .collect();
        let prints = self.thresholds();
        if gone.len() < prints.names {
            return;
        }
        let share = |share: f64| (gone.len() as f64 * share).ceil() as u32;
        let set = NameSet {
            module,
            need: share(prints.names_share).max(prints.names as u32),
            need_elsewhere: match gone.len() >= prints.names_elsewhere {
                true => share(prints.names_elsewhere_share),
                false => u32::MAX,
            },
            names: gone.iter().map(|name| fingerprint::hash_bytes(name.as_bytes())).collect(),
        };
        self.labeled_secrets.secrets.names.push(set);
        self.labeled_secrets.names.push(format!("compiled code of {path}"));
    }

    /// If there are too many windows for one request, removes some of them at regular distances.
    fn limit_window_count(&mut self, max_windows: usize) {
        let all: usize =
            self.labeled_secrets.secrets.blocks.iter().map(|block| block.windows.len()).sum();
        let step = all.div_ceil(max_windows.max(1));
        if step < 2 {
            return;
        }
        for block in &mut self.labeled_secrets.secrets.blocks {
            let share = f64::from(block.need) / block.windows.len().max(1) as f64;
            block.windows = block.windows.iter().copied().step_by(step).collect();
            block.need = ((block.windows.len() as f64 * share).ceil() as u32).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_secrets_ignores_a_leading_license_comment() {
        let task: Task = serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": ["t"], "test_command": [],
            "from_scratch": {"files": {}, "install": "pip install ."}
        }))
        .unwrap();
        let licence: String =
            (0..9).map(|n| format!("# Redistribution is permitted, condition {n}.\n")).collect();
        let code: String =
            (0..9).map(|n| format!("def condition_{n}(text):\n    return text * {n}\n")).collect();
        let made = |text: String| {
            let source = BTreeMap::from([("a.py".to_owned(), text.into_bytes())]);
            build_secrets(&task, &BTreeMap::new(), &source, LeakPolicy::get().unwrap())
                .unwrap()
                .secrets
        };
        let bare = made(code.clone());
        assert_eq!(bare.blocks.len(), 1);
        assert_eq!(made(format!("#!/usr/bin/python\n{licence}\n{code}")).blocks, bare.blocks);
        assert!(made(licence).blocks.is_empty());
    }

    #[test]
    fn build_secrets_ignores_short_files_without_definitions() {
        let version = "# file generated by hatch-vcs\n__all__ = [\"__version__\", \"version\"]\n\
                       TYPE_CHECKING = False\nif TYPE_CHECKING:\n    VERSION_TUPLE = tuple[int | str, ...]\n\
                       else:\n    VERSION_TUPLE = object\n__version__ = version = '4.12.3'\n\
                       __version_tuple__ = version_tuple = (4, 12, 3)\n";
        let code = format!("{version}\n\ndef natural(number):\n    return str(number)\n");
        let long: String = (0..99).map(|n| format!("TABLE_{n} = ({n}, {n} * 31)\n")).collect();
        let labels = |text: &str, from_scratch: bool| {
            let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
            let count = text.lines().count();
            let gold =
                format!("--- /dev/null\n+++ b/a/_version.py\n@@ -0,0 +1,{count} @@\n{lines}");
            let mut task = serde_json::json!({
                "schema_version": 1, "id": "t", "statement": "", "environment": {},
                "gold": gold, "fail_to_pass": ["t"], "test_command": []
            });
            let mut source = BTreeMap::new();
            if from_scratch {
                task["from_scratch"] = serde_json::json!({"files": {}, "install": "pip install ."});
                source.insert("a.py".to_owned(), text.as_bytes().to_vec());
            }
            let task: Task = serde_json::from_value(task).unwrap();
            build_secrets(&task, &BTreeMap::new(), &source, LeakPolicy::get().unwrap())
                .unwrap()
                .blocks
        };
        assert!(labels(version, true).is_empty());
        // A long table and a masked constant count as secrets. A constant outside the mask does
        // not.
        let both = ["masked code of a/_version.py", "the original source a.py"];
        assert_eq!(labels(&code, true), both);
        assert_eq!(labels(&long, true), both);
        assert_eq!(labels(version, false), both[..1]);
    }

    #[test]
    fn build_secrets_ignores_common_names() {
        let sets = |body: &str| {
            let lines: String = body.lines().map(|line| format!("-{line}\n")).collect();
            let mask = format!(
                "--- a/pkg/exceptions.py\n+++ b/pkg/exceptions.py\n@@ -1,{} +0,0 @@\n{lines}",
                body.lines().count()
            );
            let task: Task = serde_json::from_value(serde_json::json!({
                "schema_version": 1, "id": "t", "statement": "", "environment": {},
                "mask": mask, "fail_to_pass": ["t"], "test_command": []
            }))
            .unwrap();
            let none = BTreeMap::new();
            build_secrets(&task, &none, &none, LeakPolicy::get().unwrap()).unwrap().secrets.names
        };
        // Exception classes look the same in many packages.
        let plain = "def __init__(self, line: int, message: str | None = None) -> None:\n    \
                     super().__init__(message)\n    self.line = line";
        assert!(sets(plain).is_empty());
        let own =
            format!("{plain}\n    self.column = column\n    self.offset = column - skew(line)");
        let sets = sets(&own);
        assert_eq!((sets[0].names.len(), sets[0].need), (3, 3), "with few names, all are needed");
    }
}
