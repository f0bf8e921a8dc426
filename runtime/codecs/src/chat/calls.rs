//! Converts calls from nonstandard forms to the standard form.
//!
//! Some proxies send the bare function, without `function` around its name and arguments. Older
//! servers send a single call as `function_call`.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::response::as_call_slice;
use crate::native;

/// Members that contain the arguments of a bare function.
const ARGUMENT_MEMBERS: [&str; 3] = ["arguments", "parameters", "input"];

/// Returns a message, or a fragment of one, with its calls in the standard form.
/// `reads_function_call` is `false` if an earlier fragment contained calls as `tool_calls`. A
/// `function_call` then only repeats one of them.
pub(super) fn standardize_calls(message: &Value, reads_function_call: bool) -> Cow<'_, Value> {
    let calls = as_call_slice(&message["tool_calls"]);
    let function = &message["function_call"];
    if reads_function_call && calls.is_empty() && function.is_object() {
        let mut message = message.clone();
        if let Some(fields) = message.as_object_mut() {
            fields.remove("function_call");
            // Some servers send an object without content if there is no call.
            if names_function(function) || !native::is_blank(function) {
                fields.insert("tool_calls".into(), json!([{"function": function}]));
            }
        }
        return Cow::Owned(message);
    }
    if !calls.iter().any(is_bare) {
        return Cow::Borrowed(message);
    }
    let calls: Vec<Value> = calls.iter().map(wrap_bare_call).collect();
    let mut message = message.clone();
    message["tool_calls"] = calls.into();
    Cow::Owned(message)
}

/// Whether the fields for a message's calls have content that cannot be read as a call.
pub(super) fn has_unreadable_calls(message: &Value) -> bool {
    let (calls, function) = (&message["tool_calls"], &message["function_call"]);
    let is_unread = |value: &Value, is_call: bool| !is_call && !native::is_blank(value);
    is_unread(calls, !as_call_slice(calls).is_empty()) || is_unread(function, function.is_object())
}

fn names_function(function: &Value) -> bool {
    function["name"].as_str().is_some_and(|name| !name.is_empty())
}

/// Whether a call is bare, that is, contains its function's name and arguments directly.
fn is_bare(call: &Value) -> bool {
    let has = |member: &&str| call.get(*member).is_some_and(|value| !value.is_null());
    !call["function"].is_object()
        && (call["name"].is_string()
            || call["function"].is_string()
            || ARGUMENT_MEMBERS.iter().any(has))
}

/// Moves a bare call's name and arguments into `function`.
fn wrap_bare_call(call: &Value) -> Value {
    let (true, Some(members)) = (is_bare(call), call.as_object()) else { return call.clone() };
    let (mut members, mut function) = (members.clone(), Map::new());
    let name = members.remove("name").filter(Value::is_string);
    let name = name.or_else(|| members.remove("function")).filter(Value::is_string);
    if let Some(name) = name {
        function.insert("name".into(), name);
    }
    let arguments = ARGUMENT_MEMBERS.iter().find_map(|member| members.remove(*member));
    if let Some(arguments) = arguments {
        function.insert("arguments".into(), arguments);
    }
    members.insert("function".into(), function.into());
    members.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{has_unreadable_calls, standardize_calls};

    #[test]
    fn standardize_calls_wraps_bare_functions() {
        let standard = json!({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]});
        for message in [
            standard.clone(),
            json!({"tool_calls": [{"name": "f", "arguments": "{}"}]}),
            json!({"tool_calls": {"name": "f", "parameters": "{}"}}),
            json!({"tool_calls": [{"function": "f", "arguments": "{}"}]}),
            json!({"function_call": {"name": "f", "arguments": "{}"}}),
            json!({"tool_calls": [], "function_call": {"name": "f", "arguments": "{}"}}),
        ] {
            let read = standardize_calls(&message, true);
            assert_eq!(read["tool_calls"], standard["tool_calls"], "{message}");
            assert!(read.get("function_call").is_none());
        }
    }

    #[test]
    fn standardize_calls_keeps_other_messages() {
        let call = json!({"id": "a", "function": {"name": "f", "arguments": "{}"}});
        for message in [
            json!({"content": "x", "function_call": null}),
            json!({"tool_calls": [call], "function_call": {"name": "f", "arguments": "{}"}}),
            json!({"tool_calls": [{"id": "a", "type": "function", "name": null}]}),
            json!(null),
        ] {
            assert_eq!(*standardize_calls(&message, true), message);
        }
        let repeated = json!({"function_call": {"name": "f", "arguments": "{}"}});
        assert_eq!(*standardize_calls(&repeated, false), repeated);
        let empty = json!({"content": "x", "function_call": {"name": "", "arguments": ""}});
        assert_eq!(*standardize_calls(&empty, true), json!({"content": "x"}));
    }

    #[test]
    fn has_unreadable_calls_finds_content_that_is_not_a_call() {
        assert!(has_unreadable_calls(&json!({"tool_calls": "f()"})));
        assert!(has_unreadable_calls(&json!({"function_call": ["f"]})));
        for message in
            [json!({"tool_calls": []}), json!({"tool_calls": null, "function_call": ""}), json!({})]
        {
            assert!(!has_unreadable_calls(&message), "{message}");
        }
    }
}
