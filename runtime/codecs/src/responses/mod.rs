//! OpenAI Responses.

mod fragments;
mod items;
mod read;
mod response;
mod snapshots;
mod stream;
mod write;
mod writer;

pub use read::read_request;
pub use response::{native_turn, read_response, usage, write_response};
pub use stream::ResponsesReader;
pub use write::write_request;
pub use writer::ResponsesWriter;
