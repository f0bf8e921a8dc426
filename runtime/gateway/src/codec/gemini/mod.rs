//! Google's generateContent. The model and whether to stream are said by the path, not the body.

mod answer;
mod read;
mod schema;
mod stream;
mod write;

pub(crate) use answer::{read_whole, usage, whole_turn, write_whole};
pub(crate) use read::read_request;
pub(crate) use stream::{GeminiReader, GeminiWriter};
pub(crate) use write::write_request;
