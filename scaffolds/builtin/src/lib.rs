//! The scaffolds whose loop runs in Proctor's own process.
//!
//! ```text
//! tools   call -> tool calls -> observe -> repeat         (function calling)
//! bash    call -> one fenced command -> observe -> repeat (models without tool calls)
//! gold    apply the gold patch        noop   submit immediately
//! single-shot   call once -> edits or a patch -> the work directory
//! replay  run a recorded trajectory's actions again
//! ```
//!
//! The session handles budgets, recording and retries. The prompts are data (`prompts/`):
//! [`Prompts`] renders them, and [`clip`] truncates output.

mod bash;
mod catalogue;
pub mod clip;
mod command;
mod conversation;
mod gold;
mod noop;
mod prompts;
mod replay;
mod schema;
mod single_shot;
mod tools;
mod toolset;

pub use bash::Bash;
pub use catalogue::{builtin_scaffold, names, restore_scaffold};
pub use gold::Gold;
pub use noop::Noop;
pub use prompts::{PromptError, Prompts};
pub use replay::Replay;
pub use single_shot::SingleShot;
pub use tools::{ToolCallResult, Tools, specs};
pub use toolset::{ToolSet, TrialTools};
