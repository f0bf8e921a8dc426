//! The changes that a repair makes to a request's body.

use proctor_types::Api;
use serde_json::{Map, Value, json};

use super::{
    body::{change_assistant_messages, change_each, change_each_call, is_blank},
    ids, members, reasoning, schema, turns,
};
use crate::turns::NativeTurns;

/// The longest function name that all endpoints accept.
const MAX_NAME_LENGTH: usize = 64;

/// Name of the repair that turns off streaming.
pub(crate) const NO_STREAM: &str = "no_stream";

/// A repair with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repair {
    /// The repair's name in the record.
    pub name: String,
    pub action: Action,
}

/// All changes that a repair can make. Each change affects the form of a request, not its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Renames the output limit.
    RenameLimit { old_field: &'static str, new_field: &'static str },
    /// Lowers the output limit, in tokens. If `is_one_time` is set, the repair applies only to the
    /// current request.
    LowerOutputLimit { max_tokens: u64, is_one_time: bool },
    /// Sets an output limit, in tokens, if the request has none.
    SetOutputLimit(u64),
    /// Removes a top-level field of the body.
    DropField(String),
    /// Disables streaming.
    DisableStreaming,
    /// Enables streaming.
    EnableStreaming,
    /// Removes prompt cache breakpoints.
    DropCacheControl,
    /// Removes `strict` from tools.
    DropStrict,
    /// Restores parts of the model's turns that a client left out.
    RestoreTurns,
    /// Adds an empty `reasoning_content` to assistant messages without one.
    AddReasoningContent,
    /// Adds the signature that means "none" to the first call of each turn if it has no signature.
    SignUnsignedCalls,
    /// Removes a field from the model's turns and their parts, regardless of upper and lower case.
    DropTurnField(String),
    /// Removes fields of assistant messages that some chat endpoints do not support.
    KeepSupportedFields,
    /// Puts a placeholder into messages without text.
    AddPlaceholderText,
    /// Joins consecutive messages with the same role.
    MergeRoles,
    /// Inserts an assistant message between tool results and a user message.
    InsertTurnAfterTool,
    /// Puts each call of a turn into its own turn.
    SplitCalls,
    /// Joins system messages at the start of the conversation.
    MoveSystemFirst,
    /// Moves the system message to the start of the first user message.
    MergeSystemIntoUser,
    /// Removes an id from a Responses item if the id is too long or does not start with the prefix
    /// of the item's type.
    DropForeignItemIds,
    /// Removes ids of Responses items, and reasoning that becomes empty.
    DropItemIds,
    /// Removes encrypted reasoning, and reasoning that becomes empty.
    DropEncryptedReasoning,
    /// Removes encrypted reasoning, except from the newest Responses turn that has some.
    KeepNewestReasoning,
    /// Removes reasoning that is not followed by another item of its Responses turn.
    DropLoneReasoning,
    /// Repeats the reasoning of a Responses turn before each of its calls.
    RepeatReasoning,
    /// Removes thinking blocks from a Messages conversation if the endpoint rejects their
    /// signatures.
    DropThinking,
    /// Replaces the signatures of Gemini's turns with the one that means "none".
    ReplaceSignatures,
    /// Gives each call a unique id if the endpoint repeated one.
    MakeIdsUnique,
    /// Removes the reasoning of messages that also have text.
    DropReasoningBesideText,
    /// Adds the name of the called function to each tool result without one.
    NameToolResults,
    /// Puts each tool result that is JSON, but not an object, into an object.
    WrapJsonResults,
    /// Gives calls short ids.
    ShortenIds,
    /// Replaces invalid characters in the names of called functions.
    SanitizeNames,
    /// Wraps arguments that are not a JSON object.
    WrapArguments,
    /// Replaces lists of types in schemas with one type.
    CollapseTypeLists,
    /// Removes the schemas of tools without parameters.
    DropEmptySchemas,
    /// Removes a keyword, given in lower case, from tool schemas.
    DropSchemaKeyword(String),
}

impl Repair {
    /// Whether the repair also applies to later requests.
    pub(crate) fn is_lasting(&self) -> bool {
        // Don't repeat these repairs: an endpoint that cannot decrypt old reasoning may still
        // decrypt new reasoning.
        let once = matches!(
            self.action,
            Action::LowerOutputLimit { is_one_time: true, .. }
                | Action::DropEncryptedReasoning
                | Action::DropThinking
                | Action::ReplaceSignatures
        );
        !once
    }

    /// Applies the repair to a body. Returns whether anything changed.
    pub(crate) fn apply(
        &self,
        api: Api,
        body: &mut Map<String, Value>,
        native_turns: &NativeTurns,
    ) -> bool {
        match &self.action {
            Action::RenameLimit { old_field: from, new_field: to } => {
                match body.shift_remove(*from) {
                    Some(limit) => {
                        body.insert((*to).into(), limit);
                        true
                    }
                    None => false,
                }
            }
            Action::LowerOutputLimit { max_tokens: most, .. } => {
                lower_output_limit(api, body, *most)
            }
            Action::SetOutputLimit(limit) => set_output_limit(api, body, *limit),
            Action::DropField(name) => body.shift_remove(name).is_some(),
            Action::DisableStreaming => {
                let streams = body.get("stream") == Some(&true.into())
                    && body.shift_remove("stream").is_some();
                let options = body.shift_remove("stream_options").is_some();
                streams || options
            }
            Action::EnableStreaming => {
                if body.get("stream") == Some(&true.into()) {
                    return false;
                }
                body.insert("stream".into(), true.into());
                if api == Api::Chat {
                    body.insert("stream_options".into(), json!({"include_usage": true}));
                }
                true
            }
            Action::DropCacheControl => drop_field_everywhere(body, "cache_control"),
            Action::DropStrict => {
                body.get_mut("tools").is_some_and(|tools| schema::drop_key(tools, "strict"))
            }
            Action::RestoreTurns => native_turns.restore_in_body(api, body),
            Action::AddReasoningContent => change_assistant_messages(body, |message| {
                let missing = !message.contains_key("reasoning_content");
                if missing {
                    message.insert("reasoning_content".into(), "".into());
                }
                missing
            }),
            Action::SignUnsignedCalls => reasoning::sign_unsigned_calls(api, body),
            Action::DropTurnField(name) => members::drop_from_turns(api, body, name),
            Action::KeepSupportedFields => members::keep_supported_members(body),
            Action::AddPlaceholderText => turns::fill_empty_turns(api, body),
            Action::MergeRoles => turns::merge_roles(body),
            Action::InsertTurnAfterTool => turns::insert_turn_after_tool(body),
            Action::SplitCalls => turns::split_calls(body),
            Action::MoveSystemFirst => turns::move_system_first(body),
            Action::MergeSystemIntoUser => turns::merge_system_into_user(body),
            Action::DropForeignItemIds => ids::drop_foreign_item_ids(body),
            Action::DropItemIds => ids::drop_item_ids(body),
            Action::DropEncryptedReasoning => reasoning::drop_encrypted_reasoning(body),
            Action::KeepNewestReasoning => reasoning::keep_newest_reasoning(body),
            Action::DropLoneReasoning => reasoning::drop_lone_reasoning(body),
            Action::RepeatReasoning => reasoning::repeat_reasoning_before_calls(body),
            Action::DropThinking => reasoning::drop_thinking(body),
            Action::ReplaceSignatures => reasoning::replace_signatures(api, body),
            Action::MakeIdsUnique => ids::make_ids_unique(body),
            Action::DropReasoningBesideText => change_assistant_messages(body, |message| {
                let text = message.get("content").is_some_and(|content| !is_blank(content));
                let names = ["reasoning_content", "reasoning", "reasoning_details", "thinking"];
                text && names.iter().filter(|name| message.shift_remove(**name).is_some()).count()
                    > 0
            }),
            Action::NameToolResults => turns::name_tool_results(body),
            Action::WrapJsonResults => turns::wrap_json_results(body),
            Action::ShortenIds => ids::shorten_ids(body),
            Action::SanitizeNames => change_each_call(body, |call| {
                let Some(Value::String(name)) = call.get_mut("name") else { return false };
                let plain: String = name
                    .chars()
                    .map(
                        |c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' },
                    )
                    .take(MAX_NAME_LENGTH)
                    .collect();
                let plain = if plain.is_empty() { "unknown".to_owned() } else { plain };
                let changed = plain != *name;
                *name = plain;
                changed
            }),
            Action::WrapArguments => change_each_call(body, |call| {
                let Some(Value::String(text)) = call.get_mut("arguments") else { return false };
                if serde_json::from_str::<Map<String, Value>>(text).is_ok() {
                    return false;
                }
                let blank = text.trim().is_empty();
                *text =
                    if blank { "{}".to_owned() } else { json!({"arguments": text}).to_string() };
                true
            }),
            Action::CollapseTypeLists => {
                body.get_mut("tools").is_some_and(schema::collapse_type_lists)
            }
            Action::DropEmptySchemas => {
                body.get_mut("tools").is_some_and(schema::drop_empty_schemas)
            }
            Action::DropSchemaKeyword(keyword) => {
                body.get_mut("tools").is_some_and(|tools| schema::drop_keyword(tools, keyword))
            }
        }
    }
}

fn lower_output_limit(api: Api, body: &mut Map<String, Value>, max_tokens: u64) -> bool {
    let names: &[&str] = match api {
        Api::Chat => &["max_completion_tokens", "max_tokens"],
        Api::Responses => &["max_output_tokens"],
        Api::Messages => &["max_tokens"],
        Api::Gemini => &["maxOutputTokens"],
    };
    let holder = match api {
        Api::Gemini => body.get_mut("generationConfig").and_then(Value::as_object_mut),
        _ => Some(body),
    };
    let Some(holder) = holder else { return false };
    let wanted = holder.iter_mut().filter(|(name, _)| names.contains(&name.as_str()));
    change_each(wanted.map(|(_, limit)| limit), |limit| {
        let lower = limit.as_u64().is_some_and(|limit| limit > max_tokens);
        if lower {
            *limit = max_tokens.into();
        }
        lower
    })
}

fn set_output_limit(api: Api, body: &mut Map<String, Value>, limit: u64) -> bool {
    let names: &[&str] = match api {
        Api::Chat => &["max_tokens", "max_completion_tokens"],
        Api::Responses => &["max_output_tokens"],
        Api::Gemini => {
            let holder = body.entry("generationConfig").or_insert_with(|| json!({}));
            let Some(holder) = holder.as_object_mut() else { return false };
            if holder.get("maxOutputTokens").is_some_and(|limit| !limit.is_null()) {
                return false;
            }
            holder.insert("maxOutputTokens".into(), limit.into());
            return true;
        }
        // Messages requests always have a limit.
        Api::Messages => return false,
    };
    if names.iter().any(|name| body.get(*name).is_some_and(|limit| !limit.is_null())) {
        return false;
    }
    body.insert(names[0].into(), limit.into());
    true
}

fn drop_field_everywhere(body: &mut Map<String, Value>, name: &str) -> bool {
    let dropped = body.shift_remove(name).is_some();
    let holders = body
        .iter_mut()
        .filter(|(field, _)| ["system", "messages", "tools"].contains(&field.as_str()));
    change_each(holders.map(|(_, value)| value), |value| schema::drop_key(value, name)) || dropped
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proctor_types::Api;
    use serde_json::{Value, json};

    use super::{Action, Repair};
    use crate::turns::NativeTurns;

    /// Applies an action, and checks that applying it again changes nothing.
    fn apply_twice(api: Api, action: Action, body: Value) -> Value {
        let repair = Repair { name: "r".into(), action };
        let mut body = body.as_object().expect("an object").clone();
        let changed = repair.apply(api, &mut body, &NativeTurns::default());
        let once = body.clone();
        assert!(changed, "{repair:?} changed nothing");
        assert!(
            !repair.apply(api, &mut body, &NativeTurns::default()),
            "{repair:?} is not idempotent"
        );
        assert_eq!(body, once);
        body.into()
    }

    #[test]
    fn limits_are_renamed_and_lowered() {
        let to =
            Action::RenameLimit { old_field: "max_tokens", new_field: "max_completion_tokens" };
        assert_eq!(
            apply_twice(Api::Chat, to, json!({"max_tokens": 5})),
            json!({"max_completion_tokens": 5})
        );
        let explicit = Action::SetOutputLimit(7);
        assert_eq!(
            apply_twice(Api::Responses, explicit, json!({"model": "m"})),
            json!({"model": "m", "max_output_tokens": 7})
        );
        assert_eq!(
            apply_twice(Api::Gemini, Action::SetOutputLimit(7), json!({"contents": []})),
            json!({"contents": [], "generationConfig": {"maxOutputTokens": 7}})
        );
        let most = Action::LowerOutputLimit { max_tokens: 3, is_one_time: false };
        let lowered = apply_twice(
            Api::Gemini,
            most.clone(),
            json!({"generationConfig": {"maxOutputTokens": 9}}),
        );
        assert_eq!(lowered, json!({"generationConfig": {"maxOutputTokens": 3}}));
        assert_eq!(
            apply_twice(Api::Messages, most, json!({"max_tokens": 9})),
            json!({"max_tokens": 3})
        );
    }

    #[test]
    fn turns_without_text_get_a_placeholder() {
        let body = json!({"messages": [
            {"role": "assistant", "content": ""},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]},
            {"role": "assistant", "content": "x"},
        ]});
        let wanted = json!({"messages": [
            {"role": "assistant", "content": "(no text)"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "a"}]},
            {"role": "assistant", "content": "x"},
        ]});
        let repair = Repair { name: "r".into(), action: Action::AddPlaceholderText };
        let mut body = body.as_object().expect("an object").clone();
        assert!(repair.apply(Api::Chat, &mut body, &NativeTurns::default()));
        assert_eq!(Value::Object(body), wanted);
    }

    #[test]
    fn roles_are_merged_and_separated() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let tool = json!({"role": "tool", "tool_call_id": "a", "content": "r"});
        let merged = apply_twice(
            Api::Chat,
            Action::MergeRoles,
            json!({"messages": [user("a"), user("b"), tool, user("c")]}),
        );
        assert_eq!(merged, json!({"messages": [user("a\n\nb"), tool, user("c")]}));
        let separated = apply_twice(
            Api::Chat,
            Action::InsertTurnAfterTool,
            json!({"messages": [tool, user("c")]}),
        );
        let between = json!({"role": "assistant", "content": "(no text)"});
        assert_eq!(separated, json!({"messages": [tool, between, user("c")]}));
        let system = json!({"role": "system", "content": "s"});
        let moved = apply_twice(
            Api::Chat,
            Action::MergeSystemIntoUser,
            json!({"messages": [system, user("a")]}),
        );
        assert_eq!(moved, json!({"messages": [user("s\n\na")]}));
        let system = |text: &str| json!({"role": "system", "content": text});
        let scattered = json!({"messages": [system("s"), user("a"), system("t"), user("b")]});
        let first = apply_twice(Api::Chat, Action::MoveSystemFirst, scattered);
        assert_eq!(first, json!({"messages": [system("s\n\nt"), user("a"), user("b")]}));
    }

    #[test]
    fn split_calls_gives_each_call_its_own_turn() {
        let call = |id: &str| json!({"id": id, "function": {"name": "f", "arguments": "{}"}});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
        let turn = |text: &str, calls: Value| json!({"role": "assistant", "content": text, "tool_calls": calls});
        let body = json!({"messages": [turn("x", json!([call("a"), call("b")])), result("b"), result("a"), turn("y", json!([call("c")]))]});
        let single = apply_twice(Api::Chat, Action::SplitCalls, body);
        let wanted = json!({"messages": [turn("x", json!([call("a")])), result("a"), turn("", json!([call("b")])),
            result("b"), turn("y", json!([call("c")]))]});
        assert_eq!(single, wanted);
    }

    #[test]
    fn tool_results_get_the_names_of_their_functions() {
        let call =
            |id: &str, name: &str| json!({"id": id, "function": {"name": name, "arguments": "{}"}});
        let turn =
            |calls: Value| json!({"role": "assistant", "content": null, "tool_calls": calls});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
        let named = |id: &str, name: &str| {
            let mut result = result(id);
            result["name"] = name.into();
            result
        };
        let (first, again) =
            (turn(json!([call("a", "f"), call("b", "g")])), turn(json!([call("a", "h")])));
        let body = json!({"messages": [first, result("b"), named("a", "own"), again, result("a"), result("x")]});
        let wanted = json!({"messages": [first, named("b", "g"), named("a", "own"), again,
            named("a", "h"), result("x")]});
        assert_eq!(apply_twice(Api::Chat, Action::NameToolResults, body), wanted);
    }

    #[test]
    fn tool_results_that_are_json_become_objects() {
        let messages = |texts: [&str; 5]| {
            let result = |text: &str| json!({"role": "tool", "tool_call_id": "a", "content": text});
            let user = json!({"role": "user", "content": "2"});
            let messages: Vec<Value> = texts.into_iter().map(result).chain([user]).collect();
            json!({ "messages": messages })
        };
        let body = messages(["2", "[1]", "{\"a\": 1}", "2 files", ""]);
        let wanted =
            messages(["{\"result\":\"2\"}", "{\"result\":\"[1]\"}", "{\"a\": 1}", "2 files", ""]);
        assert_eq!(apply_twice(Api::Chat, Action::WrapJsonResults, body), wanted);
    }

    #[test]
    fn ids_names_and_arguments_satisfy_strict_endpoints() {
        let body = json!({"messages": [
            {"role": "assistant", "tool_calls": [
                {"id": "call_0001", "function": {"name": "shell<|x|>", "arguments": "{\"a\": 1}\""}}]},
            {"role": "tool", "tool_call_id": "call_0001", "content": "r"},
        ]});
        let short = apply_twice(Api::Chat, Action::ShortenIds, body.clone());
        let id = short["messages"][0]["tool_calls"][0]["id"].as_str().expect("an id");
        assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        assert_eq!(short["messages"][1]["tool_call_id"], id);
        let plain = apply_twice(Api::Chat, Action::SanitizeNames, body.clone());
        assert_eq!(plain["messages"][0]["tool_calls"][0]["function"]["name"], "shell__x__");
        let json = apply_twice(Api::Chat, Action::WrapArguments, body);
        let arguments = &json["messages"][0]["tool_calls"][0]["function"]["arguments"];
        assert_eq!(*arguments, json!({"arguments": "{\"a\": 1}\""}).to_string());
    }

    #[test]
    fn repeated_ids_become_unique_and_foreign_ids_are_removed() {
        let used = json!({"type": "tool_use", "id": "a"});
        let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "r"});
        let body = json!({"messages": [{"role": "assistant", "content": [used, used]},
            {"role": "user", "content": [result, result]}, {"role": "assistant", "content": [used]}]});
        let repair = Repair { name: "r".into(), action: Action::MakeIdsUnique };
        let mut body = body.as_object().expect("an object").clone();
        assert!(repair.apply(Api::Messages, &mut body, &NativeTurns::default()));
        let ids = |message: usize, name: &str| -> Vec<String> {
            let blocks = body["messages"][message]["content"].as_array().expect("blocks");
            blocks.iter().map(|block| block[name].as_str().expect("an id").to_owned()).collect()
        };
        assert_eq!(
            (ids(0, "id"), ids(1, "tool_use_id")),
            (vec!["a".into(), "a_2".into()], vec!["a".into(), "a_2".into()])
        );
        assert_eq!(ids(2, "id"), ["a_3"]);
        let items = json!({"input": [{"type": "reasoning", "id": "x", "summary": [], "encrypted_content": "E"},
            {"type": "function_call", "id": "fc_1", "call_id": "c"}]});
        let own = apply_twice(Api::Responses, Action::DropForeignItemIds, items.clone());
        assert_eq!((own["input"][0].get("id"), &own["input"][1]["id"]), (None, &json!("fc_1")));
        let long = json!({"input": [{"type": "function_call", "id": format!("fc_{}", "1".repeat(70)), "call_id": "c"}]});
        let own = apply_twice(Api::Responses, Action::DropForeignItemIds, long);
        assert_eq!(own["input"][0].get("id"), None);
        let mut unkept = items.clone();
        unkept["input"][1] = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        let nameless = apply_twice(Api::Responses, Action::DropItemIds, unkept);
        let kept = json!([{"type": "reasoning", "summary": [], "encrypted_content": "E"}]);
        assert_eq!(nameless["input"], kept);
        let plain = apply_twice(Api::Responses, Action::DropEncryptedReasoning, items);
        assert_eq!(plain["input"].as_array().map(Vec::len), Some(1));
        let call = |id: &str| json!({"type": "function_call", "call_id": id});
        let thought = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        let result = json!({"type": "function_call_output", "call_id": "a"});
        let turn =
            json!({"input": [{"role": "user"}, thought, call("a"), call("b"), result, call("c")]});
        let each = apply_twice(Api::Responses, Action::RepeatReasoning, turn);
        let again = json!({"type": "reasoning", "summary": []});
        let wanted =
            json!([{"role": "user"}, thought, call("a"), again, call("b"), result, call("c")]);
        assert_eq!(each["input"], wanted);
        let thoughts = json!({"messages": [{"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "S"}, {"type": "redacted_thinking", "data": "D"},
            {"type": "tool_use", "id": "a"}]}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}]});
        let unsigned = apply_twice(Api::Messages, Action::DropThinking, thoughts);
        assert_eq!(unsigned["messages"][0]["content"], json!([{"type": "tool_use", "id": "a"}]));
        assert_eq!(unsigned["messages"][1]["content"].as_array().map(Vec::len), Some(1));
        let both = json!({"messages": [{"role": "assistant", "content": "x", "reasoning_content": "hm"},
            {"role": "assistant", "content": null, "reasoning_content": "hm"}]});
        let one = apply_twice(Api::Chat, Action::DropReasoningBesideText, both);
        assert_eq!(one["messages"][0].get("reasoning_content"), None);
        assert_eq!(one["messages"][1]["reasoning_content"], "hm");
    }

    #[test]
    fn reasoning_without_a_following_item_is_removed() {
        let thought = |id: &str| json!({"type": "reasoning", "id": id, "encrypted_content": "E"});
        let call = json!({"type": "function_call", "call_id": "a"});
        let result = json!({"type": "function_call_output", "call_id": "a"});
        let said = json!({"type": "message", "role": "assistant", "content": []});
        let user = json!({"role": "user", "content": "go"});
        let body = json!({"input": [user, thought("1"), thought("2"), call, thought("3"), result,
            thought("4"), user, thought("5"), said, thought("6")]});
        let kept =
            json!([user, thought("1"), thought("2"), call, result, user, thought("5"), said]);
        assert_eq!(apply_twice(Api::Responses, Action::DropLoneReasoning, body)["input"], kept);
    }

    #[test]
    fn only_the_newest_turn_keeps_encrypted_reasoning() {
        let thought = |id: &str| json!({"type": "reasoning", "id": id, "encrypted_content": "E"});
        let call = |id: &str| json!({"type": "function_call", "id": "fc", "call_id": id});
        let result = |id: &str| json!({"type": "function_call_output", "id": "r", "call_id": id});
        let plain = json!({"type": "function_call", "call_id": "a"});
        let newest = [thought("2"), call("b"), thought("3"), call("c"), result("b"), result("c")];
        let mut body = vec![json!({"role": "user"}), thought("1"), call("a"), result("a")];
        body.extend(newest.clone());
        let mut kept = vec![json!({"role": "user"}), plain, result("a")];
        kept.extend(newest.clone());
        let repair = Action::KeepNewestReasoning;
        let body = apply_twice(Api::Responses, repair.clone(), json!({"input": body}));
        assert_eq!(body["input"], json!(kept));
        let mut one = json!({"input": newest}).as_object().expect("an object").clone();
        let repair = Repair { name: "r".into(), action: repair };
        assert!(!repair.apply(Api::Responses, &mut one, &NativeTurns::default()));
    }

    #[test]
    fn fields_are_removed_at_every_level() {
        let body = json!({"messages": [{"role": "assistant", "content": "x", "reasoning": "hm",
            "tool_calls": [{"id": "a", "extra_content": {}}]}]});
        let repair =
            apply_twice(Api::Chat, Action::DropTurnField("reasoning".into()), body.clone());
        assert_eq!(repair["messages"][0].get("reasoning"), None);
        let repair = apply_twice(Api::Chat, Action::DropTurnField("extra_content".into()), body);
        assert_eq!(repair["messages"][0]["tool_calls"][0], json!({"id": "a"}));
        let cached = json!({"system": [{"text": "s", "cache_control": {}}], "messages": [
            {"role": "user", "content": [{"text": "t", "cache_control": {}}]}]});
        let plain = json!({"system": [{"text": "s"}], "messages": [{"role": "user", "content": [{"text": "t"}]}]});
        assert_eq!(apply_twice(Api::Messages, Action::DropCacheControl, cached), plain);
        let streamed = json!({"stream": true, "stream_options": {}, "n": 1});
        assert_eq!(apply_twice(Api::Chat, Action::DisableStreaming, streamed), json!({"n": 1}));
    }

    #[test]
    fn missing_signatures_and_reasoning_content_are_added() {
        let body =
            json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}]});
        let signed = apply_twice(Api::Chat, Action::SignUnsignedCalls, body.clone());
        let google = &signed["messages"][0]["tool_calls"][0]["extra_content"]["google"];
        assert!(google["thought_signature"].is_string());
        let thoughtful = apply_twice(Api::Chat, Action::AddReasoningContent, body);
        assert_eq!(thoughtful["messages"][0]["reasoning_content"], "");
    }
}
