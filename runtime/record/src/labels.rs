//! `labels.jsonl`: labels that people gave to trials, one per line. Nothing in the record depends
//! on this file.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
};

use proctor_types::Label;

use crate::{RecordError, RunDir, disk};

const LABELS_FILE: &str = "labels.jsonl";

/// The labels of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The labels that have not been removed or replaced, in the order in which they were written.
    pub entries: Vec<Label>,
    /// Messages for invalid lines or an unreadable file, each with its position. Other labels are
    /// still read.
    pub errors: Vec<String>,
}

impl RunDir {
    /// Returns all labels of the run. Unreadable labels do not make this method fail, because no
    /// command may fail due to data outside the record.
    pub fn read_labels(&self) -> Labels {
        let path = labels_path(self.path());
        let mut labels = Labels::default();
        let bytes = match disk::read_if_exists(&path) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(error) => {
                labels.errors.push(error.to_string());
                return labels;
            }
        };
        for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice::<Label>(line) {
                Ok(label) => {
                    labels.entries.retain(|one| !label.replaces(one));
                    if !label.removed {
                        labels.entries.push(label);
                    }
                }
                Err(error) => {
                    labels.errors.push(format!("{}: line {number}: {error}", path.display()));
                }
            }
        }
        labels
    }

    /// Adds or removes a label. Several people may change labels at once, even while the run is
    /// active, because the file has its own lock.
    ///
    /// # Errors
    /// Fails if the line cannot be written.
    pub fn add_label(&self, label: &Label) -> Result<(), RecordError> {
        let path = labels_path(self.path());
        let io = |what| RecordError::io(&path, what);
        let mut line = serde_json::to_string(label).map_err(|error| RecordError::Misuse {
            path: path.clone(),
            why: format!("the label is not JSON: {error}"),
        })?;
        line.push('\n');
        let mut options = OpenOptions::new();
        let open = disk::open_with(options.create(true).read(true).append(true), &path);
        let mut file = open.map_err(io("cannot be written"))?;
        file.lock().map_err(io("cannot be locked"))?;
        // Don't append to a line that another process left incomplete.
        let before = disk::read_if_exists(&path)?.unwrap_or_default();
        if before.last().is_some_and(|last| *last != b'\n') {
            line.insert(0, '\n');
        }
        file.write_all(line.as_bytes()).map_err(io("cannot be written"))?;
        file.sync_data().map_err(io("cannot be synced"))
    }
}

fn labels_path(run_dir: &Path) -> PathBuf {
    run_dir.join(LABELS_FILE)
}

#[cfg(test)]
mod tests {
    use proctor_types::{ArmId, TaskId, TrialId};

    use super::*;

    fn new_label(step: Option<u64>, name: &str, is_removed: bool) -> Label {
        let trial = TrialId { task: TaskId::new("t"), arm: ArmId::new("abc"), attempt: 1 };
        Label {
            v: 1,
            at: 5,
            trial,
            step,
            label: name.to_owned(),
            comment: None,
            removed: is_removed,
        }
    }

    #[test]
    fn labels_use_the_last_line_and_skip_bad_lines() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path().join("run")).unwrap();
        assert_eq!(run.read_labels(), Labels::default());
        let commented = Label { comment: Some("why".into()), ..new_label(Some(3), "hack", false) };
        for one in [&new_label(Some(3), "hack", false), &new_label(None, "good", false), &commented]
        {
            run.add_label(one).unwrap();
        }
        let path = labels_path(run.path());
        std::fs::write(&path, [&std::fs::read(&path).unwrap()[..], b"{\"v\":1,\"at"].concat())
            .unwrap();
        run.add_label(&new_label(None, "good", true)).unwrap();
        let read = run.read_labels();
        assert_eq!(read.entries, [commented]);
        assert_eq!(read.entries[0].describe(), "step 3: hack (why)");
        assert!(read.errors.len() == 1 && read.errors[0].contains("line 4"), "{:?}", read.errors);
    }

    #[test]
    fn labels_report_a_path_that_is_not_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path().join("run")).unwrap();
        let path = labels_path(run.path());
        std::fs::create_dir(&path).unwrap();
        let read = run.read_labels();
        assert!(read.entries.is_empty() && read.errors.len() == 1, "{read:?}");
        let named = read.errors[0].contains(&path.display().to_string());
        assert!(named && read.errors[0].contains("cannot be read"), "{read:?}");
    }
}
