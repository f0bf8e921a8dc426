//! Errors that occur while a recipe's task is built.

use proctor_types::Fault;

use crate::CarveError;

#[derive(Debug, Clone, thiserror::Error)]
pub enum RecipeError {
    #[error(transparent)]
    Carve(#[from] CarveError),
    /// The network, the sandbox or the test runner failed. A retry may help.
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("no source file matches `tests`: {patterns}")]
    NoTests { patterns: String },
    #[error("cannot render the statement: {why}")]
    Statement { why: String },
    /// The tests do not depend on the removed code.
    #[error("no test fails without {carved} and passes with it; {seen}")]
    NothingFails { carved: String, seen: String },
    #[error("the {run} test run is incomplete: {why}")]
    Incomplete { run: &'static str, why: String },
    #[error("cannot cache the built task: {why}")]
    Cache { why: String },
}
