//! Errors that are shown to the user.

use std::{fmt, process::ExitCode};

use proctor_bundles::BundleError;
pub use proctor_config::UserError;
use proctor_plan::PlanError;
use proctor_record::RecordError;
use proctor_report::wrap_long_lines;
use proctor_run::RunError;
use proctor_scaffold_api::SourceError;
use proctor_types::{format_error_chain, rewrite_library_errors};
use proctor_validation::ValidationError;
use proctor_viewer::ViewError;

/// The exit status of a finished run in which some trials have no verdict.
pub const INCOMPLETE_STATUS: u8 = 3;
/// The exit status that shells use for an interrupted program.
pub const INTERRUPTED_STATUS: u8 = 130;

/// An error that ends a command. Its kind determines the exit status.
#[derive(Debug)]
pub enum CommandError {
    /// A usage error. The message contains the key or file at fault, and there is a hint. The exit
    /// status is 2.
    User(UserError),
    /// Any other error. The exit status is 1.
    Other(anyhow::Error),
}

impl CommandError {
    /// Converts an error about a run directory that the user named. If the user can fix the error
    /// by naming another directory, it becomes a usage error with a hint.
    pub fn from_record_error(error: RecordError) -> Self {
        match error {
            RecordError::NotARun { .. }
            | RecordError::PlanLost { .. }
            | RecordError::PlanDamaged { .. }
            | RecordError::UnsupportedVersion { .. }
            | RecordError::NewerConfig { .. }
            | RecordError::RunExists { .. }
            | RecordError::Locked { .. } => Self::User(UserError::new(error.to_string())),
            other => Self::Other(other.into()),
        }
    }

    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::User(_) => ExitCode::from(2),
            Self::Other(_) => ExitCode::from(1),
        }
    }
}

impl<E> From<E> for CommandError
where
    anyhow::Error: From<E>,
{
    fn from(error: E) -> Self {
        let error = match anyhow::Error::from(error).downcast::<UserError>() {
            Ok(user) => return Self::User(user),
            Err(other) => other,
        };
        let error = match error.downcast::<RecordError>() {
            Ok(record) => return Self::from_record_error(record),
            Err(other) => other,
        };
        let error = match error.downcast::<ViewError>() {
            Ok(ViewError::Record(record)) => return Self::from_record_error(record),
            Ok(other) => return Self::Other(other.into()),
            Err(other) => other,
        };
        let error = match error.downcast::<RunError>() {
            Ok(RunError::User(user)) => return Self::User(user),
            Ok(RunError::Record(record)) => return Self::from_record_error(record),
            Ok(RunError::Scaffold(source)) => return Self::from(source),
            Ok(other) => return Self::Other(other.into()),
            Err(other) => other,
        };
        let error = match error.downcast::<PlanError>() {
            Ok(PlanError::User(user)) => return Self::User(user),
            Ok(PlanError::Record(record)) => return Self::from_record_error(record),
            Ok(PlanError::Scaffold(source)) => return Self::from(source),
            Ok(other) => return Self::Other(other.into()),
            Err(other) => other,
        };
        let error = match error.downcast::<SourceError>() {
            Ok(SourceError::User(user)) => return Self::User(user),
            Ok(SourceError::Build { problem: what, hint }) => {
                return Self::Other(BundleError { hint, ..BundleError::new(what) }.into());
            }
            Err(other) => other,
        };
        match error.downcast::<ValidationError>() {
            Ok(ValidationError::Record(record)) => Self::from_record_error(record),
            Ok(other) => Self::Other(other.into()),
            Err(other) => Self::Other(other),
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(UserError { message: what, hint }) => {
                f.write_str(&wrap_long_lines(&format!("error: {}", rewrite_library_errors(what))))?;
                match hint {
                    Some(hint) => write!(f, "\n{}", wrap_long_lines(&format!(" hint: {hint}"))),
                    None => Ok(()),
                }
            }
            Self::Other(error) => {
                let of_bundle = error.downcast_ref::<BundleError>();
                let what = of_bundle.map_or_else(
                    || format_error_chain(error.as_ref()),
                    |bundle| bundle.problem.clone(),
                );
                f.write_str(&wrap_long_lines(&format!("error: {what}")))?;
                let of_files = || proctor_types::open_files_hint(&format!("{error:#}"));
                match of_bundle.and_then(|bundle| bundle.hint.as_deref()).or_else(of_files) {
                    Some(hint) => write!(f, "\n{}", wrap_long_lines(&format!(" hint: {hint}"))),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("run.json: cannot be read: {source}")]
    struct OuterError {
        source: std::io::Error,
    }

    #[test]
    fn with_causes_prints_each_cause_once() {
        let source = std::io::Error::other("the disk is gone");
        let error = CommandError::from(OuterError { source });
        assert_eq!(error.to_string(), "error: run.json: cannot be read: the disk is gone");
        let error = anyhow::anyhow!("inner").context("outer");
        assert_eq!(CommandError::Other(error).to_string(), "error: outer: inner");
    }
}
