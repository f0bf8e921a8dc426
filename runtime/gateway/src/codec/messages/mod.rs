//! Anthropic Messages.

mod answer;
mod read;
mod stream;
mod write;

pub(crate) use answer::{read_whole, usage, whole_turn, write_whole};
pub(crate) use read::read_request;
pub(crate) use stream::{MessagesReader, MessagesWriter};
pub(crate) use write::write_request;
