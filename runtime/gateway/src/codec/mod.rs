//! Wire formats: requests and answers, whole and streamed, read and written.
//!
//! ```text
//! client's bytes ─ read ─▶ Request ─ write ─▶ the upstream's bytes
//! client's bytes ◀ write ─ Delta*  ◀─ read ─  the upstream's bytes
//! ```
//!
//! A whole answer is the list of all its deltas, so each format has one reader of meaning and one
//! writer of it, and a stream is never collected before it is passed on. Where both sides speak one
//! format nothing is written: the reader only listens, for usage and for the end.

pub(crate) mod chat;
mod fields;
mod format;
#[cfg(test)]
mod fuzz;
mod gemini;
mod image;
mod loss;
mod messages;
mod native;
pub(crate) mod neutral;
pub(crate) mod overlay;
mod responses;
#[cfg(test)]
mod round_trip;
pub(crate) mod splice;
pub(crate) mod sse;
mod stop;
pub(crate) mod tolerant;
mod tool;

/// Seconds since the Unix epoch, for answers that carry their time.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map(|since| since.as_secs()).unwrap_or_default()
}

/// Tokens as an endpoint counts them. A number that no request can reach does not count: sums of a few are
/// always within their type, and a mistake does not end a trial by its budget.
fn tokens(value: &serde_json::Value) -> Option<u64> {
    const MOST: u64 = 1 << 40;
    value.as_u64().filter(|count| *count <= MOST)
}

/// An id for a translated answer. The endpoint's own would do where there is one: some give none or always the same,
/// and a client that knows its answers by id then takes a new one for the last.
fn fresh_answer(prefix: &str) -> String {
    format!("{prefix}{:016x}", fastrand::u64(..))
}

/// An id for a call that came without one. Clients put results to calls by it.
fn fresh_call() -> String {
    format!("call_{:016x}", fastrand::u64(..))
}

/// What the other side is told about a file, sound, or an image in a place where there can be none.
fn media(kind: &str) -> String {
    format!(
        "content of type {kind:?} is not translated between APIs: send text, or an image in a user's message"
    )
}

pub(crate) use format::{
    ReadError, Reader, Writer, output_limit, read_request, read_whole, reader, request_for, usage,
    whole_turn, write_whole, writer,
};
pub(crate) use loss::Losses;
pub(crate) use neutral::{Part, Request, Role};
