//! OpenAI Chat Completions, read leniently: "compatible" endpoints omit and add different fields.

mod answer;
mod cumulative;
mod read;
mod stream;
mod turn;
mod write;

pub use answer::{detail, finish_reason, read_whole, usage, whole_turn, write_whole};
pub use read::{plain, read_request, thoughts};
pub use stream::{ChatReader, ChatWriter};
pub use write::{call, tool, write_request};
