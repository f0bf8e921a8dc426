//! Errors for the person at the terminal.

use std::{fmt, process::ExitCode};

use proctor_record::RecordError;

/// What ended a command, with the exit status that the design fixes.
#[derive(Debug)]
pub enum CommandError {
    /// The user's mistake: says which key or file, and the hint. Exit status 2.
    User(UserError),
    /// Anything else. Exit status 1.
    Other(anyhow::Error),
}

#[derive(Debug)]
pub struct UserError {
    pub what: String,
    pub hint: Option<String>,
}

impl UserError {
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl CommandError {
    /// An error of a run directory that the user named. Which of them the user can hint by naming
    /// another is the record's to know; each message says the hint.
    pub fn of_run(error: RecordError) -> Self {
        match error {
            RecordError::NotARun { .. }
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

impl From<UserError> for CommandError {
    fn from(error: UserError) -> Self {
        Self::User(error)
    }
}

impl<E> From<E> for CommandError
where
    anyhow::Error: From<E>,
{
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(UserError { what, hint }) => {
                write!(f, "error: {what}")?;
                match hint {
                    Some(hint) => write!(f, "\n hint: {hint}"),
                    None => Ok(()),
                }
            }
            Self::Other(error) => write!(f, "error: {error:#}"),
        }
    }
}
