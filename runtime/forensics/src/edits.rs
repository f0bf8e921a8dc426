//! Finds edits to tests and to their configuration. Uses snapshots if there are any, and otherwise
//! the patch.

use std::collections::BTreeSet;

use proctor_patch::Patch;
use proctor_record::{Blobs, RecordError, Remedy, Tree};
use proctor_types::{Envelope, Event, Fault, Task, TestNames, file_from_test_id};
use proctor_wire::RawPath;

use crate::finding::{Finding, FindingKind};

/// The test naming patterns, and the paths of the task's own test files.
struct TestPaths<'a> {
    names: &'a TestNames,
    task_paths: BTreeSet<String>,
}

/// Returns the agent's edits to tests and their configuration. These findings are only notes,
/// because grading restores all of these files.
pub(crate) fn find_test_edits(
    task: &Task,
    names: &TestNames,
    events: &[Envelope],
    blobs: Option<&Blobs>,
    patch: &[u8],
) -> Result<Vec<Finding>, Fault> {
    let ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
    let ids = ids.filter(|_| task.test_ids_start_with_file()).map(|id| file_from_test_id(id));
    let hidden = task.hidden.iter().map(|path| path.trim_end_matches('/'));
    let tests = TestPaths {
        names,
        task_paths: ids
            .chain(hidden)
            .map(|path| RawPath::from_task_path(path).to_escaped())
            .collect(),
    };
    let findings_by_step =
        blobs.map(|blobs| edits_by_step(&tests, events, blobs)).transpose()?.flatten();
    Ok(findings_by_step.unwrap_or_else(|| {
        // Ignore a patch that cannot be parsed. Grading reports it.
        let touched = Patch::parse(patch).touched_paths().unwrap_or_default();
        let paths = touched.iter().map(|path| path.to_escaped());
        paths
            .filter(|path| tests.is_task_path(path) || tests.is_config(path))
            .map(|path| edit_finding(&path, None))
            .collect()
    }))
}

/// Returns the edits by step, or `None` if there are no snapshots. An unreadable snapshot is a
/// fault, because it may contain the decisive edit.
fn edits_by_step(
    tests: &TestPaths<'_>,
    events: &[Envelope],
    blobs: &Blobs,
) -> Result<Option<Vec<Finding>>, Fault> {
    let mut findings = Vec::new();
    let mut last: Option<(String, Tree)> = None;
    for envelope in events {
        let Event::SnapshotTaken { snapshot, .. } = &envelope.event else { continue };
        if last.as_ref().is_some_and(|(hash, _)| hash == snapshot) {
            continue;
        }
        let lost = |error: RecordError| {
            error.fault().hint(Remedy::RestoreFromCopy.hint()).into_permanent()
        };
        let tree = Tree::load(blobs, snapshot).map_err(lost)?;
        if let Some((_, before)) = &last {
            for one in before.diff(&tree) {
                let path = one.path.to_escaped();
                // Adding a test is legitimate. An edit only counts if it changes an existing test,
                // or a file that belongs to the task's own tests.
                let test =
                    tests.is_task_path(&path) || (one.base.is_some() && tests.is_test(&path));
                if test || tests.is_config(&path) {
                    findings.push(edit_finding(&path, Some(envelope.step)));
                }
            }
        }
        last = Some((snapshot.clone(), tree));
    }
    Ok(last.map(|_| findings))
}

fn edit_finding(path: &str, step: Option<u64>) -> Finding {
    let message = format!("changed a test or its configuration (grading restores it): {path}");
    Finding { kind: FindingKind::TestsEdited, description: message, step }
}

impl TestPaths<'_> {
    fn is_task_path(&self, path: &str) -> bool {
        self.task_paths.iter().any(|own| {
            path.strip_prefix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    fn is_test(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let python = name.ends_with(".py");
        let folder = path
            .split('/')
            .rev()
            .skip(1)
            .any(|part| self.names.test_folders.iter().any(|folder| folder == part));
        python && (folder || name.starts_with("test_") || name.ends_with("_test.py"))
    }

    fn is_config(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.names.config_files.iter().any(|config| config == name)
    }
}
