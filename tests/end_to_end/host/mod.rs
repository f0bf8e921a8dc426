//! Agents of a user's own whose loop runs outside the task's sandbox.

mod libraries;
mod process;
