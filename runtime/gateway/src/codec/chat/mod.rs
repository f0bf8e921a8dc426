//! OpenAI Chat Completions, read leniently: "compatible" endpoints omit and add different fields.

mod answer;
mod cumulative;
mod read;
mod stream;
mod turn;
mod write;

pub(crate) use answer::{detail, finish_reason, read_whole, usage, whole_turn, write_whole};
pub(crate) use read::{plain, read_request, thoughts};
pub(crate) use stream::{ChatReader, ChatWriter};
pub(crate) use write::{call, tool, write_request};
