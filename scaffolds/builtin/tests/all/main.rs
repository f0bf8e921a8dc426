//! Tests the scaffolds in a real sandbox.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod bash;
mod gold_and_noop;
mod prompts;
mod replay;
mod support;
mod tools;
