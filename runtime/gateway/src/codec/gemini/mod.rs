//! Google's generateContent. The path, not the body, has the model and whether to stream.

mod answer;
mod read;
mod schema;
mod stream;
mod write;

pub(crate) use answer::{read_whole, usage, whole_turn, write_whole};
pub(crate) use read::read_request;
pub(crate) use stream::{GeminiReader, GeminiWriter};
pub(crate) use write::write_request;
