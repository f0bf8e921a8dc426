//! Removes tools that the provider would run, because they bypass the proxy.

use proctor_types::Api;
use serde_json::{Map, Value};

use super::policy::WithholdPolicy;
use crate::codec::Losses;

pub(super) fn withhold_tools(
    policy: &WithholdPolicy,
    api: Api,
    body: &mut Map<String, Value>,
    losses: &mut Losses,
) {
    for field in &policy.fields {
        if body.get(field).is_some_and(|value| !value.is_null() && *value != Value::Bool(false)) {
            body.shift_remove(field);
            losses.add_withheld(field);
        }
    }
    let mut gone = Vec::new();
    if let Some(tools) = body.get_mut("tools").and_then(Value::as_array_mut) {
        gone = remove_disallowed(policy, api, tools, "tools", losses);
        if tools.is_empty() && !gone.is_empty() {
            body.shift_remove("tools");
        }
    }
    // The Responses API also allows tools in the conversation's items.
    for (index, item) in
        body.get_mut("input").and_then(Value::as_array_mut).into_iter().flatten().enumerate()
    {
        if let Some(tools) = item.get_mut("tools").and_then(Value::as_array_mut) {
            gone.extend(remove_disallowed(
                policy,
                api,
                tools,
                &format!("input[{index}].tools"),
                losses,
            ));
        }
    }
    // The endpoint would reject a `tool_choice` that names a removed tool, or a `tool_choice` in a
    // request without tools.
    let chosen = body.get("tool_choice").and_then(Value::as_object);
    let chosen = chosen.and_then(|choice| choice.get("type").or(choice.get("name")));
    let chosen = chosen.and_then(Value::as_str).unwrap_or_default();
    let empty = !gone.is_empty() && !body.contains_key("tools");
    if (gone.iter().any(|kind| kind == chosen) || empty)
        && body.shift_remove("tool_choice").is_some()
    {
        losses.add_withheld("tool_choice");
    }
}

/// Removes all `tools` that are not allowed. Returns their types.
fn remove_disallowed(
    policy: &WithholdPolicy,
    api: Api,
    tools: &mut Vec<Value>,
    location: &str,
    losses: &mut Losses,
) -> Vec<String> {
    let mut gone = Vec::new();
    let mut index = 0;
    tools.retain_mut(|tool| {
        let at = format!("{location}[{index}]");
        index += 1;
        if api == Api::Gemini {
            return remove_disallowed_gemini(policy, tool, &at, losses, &mut gone);
        }
        let kind = tool["type"].as_str().unwrap_or_default().to_owned();
        if !policy.allows(&kind) {
            losses.add_withheld(format!("{at} {kind}"));
            gone.push(kind);
            return false;
        }
        // An allowed group of tools may contain tools that are not allowed.
        if let Some(inner) = tool.get_mut("tools").and_then(Value::as_array_mut) {
            gone.extend(remove_disallowed(policy, api, inner, &format!("{at}.tools"), losses));
        }
        true
    });
    gone
}

/// Removes the tools that are not allowed from a Gemini object, which has one key per tool. Returns
/// whether to keep the object.
fn remove_disallowed_gemini(
    policy: &WithholdPolicy,
    tool: &mut Value,
    location: &str,
    losses: &mut Losses,
    removed_types: &mut Vec<String>,
) -> bool {
    let Some(object) = tool.as_object_mut() else { return false };
    let before = object.len();
    object.retain(|key, _| {
        let allowed = policy.allows(key);
        if !allowed {
            losses.add_withheld(format!("{location}.{key}"));
            removed_types.push(key.clone());
        }
        allowed
    });
    !object.is_empty() || before == 0
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proctor_types::{Api, FieldLossKind};
    use serde_json::{Value, json};

    use super::withhold_tools;
    use crate::{codec::Losses, server::policy::ServerPolicy};

    fn withhold(api: Api, mut body: Value) -> (Value, Vec<String>) {
        let policy = ServerPolicy::shipped().expect("a valid policy");
        let mut losses = Losses::default();
        let object = body.as_object_mut().expect("an object");
        withhold_tools(
            policy.withhold_policy(api).expect("a policy for each API"),
            api,
            object,
            &mut losses,
        );
        let removed = losses.into_vec();
        assert!(removed.iter().all(|loss| loss.kind == FieldLossKind::Withheld));
        (body, removed.into_iter().map(|loss| loss.field).collect())
    }

    #[test]
    fn tools_that_the_client_runs_stay() {
        for (api, body) in [
            (Api::Chat, json!({"tools": [{"type": "function"}], "tool_choice": "required"})),
            (
                Api::Responses,
                json!({"tools": [
                {"type": "custom"}, {"type": "namespace", "tools": [{"type": "function"}]}]}),
            ),
            (Api::Messages, json!({"tools": [{"name": "f"}, {"type": "bash_20250124"}]})),
            (Api::Gemini, json!({"tools": [{"functionDeclarations": []}]})),
        ] {
            assert_eq!(withhold(api, body.clone()), (body, Vec::new()));
        }
    }

    #[test]
    fn tools_that_the_provider_runs_are_withheld() {
        let responses = [
            "web_search",
            "web_search_preview",
            "file_search",
            "code_interpreter",
            "computer_use_preview",
            "image_generation",
            "mcp",
            "of_the_future",
        ];
        for kind in responses {
            let (body, removed) = withhold(
                Api::Responses,
                json!({"tools": [{"type": "function"}, {"type": kind}],
                       "tool_choice": {"type": kind}}),
            );
            assert_eq!(body, json!({"tools": [{"type": "function"}]}));
            assert_eq!(removed, [format!("tools[1] {kind}"), "tool_choice".to_owned()]);
        }
        for kind in [
            "web_search_20260209",
            "web_fetch_20250910",
            "code_execution_20250825",
            "computer_20251124",
            "mcp_toolset",
        ] {
            let (body, removed) = withhold(Api::Messages, json!({"tools": [{"type": kind}]}));
            assert_eq!((body, removed.len()), (json!({}), 1), "{kind}");
        }
        let (body, removed) = withhold(
            Api::Gemini,
            json!({"tools": [{"googleSearch": {}, "functionDeclarations": []}, {"urlContext": {}}]}),
        );
        assert_eq!(body, json!({"tools": [{"functionDeclarations": []}]}));
        assert_eq!(removed, ["tools[0].googleSearch", "tools[1].urlContext"]);
        let (body, removed) = withhold(Api::Chat, json!({"web_search_options": {}}));
        assert_eq!((body, removed.len()), (json!({}), 1));
        let (body, _) = withhold(Api::Messages, json!({"mcp_servers": [{"url": "https://h"}]}));
        assert_eq!(body, json!({}));
    }

    #[test]
    fn tools_in_groups_and_items_are_withheld() {
        let (body, removed) = withhold(
            Api::Responses,
            json!({"tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}],
                   "input": [{"type": "additional_tools", "tools": [{"type": "web_search"}]}]}),
        );
        assert_eq!(body["tools"][0]["tools"], json!([]));
        assert_eq!(body["input"][0]["tools"], json!([]));
        assert_eq!(removed, ["tools[0].tools[0] mcp", "input[0].tools[0] web_search"]);
    }
}
