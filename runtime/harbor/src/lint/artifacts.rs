//! Finds artifacts that overlap each other or the logs.

use serde_json::{Map, Value};

/// The folder that Harbor collects as an artifact for every task.
const PUBLISHED_FOLDER: &str = "/logs/artifacts";

/// Folders that Harbor reserves for logs.
const LOG_FOLDERS: [&str; 2] = ["/logs/agent", "/logs/verifier"];

pub(super) struct Artifact<'t> {
    source: &'t str,
    destination: Option<&'t str>,
    excluded_paths: Vec<&'t str>,
    service: &'t str,
}

/// Returns the artifacts declared in a `task.toml` that the loader accepts.
pub(super) fn read_artifacts(raw: &Map<String, Value>) -> Vec<Artifact<'_>> {
    let entries = raw.get("artifacts").and_then(Value::as_array).into_iter().flatten();
    let read = |entry| {
        let text = |key: &str| Value::get(entry, key).and_then(Value::as_str);
        let exclude = Value::get(entry, "exclude").and_then(Value::as_array);
        Some(Artifact {
            source: entry.as_str().or_else(|| text("source"))?,
            destination: text("destination"),
            excluded_paths: exclude.into_iter().flatten().filter_map(Value::as_str).collect(),
            service: text("service").unwrap_or("main"),
        })
    };
    entries.filter_map(read).collect()
}

/// Returns pairs of overlapping sources. In each pair, Harbor skips the second source.
pub(super) fn overlapping_sources<'t>(artifacts: &[Artifact<'t>]) -> Vec<(&'t str, &'t str)> {
    let published = Artifact {
        source: PUBLISHED_FOLDER,
        destination: None,
        excluded_paths: Vec::new(),
        service: "main",
    };
    let is_published = |one: &Artifact<'_>| {
        one.source.trim_end_matches('/') == PUBLISHED_FOLDER && one.service == "main"
    };
    let implicit = (!artifacts.iter().any(is_published)).then_some(&published);
    let all: Vec<&Artifact<'_>> = implicit.into_iter().chain(artifacts).collect();
    let mut pairs = Vec::new();
    for (index, first) in all.iter().enumerate() {
        for second in &all[index + 1..] {
            let (one, other) = (first.destination_parts(), second.destination_parts());
            if !is_covered(first, second) && (one.starts_with(&other) || other.starts_with(&one)) {
                pairs.push((first.source, second.source));
            }
        }
    }
    pairs
}

/// Returns the sources that overlap the agent's or the verifier's logs.
pub(super) fn sources_overlapping_logs<'t>(artifacts: &[Artifact<'t>]) -> Vec<&'t str> {
    let overlaps = |source: &str| {
        LOG_FOLDERS.iter().any(|logs| {
            let (logs, source) = (split_path(logs), split_path(source));
            logs.0 == source.0 && (logs.1.starts_with(&source.1) || source.1.starts_with(&logs.1))
        })
    };
    artifacts.iter().map(|one| one.source).filter(|source| overlaps(source)).collect()
}

impl<'t> Artifact<'t> {
    /// Returns the components of the destination path, relative to the artifacts folder.
    fn destination_parts(&self) -> Vec<&'t str> {
        let mut parts = split_path(self.destination.unwrap_or(self.source)).1;
        parts.retain(|part| *part != "..");
        parts
    }
}

/// Whether collecting the first artifact also copies the second one to its destination.
fn is_covered(first: &Artifact<'_>, second: &Artifact<'_>) -> bool {
    let (above, below) = (split_path(first.source), split_path(second.source));
    if first.service != second.service || above.0 != below.0 || !below.1.starts_with(&above.1) {
        return false;
    }
    let (one, other) = (first.destination_parts(), second.destination_parts());
    if above == below && one == other {
        return first.excluded_paths == second.excluded_paths;
    }
    let expected: Vec<&str> =
        one.into_iter().chain(below.1[above.1.len()..].iter().copied()).collect();
    first.excluded_paths.is_empty() && other == expected
}

/// Returns whether a path is absolute, followed by the path's components.
fn split_path(text: &str) -> (bool, Vec<&str>) {
    let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
    (text.starts_with('/'), parts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_that_share_a_destination_overlap() {
        for (text, pairs, logs) in [
            ("artifacts = ['/app/out']", 0, 0),
            ("artifacts = ['/app/out', '/app/out/a']", 0, 0),
            ("artifacts = ['/app/out/a', '/app/out']", 1, 0),
            ("artifacts = ['/logs/artifacts/', '/logs/artifacts/x']", 0, 0),
            ("artifacts = ['/logs']", 1, 1),
            ("artifacts = ['/logs/verifier/x', 'logs/agent']", 0, 1),
            (
                "artifacts = [{source = '/a', destination = 'x'}, {source = '/b', destination = 'x/y'}]",
                1,
                0,
            ),
            ("artifacts = [{source = '/a', exclude = ['z']}, '/a/b']", 1, 0),
        ] {
            let raw = crate::diagnostics::parse_table(text).unwrap();
            let read = read_artifacts(&raw);
            assert_eq!(
                (overlapping_sources(&read).len(), sources_overlapping_logs(&read).len()),
                (pairs, logs),
                "{text}"
            );
        }
    }
}
