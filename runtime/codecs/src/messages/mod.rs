//! Anthropic Messages.

mod answer;
mod read;
mod stream;
mod write;

pub use answer::{read_whole, usage, whole_turn, write_whole};
pub use read::read_request;
pub use stream::{MessagesReader, MessagesWriter};
pub use write::write_request;
