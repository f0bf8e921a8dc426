//! Truncates output to the number of tokens that the model may see, and reports how much was left
//! out.
//!
//! Keeps the head and the tail of the output. Each ends at a line boundary if at most half of it is
//! lost that way. Tokens are counted with `o200k_base` for every model, because the count is used
//! only for truncation.

use proctor_sandbox_api::CapturedOutput;
use proctor_scaffold_api::Stop;
use proctor_types::{Fault, FaultLayer};
use serde::Serialize;

/// Text with more bytes per token than this is truncated even if it has few tokens. This limits the
/// work.
const BYTES_PER_TOKEN: usize = 16;
/// If at most this many bytes are left out, their tokens are counted exactly. Otherwise, the count
/// is estimated from a sample.
const MAX_COUNTED_BYTES: usize = 128 << 10;

/// Captured output. `head` is the complete output, or its first part if bytes are missing; `tail`
/// is the last part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawOutput {
    pub head: Vec<u8>,
    /// Number of bytes between head and tail that were not captured.
    pub missing_bytes: u64,
    pub tail: Vec<u8>,
}

/// How much was left out, for the text in place of the gap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Omission {
    pub tokens: u64,
    pub lines: u64,
    pub bytes: u64,
    /// Whether `tokens` is an estimate. If bytes are missing, `lines` is an estimate too.
    pub about: bool,
}

/// Text that fits in the limit: either complete, or a head and a tail with a description of the
/// gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClippedText {
    Complete(String),
    Truncated { head: String, omission: Omission, tail: String },
}

impl RawOutput {
    pub fn from_complete(text: impl Into<Vec<u8>>) -> Self {
        Self { head: text.into(), ..Self::default() }
    }

    /// Returns all captured bytes. If bytes are missing, a line marks the gap.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.head;
        if self.missing_bytes > 0 {
            bytes.extend(format!("\n[{} bytes omitted]\n", self.missing_bytes).bytes());
        }
        bytes.extend(self.tail);
        bytes
    }
}

impl From<String> for RawOutput {
    fn from(text: String) -> Self {
        Self::from_complete(text)
    }
}

impl From<CapturedOutput> for RawOutput {
    fn from(output: CapturedOutput) -> Self {
        let beyond = output.total_bytes.saturating_sub(output.head.len() as u64);
        // The tail is the end of the whole stream, so it may overlap the head.
        let keep = output.tail.len().min(usize::try_from(beyond).unwrap_or(usize::MAX));
        let tail = output.tail[output.tail.len() - keep..].to_vec();
        let missing = beyond - keep as u64;
        if missing == 0 {
            let mut head = output.head;
            head.extend(tail);
            return Self::from_complete(head);
        }
        Self { head: output.head, missing_bytes: missing, tail }
    }
}

/// Truncates `raw` to about `cap` tokens. Runs on a blocking thread: the first call loads the token
/// table (about 0.2 s), and later calls take about 1 ms per 15 kB.
///
/// # Errors
/// Fails only while the async runtime is shutting down.
pub async fn clip(raw: RawOutput, cap: usize) -> Result<(ClippedText, RawOutput), Stop> {
    // A token has at least one byte, so most outputs need no count.
    if raw.missing_bytes == 0 && raw.head.len() <= cap {
        return Ok((ClippedText::Complete(decode_lossy(&raw.head)), raw));
    }
    tokio::task::spawn_blocking(move || (clip_blocking(&raw, cap), raw)).await.map_err(|error| {
        Stop::Fault(Fault::new(FaultLayer::Sandbox, format!("cannot truncate output: {error}")))
    })
}

/// Like [`clip`], but runs on the current thread.
pub fn clip_blocking(raw: &RawOutput, cap: usize) -> ClippedText {
    let text = decode_lossy(&raw.head);
    let half = (cap / 2).max(1);
    if raw.missing_bytes > 0 {
        let end = decode_lossy(&raw.tail);
        let head = &text[..head_end(&text, half)];
        let tail = &end[tail_start(&end, half)..];
        let (gone, behind) = (&text[head.len()..], &end[..end.len() - tail.len()]);
        let bytes = gone.len() as u64 + raw.missing_bytes + behind.len() as u64;
        // Assume that the missing bytes have as many tokens and lines per byte as the head.
        let density = |count: usize| bytes * count as u64 / (head.len().max(1) as u64);
        let tokens = density(count_tokens(head));
        let cut = Omission { tokens, lines: density(count_lines(head)), bytes, about: true };
        return ClippedText::Truncated {
            head: head.to_owned(),
            omission: cut,
            tail: tail.to_owned(),
        };
    }
    if text.len() <= cap || (text.len() <= cap * BYTES_PER_TOKEN && count_tokens(&text) <= cap) {
        return ClippedText::Complete(text);
    }
    let start = tail_start(&text, half);
    let end = head_end(&text, half).min(start);
    let gone = &text[end..start];
    let (tokens, about) = estimate_tokens(gone);
    let cut = Omission { tokens, lines: count_lines(gone) as u64, bytes: gone.len() as u64, about };
    ClippedText::Truncated {
        head: text[..end].to_owned(),
        omission: cut,
        tail: text[start..].to_owned(),
    }
}

/// Converts bytes to text. Replaces invalid UTF-8 and NUL, which some endpoints reject, with
/// U+FFFD.
pub fn decode_lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{FFFD}")
}

fn count_tokens(text: &str) -> usize {
    proctor_tokens::count(text)
}

fn estimate_tokens(text: &str) -> (u64, bool) {
    if text.len() <= MAX_COUNTED_BYTES {
        return (count_tokens(text) as u64, false);
    }
    let sample = &text[..text.floor_char_boundary(MAX_COUNTED_BYTES)];
    (count_tokens(sample) as u64 * text.len() as u64 / sample.len() as u64, true)
}

fn count_lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count().max(1)
}

/// Returns where the first `cap` tokens end, adjusted to a nearby line end.
fn head_end(text: &str, cap: usize) -> usize {
    let window = &text[..text.floor_char_boundary(cap * BYTES_PER_TOKEN)];
    let found = proctor_tokens::encode(window);
    if found.len() <= cap {
        return window.len();
    }
    let end = window.floor_char_boundary(byte_length(&found[..cap]));
    match window[..end].rfind('\n') {
        Some(newline) if newline >= end / 2 => newline + 1,
        _ => end,
    }
}

/// Returns where the last `cap` tokens start, adjusted to a nearby line start.
fn tail_start(text: &str, cap: usize) -> usize {
    let from = text.ceil_char_boundary(text.len().saturating_sub(cap * BYTES_PER_TOKEN));
    let window = &text[from..];
    let found = proctor_tokens::encode(window);
    if found.len() <= cap {
        return from;
    }
    let size = byte_length(&found[found.len() - cap..]);
    let start = text.ceil_char_boundary(text.len() - size.min(window.len()));
    match text[start..].find('\n') {
        Some(newline) if newline + 1 < size / 2 => start + newline + 1,
        _ => start,
    }
}

/// Returns the number of bytes that the tokens represent.
fn byte_length(tokens: &[proctor_tokens::Rank]) -> usize {
    proctor_tokens::decoded_byte_count(tokens).unwrap_or(0)
}

#[cfg(test)]
mod tests;
