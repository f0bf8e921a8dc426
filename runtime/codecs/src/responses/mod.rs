//! OpenAI Responses.

mod answer;
mod items;
mod read;
mod stream;
mod write;
mod writer;

pub use answer::{read_whole, usage, whole_turn, write_whole};
pub use read::read_request;
pub use stream::ResponsesReader;
pub use write::write_request;
pub use writer::ResponsesWriter;
