//! `tools`: function calling. The loop is in `drive`; each tool has a file, with its spec beside
//! it.

mod arguments;
mod drive;
mod edit;
mod edit_find;
mod edit_history;
mod edit_spec;
mod edit_view;
mod error;
mod search;
mod search_spec;
mod shell;
mod shell_spec;
mod specs;
mod submit;
mod submit_spec;
mod tool;
mod toolbox;

pub use drive::Tools;
pub(crate) use error::ToolError;
pub(crate) use specs::SUBMIT;
pub use specs::specs;
pub(crate) use tool::{Output, Tool, ToolContext};
pub use toolbox::ToolCallResult;
pub(crate) use toolbox::{Toolbox, ToolsSettings};
