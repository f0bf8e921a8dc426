//! OpenAI Chat Completions. Reading is lenient, because "compatible" endpoints omit and add
//! different fields.

mod calls;
mod cumulative;
mod plain_text;
mod read;
mod response;
mod stream;
mod turn;
mod write;
mod writer;

pub use read::{join_text, read_reasoning, read_request};
pub use response::{
    finish_reason, native_turn, read_response, reasoning_detail, usage, write_response,
};
pub use stream::ChatReader;
pub use write::{write_call, write_request, write_tool_spec};
pub use writer::ChatWriter;
