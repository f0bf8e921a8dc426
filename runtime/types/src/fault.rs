//! Infrastructure faults: what broke that was neither the model nor the task.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The layer that failed. A closed set: reports count by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The environment could not be built or its layer could not be used.
    Environment,
    /// The sandbox did not start, died, or its channel broke.
    Sandbox,
    /// Setup could not be prepared or checked for leaks.
    Setup,
    /// The model endpoint failed after all retries.
    Model,
    /// The run directory could not be written.
    Record,
    /// The grading harness itself failed.
    Grade,
}

/// A fault for the operator. It is never shown to the model and never scored as a failure of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub layer: Layer,
    /// What happened, as a sentence fragment that names the place.
    pub what: String,
    /// What the operator can do about it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Another try would only repeat it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lasting: bool,
}

impl Fault {
    pub fn new(layer: Layer, what: impl Into<String>) -> Self {
        Self { layer, what: what.into(), hint: None, lasting: false }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// Puts the place in front: `context: what`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.what = format!("{context}: {}", self.what);
        self
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment => "environment",
            Self::Sandbox => "sandbox",
            Self::Setup => "setup",
            Self::Model => "model",
            Self::Record => "record",
            Self::Grade => "grade",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fault: {}", self.layer, self.what)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}
