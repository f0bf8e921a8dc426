//! Detects when a cache on the route returns the response to an earlier request again.
//!
//! A semantic cache mistakes a request for an earlier one in the same conversation and replays the
//! earlier turn. The model never saw the later request, so it did not produce this turn.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::codec::neutral::{CollectedResponse, Item};

/// Minimum length of the random part of an id. Ids such as `chatcmpl-scripted-1` and `call_0` come
/// from a counter and can repeat.
const MIN_RANDOM_LENGTH: usize = 8;

/// Minimum number of bytes that another message adds to a request: its role and its braces.
const MIN_NEXT_MESSAGE_BYTES: usize = 20;

/// The responses that a trial has received.
#[derive(Debug, Default)]
pub(crate) struct ReceivedResponses {
    /// Responses by their id at the endpoint.
    by_id: HashMap<String, ReceivedResponse>,
    /// Responses by the id of their first call.
    by_call: HashMap<String, ReceivedResponse>,
    /// Whether the endpoint used the same id for two different responses.
    reuses_ids: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReceivedResponse {
    digest: u64,
    request_bytes: usize,
    /// Minimum size of a request that continues the conversation after this response.
    min_next_request_bytes: usize,
}

impl ReceivedResponse {
    fn new(response: &CollectedResponse, request_bytes: usize) -> Self {
        let content = |item: &Item| match item {
            Item::Text(text) | Item::Refusal(text) => text.len(),
            Item::Call(call) => call.arguments.len(),
            Item::Reasoning(_) => 0,
        };
        let content: usize = response.items.iter().map(content).sum();
        let min_next_request_bytes = request_bytes + content + MIN_NEXT_MESSAGE_BYTES;
        Self { digest: digest(response), request_bytes, min_next_request_bytes }
    }

    /// Whether `later` is the same response, returned for a later request in the conversation. If a
    /// client sends the same request twice, a cache may return the same response.
    fn is_replayed_by(&self, later: &Self) -> bool {
        self.digest == later.digest && later.request_bytes >= self.min_next_request_bytes
    }
}

impl ReceivedResponses {
    /// Whether the endpoint returned the same content with the same unique ids for an earlier
    /// request.
    pub(crate) fn is_replay(
        &self,
        id: Option<&str>,
        response: &CollectedResponse,
        request_bytes: usize,
    ) -> bool {
        if self.reuses_ids || self.by_id.is_empty() && self.by_call.is_empty() {
            return false;
        }
        let reply = ReceivedResponse::new(response, request_bytes);
        let by_id = unique_id(id).and_then(|id| self.by_id.get(id));
        match (by_id, unique_call_id(response)) {
            // A repeated response id alone is weak evidence of a replay. It is sufficient if the
            // response has no call, because accepting such a response would end the conversation.
            (Some(before), None) => before.is_replayed_by(&reply),
            (_, Some(call)) => {
                self.by_call.get(call).is_some_and(|before| before.is_replayed_by(&reply))
            }
            (None, None) => false,
        }
    }

    /// Remembers a response that is delivered to the caller.
    pub(crate) fn add(
        &mut self,
        id: Option<&str>,
        response: &CollectedResponse,
        request_bytes: usize,
    ) {
        let reply = ReceivedResponse::new(response, request_bytes);
        let keep = |map: &mut HashMap<String, ReceivedResponse>, id: &str| {
            let before = map.insert(id.to_owned(), reply);
            before.is_some_and(|before| before.digest != reply.digest)
        };
        if let Some(id) = unique_id(id) {
            self.reuses_ids |= keep(&mut self.by_id, id);
        }
        if let Some(call) = unique_call_id(response) {
            self.reuses_ids |= keep(&mut self.by_call, call);
        }
    }
}

/// Returns the id of the first call, if it looks unique. Kimi's ids consist of the tool's name and
/// a counter that restarts.
fn unique_call_id(response: &CollectedResponse) -> Option<&str> {
    let call = response.calls().next()?;
    let is_own = looks_unique(&call.id) && !call.id.contains(call.name.as_str());
    is_own.then_some(call.id.as_str())
}

/// Returns the id of a response, if it looks unique.
pub(crate) fn unique_id(id: Option<&str>) -> Option<&str> {
    id.filter(|id| looks_unique(id))
}

/// Whether an id has a random part: digits mixed with letters.
fn looks_unique(id: &str) -> bool {
    id.split(|one: char| !one.is_ascii_alphanumeric()).any(|part| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        part.len() >= MIN_RANDOM_LENGTH && digits >= 2 && part.len() - digits >= 2
    })
}

/// Returns a digest of a response's content, without ids.
pub(crate) fn digest(response: &CollectedResponse) -> u64 {
    let mut hasher = DefaultHasher::new();
    for item in &response.items {
        match item {
            Item::Text(text) => (0_u8, text).hash(&mut hasher),
            Item::Refusal(text) => (1_u8, text).hash(&mut hasher),
            Item::Reasoning(thought) => (2_u8, &thought.text).hash(&mut hasher),
            Item::Call(call) => (3_u8, &call.name, &call.arguments).hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proctor_types::ToolCall;

    use super::*;

    fn turn(id: &str, command: &str) -> CollectedResponse {
        let call = ToolCall { id: id.into(), name: "shell".into(), arguments: command.into() };
        CollectedResponse { items: vec![Item::Call(call)], ..CollectedResponse::default() }
    }

    #[test]
    fn equal_turns_with_equal_unique_ids_are_replays() {
        let mut replies = ReceivedResponses::default();
        let first = turn("call_8f3b21aa", "ls");
        assert!(!replies.is_replay(Some("chatcmpl-91b7c2d05e"), &first, 100));
        replies.add(Some("chatcmpl-91b7c2d05e"), &first, 100);
        assert!(replies.is_replay(Some("chatcmpl-91b7c2d05e"), &first, 150));
        assert!(!replies.is_replay(Some("chatcmpl-91b7c2d05e"), &first, 100), "the same request");
        // The model repeats itself, under a new id.
        assert!(!replies.is_replay(Some("chatcmpl-33d0e7f18a"), &turn("call_77c1d2ab", "ls"), 150));
        // If ids come from a counter that restarts in each response, equal ids are not evidence of
        // a replay.
        for id in ["call_0", "call_000000000001", "functions.shell:0", "0", ""] {
            let mut replies = ReceivedResponses::default();
            replies.add(Some("chatcmpl-scripted-1"), &turn(id, "ls"), 100);
            assert!(!replies.is_replay(Some("chatcmpl-scripted-1"), &turn(id, "ls"), 150), "{id}");
        }
        // If the server used one id for two different responses, equal ids are not evidence either.
        replies.add(Some("chatcmpl-91b7c2d05e"), &turn("call_8f3b21aa", "pwd"), 200);
        assert!(!replies.is_replay(Some("chatcmpl-91b7c2d05e"), &first, 250));
    }
}
