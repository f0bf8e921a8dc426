//! Imports mini-swe-agent trajectories: format 1.1, with chat tool calls or Responses API items,
//! and older formats, with commands in the text.

use proctor_types::{ModelResponse, ToolCall, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    error::ImportError,
    imported_trial::{ImportedTrial, TrialIdentity, parse_ending},
    json::parse_json,
};
use crate::conversation::{Call, CallOutput, Conversation, InputMessage, ResponseTurn, Turn};

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    info: Info,
    messages: Vec<Message>,
    instance_id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Info {
    #[serde(default)]
    config: Value,
    exit_status: Option<String>,
    submission: Option<String>,
    mini_version: Option<String>,
    #[serde(default)]
    proctor: TrialIdentity,
}

/// A chat message (with a role), a Responses API item (with a type), or a complete response.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    role: Option<String>,
    object: Option<String>,
    r#type: Option<String>,
    call_id: Option<String>,
    /// The items of a response, or the text of a call's result.
    output: Value,
    usage: Value,
    status: Option<String>,
    model: Option<String>,
    incomplete_details: Value,
    /// For a call item: the name of the called function.
    name: Value,
    arguments: Value,
    content: Value,
    tool_calls: Option<Vec<Value>>,
    tool_call_id: Option<String>,
    extra: Value,
}

pub(super) fn parse_trajectory(text: &str) -> Result<ImportedTrial, ImportError> {
    let Document { info, messages, instance_id } = parse_json(text)?;
    let mut turns = Vec::new();
    let mut answerer = None;
    for (index, message) in messages.into_iter().enumerate() {
        let at = message.extra["timestamp"].as_f64().unwrap_or_default();
        let text = message_text(&message.content);
        let kind = message.role.as_deref().or(message.object.as_deref());
        match kind.or(message.r#type.as_deref()).unwrap_or_default() {
            "response" => {
                answerer = answerer.or_else(|| message.model.clone());
                let response = Response::from_message(&message);
                turns.push(response.into_turn(message.extra, turns.len(), at));
            }
            "function_call_output" => {
                let (id, text) = (message.call_id.as_deref(), message_text(&message.output));
                add_output(&mut turns, id, &text, &message.extra);
            }
            // This item was stored without its response.
            "function_call" => {
                let call = build_tool_call(message.call_id, &message.name, &message.arguments);
                add_call(&mut turns, call, at);
            }
            "reasoning" => {}
            "system" | "developer" => {
                turns.push(Turn::Message(InputMessage { is_system: true, text, time: at }))
            }
            "user" => {
                // In older formats, the next message contains the command's result.
                add_output(&mut turns, None, &text, &message.extra);
                turns.push(Turn::Message(InputMessage { is_system: false, text, time: at }));
            }
            "tool" => {
                add_output(&mut turns, message.tool_call_id.as_deref(), &text, &message.extra)
            }
            "assistant" => turns.push(chat_message_to_turn(message, text, turns.len(), at)),
            // The exit message only repeats the submission.
            "exit" => {}
            other => {
                let location = format!("messages[{index}].role");
                let hint = "supported: system, developer, user, assistant, tool, exit, and the \
                            items of the Responses API: response, function_call, \
                            function_call_output, reasoning";
                return Err(ImportError::new(location, format!("unknown role `{other}`"), hint));
            }
        }
    }
    let model = info.config["model"]["model_name"].as_str().map(str::to_owned).or(answerer);
    Ok(ImportedTrial {
        task: info.proctor.task.or(instance_id),
        arm: info.proctor.arm,
        attempt: info.proctor.attempt,
        agent_name: "mini-swe-agent".to_owned(),
        version: info.mini_version,
        model,
        patch: info.submission,
        claimed_result: None,
        conversation: Conversation { turns, tools: Vec::new() },
        ending: parse_ending(info.exit_status.as_deref()),
        totals: None,
    })
}

/// The content of one response, from either API.
#[derive(Default)]
struct Response {
    content: String,
    tool_calls: Vec<ToolCall>,
    fields: Map<String, Value>,
    finish_reason: Option<String>,
    is_refused: bool,
    usage: Usage,
}

impl Response {
    /// Parses a response from the Responses API.
    fn from_message(message: &Message) -> Self {
        let items = message.output.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut this = Self::default();
        let (mut texts, mut reasoning) = (Vec::new(), Vec::new());
        for item in items {
            match item["type"].as_str().unwrap_or_default() {
                "message" => {
                    this.is_refused |= item["content"]
                        .as_array()
                        .is_some_and(|parts| parts.iter().any(|part| part["type"] == "refusal"));
                    texts.push(message_text(&item["content"]));
                }
                "function_call" => {
                    let id = item["call_id"].as_str().map(str::to_owned);
                    this.tool_calls.push(build_tool_call(id, &item["name"], &item["arguments"]));
                }
                // Reasoning, or an item type from a later version of the API.
                _ => reasoning.push(item.clone()),
            }
        }
        this.content = texts.join("\n");
        if !reasoning.is_empty() {
            this.fields.insert("output_items".to_owned(), reasoning.into());
        }
        let reason = message.incomplete_details["reason"].as_str().map(str::to_owned);
        this.finish_reason = reason.or_else(|| message.status.clone());
        this.usage = Usage {
            input: number_or_zero(&message.usage["input_tokens"]),
            output: number_or_zero(&message.usage["output_tokens"]),
            cached: number_or_zero(&message.usage["input_tokens_details"]["cached_tokens"]),
            reasoning: number_or_zero(&message.usage["output_tokens_details"]["reasoning_tokens"]),
            ..Usage::default()
        };
        this
    }

    /// Converts the response to a turn. Commands in the text are not tool calls. mini-swe-agent
    /// parses them itself.
    fn into_turn(self, extra: Value, number: usize, time: f64) -> Turn {
        let mut calls: Vec<Call> = self.tool_calls.iter().map(to_call).collect();
        if calls.is_empty() {
            let actions = extra["actions"].as_array().map(Vec::as_slice).unwrap_or_default();
            calls.extend(actions.iter().enumerate().map(|(index, action)| Call {
                id: format!("message-{number}-{index}"),
                name: "bash".to_owned(),
                arguments: match action {
                    Value::String(command) => json!({ "command": command }),
                    other => other.clone(),
                },
                output: None,
            }));
        }
        let answer = ModelResponse {
            content: self.content,
            tool_calls: self.tool_calls,
            extra: self.fields,
            native: None,
            finish_reason: self.finish_reason,
            refused: self.is_refused,
            usage: self.usage,
            cost_usd: extra["cost"].as_f64(),
        };
        Turn::Response(Box::new(ResponseTurn { response: answer, calls, is_grace: false, time }))
    }
}

fn to_call(call: &ToolCall) -> Call {
    let arguments = serde_json::from_str(&call.arguments);
    Call {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: arguments.unwrap_or_else(|_| call.arguments.as_str().into()),
        output: None,
    }
}

/// Builds a call as the model sent it, with the arguments as a string.
fn build_tool_call(id: Option<String>, name: &Value, arguments: &Value) -> ToolCall {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    ToolCall {
        id: id.unwrap_or_default(),
        name: name.as_str().unwrap_or_default().to_owned(),
        arguments: text(arguments),
    }
}

fn number_or_zero(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Adds a call to the last response, as long as none of that response's calls has a result yet.
/// Otherwise, starts a new response.
fn add_call(turns: &mut Vec<Turn>, call: ToolCall, time: f64) {
    if let Some(Turn::Response(last)) = turns.last_mut()
        && last.calls.iter().all(|call| call.output.is_none())
    {
        last.calls.push(to_call(&call));
        last.response.tool_calls.push(call);
        return;
    }
    let response = Response { tool_calls: vec![call], ..Response::default() };
    turns.push(response.into_turn(Value::Null, turns.len(), time));
}

/// Converts a chat message to a turn.
fn chat_message_to_turn(message: Message, content: String, turn_number: usize, time: f64) -> Turn {
    let extra = message.extra;
    let calls = message.tool_calls.unwrap_or_default();
    let tool_calls = calls.iter().map(|call| {
        let id = call["id"].as_str().map(str::to_owned);
        build_tool_call(id, &call["function"]["name"], &call["function"]["arguments"])
    });
    let raw = &extra["response"];
    let usage = &raw["usage"];
    let mut fields = Map::new();
    let reasoning = &raw["choices"][0]["message"]["reasoning_content"];
    if reasoning.is_string() {
        fields.insert("reasoning_content".to_owned(), reasoning.clone());
    }
    let response = Response {
        content,
        tool_calls: tool_calls.collect(),
        fields,
        finish_reason: raw["choices"][0]["finish_reason"].as_str().map(str::to_owned),
        is_refused: false,
        usage: Usage {
            input: number_or_zero(&usage["prompt_tokens"]),
            output: number_or_zero(&usage["completion_tokens"]),
            cached: number_or_zero(&usage["prompt_tokens_details"]["cached_tokens"]),
            reasoning: number_or_zero(&usage["completion_tokens_details"]["reasoning_tokens"]),
            ..Usage::default()
        },
    };
    response.into_turn(extra, turn_number, time)
}

/// Adds a result to one of the last response's calls: the call with this id, or the first call
/// without a result.
fn add_output(turns: &mut [Turn], id: Option<&str>, output_text: &str, extra: &Value) {
    let Some(Turn::Response(last)) =
        turns.iter_mut().rfind(|turn| matches!(turn, Turn::Response(_)))
    else {
        return;
    };
    let is_it = |call: &&mut Call| call.output.is_none() && id.is_none_or(|id| call.id == id);
    if let Some(call) = last.calls.iter_mut().find(is_it) {
        let exit_status = extra["returncode"].as_i64().and_then(|one| i32::try_from(one).ok());
        call.output = Some(CallOutput { text: output_text.to_owned(), exit_status, seconds: 0.0 });
    }
}

/// Returns a message's text. If the content is a list, its text parts are joined.
pub(super) fn message_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_turns(messages: Value) -> Vec<Turn> {
        let document =
            json!({"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": messages});
        parse_trajectory(&document.to_string()).unwrap().conversation.turns
    }

    #[test]
    fn mini_reads_responses_with_calls_and_results() {
        let response = json!({
            "object": "response", "model": "m", "status": "completed",
            "output": [
                {"type": "reasoning", "summary": []},
                {"type": "message", "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{\"command\": \"ls\"}"},
                {"type": "function_call", "call_id": "d", "name": "bash", "arguments": "{\"command\": \"pwd\"}"}
            ],
            "usage": {"input_tokens": 5, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}},
            "extra": {"cost": 0.5, "timestamp": 7.0}
        });
        let turns = parse_turns(json!([
            {"role": "user", "content": "t"},
            response,
            {"type": "function_call_output", "call_id": "d", "output": "/", "extra": {"returncode": 0}},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]},
            {"role": "exit", "content": ""}
        ]));
        let [Turn::Message(told), Turn::Response(answered)] = &turns[..] else {
            panic!("{turns:?}")
        };
        assert_eq!(told.text, "t");
        let answer = &answered.response;
        assert_eq!(
            (answer.content.as_str(), answer.cost_usd, answered.time),
            ("I look.", Some(0.5), 7.0)
        );
        assert_eq!((answer.usage.input, answer.usage.output, answer.usage.reasoning), (5, 2, 1));
        assert_eq!(answer.extra["output_items"][0]["type"], "reasoning");
        let calls: Vec<_> = answered
            .calls
            .iter()
            .map(|call| {
                (
                    call.id.as_str(),
                    &call.arguments["command"],
                    &call.output.as_ref().unwrap().text[..],
                )
            })
            .collect();
        assert_eq!(calls, [("c", &json!("ls"), "x"), ("d", &json!("pwd"), "/")]);
    }

    #[test]
    fn mini_reads_items_outside_a_response() {
        let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "bash", "arguments": "{}"});
        let output =
            |id: &str| json!({"type": "function_call_output", "call_id": id, "output": id});
        let turns = parse_turns(json!([
            {"role": "user", "content": "t"}, {"type": "reasoning"}, call("a"), call("b"), output("a"), output("b"),
            call("c"), output("c")
        ]));
        let counts: Vec<usize> = turns
            .iter()
            .filter_map(|turn| match turn {
                Turn::Response(answered) => Some(answered.calls.len()),
                Turn::Message(_) => None,
            })
            .collect();
        assert_eq!(counts, [2, 1]);
        let text = r#"{"messages": [{"role": "user", "content": "\ud83d", "extra": {"timestamp": NaN}}], "info": {}}"#;
        assert!(parse_trajectory(text).is_ok());
        let bad = r#"{"messages": [{"type": "web_search_call"}], "info": {}}"#;
        assert!(parse_trajectory(bad).unwrap_err().message.contains("web_search_call"));
    }
}
