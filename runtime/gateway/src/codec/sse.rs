//! Server-sent events, cut out of a byte stream as it comes.

use bytes::{Bytes, BytesMut};

/// One event with the exact bytes that it came in, its blank line included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub raw: Bytes,
    /// Empty where the stream names none.
    pub name: String,
    /// The `data` lines, joined by line feeds. Empty for a comment.
    pub data: String,
}

/// Feeds on chunks of any size; an event may be spread over many.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: BytesMut,
    /// Up to here no event ends.
    searched: usize,
}

impl Decoder {
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole event.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let Some(end) = end_of_event(&self.buffer, self.searched) else {
            // A blank line may be cut anywhere within its four bytes.
            self.searched = self.buffer.len().saturating_sub(3);
            return None;
        };
        self.searched = 0;
        Some(event(self.buffer.split_to(end).freeze()))
    }

    /// What is left at the end of the stream: some servers leave the last blank line out.
    pub(crate) fn rest(&mut self) -> Option<Event> {
        self.searched = 0;
        let rest = self.buffer.split().freeze();
        (!rest.is_empty()).then(|| event(rest))
    }
}

/// Where the first blank line after `from` ends.
fn end_of_event(bytes: &[u8], from: usize) -> Option<usize> {
    let feeds = bytes.iter().enumerate().skip(from).filter(|(_, byte)| **byte == b'\n');
    feeds.map(|(at, _)| at + 1).find_map(|next| match bytes.get(next..)? {
        [b'\n', ..] => Some(next + 1),
        [b'\r', b'\n', ..] => Some(next + 2),
        _ => None,
    })
}

/// One event out of its bytes.
pub(crate) fn event(raw: Bytes) -> Event {
    let (mut name, mut data) = (String::new(), String::new());
    let text = String::from_utf8_lossy(&raw);
    for line in text.lines() {
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
    drop(text);
    Event { raw, name, data }
}

/// Writes one event, with its name where the format has names.
pub(crate) fn write(out: &mut String, name: Option<&str>, data: &serde_json::Value) {
    if let Some(name) = name {
        out.extend(["event: ", name, "\n"]);
    }
    // Not by `Display`, which writes each mark through a formatter. A value can always be written.
    let data = serde_json::to_string(data).unwrap_or_default();
    out.extend(["data: ", &data, "\n\n"]);
}

#[cfg(test)]
mod tests {
    use super::Decoder;

    const STREAM: &str = ": ping\n\nevent: a\ndata: {\"x\":\ndata: 1}\n\ndata: b\r\n\r\nid: 3\ndata:c\n\ndata: [DONE]\n";

    #[test]
    fn any_cut_gives_the_same_events_and_every_byte() {
        let whole = STREAM.as_bytes();
        for size in 1..whole.len() {
            let mut decoder = Decoder::default();
            let mut events = Vec::new();
            for chunk in whole.chunks(size) {
                decoder.push(chunk);
                while let Some(event) = decoder.next() {
                    events.push(event);
                }
            }
            events.extend(decoder.rest());
            let seen: Vec<_> =
                events.iter().map(|one| (one.name.as_str(), one.data.as_str())).collect();
            let wanted = [("", ""), ("a", "{\"x\":\n1}"), ("", "b"), ("", "c"), ("", "[DONE]")];
            assert_eq!(seen, wanted, "in chunks of {size}");
            let raw: Vec<u8> = events.iter().flat_map(|one| one.raw.to_vec()).collect();
            assert_eq!(raw, whole);
        }
    }
}
