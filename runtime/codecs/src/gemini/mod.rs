//! Google's generateContent. The model, and whether to stream, are in the path instead of the body.

mod read;
mod response;
mod schema;
mod stream;
mod write;

pub use read::read_request;
pub use response::{native_turn, read_response, usage, write_response};
pub use stream::{GeminiReader, GeminiWriter};
pub use write::write_request;
