//! User errors, with a hint about the fix.

use std::fmt;

use crate::one_line;

/// A user error. A command that fails with a user error exits with status 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserError {
    /// The key or file, and what is wrong with it.
    pub message: String,
    /// What to change, in one line.
    pub hint: Option<String>,
}

impl UserError {
    /// Creates an error without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// Sets the hint, reduced to one readable line, because a hint may quote user input of any
    /// length.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(one_line(&hint.into()));
        self
    }
}

impl std::error::Error for UserError {}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n hint: {hint}"),
            None => Ok(()),
        }
    }
}
