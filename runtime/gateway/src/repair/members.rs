//! Removes members (JSON fields) from the model's turns if an endpoint returns them but rejects
//! them in requests.

use proctor_types::Api;
use serde_json::{Map, Value};

use super::body::{change_assistant_messages, change_each, items};

/// Members that carry the content of the model's turn and are therefore never removed.
const ESSENTIAL_MEMBERS: [&str; 21] = [
    "role",
    "type",
    "content",
    "parts",
    "text",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "input",
    "args",
    "response",
    "output",
    "call_id",
    "tool_call_id",
    "tool_use_id",
    "summary",
    "thinking",
    "signature",
    "data",
    "thoughtsignature",
];

/// Members of an assistant message and of its calls that every chat endpoint supports.
const SUPPORTED_MEMBERS: [&str; 4] = ["role", "content", "tool_calls", "name"];
const SUPPORTED_CALL_MEMBERS: [&str; 3] = ["id", "type", "function"];

/// Removes a member from the model's turns and their parts, regardless of upper and lower case.
pub(super) fn drop_from_turns(api: Api, body: &mut Map<String, Value>, name: &str) -> bool {
    // In chat and Messages requests, keep the ids: results refer to calls by id.
    let is_id = name == "id" && matches!(api, Api::Chat | Api::Messages);
    if is_id || ESSENTIAL_MEMBERS.contains(&name) {
        return false;
    }
    let drop_parts = |turn: &mut Value, list: &str| {
        change_each(items(turn.get_mut(list)), |part| {
            let inner = part
                .get_mut("function")
                .is_some_and(|function| drop_member_ignoring_case(function, name));
            drop_member_ignoring_case(part, name) || inner
        })
    };
    match api {
        Api::Chat | Api::Messages => {
            let turns = items(body.get_mut("messages")).filter(|turn| turn["role"] == "assistant");
            change_each(turns, |turn| {
                let parts = drop_parts(turn, "content");
                let calls = drop_parts(turn, "tool_calls");
                drop_member_ignoring_case(turn, name) || parts || calls
            })
        }
        Api::Responses => {
            let is_own = |item: &&mut Value| {
                matches!(item["type"].as_str(), Some("reasoning" | "function_call"))
                    || item["role"] == "assistant"
            };
            change_each(items(body.get_mut("input")).filter(is_own), |item| {
                let parts = drop_parts(item, "content");
                drop_member_ignoring_case(item, name) || parts
            })
        }
        // Also remove the member from results, because results repeat the ids of their calls.
        Api::Gemini => change_each(items(body.get_mut("contents")), |content| {
            change_each(items(content.get_mut("parts")), |part| {
                let call = part
                    .get_mut("functionCall")
                    .is_some_and(|call| drop_member_ignoring_case(call, name));
                let result = part.get_mut("functionResponse");
                let result = result.is_some_and(|result| drop_member_ignoring_case(result, name));
                drop_member_ignoring_case(part, name) || call || result
            })
        }),
    }
}

/// Keeps only the members of assistant messages that every chat endpoint supports.
pub(super) fn keep_supported_members(body: &mut Map<String, Value>) -> bool {
    change_assistant_messages(body, |message| {
        let before = message.len();
        message.retain(|name, _| SUPPORTED_MEMBERS.contains(&name.as_str()));
        let calls = change_each(items(message.get_mut("tool_calls")), |call| {
            let Some(fields) = call.as_object_mut() else { return false };
            let before = fields.len();
            fields.retain(|name, _| SUPPORTED_CALL_MEMBERS.contains(&name.as_str()));
            fields.len() < before
        });
        message.len() < before || calls
    })
}

/// Removes a member from an object, regardless of upper and lower case. Returns whether it existed.
fn drop_member_ignoring_case(value: &mut Value, name: &str) -> bool {
    let Some(fields) = value.as_object_mut() else { return false };
    let before = fields.len();
    fields.retain(|field, _| !field.eq_ignore_ascii_case(name));
    fields.len() < before
}

#[cfg(test)]
mod tests {
    use proctor_types::Api;
    use serde_json::{Value, json};

    use super::{drop_from_turns, keep_supported_members};

    fn try_drop(api: Api, name: &str, body: Value) -> Option<Value> {
        let mut body = body.as_object().expect("an object").clone();
        drop_from_turns(api, &mut body, name).then(|| body.into())
    }

    #[test]
    fn drop_from_turns_changes_only_the_models_turns() {
        let call = |more: Value| {
            let mut call = json!({"id": "a", "function": {"name": "f", "arguments": "{}"}});
            call["approxNumTokens"] = more;
            json!({"messages": [{"role": "user", "approxNumTokens": 1}, {"role": "assistant", "tool_calls": [call]}]})
        };
        let mut wanted = call(json!(0));
        wanted["messages"][1]["tool_calls"][0]
            .as_object_mut()
            .expect("an object")
            .remove("approxNumTokens");
        assert_eq!(try_drop(Api::Chat, "approxnumtokens", call(json!(0))), Some(wanted));
        let used = json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "caller": {}}]}]});
        let wanted = json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}]});
        assert_eq!(try_drop(Api::Messages, "caller", used.clone()), Some(wanted));
        assert_eq!(try_drop(Api::Messages, "id", used), None, "results are matched by id");
        let items = json!({"input": [{"role": "user", "status": "x"}, {"type": "function_call", "call_id": "a", "status": "completed"}]});
        let wanted = json!({"input": [{"role": "user", "status": "x"}, {"type": "function_call", "call_id": "a"}]});
        assert_eq!(try_drop(Api::Responses, "status", items.clone()), Some(wanted));
        assert_eq!(try_drop(Api::Responses, "call_id", items), None);
        let parts = json!({"contents": [{"role": "model", "parts": [{"functionCall": {"id": "a", "name": "f"}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "f"}}]}]});
        let wanted = json!({"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f"}}]}]});
        assert_eq!(try_drop(Api::Gemini, "id", parts), Some(wanted));
    }

    #[test]
    fn members_that_every_endpoint_supports_are_kept() {
        let call =
            json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let mut marked = call.clone();
        marked["extra_content"] = json!({"x": 1});
        let body = json!({"messages": [{"role": "user", "reasoning": "x"},
            {"role": "assistant", "content": null, "reasoning": "hm", "tool_calls": [marked]}]});
        let mut body = body.as_object().expect("an object").clone();
        assert!(keep_supported_members(&mut body));
        let wanted = json!({"messages": [{"role": "user", "reasoning": "x"},
            {"role": "assistant", "content": null, "tool_calls": [call]}]});
        assert_eq!(Value::Object(body.clone()), wanted);
        assert!(!keep_supported_members(&mut body));
    }
}
