//! Stores the model's turns in a trial exactly as the endpoint wrote them.
//!
//! A client never sees data that its own format cannot express, and some clients drop unknown
//! fields. The gateway therefore stores each turn and sends it to the endpoint instead of the
//! client's version.

use std::collections::HashMap;

use proctor_types::{Api, NativeTurn, ToolCall};
use serde_json::{Map, Value};

use crate::codec::{
    Part, Request, Role,
    neutral::{CollectedResponse, Item, Turn},
};

/// The model's turns, indexed by the id of their first call, or by their text if they have no
/// calls.
#[derive(Debug, Default)]
pub(crate) struct NativeTurns {
    stored_turns: Vec<StoredTurn>,
    by_call: HashMap<String, usize>,
    by_text: HashMap<String, usize>,
}

#[derive(Debug)]
struct StoredTurn {
    calls: Vec<ToolCall>,
    text: String,
    native_turn: NativeTurn,
}

impl NativeTurns {
    /// Keeps the turn of a response, if it has calls or text.
    pub(crate) fn store(&mut self, response: &CollectedResponse) {
        let Some(native) = response.native_turn.clone().filter(|native| !native.items.is_empty())
        else {
            return;
        };
        let text = response.items.iter().filter_map(|item| match item {
            Item::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let text = text.collect::<String>().trim().to_owned();
        let calls: Vec<_> = response.calls().cloned().collect();
        let at = self.stored_turns.len();
        match calls.first() {
            Some(first) => drop(self.by_call.insert(first.id.clone(), at)),
            None if text.is_empty() => return,
            None => drop(self.by_text.insert(text.clone(), at)),
        }
        self.stored_turns.push(StoredTurn { calls, text, native_turn: native });
    }

    /// Returns the turn with the given calls and text, if the client changed neither.
    fn find(&self, calls: &[ToolCall], text: &str) -> Option<&NativeTurn> {
        let text = text.trim();
        let at = match calls.first() {
            Some(first) => self.by_call.get(&first.id),
            None => self.by_text.get(text),
        };
        let kept = self.stored_turns.get(*at?)?;
        let same_calls = kept.calls.len() == calls.len()
            && kept.calls.iter().zip(calls).all(|(one, other)| {
                one.id == other.id
                    && one.name == other.name
                    && is_equivalent(&one.arguments, &other.arguments)
            });
        // A client may drop the text next to calls. The model does not need that text.
        let same_text = normalize_whitespace(text) == normalize_whitespace(&kept.text)
            || (text.is_empty() && !calls.is_empty());
        (same_calls && same_text).then_some(&kept.native_turn)
    }

    /// Restores the endpoint's own turns in a translated request.
    pub(crate) fn restore(&self, request: &mut Request) {
        if self.stored_turns.is_empty() {
            return;
        }
        let mut turns: Vec<Turn> = Vec::with_capacity(request.turns.len());
        let mut begun = 0;
        for turn in std::mem::take(&mut request.turns) {
            if turn.role != Role::Assistant {
                self.restore_last(&mut turns, begun);
                turns.push(turn);
                begun = turns.len();
                continue;
            }
            turns.push(turn);
        }
        self.restore_last(&mut turns, begun);
        request.turns = turns;
    }

    /// Replaces the assistant's turns from index `start` on with the stored turn. These turns are
    /// parts of one response that the Responses API split.
    fn restore_last(&self, turns: &mut Vec<Turn>, start: usize) {
        let parts = || turns[start..].iter().flat_map(|turn| &turn.parts);
        let calls: Vec<_> = parts()
            .filter_map(|part| match part {
                Part::Call(call) => Some(call.clone()),
                _ => None,
            })
            .collect();
        let texts = parts().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let text = texts.collect::<String>();
        let Some(native) = self.find(&calls, &text).cloned() else { return };
        let parts: Vec<_> = turns.drain(start..).flat_map(|turn| turn.parts).collect();
        turns.push(Turn { native_turn: Some(native), ..Turn::new(Role::Assistant, parts) });
    }

    /// Restores the endpoint's own turns in a request that is already in the endpoint's format.
    /// Returns whether the client had omitted something.
    pub(crate) fn restore_in_body(&self, api: Api, body: &mut Map<String, Value>) -> bool {
        match api {
            Api::Chat => self.restore_messages(body, |message| {
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                calls.filter_map(|call| call["id"].as_str().map(ToOwned::to_owned)).collect()
            }),
            Api::Messages => self.restore_messages(body, |message| {
                let blocks = message["content"].as_array().into_iter().flatten();
                let used = blocks.filter(|block| block["type"] == "tool_use");
                used.filter_map(|block| block["id"].as_str().map(ToOwned::to_owned)).collect()
            }),
            Api::Responses => self.restore_items(body),
            // Gemini's calls often have no ids, and its clients return parts unchanged, so there is
            // nothing to restore.
            Api::Gemini => false,
        }
    }

    fn restore_messages(
        &self,
        body: &mut Map<String, Value>,
        ids: impl Fn(&Value) -> Vec<String>,
    ) -> bool {
        let mut changed = false;
        for message in body.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if message["role"] != "assistant" {
                continue;
            }
            let Some(kept) = self.find_by_ids(&ids(message)) else { continue };
            let whole = match kept.api {
                Api::Chat => kept.items.first().cloned().unwrap_or_default(),
                _ => {
                    let mut whole = message.clone();
                    whole["content"] = kept.items.clone().into();
                    whole
                }
            };
            changed |= whole != *message;
            *message = whole;
        }
        changed
    }

    /// Replaces all items of a turn with the stored turn.
    fn restore_items(&self, body: &mut Map<String, Value>) -> bool {
        let Some(Value::Array(items)) = body.get_mut("input") else { return false };
        let own = |item: &Value| {
            matches!(item["type"].as_str(), Some("reasoning" | "function_call"))
                || item["role"] == "assistant"
        };
        let (mut out, mut changed) = (Vec::with_capacity(items.len()), false);
        let mut rest = std::mem::take(items).into_iter().peekable();
        while let Some(item) = rest.next() {
            if !own(&item) {
                out.push(item);
                continue;
            }
            let mut group = vec![item];
            while let Some(next) = rest.next_if(own) {
                group.push(next);
            }
            let ids: Vec<_> = group
                .iter()
                .filter_map(|item| item["call_id"].as_str().map(ToOwned::to_owned))
                .collect();
            match self.find_by_ids(&ids).filter(|kept| kept.items != group) {
                Some(kept) => {
                    changed = true;
                    out.extend(kept.items.iter().cloned());
                }
                None => out.extend(group),
            }
        }
        *items = out;
        changed
    }

    fn find_by_ids(&self, ids: &[String]) -> Option<&NativeTurn> {
        let kept = self.stored_turns.get(*self.by_call.get(ids.first()?)?)?;
        let same = kept.calls.iter().map(|call| &call.id).eq(ids.iter());
        same.then_some(&kept.native_turn)
    }
}

/// Whether two argument strings are equivalent. The text may differ because formats that use
/// objects reserialize them.
fn is_equivalent(first: &str, second: &str) -> bool {
    let object = |text: &str| match text.trim() {
        "" => Some(Value::Object(Map::new())),
        text => serde_json::from_str::<Value>(text).ok(),
    };
    first == second || object(first).is_some_and(|one| object(second).as_ref() == Some(&one)) || {
        // If the arguments are not JSON, an earlier translation may have wrapped them in an object
        // with a single field.
        let wrapped = |text: &str| {
            object(text).and_then(|value| Some(value.get("arguments")?.as_str()?.to_owned()))
        };
        wrapped(second).as_deref() == Some(first)
    }
}

fn normalize_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proctor_types::{Api, NativeTurn};
    use serde_json::{Value, json};

    use super::NativeTurns;
    use crate::codec::{self, Losses, neutral::CollectedResponse};

    fn store_message(message: &Value) -> NativeTurns {
        let body = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
        let mut whole = CollectedResponse::from_deltas(
            codec::read_response(Api::Chat, &body, 1).expect("an answer"),
        );
        let ids: Vec<_> = whole.calls().map(|call| call.id.clone()).collect();
        let items = codec::native_turn(Api::Chat, &body, &ids);
        whole.native_turn = Some(NativeTurn { api: Api::Chat, items });
        let mut turns = NativeTurns::default();
        turns.store(&whole);
        turns
    }

    fn call(arguments: &str) -> Value {
        json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments},
            "extra_content": {"google": {"thought_signature": "T"}}})
    }

    #[test]
    fn restore_recovers_the_endpoints_message_after_translation() {
        let message = json!({"role": "assistant", "content": null, "reasoning_content": "",
            "tool_calls": [call("{\"x\": 1}")]});
        let turns = store_message(&message);
        let client = json!({"max_tokens": 9, "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "y"}]},
        ]});
        let client = client.as_object().expect("an object");
        let mut request =
            codec::read_request(Api::Messages, client, &mut Losses::default()).expect("a request");
        turns.restore(&mut request);
        let sent =
            codec::write_request(Api::Chat, &request, &mut Losses::default()).expect("a body");
        assert_eq!(sent["messages"][1], message);
    }

    #[test]
    fn restore_leaves_a_turn_that_the_client_changed() {
        let turns = store_message(
            &json!({"role": "assistant", "content": null, "tool_calls": [call("{\"x\": 1}")]}),
        );
        let client = json!({"messages": [{"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 2}"}}]}]});
        let client = client.as_object().expect("an object");
        let mut request =
            codec::read_request(Api::Chat, client, &mut Losses::default()).expect("a request");
        turns.restore(&mut request);
        assert!(request.turns.iter().all(|turn| turn.native_turn.is_none()));
    }

    #[test]
    fn restore_in_body_adds_fields_that_a_client_left_out() {
        let turns = store_message(
            &json!({"role": "assistant", "content": null, "tool_calls": [call("{}")]}),
        );
        let mut short = call("{}");
        short.as_object_mut().expect("an object").remove("extra_content");
        let body =
            json!({"messages": [{"role": "assistant", "content": null, "tool_calls": [short]}]});
        let mut body = body.as_object().expect("an object").clone();
        assert!(turns.restore_in_body(Api::Chat, &mut body));
        assert_eq!(body["messages"][0]["tool_calls"][0], call("{}"));
        assert!(!turns.restore_in_body(Api::Chat, &mut body), "a second call restores nothing");
    }
}
