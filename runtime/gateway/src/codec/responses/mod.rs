//! OpenAI Responses.

mod answer;
mod items;
mod read;
mod stream;
mod write;
mod writer;

pub(crate) use answer::{read_whole, usage, whole_turn, write_whole};
pub(crate) use read::read_request;
pub(crate) use stream::ResponsesReader;
pub(crate) use write::write_request;
pub(crate) use writer::ResponsesWriter;
