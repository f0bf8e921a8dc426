//! Google's generateContent. The model, and whether to stream, are in the path instead of the body.

mod answer;
mod read;
mod schema;
mod stream;
mod write;

pub use answer::{read_whole, usage, whole_turn, write_whole};
pub use read::read_request;
pub use stream::{GeminiReader, GeminiWriter};
pub use write::write_request;
