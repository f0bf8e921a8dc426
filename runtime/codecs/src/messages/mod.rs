//! Anthropic Messages.

mod read;
mod response;
mod stream;
mod write;

pub use read::read_request;
pub use response::{native_turn, read_response, usage, write_response};
pub use stream::{MessagesReader, MessagesWriter};
pub use write::write_request;
