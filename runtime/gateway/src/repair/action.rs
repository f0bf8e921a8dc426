//! What a repair does to the body of a request.

use std::collections::HashMap;

use proctor_types::Api;
use serde_json::{Map, Value, json};

use super::schema;
use crate::turns::Turns;

/// Stands where an endpoint wants a text and the model wrote none.
const PLACEHOLDER: &str = "(no text)";
/// Accepted by Gemini in place of the signature of a call that another model made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// Mistral's ids have exactly this length, in letters and digits. All other endpoints accept it.
const ID_LENGTH: usize = 9;
/// The longest name of a function that all endpoints accept.
const NAME_LENGTH: usize = 64;

/// A repair with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repair {
    /// As the record names it.
    pub name: String,
    pub action: Action,
}

/// The closed set of changes. Each changes the form of a request and none of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Gives the output limit another name.
    RenameLimit { from: &'static str, to: &'static str },
    /// Lowers the output limit, in tokens. `once`: for this request alone.
    OutputLimit { most: u64, once: bool },
    /// Leaves out a field at the top of the body.
    DropField(String),
    /// Asks for the response in one piece.
    NoStream,
    /// Leaves out the breakpoints of prompt caches.
    DropCacheControl,
    /// Leaves out `strict` of tools.
    DropStrict,
    /// Puts back what a client left out of the model's turns.
    RestoreTurns,
    /// Adds an empty `reasoning_content` to assistant messages that have none.
    EmptyReasoningContent,
    /// Adds the signature that stands for "none" to the first unsigned call of each turn.
    UnsignedCalls,
    /// Leaves a field out of assistant messages and their calls.
    DropTurnField(String),
    /// Puts a placeholder into messages without a text.
    PlaceholderTurn,
    /// Joins messages of one role that follow each other.
    MergeRoles,
    /// Puts an assistant message between the results of tools and a user message.
    TurnAfterTool,
    /// Puts the system message at the head of the first user message.
    SystemIntoUser,
    /// Leaves out ids of Responses items that do not have the prefix of their type.
    OwnItemIds,
    /// Leaves out encrypted reasoning, and reasoning of which nothing is left.
    NoEncryptedReasoning,
    /// Gives each call an id of its own where the endpoint repeated one.
    UniqueIds,
    /// Leaves out the reasoning of messages that have a text, too.
    TextOrReasoning,
    /// Gives calls short ids.
    ShortIds,
    /// Replaces characters in the names of called functions.
    PlainNames,
    /// Wraps arguments that are not a JSON object.
    JsonArguments,
    /// Replaces lists of types in schemas by one type.
    NoTypeLists,
    /// Leaves a keyword out of the schemas of tools. Lower case.
    DropSchemaKeyword(String),
}

impl Repair {
    /// Whether it holds for later requests, too.
    pub(crate) fn lasts(&self) -> bool {
        // An endpoint that cannot decrypt old reasoning may still decrypt new one.
        let once = matches!(
            self.action,
            Action::OutputLimit { once: true, .. } | Action::NoEncryptedReasoning
        );
        !once
    }

    /// Changes a body. `true`: something changed.
    pub(crate) fn apply(&self, api: Api, body: &mut Map<String, Value>, turns: &Turns) -> bool {
        match &self.action {
            Action::RenameLimit { from, to } => match body.shift_remove(*from) {
                Some(limit) => {
                    body.insert((*to).into(), limit);
                    true
                }
                None => false,
            },
            Action::OutputLimit { most, .. } => lower_limit(api, body, *most),
            Action::DropField(name) => body.shift_remove(name).is_some(),
            Action::NoStream => {
                let streams = body.shift_remove("stream") == Some(true.into());
                let options = body.shift_remove("stream_options").is_some();
                streams || options
            }
            Action::DropCacheControl => drop_everywhere(body, "cache_control"),
            Action::DropStrict => {
                body.get_mut("tools").is_some_and(|tools| schema::drop_key(tools, "strict"))
            }
            Action::RestoreTurns => turns.restore_in(api, body),
            Action::EmptyReasoningContent => on_assistants(body, |message| {
                let missing = !message.contains_key("reasoning_content");
                if missing {
                    message.insert("reasoning_content".into(), "".into());
                }
                missing
            }),
            Action::UnsignedCalls => unsigned_calls(api, body),
            Action::DropTurnField(name) => on_assistants(body, |message| {
                let dropped = message.shift_remove(name).is_some();
                let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
                calls
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_object_mut)
                    .fold(dropped, |dropped, call| call.shift_remove(name).is_some() || dropped)
            }),
            Action::PlaceholderTurn => placeholder_turns(api, body),
            Action::MergeRoles => merge_roles(body),
            Action::TurnAfterTool => turn_after_tool(body),
            Action::SystemIntoUser => system_into_user(body),
            Action::OwnItemIds => own_item_ids(body),
            Action::NoEncryptedReasoning => no_encrypted_reasoning(body),
            Action::UniqueIds => unique_ids(body),
            Action::TextOrReasoning => on_assistants(body, |message| {
                let text = message.get("content").is_some_and(|content| !is_blank(content));
                let names = ["reasoning_content", "reasoning", "reasoning_details", "thinking"];
                text && names.iter().filter(|name| message.shift_remove(**name).is_some()).count()
                    > 0
            }),
            Action::ShortIds => short_ids(body),
            Action::PlainNames => each_call(body, &mut |call| {
                let Some(Value::String(name)) = call.get_mut("name") else { return false };
                let plain: String = name
                    .chars()
                    .map(
                        |c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' },
                    )
                    .take(NAME_LENGTH)
                    .collect();
                let plain = if plain.is_empty() { "unknown".to_owned() } else { plain };
                let changed = plain != *name;
                *name = plain;
                changed
            }),
            Action::JsonArguments => each_call(body, &mut |call| {
                let Some(Value::String(text)) = call.get_mut("arguments") else { return false };
                if serde_json::from_str::<Map<String, Value>>(text).is_ok() {
                    return false;
                }
                let blank = text.trim().is_empty();
                *text =
                    if blank { "{}".to_owned() } else { json!({"arguments": text}).to_string() };
                true
            }),
            Action::NoTypeLists => body.get_mut("tools").is_some_and(schema::no_type_lists),
            Action::DropSchemaKeyword(keyword) => {
                body.get_mut("tools").is_some_and(|tools| schema::drop_keyword(tools, keyword))
            }
        }
    }
}

/// Where messages stand in a body. Absent for Gemini and Responses.
fn messages(body: &mut Map<String, Value>) -> Option<&mut Vec<Value>> {
    body.get_mut("messages")?.as_array_mut()
}

fn on_assistants(
    body: &mut Map<String, Value>,
    mut change: impl FnMut(&mut Map<String, Value>) -> bool,
) -> bool {
    let mut changed = false;
    for message in messages(body).into_iter().flatten() {
        if message["role"] == "assistant"
            && let Some(message) = message.as_object_mut()
        {
            changed |= change(message);
        }
    }
    changed
}

fn lower_limit(api: Api, body: &mut Map<String, Value>, most: u64) -> bool {
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
    let mut changed = false;
    for name in names {
        if let Some(limit) = holder.get_mut(*name)
            && limit.as_u64().is_some_and(|limit| limit > most)
        {
            *limit = most.into();
            changed = true;
        }
    }
    changed
}

fn drop_everywhere(body: &mut Map<String, Value>, name: &str) -> bool {
    let mut dropped = body.shift_remove(name).is_some();
    for field in ["system", "messages", "tools"] {
        if let Some(value) = body.get_mut(field) {
            dropped |= schema::drop_key(value, name);
        }
    }
    dropped
}

fn unsigned_calls(api: Api, body: &mut Map<String, Value>) -> bool {
    match api {
        Api::Chat => on_assistants(body, |message| {
            let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
            let Some(first) = calls.and_then(|calls| calls.first_mut()) else { return false };
            if first["extra_content"]["google"]["thought_signature"].is_string() {
                return false;
            }
            first["extra_content"] = json!({"google": {"thought_signature": NO_SIGNATURE}});
            true
        }),
        Api::Gemini => {
            let mut changed = false;
            let contents = body.get_mut("contents").and_then(Value::as_array_mut);
            for content in
                contents.into_iter().flatten().filter(|content| content["role"] == "model")
            {
                let parts = content.get_mut("parts").and_then(Value::as_array_mut);
                let call =
                    parts.into_iter().flatten().find(|part| part.get("functionCall").is_some());
                if let Some(part) = call.filter(|part| part.get("thoughtSignature").is_none()) {
                    part["thoughtSignature"] = NO_SIGNATURE.into();
                    changed = true;
                }
            }
            changed
        }
        Api::Messages | Api::Responses => false,
    }
}

/// Whether a content holds no text. Parts of other kinds are content.
fn is_blank(content: &Value) -> bool {
    match content {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(parts) => parts.iter().all(|part| {
            part["type"] == "text"
                && part["text"].as_str().is_none_or(|text| text.trim().is_empty())
        }),
        _ => false,
    }
}

fn placeholder_turns(api: Api, body: &mut Map<String, Value>) -> bool {
    if api == Api::Gemini {
        let mut changed = false;
        for content in body.get_mut("contents").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if content["parts"].as_array().is_none_or(Vec::is_empty) {
                content["parts"] = json!([{"text": PLACEHOLDER}]);
                changed = true;
            }
        }
        return changed;
    }
    let mut changed = false;
    for message in messages(body).into_iter().flatten() {
        for block in message.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if block["type"] == "tool_result" && is_blank(&block["content"]) {
                block["content"] = PLACEHOLDER.into();
                changed = true;
            }
        }
        if !is_blank(&message["content"]) {
            continue;
        }
        let silent_call = message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
        // With calls an absent text is allowed nearly everywhere, and an empty one is not.
        let text: Value = if silent_call && message["content"] == json!("") {
            Value::Null
        } else {
            PLACEHOLDER.into()
        };
        if message["content"] != text {
            message["content"] = text;
            changed = true;
        }
    }
    changed
}

/// Joins two contents: texts by a blank line, parts one after the other.
fn join(before: &mut Value, after: Value) {
    let parts = |content: Value| match content {
        Value::Array(parts) => parts,
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::Null => Vec::new(),
        text => vec![json!({"type": "text", "text": text})],
    };
    *before = match (before.take(), after) {
        (Value::String(one), Value::String(other)) if one.is_empty() || other.is_empty() => {
            (one + &other).into()
        }
        (Value::String(one), Value::String(other)) => format!("{one}\n\n{other}").into(),
        (one, Value::Null) => one,
        (Value::Null, other) => other,
        (one, other) => {
            let mut all = parts(one);
            all.extend(parts(other));
            all.into()
        }
    };
}

fn merge_roles(body: &mut Map<String, Value>) -> bool {
    let Some(all) = messages(body) else { return false };
    let count = all.len();
    let mut out: Vec<Value> = Vec::with_capacity(count);
    for mut message in std::mem::take(all) {
        let plain = message["role"] == "user"
            || message["role"] == "system"
            || (message["role"] == "assistant" && message.get("tool_calls").is_none());
        match out.last_mut() {
            Some(last)
                if plain && last["role"] == message["role"] && last.get("tool_calls").is_none() =>
            {
                let content = message["content"].take();
                join(&mut last["content"], content);
            }
            _ => out.push(message),
        }
    }
    *all = out;
    all.len() != count
}

fn turn_after_tool(body: &mut Map<String, Value>) -> bool {
    let Some(all) = messages(body) else { return false };
    let mut out: Vec<Value> = Vec::with_capacity(all.len() + 1);
    let mut changed = false;
    for message in std::mem::take(all) {
        if message["role"] == "user" && out.last().is_some_and(|last| last["role"] == "tool") {
            out.push(json!({"role": "assistant", "content": PLACEHOLDER}));
            changed = true;
        }
        out.push(message);
    }
    *all = out;
    changed
}

fn system_into_user(body: &mut Map<String, Value>) -> bool {
    let Some(all) = messages(body) else { return false };
    let is_system = |message: &Value| message["role"] == "system" || message["role"] == "developer";
    if !all.iter().any(is_system) {
        return false;
    }
    let mut system = Value::Null;
    let mut rest = Vec::with_capacity(all.len());
    for mut message in std::mem::take(all) {
        if is_system(&message) {
            let content = message["content"].take();
            join(&mut system, content);
        } else {
            rest.push(message);
        }
    }
    match rest.iter_mut().find(|message| message["role"] == "user") {
        Some(first) => {
            let content = first["content"].take();
            join(&mut system, content);
            first["content"] = system;
        }
        None => rest.insert(0, json!({"role": "user", "content": system})),
    }
    *all = rest;
    true
}

fn own_item_ids(body: &mut Map<String, Value>) -> bool {
    let mut changed = false;
    for item in body.get_mut("input").and_then(Value::as_array_mut).into_iter().flatten() {
        let prefix = match item["type"].as_str() {
            Some("function_call") => "fc",
            Some("reasoning") => "rs",
            Some("message") | None => "msg",
            Some(_) => continue,
        };
        let foreign = item["id"].as_str().is_some_and(|id| !id.starts_with(prefix));
        if foreign && let Some(item) = item.as_object_mut() {
            item.shift_remove("id");
            changed = true;
        }
    }
    changed
}

fn no_encrypted_reasoning(body: &mut Map<String, Value>) -> bool {
    let Some(items) = body.get_mut("input").and_then(Value::as_array_mut) else { return false };
    let mut changed = false;
    for item in items.iter_mut().filter(|item| item["type"] == "reasoning") {
        changed |= item
            .as_object_mut()
            .is_some_and(|item| item.shift_remove("encrypted_content").is_some());
    }
    if changed {
        let says = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
        items.retain(|item| {
            item["type"] != "reasoning" || says(&item["summary"]) || says(&item["content"])
        });
    }
    changed
}

/// Renames the second and later calls of one id, and the results that answer them in turn.
fn unique_ids(body: &mut Map<String, Value>) -> bool {
    let mut calls: HashMap<String, usize> = HashMap::new();
    let mut results: HashMap<String, usize> = HashMap::new();
    let mut changed = false;
    let mut rename = |id: &mut Value, seen: &mut HashMap<String, usize>| {
        let Value::String(text) = id else { return };
        let count = seen.entry(text.clone()).or_default();
        *count += 1;
        if *count > 1 {
            *text = format!("{text}_{count}");
            changed = true;
        }
    };
    for list in ["messages", "input"] {
        for message in body.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            match message["type"].as_str() {
                Some("function_call") => rename(&mut message["call_id"], &mut calls),
                Some("function_call_output") => rename(&mut message["call_id"], &mut results),
                _ => {}
            }
            if message["role"] == "tool" {
                rename(&mut message["tool_call_id"], &mut results);
            }
            for call in
                message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten()
            {
                rename(&mut call["id"], &mut calls);
            }
            for block in
                message.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten()
            {
                match block["type"].as_str() {
                    Some("tool_use") => rename(&mut block["id"], &mut calls),
                    Some("tool_result") => rename(&mut block["tool_use_id"], &mut results),
                    _ => {}
                }
            }
        }
    }
    changed
}

/// Gives each call an id of its own that depends on the old one alone, so that a conversation keeps its bytes.
fn short_ids(body: &mut Map<String, Value>) -> bool {
    let mut known: HashMap<String, String> = HashMap::new();
    let mut changed = false;
    let mut shorten = |id: &mut Value| {
        let Value::String(text) = id else { return };
        let fits = text.len() == ID_LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if fits {
            return;
        }
        let short = known.entry(text.clone()).or_insert_with(|| {
            let digest = proctor_types::sha256_hex(text.as_bytes());
            digest.chars().take(ID_LENGTH).collect()
        });
        changed = true;
        text.clone_from(short);
    };
    for list in ["messages", "input"] {
        for message in body.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            for name in ["tool_call_id", "call_id"] {
                message.get_mut(name).into_iter().for_each(&mut shorten);
            }
            for call in
                message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten()
            {
                call.get_mut("id").into_iter().for_each(&mut shorten);
            }
            for block in
                message.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten()
            {
                if block["type"] == "tool_use" {
                    block.get_mut("id").into_iter().for_each(&mut shorten);
                }
                block.get_mut("tool_use_id").into_iter().for_each(&mut shorten);
            }
        }
    }
    changed
}

/// Changes the object of each call that holds `name` and `arguments`, in chat messages and Responses items.
fn each_call(
    body: &mut Map<String, Value>,
    change: &mut dyn FnMut(&mut Map<String, Value>) -> bool,
) -> bool {
    let mut changed = false;
    for message in messages(body).into_iter().flatten() {
        for call in
            message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if let Some(function) = call.get_mut("function").and_then(Value::as_object_mut) {
                changed |= change(function);
            }
        }
        for block in message.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if block["type"] == "tool_use"
                && let Some(block) = block.as_object_mut()
            {
                changed |= change(block);
            }
        }
    }
    for item in body.get_mut("input").and_then(Value::as_array_mut).into_iter().flatten() {
        if item["type"] == "function_call"
            && let Some(item) = item.as_object_mut()
        {
            changed |= change(item);
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proctor_types::Api;
    use serde_json::{Value, json};

    use super::{Action, Repair};
    use crate::turns::Turns;

    /// Applies an action twice: the second time nothing is left to change.
    fn repaired(api: Api, action: Action, body: Value) -> Value {
        let repair = Repair { name: "r".into(), action };
        let mut body = body.as_object().expect("an object").clone();
        let changed = repair.apply(api, &mut body, &Turns::default());
        let once = body.clone();
        assert!(changed, "{repair:?} changed nothing");
        assert!(!repair.apply(api, &mut body, &Turns::default()), "{repair:?} changed it twice");
        assert_eq!(body, once);
        body.into()
    }

    #[test]
    fn limits_are_renamed_and_lowered() {
        let to = Action::RenameLimit { from: "max_tokens", to: "max_completion_tokens" };
        assert_eq!(
            repaired(Api::Chat, to, json!({"max_tokens": 5})),
            json!({"max_completion_tokens": 5})
        );
        let most = Action::OutputLimit { most: 3, once: false };
        let lowered = repaired(
            Api::Gemini,
            most.clone(),
            json!({"generationConfig": {"maxOutputTokens": 9}}),
        );
        assert_eq!(lowered, json!({"generationConfig": {"maxOutputTokens": 3}}));
        assert_eq!(
            repaired(Api::Messages, most, json!({"max_tokens": 9})),
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
        let repair = Repair { name: "r".into(), action: Action::PlaceholderTurn };
        let mut body = body.as_object().expect("an object").clone();
        assert!(repair.apply(Api::Chat, &mut body, &Turns::default()));
        assert_eq!(Value::Object(body), wanted);
    }

    #[test]
    fn roles_are_merged_and_separated() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let tool = json!({"role": "tool", "tool_call_id": "a", "content": "r"});
        let merged = repaired(
            Api::Chat,
            Action::MergeRoles,
            json!({"messages": [user("a"), user("b"), tool, user("c")]}),
        );
        assert_eq!(merged, json!({"messages": [user("a\n\nb"), tool, user("c")]}));
        let separated =
            repaired(Api::Chat, Action::TurnAfterTool, json!({"messages": [tool, user("c")]}));
        let between = json!({"role": "assistant", "content": "(no text)"});
        assert_eq!(separated, json!({"messages": [tool, between, user("c")]}));
        let system = json!({"role": "system", "content": "s"});
        let moved =
            repaired(Api::Chat, Action::SystemIntoUser, json!({"messages": [system, user("a")]}));
        assert_eq!(moved, json!({"messages": [user("s\n\na")]}));
    }

    #[test]
    fn ids_names_and_arguments_are_those_that_strict_endpoints_accept() {
        let body = json!({"messages": [
            {"role": "assistant", "tool_calls": [
                {"id": "call_0001", "function": {"name": "shell<|x|>", "arguments": "{\"a\": 1}\""}}]},
            {"role": "tool", "tool_call_id": "call_0001", "content": "r"},
        ]});
        let short = repaired(Api::Chat, Action::ShortIds, body.clone());
        let id = short["messages"][0]["tool_calls"][0]["id"].as_str().expect("an id");
        assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        assert_eq!(short["messages"][1]["tool_call_id"], id);
        let plain = repaired(Api::Chat, Action::PlainNames, body.clone());
        assert_eq!(plain["messages"][0]["tool_calls"][0]["function"]["name"], "shell__x__");
        let json = repaired(Api::Chat, Action::JsonArguments, body);
        let arguments = &json["messages"][0]["tool_calls"][0]["function"]["arguments"];
        assert_eq!(*arguments, json!({"arguments": "{\"a\": 1}\""}).to_string());
    }

    #[test]
    fn ids_are_unique_and_foreign_ones_left_out() {
        let used = json!({"type": "tool_use", "id": "a"});
        let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "r"});
        let body = json!({"messages": [{"role": "assistant", "content": [used, used]},
            {"role": "user", "content": [result, result]}, {"role": "assistant", "content": [used]}]});
        let repair = Repair { name: "r".into(), action: Action::UniqueIds };
        let mut body = body.as_object().expect("an object").clone();
        assert!(repair.apply(Api::Messages, &mut body, &Turns::default()));
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
        let own = repaired(Api::Responses, Action::OwnItemIds, items.clone());
        assert_eq!((own["input"][0].get("id"), &own["input"][1]["id"]), (None, &json!("fc_1")));
        let plain = repaired(Api::Responses, Action::NoEncryptedReasoning, items);
        assert_eq!(plain["input"].as_array().map(Vec::len), Some(1));
        let both = json!({"messages": [{"role": "assistant", "content": "x", "reasoning_content": "hm"},
            {"role": "assistant", "content": null, "reasoning_content": "hm"}]});
        let one = repaired(Api::Chat, Action::TextOrReasoning, both);
        assert_eq!(one["messages"][0].get("reasoning_content"), None);
        assert_eq!(one["messages"][1]["reasoning_content"], "hm");
    }

    #[test]
    fn fields_are_left_out_where_they_are() {
        let body = json!({"messages": [{"role": "assistant", "content": "x", "reasoning": "hm",
            "tool_calls": [{"id": "a", "extra_content": {}}]}]});
        let repair = repaired(Api::Chat, Action::DropTurnField("reasoning".into()), body.clone());
        assert_eq!(repair["messages"][0].get("reasoning"), None);
        let repair = repaired(Api::Chat, Action::DropTurnField("extra_content".into()), body);
        assert_eq!(repair["messages"][0]["tool_calls"][0], json!({"id": "a"}));
        let cached = json!({"system": [{"text": "s", "cache_control": {}}], "messages": [
            {"role": "user", "content": [{"text": "t", "cache_control": {}}]}]});
        let plain = json!({"system": [{"text": "s"}], "messages": [{"role": "user", "content": [{"text": "t"}]}]});
        assert_eq!(repaired(Api::Messages, Action::DropCacheControl, cached), plain);
        let streamed = json!({"stream": true, "stream_options": {}, "n": 1});
        assert_eq!(repaired(Api::Chat, Action::NoStream, streamed), json!({"n": 1}));
    }

    #[test]
    fn signatures_and_empty_thoughts_are_added_where_they_are_missing() {
        let body =
            json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}]});
        let signed = repaired(Api::Chat, Action::UnsignedCalls, body.clone());
        let google = &signed["messages"][0]["tool_calls"][0]["extra_content"]["google"];
        assert!(google["thought_signature"].is_string());
        let thoughtful = repaired(Api::Chat, Action::EmptyReasoningContent, body);
        assert_eq!(thoughtful["messages"][0]["reasoning_content"], "");
    }
}
