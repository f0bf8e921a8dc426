//! Rejects conversations that a strict endpoint would reject. This catches scaffolds that omit tool
//! results, before they call any paid model.

use std::collections::HashSet;

use serde_json::Value;

/// Returns why a strict endpoint would reject the request with status 400. Returns `None` if it
/// would accept the request.
pub(crate) fn rejection_reason(request: &Value, strict: bool) -> Option<String> {
    let Some(messages) = request["messages"].as_array() else {
        return Some("'messages' must be an array".into());
    };
    if messages.is_empty() {
        return Some("'messages' must not be empty".into());
    }
    if !strict {
        return None;
    }
    let mut open: HashSet<&str> = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !open.remove(id) {
                return Some(format!(
                    "messages[{index}]: the tool result '{id}' does not match an open tool call"
                ));
            }
            continue;
        }
        if let Some(id) = open.iter().min() {
            return Some(format!(
                "messages[{index}]: expected the result of the tool call '{id}' before this message"
            ));
        }
        match role {
            "system" | "developer" | "user" => {
                if !message["content"].is_string() && !message["content"].is_array() {
                    return Some(format!("messages[{index}]: 'content' must be text"));
                }
            }
            "assistant" => {
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    if !call["function"]["arguments"].is_string() {
                        return Some(format!("messages[{index}]: 'arguments' must be a string"));
                    }
                    if !open.insert(call["id"].as_str().unwrap_or_default()) {
                        return Some(format!("messages[{index}]: a tool call id appears twice"));
                    }
                }
            }
            other => return Some(format!("messages[{index}]: unknown role '{other}'")),
        }
    }
    open.iter().min().map(|id| format!("the tool call '{id}' has no result"))
}
