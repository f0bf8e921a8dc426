//! Google's generateContent. The URL's path, not the body, contains the model and whether to
//! stream.

mod read;
mod response;
mod schema;
mod stream;
mod write;

pub use read::read_request;
pub use response::{native_turn, read_response, usage, write_response};
pub use stream::{GeminiReader, GeminiWriter};
pub use write::write_request;
