//! Wire formats: reads and writes complete and streamed requests and responses.
//!
//! ```text
//! client's bytes ─ read ─▶ Request ─ write ─▶ the upstream's bytes
//! client's bytes ◀ write ─ Delta*  ◀─ read ─  the upstream's bytes
//! ```
//!
//! A complete response is the list of its deltas, so each format needs only one reader and one
//! writer, and a stream is never buffered. If both sides use the same format, nothing is rewritten:
//! the reader only looks for the usage and the end.

pub mod chat;
mod fields;
mod format;
#[cfg(test)]
mod fuzz;
mod gemini;
mod image;
pub mod lenient_json;
mod loss;
pub mod message;
mod messages;
mod native;
pub mod neutral;
pub mod overlay;
mod responses;
pub mod splice;
pub mod sse;
mod stop;
mod tool;

/// Returns seconds since the Unix epoch, for responses that contain a timestamp.
fn unix_seconds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map(|since| since.as_secs()).unwrap_or_default()
}

/// Returns an endpoint's token count. Ignores impossibly large numbers, so that sums don't overflow
/// and a wrong count doesn't exhaust a trial's budget.
fn read_token_count(value: &serde_json::Value) -> Option<u64> {
    const MAX_TOKEN_COUNT: u64 = 1 << 40;
    value.as_u64().filter(|count| *count <= MAX_TOKEN_COUNT)
}

/// Returns an id for a translated response. The endpoint's id is not used, because some endpoints
/// send no id, or always the same one. A client that identifies responses by id would then mistake
/// a new response for the previous one.
fn fresh_response_id(prefix: &str) -> String {
    format!("{prefix}{:016x}", fastrand::u64(..))
}

/// Returns an id for a call without one. Clients match results to calls by id.
fn fresh_call_id() -> String {
    format!("call_{:016x}", fastrand::u64(..))
}

/// Returns the error for a file, for audio, or for an image where the format allows no image.
fn unsupported_media(kind: &str) -> String {
    format!(
        "content of type {kind:?} cannot be translated between APIs: send text, or an image in a user message"
    )
}

pub use format::{
    CorrectedContent, ReadError, StreamReader, StreamWriter, native_turn, output_limit,
    read_request, read_response, stream_reader, stream_writer, usage, write_request,
    write_response,
};
pub use loss::Losses;
pub use neutral::{Part, Request, Role};
