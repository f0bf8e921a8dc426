use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::{
    calls::{has_unreadable_calls, standardize_calls},
    cumulative::TextDeduplicator,
    plain_text::PlainText,
    response,
    turn::MessageBuilder,
};
use crate::{
    ReadError, StreamReader,
    fields::Fields,
    lenient_json, native,
    neutral::{Delta, StopReason},
    sse,
};

#[derive(Debug, Default)]
pub struct ChatReader {
    has_started: bool,
    text: TextDeduplicator,
    /// Whether text or a refusal has arrived.
    has_text: bool,
    has_reasoning: bool,
    /// The finish reason, if it arrived before any content.
    early_finish_reason: Option<String>,
    /// Whether a finish reason has arrived.
    has_finish_reason: bool,
    has_ended: bool,
    calls: Vec<StreamedCall>,
    /// Whether the call arrives as `function_call`.
    has_function_call: bool,
    /// Whether a fragment of a call could not be read.
    has_unreadable_call: bool,
    turn: MessageBuilder,
    identity: ResponseIdentity,
}

/// Identifies the response that chunks belong to. A proxy that retries a broken stream sends the
/// start of one response and then another complete response. Other servers send a new id, or a
/// role, with each chunk.
#[derive(Debug, Default)]
struct ResponseIdentity {
    id: String,
    /// Number of consecutive chunks with this id.
    chunk_count: usize,
    /// Number of chunks with a role.
    role_count: usize,
}

impl ResponseIdentity {
    /// Adds a chunk. Returns `true` if it starts another response.
    fn starts_new_response(&mut self, id: &str, has_role: bool) -> bool {
        self.role_count += usize::from(has_role);
        let is_other = !id.is_empty() && !self.id.is_empty() && id != self.id;
        let begins = is_other && has_role && self.role_count == 2 && self.chunk_count > 1;
        if self.id != id && !id.is_empty() {
            id.clone_into(&mut self.id);
            self.chunk_count = 0;
        }
        self.chunk_count += 1;
        begins
    }
}

/// Identifies a call. Some endpoints number calls from 1, some send no ids, and some use the same
/// index for all calls.
#[derive(Debug)]
struct StreamedCall {
    index: u64,
    id: String,
    arguments: String,
}

impl StreamedCall {
    /// Whether the arguments are complete, so that another fragment must belong to another call.
    fn is_complete(&self) -> bool {
        serde_json::from_str::<Map<String, Value>>(&self.arguments).is_ok()
    }
}

impl StreamReader for ChatReader {
    fn read(&mut self, event: &sse::Event) -> Result<Vec<Delta>, ReadError> {
        if event.data.trim().is_empty() {
            return Ok(Vec::new());
        }
        if event.data.trim() == "[DONE]" {
            self.reject_unreadable_calls()?;
            self.has_ended = true;
            let mut deltas = Vec::new();
            self.flush_pending_text(&mut deltas);
            deltas.extend(self.implicit_end());
            return Ok(deltas);
        }
        let wrong = |error: serde_json::Error| {
            ReadError::Corrupted(format!("a chunk is not JSON: {error}"))
        };
        let repaired;
        let parsed = match Fields::parse(&event.data).and_then(Chunk::read) {
            Err(_) => {
                repaired = lenient_json::repair(&event.data);
                Fields::parse(&repaired).and_then(Chunk::read)
            }
            parsed => parsed,
        };
        let chunk = match parsed {
            Ok(chunk) => chunk,
            // A JSON value that is not an object has no content, so skip it.
            Err(error) => serde_json::from_str::<IgnoredAny>(&event.data)
                .map(|_| Chunk::default())
                .map_err(|_| wrong(error))?,
        };
        if !chunk.error.is_null() {
            return Err(format!("error in the stream: {}", chunk.error).into());
        }
        let mut deltas = Vec::new();
        if !self.has_started {
            self.has_started = true;
            deltas.push(Delta::Started { model: chunk.model.into_owned() });
        }
        let choice = match &chunk.choices {
            Choices::PlainText(plain) => {
                self.reject_second_response(&chunk.id, plain.has_role, true)?;
                self.read_plain_text(&plain.text, &mut deltas);
                &Value::Null
            }
            Choices::Other(choices) => {
                self.read_choice(&choices[0], &chunk.id, &mut deltas)?;
                &choices[0]
            }
        };
        let usage = response::read_usage(&chunk.usage);
        deltas.extend(
            usage.or_else(|| response::nonstandard_usage(choice, &chunk.groq)).map(Delta::Usage),
        );
        Ok(deltas)
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn take_turn(&mut self) -> Vec<Value> {
        let ids: Vec<_> = self.calls.iter().map(|call| call.id.clone()).collect();
        std::mem::take(&mut self.turn).finish(&ids)
    }
}

/// The fields of a chunk that [`ChatReader`] uses.
#[derive(Debug, Default)]
struct Chunk<'a> {
    id: Cow<'a, str>,
    model: Cow<'a, str>,
    choices: Choices<'a>,
    usage: Value,
    groq: Value,
    error: Value,
}

impl<'a> Chunk<'a> {
    fn read(fields: Fields<'a>) -> serde_json::Result<Self> {
        Ok(Self {
            id: fields.text("id")?,
            model: fields.text("model")?,
            choices: Choices::read(&fields)?,
            usage: fields.value("usage")?,
            groq: fields.value("x_groq")?,
            error: match fields.value("error")? {
                Value::Null if fields.is_null("choices") => top_level_error(&fields)?,
                error => error,
            },
        })
    }
}

/// The choices of a chunk, of which only the first is used.
#[derive(Debug)]
enum Choices<'a> {
    PlainText(PlainText<'a>),
    Other(Value),
}

impl Default for Choices<'_> {
    fn default() -> Self {
        Self::Other(Value::Null)
    }
}

impl<'a> Choices<'a> {
    fn read(fields: &Fields<'a>) -> serde_json::Result<Self> {
        match fields.raw("choices").and_then(PlainText::read) {
            Some(plain) => Ok(Self::PlainText(plain)),
            None => fields.value("choices").map(Self::Other),
        }
    }
}

/// Returns an error from the event itself or from `detail`.
fn top_level_error(fields: &Fields<'_>) -> serde_json::Result<Value> {
    let detail = fields.value("detail")?;
    if !detail.is_null() {
        return Ok(detail);
    }
    let is_error = fields.value("object")? == "error" || fields.value("type")? == "error";
    if is_error { fields.value("message") } else { Ok(Value::Null) }
}

impl ChatReader {
    fn read_choice(
        &mut self,
        choice: &Value,
        response_id: &str,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ReadError> {
        response::reject_aborted(choice)?;
        // Some servers send the complete message instead of a delta.
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        let has_role = delta["role"].is_string();
        self.reject_second_response(response_id, has_role, delta["tool_calls"].is_null())?;
        self.read_delta(delta, deltas)?;
        if let Some(reason) = response::given_finish_reason(choice) {
            self.reject_unreadable_calls()?;
            // Some servers send `stop` with the first, empty chunk, so the last reason counts.
            if self.has_text || !self.calls.is_empty() || self.has_reasoning {
                self.flush_pending_text(deltas);
                self.has_finish_reason = true;
                deltas.push(Delta::Stopped(response::read_stop_reason(reason)));
            } else {
                self.early_finish_reason = Some(reason.to_owned());
            }
        }
        Ok(())
    }

    /// Returns an error if a chunk without calls starts another response after text.
    fn reject_second_response(
        &mut self,
        response_id: &str,
        has_role: bool,
        is_without_calls: bool,
    ) -> Result<(), ReadError> {
        let starts_new_response = self.identity.starts_new_response(response_id, has_role);
        if starts_new_response && self.has_text && self.calls.is_empty() && is_without_calls {
            let why = "another response started within the stream";
            return Err(ReadError::Corrupted(why.into()));
        }
        Ok(())
    }

    fn read_plain_text(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        let new = self.text.push(text);
        self.turn.add_text(&new);
        if !new.is_empty() {
            self.has_text = true;
            deltas.push(Delta::Text(new));
        }
    }

    /// Returns a delta without the text that earlier deltas already contained.
    fn strip_repeated_text<'a>(&mut self, delta: &'a Value) -> Cow<'a, Value> {
        let Some(piece) = delta["content"].as_str() else { return Cow::Borrowed(delta) };
        let new = self.text.push(piece);
        if new == piece {
            return Cow::Borrowed(delta);
        }
        let mut delta = delta.clone();
        delta["content"] = new.into();
        Cow::Owned(delta)
    }

    /// Emits the text that was held back until the end.
    fn flush_pending_text(&mut self, deltas: &mut Vec<Delta>) {
        let rest = self.text.take_pending_text();
        if !rest.is_empty() {
            self.turn.add_text(&rest);
            deltas.push(Delta::Text(rest));
        }
    }

    /// Returns the end delta of a stream whose only end marker is `[DONE]`. Returns `None` if the
    /// stream has no content or ends partway through a call, because such a stream was cut off.
    fn implicit_end(&mut self) -> Option<Delta> {
        let whole = self.calls.iter().all(|call| call.arguments.is_empty() || call.is_complete());
        let says = self.has_text || !self.calls.is_empty();
        let early = self
            .early_finish_reason
            .take()
            .filter(|_| !says)
            .map(|reason| response::read_stop_reason(&reason));
        let unsaid = (!self.has_finish_reason && says && whole).then_some(StopReason::End);
        early.or(unsaid).map(Delta::Stopped)
    }

    /// Returns an error if the stream contained calls, but none of them could be read. Otherwise,
    /// the response would count as a turn in which the model called no tool.
    fn reject_unreadable_calls(&self) -> Result<(), ReadError> {
        if self.has_unreadable_call && self.calls.is_empty() {
            let why = "the response contains a tool call in an unknown form";
            return Err(ReadError::Corrupted(why.into()));
        }
        Ok(())
    }

    fn read_delta(&mut self, delta: &Value, deltas: &mut Vec<Delta>) -> Result<(), ReadError> {
        let new = self.strip_repeated_text(delta);
        let reads_function_call = self.calls.is_empty() || self.has_function_call;
        let standard = standardize_calls(&new, reads_function_call);
        let delta = &*standard;
        self.has_function_call |= reads_function_call
            && new["function_call"].is_object()
            && response::as_call_slice(&new["tool_calls"]).is_empty()
            && !response::as_call_slice(&delta["tool_calls"]).is_empty();
        self.has_unreadable_call |= has_unreadable_calls(delta);
        let thought = ["reasoning_content", "reasoning"];
        let thought = thought.iter().find_map(|name| delta[*name].as_str());
        let full = |text: &&str| !text.is_empty();
        deltas.extend(thought.filter(full).map(|text| Delta::Reasoning(text.to_owned())));
        response::read_content(&delta["content"], deltas);
        let refusal = delta["refusal"].as_str().filter(full);
        deltas.extend(refusal.map(|text| Delta::Refusal(text.to_owned())));
        for delta in deltas.iter() {
            self.has_text |= matches!(delta, Delta::Text(_) | Delta::Refusal(_));
            self.has_reasoning |= matches!(delta, Delta::Reasoning(_));
        }
        if let Some(fields) = delta.as_object() {
            self.turn.add_fields(fields);
        }
        // Keep vendor fields of any name, to send them back later.
        for (field, value) in delta.as_object().into_iter().flatten() {
            let empty = value.is_null() || value.as_str() == Some("") || *value == json!([]);
            if !response::NEUTRAL_FIELDS.contains(&field.as_str()) && !empty {
                deltas.push(Delta::Extra { field: field.clone(), value: value.clone() });
            }
        }
        for (place, call) in response::as_call_slice(&delta["tool_calls"]).iter().enumerate() {
            let key = call["index"].as_u64().unwrap_or(place as u64);
            let name = call["function"]["name"].as_str().filter(full);
            let id = call["id"].as_str().filter(full);
            let text = response::arguments_text(call);
            let known = self.calls.iter().rposition(|one| one.index == key);
            let known = known.filter(|at| {
                let before = &self.calls[*at];
                match (name, id) {
                    (None, _) => true,
                    // A name with a new id starts another call, even if its index is already used.
                    (Some(_), Some(id)) => before.id == id,
                    (Some(_), None) => text.is_empty() || !before.is_complete(),
                }
            });
            // The same call may be repeated at another index.
            let is_repeated = |before: &StreamedCall| {
                Some(before.id.as_str()) == id && before.is_complete() && before.arguments == text
            };
            if known.is_none() && name.is_some() && self.calls.iter().any(is_repeated) {
                continue;
            }
            let index = match (known, name) {
                (Some(index), _) => index,
                (None, Some(name)) => {
                    let index = self.calls.len();
                    let id = id.map_or_else(super::super::fresh_call_id, ToOwned::to_owned);
                    deltas.push(Delta::Call { index, id: id.clone(), name: name.to_owned() });
                    self.calls.push(StreamedCall { index: key, id, arguments: String::new() });
                    index
                }
                // Ignore an empty fragment at an index that has no call.
                (None, None) if text.is_empty() => {
                    self.has_unreadable_call |= !native::is_blank(call);
                    continue;
                }
                (None, None) => {
                    let why = "a tool call fragment without a function name";
                    return Err(ReadError::Corrupted(why.into()));
                }
            };
            self.turn.add_call(index, call, &text);
            if !text.is_empty() {
                self.calls[index].arguments.push_str(&text);
                deltas.push(Delta::Arguments { index, text });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::ToolCall;
    use serde_json::{Value, json};

    use super::ChatReader;
    use crate::{
        StreamReader as _,
        neutral::{CollectedResponse, StopReason},
        sse,
    };

    /// Returns the calls that are read from a stream with these fragments.
    fn read_calls(chunks: &[Value]) -> Vec<ToolCall> {
        let mut reader = ChatReader::default();
        let mut whole = CollectedResponse::default();
        for calls in chunks {
            let chunk = json!({"choices": [{"delta": {"tool_calls": calls}}]});
            let event = sse::parse_event(format!("data: {chunk}\n\n").into());
            let deltas = reader.read(&event).expect("a chunk");
            deltas.into_iter().for_each(|delta| whole.push(delta));
        }
        whole.to_model_response().tool_calls
    }

    #[test]
    fn stream_detects_a_second_response_by_ids_and_roles() {
        // Whether every chunk can be read. A chunk is given as its id and delta.
        let is_read = |chunks: &[(&str, Value)]| {
            let mut reader = ChatReader::default();
            chunks.iter().all(|(id, delta)| {
                let chunk = json!({"id": id, "choices": [{"delta": delta}]});
                reader.read(&sse::parse_event(format!("data: {chunk}\n\n").into())).is_ok()
            })
        };
        let (role, text) =
            (|| json!({"role": "assistant", "content": ""}), |text: &str| json!({"content": text}));
        let (one, two) = (text("I look at it."), text(" Then I write."));
        let again = [("a", role()), ("a", one.clone()), ("b", role()), ("b", one.clone())];
        assert!(!is_read(&again));
        // Each chunk has a different id, or a role.
        assert!(is_read(&[("a", role()), ("b", one.clone()), ("c", two.clone())]));
        let both = |text: &str| json!({"role": "assistant", "content": text});
        assert!(is_read(&[("a", both("I ")), ("a", both("look ")), ("b", both("at it."))]));
        assert!(is_read(&[("", role()), ("a", one), ("a", two)]));
    }

    #[test]
    fn complete_stream_may_end_without_a_finish_reason() {
        let stop = |deltas: &[Value]| {
            let mut reader = ChatReader::default();
            let mut whole = CollectedResponse::default();
            let chunks =
                deltas.iter().map(|delta| json!({"choices": [{"delta": delta}]}).to_string());
            for data in chunks.chain(["[DONE]".to_owned()]) {
                let event = sse::parse_event(format!("data: {data}\n\n").into());
                let deltas = reader.read(&event).expect("a chunk");
                deltas.into_iter().for_each(|delta| whole.push(delta));
            }
            whole.reported_stop
        };
        let call = |text: &str| json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": text}}]});
        assert_eq!(stop(&[json!({"content": "x"})]), Some(StopReason::End));
        assert_eq!(stop(&[call("{}")]), Some(StopReason::End));
        assert_eq!(stop(&[call("{\"x\": ")]), None, "a partial call was cut off");
        assert_eq!(stop(&[json!({"role": "assistant"})]), None, "nothing was written");
    }

    #[test]
    fn stream_reads_calls_in_other_forms() {
        let read = |deltas: &[Value]| {
            let (mut reader, mut whole) = (ChatReader::default(), CollectedResponse::default());
            for delta in deltas {
                let chunk = json!({"choices": [{"delta": delta}]});
                let event = sse::parse_event(format!("data: {chunk}\n\n").into());
                let deltas = reader.read(&event).expect("a chunk");
                deltas.into_iter().for_each(|delta| whole.push(delta));
            }
            let answer = whole.to_model_response();
            assert!(answer.extra.is_empty(), "{:?}", answer.extra);
            let calls: Vec<_> =
                answer.tool_calls.into_iter().map(|call| (call.name, call.arguments)).collect();
            (calls, reader.take_turn())
        };
        let call = |name: &str, arguments: &str| (name.to_owned(), arguments.to_owned());
        let bare = |name: &str| json!({"name": name, "arguments": "{}"});
        let (calls, _) = read(&[json!({"tool_calls": [bare("f"), bare("g")]})]);
        assert_eq!(calls, [call("f", "{}"), call("g", "{}")]);
        let (calls, _) =
            read(&[json!({"tool_calls": [bare("f")]}), json!({"tool_calls": [bare("f")]})]);
        assert_eq!(calls.len(), 2);
        let old = |function: Value| json!({"function_call": function});
        let (calls, turn) = read(&[
            json!({"tool_calls": [], "function_call": {"name": "f", "arguments": ""}}),
            old(json!({"arguments": "{\"x\":"})),
            old(json!({"arguments": " 1}"})),
        ]);
        assert_eq!(calls, [call("f", "{\"x\": 1}")]);
        assert_eq!(turn[0]["tool_calls"][0]["function"]["arguments"], "{\"x\": 1}");
        assert!(turn[0].get("function_call").is_none());
    }

    #[test]
    fn stream_whose_calls_cannot_be_read_is_corrupted() {
        let is_read = |delta: Value| {
            let mut reader = ChatReader::default();
            let chunk = json!({"choices": [{"delta": delta, "finish_reason": "stop"}]});
            reader.read(&sse::parse_event(format!("data: {chunk}\n\n").into())).is_ok()
        };
        let call = |call: Value| json!({"content": "I look.", "tool_calls": [call]});
        assert!(!is_read(call(json!({"tool": {"command": "ls"}}))));
        assert!(!is_read(json!({"content": "I look.", "tool_calls": "shell(ls)"})));
        assert!(is_read(json!({"content": "I look.", "tool_calls": [], "function_call": null})));
        let empty =
            json!({"id": "", "type": "function", "function": {"name": "", "arguments": ""}});
        assert!(is_read(call(empty)), "some servers add a call without content");
    }

    #[test]
    fn turn_joins_reasoning_around_empty_text() {
        let thought =
            |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
        let text = |text: &str| json!({"type": "text", "text": text});
        let mut reader = ChatReader::default();
        for content in [
            json!(""),
            json!([thought("I ")]),
            json!(""),
            json!([text("")]),
            json!([thought("look.")]),
            json!([text("It is ")]),
            json!("here."),
        ] {
            let chunk = json!({"choices": [{"delta": {"content": content}}]});
            let event = sse::parse_event(format!("data: {chunk}\n\n").into());
            reader.read(&event).expect("a chunk");
        }
        let content = json!([thought("I look."), text("It is here.")]);
        assert_eq!(reader.take_turn(), [json!({"content": content, "role": "assistant"})]);
    }

    #[test]
    fn stream_separates_calls_with_the_same_index_by_id() {
        let call = |place: Value, id: &str, text: &str| {
            let mut call = json!({"id": id, "function": {"name": "f", "arguments": text}});
            if !place.is_null() {
                call["index"] = place;
            }
            json!([call])
        };
        for place in [json!(0), json!(null)] {
            let read = read_calls(&[call(place.clone(), "a", "{}"), call(place, "b", "[]")]);
            let read: Vec<_> = read.iter().map(|one| (&*one.id, &*one.arguments)).collect();
            assert_eq!(read, [("a", "{}"), ("b", "[]")]);
        }
        // Some servers repeat the id and the name with each fragment. Others send the id once.
        for again in [
            call(json!(0), "a", "2]"),
            call(json!(0), "", "2]"),
            json!([{"index": 0,
            "function": {"arguments": "2]"}}]),
        ] {
            let read = read_calls(&[call(json!(0), "a", "[1,"), again]);
            assert_eq!((read.len(), &*read[0].arguments), (1, "[1,2]"));
        }
    }
}
