//! Tests users' own agents, whose loop runs outside the task's sandbox.

mod acp;
mod libraries;
mod process;
mod python;
