//! Detects streams in which each piece of the response was sent twice, for example because two
//! listeners of a proxy write to the same connection.

use serde_json::Value;

use crate::{checks::DoubledDeltasCheck, responder::json_objects};

impl DoubledDeltasCheck {
    /// Whether each piece of the text, the reasoning and the calls in a stream is followed by a
    /// copy of itself.
    pub(crate) fn has_doubled_deltas(&self, raw: &[u8]) -> bool {
        let text = String::from_utf8_lossy(raw);
        if text.trim_start().starts_with('{') {
            return false;
        }
        let mut pieces = json_objects(&text).filter_map(read_piece);
        let (mut count, mut distinct, mut last) = (0, 0, String::new());
        while let Some(piece) = pieces.next() {
            // In almost all streams, the first two pieces differ, and nothing more is parsed.
            if pieces.next().as_ref() != Some(&piece) {
                return false;
            }
            count += 2;
            distinct += usize::from(piece != last);
            last = piece;
        }
        // A model may repeat one word.
        count >= self.least && distinct >= self.least_distinct
    }
}

/// Returns the text, reasoning or arguments in an event of any format.
fn read_piece(event: &str) -> Option<String> {
    let event: Value = serde_json::from_str(event).ok()?;
    let delta = &event["choices"][0]["delta"];
    let places = [
        &delta["content"],
        &delta["reasoning_content"],
        &delta["reasoning"],
        &delta["tool_calls"][0]["function"]["arguments"],
        &event["delta"]["text"],
        &event["delta"]["thinking"],
        &event["delta"]["partial_json"],
        &event["delta"],
        &event["candidates"][0]["content"]["parts"][0]["text"],
    ];
    let mut pieces = places.into_iter().filter_map(Value::as_str);
    pieces.find(|piece| !piece.is_empty()).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::checks::EndpointChecks;

    fn is_doubled(pieces: &[&str], event: fn(&str) -> Value) -> bool {
        let check = &EndpointChecks::shipped().expect("a valid table").doubled;
        let events = pieces.iter().map(|piece| format!("data: {}\n\n", event(piece)));
        let stream = format!("{}data: [DONE]\n\n", events.collect::<String>());
        check.has_doubled_deltas(stream.as_bytes())
    }

    #[test]
    fn stream_that_repeats_each_piece_is_detected() {
        let formats: [fn(&str) -> Value; 4] = [
            |piece| json!({"choices": [{"delta": {"content": piece}}]}),
            |piece| json!({"type": "content_block_delta", "delta": {"text": piece}}),
            |piece| json!({"type": "response.output_text.delta", "delta": piece}),
            |piece| json!({"candidates": [{"content": {"parts": [{"text": piece}]}}]}),
        ];
        for event in formats {
            let of = |pieces: &[&str]| is_doubled(pieces, event);
            assert!(of(&["", "I", "I", " look", " look", " at", " at", " it", " it"]));
            assert!(!of(&["I", " look", " at", " the", " files", " of", " the", " package"]));
            assert!(!of(&["I", "I", " look", " look", " at", " at", " it", " it", "."]));
            assert!(!of(&["I", "I", " look", " look"]), "it is too short");
            assert!(!of(&["ha"; 16]), "a model may repeat one word");
            assert!(!of(&[]));
        }
    }

    #[test]
    fn document_is_not_a_stream() {
        let check = &EndpointChecks::shipped().expect("a valid table").doubled;
        assert!(!check.has_doubled_deltas(br#"{"choices": []}"#));
    }
}
