//! The scaffold `tools`, which uses function calling. The loop is in `drive`. Each tool has a file
//! for its code and a file for its arguments.

mod arguments;
mod drive;
mod edit;
mod edit_find;
mod edit_history;
mod edit_spec;
mod edit_view;
mod error;
mod name_prefix;
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
pub(crate) use tool::{Tool, ToolContext, ToolOutput};
pub use toolbox::ToolCallResult;
pub(crate) use toolbox::{Toolbox, ToolsSettings};
