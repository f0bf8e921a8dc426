//! Evaluates the recorder's observations of the interpreter.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::{Evidence, TestStatus};

use crate::{
    TestPlan,
    evidence::{self, new_evidence},
    paths::{file_from_test_id, normalize_path, relative_to},
    pristine::ContentHash,
    probe::Probe,
    records::Records,
    run_changes::RunChanges,
};

/// Determines which code is trusted: code of the environment, and unchanged code of the repository.
pub(crate) struct TrustedCode<'a> {
    pub plan: &'a TestPlan,
    pub probe: &'a Probe,
    /// The from-scratch submission's folder, if the task starts from scratch.
    pub submission: Option<&'a str>,
    pub run_changes: &'a RunChanges,
    /// Whether a path below the work directory is unchanged by the patch.
    pub is_pristine: &'a (dyn Fn(&str) -> bool + Sync),
}

impl TrustedCode<'_> {
    /// Whether a file belongs to the environment, which means that it is below an import folder and
    /// older than the run. Being outside the work directory is not enough, because the graded code
    /// can write there.
    fn is_in_environment(&self, file: &str) -> bool {
        let probe = self.probe;
        let is_below = |folder: &String| {
            folder != &probe.root
                && *folder != self.plan.workdir
                && relative_to(folder, file).is_some()
        };
        let inside = self.relative_to_workdir(file).is_some();
        let known = probe.prefixes.iter().any(is_below)
            || (!inside && probe.outside.iter().chain(&probe.path).any(is_below));
        known && !self.is_in_submission(file) && !self.run_changes.outside_files.contains(file)
    }

    /// Whether a file belongs to the environment or to the unchanged work directory.
    fn is_trusted(&self, file: &str) -> bool {
        let file = normalize_path(file);
        let is_old = |path: &str| {
            (self.is_pristine)(path) && !self.run_changes.workdir_entries.contains_key(path)
        };
        self.is_in_environment(&file)
            || self.relative_to_workdir(&file).is_some_and(|path| is_old(&path))
    }

    fn relative_to_workdir(&self, file: &str) -> Option<String> {
        let probe = self.probe;
        let real = || Some(&probe.root).filter(|root| !root.is_empty());
        relative_to(&self.plan.workdir, file)
            .or_else(|| real().and_then(|root| relative_to(root, file)))
    }

    fn is_in_submission(&self, file: &str) -> bool {
        self.submission.is_some_and(|folder| file.starts_with(folder))
    }

    /// Whether a plugin is one of the probed plugins and its module is in the work directory.
    fn is_graded_plugin(&self, name: &str) -> bool {
        let of = |module: &String| {
            let top = module.split('.').next().unwrap_or(module);
            !self.probe.provided.iter().any(|provided| provided == top)
        };
        self.probe.plugins.iter().any(|(known, module)| known == name && of(module))
    }
}

/// Returns evidence of:
///
/// - plugins, hooks and test functions of unknown origin
/// - test files that the graded code read
/// - functions of pytest, unittest and Python that the graded code or code without a file replaced
/// - modules of the environment that were imported from elsewhere
pub(crate) fn interpreter_evidence(records: &Records, trust: &TrustedCode<'_>) -> Vec<Evidence> {
    let Some(end) = records.end_record() else { return Vec::new() };
    let sight = &end.sight;
    let mut found = BTreeSet::new();
    let is_known = |file: &str| file.starts_with('/') && trust.is_trusted(file);
    for (name, file) in &sight.plugins {
        if !is_known(file) && !trust.is_graded_plugin(name) {
            let label = if name.chars().all(|c| c.is_ascii_digit()) { "an object" } else { name };
            found.insert((evidence::UNKNOWN_PLUGIN, format!("{label} from {file:?}")));
        }
    }
    for (name, file) in &sight.patched {
        if !is_known(file) {
            found.insert((evidence::INTERPRETER_PATCHED, format!("{name}, now from {file:?}")));
        }
    }
    for (name, file) in &sight.foreign {
        if !is_known(file) {
            let what = format!("{name}: a test function comes from {file:?}");
            found.insert((evidence::TEST_REPLACED, what));
        }
    }
    for (name, file) in &sight.swapped {
        if !file.starts_with('/') || !trust.is_in_environment(&normalize_path(file)) {
            let what = format!("{name}: replaced after collection, from {file:?}");
            found.insert((evidence::TEST_REPLACED, what));
        }
    }
    for (name, file) in &sight.replaced {
        if !is_known(file) {
            found.insert((evidence::MODULE_REPLACED, format!("{name}, from {file:?}")));
        }
    }
    for name in &sight.forked {
        let what = format!("{name}: run by a process that a test forked");
        found.insert((evidence::INTERPRETER_PATCHED, what));
    }
    for name in &sight.failed {
        found.insert((evidence::HOOK_FAILED, name.clone()));
    }
    for (name, file) in &sight.readers {
        found.insert((evidence::TESTS_READ, format!("{name}, by {file}")));
    }
    found.into_iter().map(|(kind, what)| new_evidence(kind, what)).collect()
}

/// Reports tests that passed although one of their assertions failed or they raised an exception.
pub(crate) fn swallowed_error_evidence(
    records: &Records,
    tests: &BTreeMap<String, TestStatus>,
) -> Vec<Evidence> {
    let Some(end) = records.end_record() else { return Vec::new() };
    let passed = |id: &&String| tests.get(*id) == Some(&TestStatus::Passed);
    let kinds = [
        (evidence::ASSERTION_SWALLOWED, &end.sight.swallowed),
        (evidence::EXCEPTION_SWALLOWED, &end.sight.caught),
    ];
    let of_kind = |(kind, ids): (&str, &Vec<String>)| -> Vec<Evidence> {
        ids.iter().filter(passed).map(|id| new_evidence(kind, id.as_str())).collect()
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

/// Checks that the tests had the expected content when they were compiled and collected, and that
/// their folders were not moved. `expected_hashes` contains the expected content of each file.
pub(crate) fn content_evidence(
    records: &Records,
    expected_hashes: &BTreeMap<String, ContentHash>,
) -> Vec<Evidence> {
    let collected = records.begin_record().map(|begin| &begin.collected[..]).unwrap_or_default();
    let collected: BTreeSet<&str> = collected.iter().map(|id| file_from_test_id(id)).collect();
    let compiled = records.end_record().map(|end| &end.sight.compiled);
    let mut found = Vec::new();
    for (path, content) in expected_hashes {
        let is_other = |seen: &Option<String>| seen.as_ref() != Some(&content.sha256);
        let watched = records.begin_record().and_then(|begin| begin.watched.get(path));
        let texts = compiled.and_then(|all| all.get(path));
        // Pytest compiles either all tests itself or none.
        let is_elsewhere = collected.contains(path.as_str())
            && compiled.is_some_and(|all| !all.is_empty() && !all.contains_key(path));
        if watched.is_some_and(is_other) {
            found.push(format!("{path}: changed before collection"));
        } else if is_elsewhere {
            found.push(format!("{path}: collected, but not compiled"));
        } else if texts.is_some_and(|all| all.iter().any(is_other)) {
            found.push(format!("{path}: different content was compiled"));
        }
    }
    let moved = records.end_record().map(|end| &end.sight.moved[..]).unwrap_or_default();
    found.extend(moved.iter().map(|folder| format!("{folder}: replaced by another folder")));
    found.into_iter().map(|what| new_evidence(evidence::CHANGED_DURING_RUN, what)).collect()
}
