//! Errors about run directories and their files.

use std::{
    io,
    path::{Path, PathBuf},
};

use proctor_types::{
    CONFIG_VERSION, Fault, FaultCause, FaultLayer, RUN_SCHEMA_VERSION, describe_io_error,
};

use crate::pinned_dirs::resolve_fd_path;

/// The hint for a corrupt file if the record has no other copy of it.
pub(crate) const RESTORE_FROM_COPY_HINT: &str = "restore the file from a copy of the run directory";

/// An error about a run directory. Every variant contains the path. The message includes the hint,
/// if there is one.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{}: {what}: {}", path.display(), describe_io_error(source))]
    Io { path: PathBuf, what: &'static str, source: io::Error },
    #[error(
        "{}: another process ({holder}) is working on this run; wait for it, stop it, or join it with `proctor worker` or `proctor resume --join`",
        path.display()
    )]
    Locked { path: PathBuf, holder: String },
    #[error("{}: a run already exists; use `proctor resume`, or a different `--out`", path.display())]
    RunExists { path: PathBuf },
    #[error("{}: not a run directory: {}; pass the directory that `proctor run` created", path.display(), not_a_run_reason(path))]
    NotARun { path: PathBuf },
    #[error(
        "{}: run.json and run.json.gz are both missing, but the run's trials exist; restore one of the two files from a copy of the run directory",
        path.display()
    )]
    PlanLost { path: PathBuf },
    #[error("{}: {why}; {hint}", path.display())]
    /// Both `run.json` and its copy are corrupt.
    PlanDamaged { path: PathBuf, why: String, hint: &'static str },
    #[error("{}: {}", path.display(), describe_version(*schema, proctor))]
    UnsupportedVersion { path: PathBuf, schema: u64, proctor: String },
    #[error(
        "{}: was written by a newer build of Proctor (its version is {proctor}, its configuration has version \
         {version}; this build reads versions up to {}); use that build, or a later one",
        path.display(),
        CONFIG_VERSION
    )]
    NewerConfig { path: PathBuf, version: u64, proctor: String },
    #[error("{}: {why}; {hint}", path.display())]
    Corrupt { path: PathBuf, why: String, hint: &'static str },
    #[error("{}: {why}", path.display())]
    Misuse { path: PathBuf, why: String },
}

/// Returns a message with the version that wrote an unsupported run and the version that can read
/// it.
fn describe_version(schema: u64, proctor: &str) -> String {
    let forms = format!("run format {schema}; this version reads format {RUN_SCHEMA_VERSION}");
    if schema < 2 {
        return format!(
            "was written by a version before Proctor 0.1.0 ({forms}), in which arms and events had a different meaning; read the run with the build that wrote it"
        );
    }
    format!("was written by proctor {proctor} ({forms}); read it with proctor {proctor}")
}

impl RecordError {
    /// Wraps an I/O error: `.map_err(RecordError::io(path, "cannot write"))`.
    pub(crate) fn io(path: &Path, failure: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = resolve_fd_path(path);
        move |source| Self::Io { path, what: failure, source }
    }

    /// Returns the error message without its hint, for callers that add their own hint.
    pub(crate) fn message_without_hint(&self) -> String {
        match self {
            Self::Corrupt { path, why, .. } => format!("{}: {why}", path.display()),
            other => other.to_string(),
        }
    }

    /// Converts the error to a fault of the record layer, for an outcome.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Corrupt { hint, .. } => {
                Fault::new(FaultLayer::Record, self.message_without_hint())
                    .cause(FaultCause::Invalid)
                    .hint(*hint)
            }
            other => Fault::new(FaultLayer::Record, other.to_string())
                .cause(FaultCause::from_error(other)),
        }
    }
}

/// Returns the reason why a directory is not a run directory.
fn not_a_run_reason(path: &Path) -> &'static str {
    if path.exists() { "no run.json" } else { "does not exist" }
}
