//! What the recorder saw of the interpreter, judged.

use std::collections::BTreeSet;

use proctor_types::Evidence;

use crate::{
    TestPlan,
    evidence::{self, note},
    probe::Probe,
    records::Records,
};

/// Plugins of unknown origin, and functions of pytest that were replaced by code of the work
/// directory, of a submission beside it, or of nowhere. `trusted` says of a path below the work directory whether it is known
/// to be pristine.
pub(crate) fn interpreter(
    records: &Records,
    plan: &TestPlan,
    probe: &Probe,
    submission: Option<&str>,
    trusted: &(dyn Fn(&str) -> bool + Sync),
) -> Vec<Evidence> {
    let mut found = BTreeSet::new();
    let root = format!("{}/", plan.workdir.trim_end_matches('/'));
    let environment = |file: &str| {
        // The interpreter itself may live below the work directory.
        let pristine = |folder: &String| file.starts_with(&format!("{folder}/"));
        let submitted = submission.is_some_and(|folder| file.starts_with(folder));
        probe.prefixes.iter().any(pristine) || !(submitted || file.starts_with(&root))
    };
    let begin = records.begin().map(|begin| &begin.plugins);
    let end = records.end().map(|end| &end.plugins);
    for (name, file) in begin.into_iter().chain(end).flatten() {
        let known = file.starts_with('/')
            && (environment(file) || file.strip_prefix(&root).is_some_and(trusted));
        if !known && !is_frozen(name, probe) {
            let label = if name.chars().all(|c| c.is_ascii_digit()) { "an object" } else { name };
            found.insert((evidence::UNKNOWN_PLUGIN, format!("{label} from {file:?}")));
        }
    }
    for (name, file) in records.end().iter().flat_map(|end| &end.patched) {
        if !file.starts_with('/') || !environment(file) {
            found.insert((evidence::INTERPRETER_PATCHED, format!("{name}, now from {file:?}")));
        }
    }
    found.into_iter().map(|(kind, what)| note(kind, what)).collect()
}

fn is_frozen(name: &str, probe: &Probe) -> bool {
    probe.plugins.iter().any(|(known, _)| known == name)
}
