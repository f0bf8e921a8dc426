//! `RUN/engine.json`: the run's submissions to engines, oldest first.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::EngineError;

/// The workers that one `proctor submit` command queued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    pub engine: String,
    /// The id that the scheduler assigned to the submission.
    pub job: String,
    /// The name of the cluster, if the scheduler reports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    pub workers: u32,
    /// The version of Proctor that the nodes run.
    pub proctor: String,
    /// Submission time in seconds since the epoch.
    pub submitted: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// The command that queued the workers.
    pub command: Vec<String>,
    /// When `proctor cancel` cancelled the submission, in seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<u64>,
}

impl Submission {
    /// Returns the name of one worker's job. The worker reads it from the variable `PROCTOR_JOB`.
    pub fn job_name(&self, index: &str) -> String {
        format!("{}_{index}", self.job)
    }
}

/// The submissions of a run.
#[derive(Debug)]
pub struct Submissions {
    path: PathBuf,
    pub submissions: Vec<Submission>,
}

impl Submissions {
    /// Reads the submissions of a run. A missing file means that there are none.
    ///
    /// # Errors
    /// Returns an error if the file exists but cannot be read.
    pub fn read(run_dir: &Path) -> Result<Self, EngineError> {
        let path = run_dir.join("engine.json");
        let all = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                EngineError::new(format!("{}: {error}", path.display()))
                    .hint("restore the file from a copy of the run directory; the trials don't depend on it")
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(EngineError::new(format!("{}: {error}", path.display())));
            }
        };
        Ok(Self { path, submissions: all })
    }

    /// Returns the submissions that were not cancelled.
    pub fn active_submissions(&self) -> impl Iterator<Item = &Submission> {
        self.submissions.iter().filter(|one| one.cancelled.is_none())
    }

    /// Writes the submissions to `RUN/engine.json`.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be written.
    pub fn write(&self) -> Result<(), EngineError> {
        let write = || -> io::Result<()> {
            let folder = self.path.parent().unwrap_or(Path::new("."));
            let mut builder = tempfile::Builder::new();
            let mode = fs::Permissions::from_mode(0o666);
            let mut file = builder.prefix(".tmp-").permissions(mode).tempfile_in(folder)?;
            let mut text = serde_json::to_vec_pretty(&self.submissions)?;
            text.push(b'\n');
            file.write_all(&text)?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map(drop).map_err(|error| error.error)
        };
        write().map_err(|error| EngineError::new(format!("{}: {error}", self.path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submissions_round_trip_and_cancelled_submissions_are_inactive() {
        let run = tempfile::tempdir().unwrap();
        let mut all = Submissions::read(run.path()).unwrap();
        assert!(all.submissions.is_empty());
        let one = Submission {
            engine: "slurm".into(),
            job: "7".into(),
            cluster: None,
            workers: 2,
            proctor: "0.1.0".into(),
            submitted: 1,
            settings: BTreeMap::from([("partition".into(), "bench".into())]),
            command: vec!["sbatch".into()],
            cancelled: None,
        };
        all.submissions = vec![Submission { cancelled: Some(3), ..one.clone() }, one.clone()];
        all.write().unwrap();
        let read = Submissions::read(run.path()).unwrap();
        assert_eq!(read.submissions, all.submissions);
        assert_eq!(read.active_submissions().collect::<Vec<_>>(), [&one]);
        fs::write(run.path().join("engine.json"), "{").unwrap();
        assert!(Submissions::read(run.path()).unwrap_err().message.contains("engine.json"));
    }
}
