//! Splits a byte stream into server-sent events as it arrives.

use bytes::{Bytes, BytesMut};

/// The line prefixes in an event stream.
pub const LINE_PREFIXES: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// One event with its exact bytes, including the final blank line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub raw: Bytes,
    /// Empty if the event has no name.
    pub name: String,
    /// The `data` lines, joined by line feeds. Empty for a comment.
    pub data: String,
}

/// Splits chunks of any size into events. An event may span many chunks.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    /// Position at which the search for the end of the next event continues. No event ends before
    /// this position.
    search_start: usize,
}

impl Decoder {
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// Returns the next complete event.
    pub fn next_event(&mut self) -> Option<Event> {
        let Some(end) = end_of_event(&self.buffer, self.search_start) else {
            // The search may stop anywhere within the four bytes of a blank line, so go back a few
            // bytes. Don't restart in the middle of a CR LF.
            let from = self.buffer.len().saturating_sub(3);
            let middle = self.buffer.get(from) == Some(&b'\n')
                && from > 0
                && self.buffer.get(from - 1) == Some(&b'\r');
            self.search_start = from - usize::from(middle);
            return None;
        };
        self.search_start = 0;
        Some(parse_event(self.buffer.split_to(end).freeze()))
    }

    /// Returns the rest of the data at the end of the stream, because some servers omit the last
    /// blank line.
    pub fn take_rest(&mut self) -> Option<Event> {
        self.search_start = 0;
        let rest = self.buffer.split().freeze();
        (!rest.is_empty()).then(|| parse_event(rest))
    }
}

/// Returns the end of the first blank line after `start`. Lines end in LF, CR LF or CR.
fn end_of_event(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while at < bytes.len() {
        let Some(next) = line_end(bytes, at) else {
            at += 1;
            continue;
        };
        // A CR at the end may be the first half of a CR LF. Wait for the next chunk.
        let next = next?;
        match line_end(bytes, next) {
            Some(end) => return end,
            None => at = next,
        }
    }
    None
}

/// Returns the end of the line break at `at`. `Some(None)` means that more bytes are needed, and
/// `None` that there is no line break here.
fn line_end(bytes: &[u8], at: usize) -> Option<Option<usize>> {
    match (bytes.get(at)?, bytes.get(at + 1)) {
        (b'\n', _) => Some(Some(at + 1)),
        (b'\r', Some(b'\n')) => Some(Some(at + 2)),
        (b'\r', Some(_)) => Some(Some(at + 1)),
        (b'\r', None) => Some(None),
        _ => None,
    }
}

/// Parses one event from its bytes.
pub fn parse_event(raw: Bytes) -> Event {
    let (mut name, mut data) = (String::new(), String::new());
    let text = String::from_utf8_lossy(&raw);
    // The first event may start with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    for line in text.split(['\n', '\r']) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = value.to_owned(),
            "data" => {
                if !data.is_empty() {
                    data.push('\n');
                }
                data.push_str(value);
            }
            _ => {}
        }
    }
    Event { raw, name, data }
}

impl Event {
    /// Whether the endpoint sent content. Comments and pings only keep the connection alive.
    pub fn has_content(&self) -> bool {
        !self.data.trim().is_empty() && self.name != "ping" && !is_ping(&self.data)
    }
}

fn is_ping(data: &str) -> bool {
    const TYPES: [&str; 4] = ["ping", "keepalive", "keep_alive", "heartbeat"];
    // A ping is short. Check the length first, to avoid parsing response data twice.
    data.len() < 80
        && serde_json::from_str::<serde_json::Value>(data)
            .is_ok_and(|data| data["type"].as_str().is_some_and(|kind| TYPES.contains(&kind)))
}

/// Writes one event, with a name if the format uses names.
pub fn write(out: &mut String, name: Option<&str>, data: &serde_json::Value) {
    if let Some(name) = name {
        out.extend(["event: ", name, "\n"]);
    }
    // Don't use `Display`, which passes each character through a formatter. Serializing a `Value`
    // cannot fail.
    let data = serde_json::to_string(data).unwrap_or_default();
    out.extend(["data: ", &data, "\n\n"]);
}

#[cfg(test)]
mod tests {
    use super::Decoder;

    const STREAM: &str = ": ping\n\nevent: a\ndata: {\"x\":\ndata: 1}\n\ndata: b\r\n\r\nid: 3\ndata:c\n\ndata: [DONE]\n";

    #[test]
    fn decoder_preserves_events_and_bytes_for_any_chunk_size() {
        let whole = STREAM.as_bytes();
        for size in 1..whole.len() {
            let mut decoder = Decoder::default();
            let mut events = Vec::new();
            for chunk in whole.chunks(size) {
                decoder.push(chunk);
                while let Some(event) = decoder.next_event() {
                    events.push(event);
                }
            }
            events.extend(decoder.take_rest());
            let seen: Vec<_> =
                events.iter().map(|one| (one.name.as_str(), one.data.as_str())).collect();
            let wanted = [("", ""), ("a", "{\"x\":\n1}"), ("", "b"), ("", "c"), ("", "[DONE]")];
            assert_eq!(seen, wanted, "in chunks of {size}");
            let raw: Vec<u8> = events.iter().flat_map(|one| one.raw.to_vec()).collect();
            assert_eq!(raw, whole);
        }
    }

    #[test]
    fn decoder_accepts_cr_and_skips_the_byte_order_mark() {
        let stream = "\u{feff}data: a\r\rdata: b\r\n\rdata: c\r\r";
        for size in 1..stream.len() {
            let mut decoder = Decoder::default();
            let mut data = Vec::new();
            for chunk in stream.as_bytes().chunks(size) {
                decoder.push(chunk);
                data.extend(std::iter::from_fn(|| decoder.next_event()).map(|event| event.data));
            }
            data.extend(decoder.take_rest().map(|event| event.data));
            assert_eq!(data, ["a", "b", "c"], "in chunks of {size}");
        }
    }

    #[test]
    fn comments_and_pings_have_no_content() {
        for (text, progress) in [
            (": OPENROUTER PROCESSING\n\n", false),
            ("event: ping\ndata: {\"type\": \"ping\"}\n\n", false),
            ("data: {\"type\":\"ping\"}\n\n", false),
            ("data: \n\n", false),
            ("data: {\"choices\":[]}\n\n", true),
            ("data: [DONE]\n\n", true),
        ] {
            assert_eq!(super::parse_event(text.into()).has_content(), progress, "{text}");
        }
    }
}
