//! Trajectories of mini-swe-agent, read: chat with tool calls (1.1), and the older ones whose commands stand in the text.

use proctor_types::{Answer, ToolCall, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    BadSource, Imported,
    source::{Own, ending, shaped},
};
use crate::conversation::{Answered, Call, Conversation, Output, Told, Turn};

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
    proctor: Own,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    tool_calls: Option<Vec<Value>>,
    tool_call_id: Option<String>,
    #[serde(default)]
    extra: Value,
}

pub(super) fn read(text: &str) -> Result<Imported, BadSource> {
    let Document { info, messages, instance_id } = shaped(text)?;
    let mut turns = Vec::new();
    for (index, message) in messages.into_iter().enumerate() {
        let at = message.extra["timestamp"].as_f64().unwrap_or_default();
        let text = words(&message.content);
        match message.role.as_str() {
            "system" => turns.push(Turn::Told(Told { is_system: true, text, at })),
            "user" => {
                // The older form tells what came of a command in the next message.
                returned(&mut turns, None, &text, &message.extra);
                turns.push(Turn::Told(Told { is_system: false, text, at }));
            }
            "tool" => returned(&mut turns, message.tool_call_id.as_deref(), &text, &message.extra),
            "assistant" => turns.push(answered(message, text, turns.len(), at)),
            // What was handed in, a second time.
            "exit" => {}
            other => {
                let place = format!("messages[{index}].role");
                let hint = "system, user, assistant, tool and exit are read";
                return Err(BadSource::at(place, format!("`{other}` is unknown"), hint));
            }
        }
    }
    let model = info.config["model"]["model_name"].as_str().map(str::to_owned);
    Ok(Imported {
        task: info.proctor.task.or(instance_id),
        arm: info.proctor.arm,
        attempt: info.proctor.attempt,
        agent: "mini-swe-agent".to_owned(),
        version: info.mini_version,
        model,
        patch: info.submission,
        claim: None,
        conversation: Conversation { turns, tools: Vec::new() },
        ending: ending(info.exit_status.as_deref()),
        sum: None,
    })
}

fn answered(message: Message, content: String, number: usize, at: f64) -> Turn {
    let extra = message.extra;
    let mut calls = Vec::new();
    let mut tool_calls = Vec::new();
    for call in message.tool_calls.unwrap_or_default() {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let call = ToolCall {
            id: call["id"].as_str().unwrap_or_default().to_owned(),
            name: call["function"]["name"].as_str().unwrap_or_default().to_owned(),
            arguments: text(&call["function"]["arguments"]),
        };
        let arguments = serde_json::from_str(&call.arguments);
        calls.push(Call {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: arguments.unwrap_or_else(|_| call.arguments.as_str().into()),
            output: None,
        });
        tool_calls.push(call);
    }
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
    let raw = &extra["response"];
    let usage = &raw["usage"];
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let usage = Usage {
        input: number(&usage["prompt_tokens"]),
        output: number(&usage["completion_tokens"]),
        cached: number(&usage["prompt_tokens_details"]["cached_tokens"]),
        reasoning: number(&usage["completion_tokens_details"]["reasoning_tokens"]),
        ..Usage::default()
    };
    let mut fields = Map::new();
    let reasoning = &raw["choices"][0]["message"]["reasoning_content"];
    if reasoning.is_string() {
        fields.insert("reasoning_content".to_owned(), reasoning.clone());
    }
    let cost_usd = extra["cost"].as_f64();
    let answer = Answer {
        content,
        tool_calls,
        extra: fields,
        native: None,
        finish_reason: raw["choices"][0]["finish_reason"].as_str().map(str::to_owned),
        refused: false,
        usage,
        cost_usd,
    };
    Turn::Answered(Box::new(Answered { answer, calls, is_grace: false, at }))
}

/// What came of a call of the last answer: the one that is named, or else the first that still waits.
fn returned(turns: &mut [Turn], id: Option<&str>, shown: &str, extra: &Value) {
    let Some(Turn::Answered(last)) =
        turns.iter_mut().rfind(|turn| matches!(turn, Turn::Answered(_)))
    else {
        return;
    };
    let is_it = |call: &&mut Call| call.output.is_none() && id.is_none_or(|id| call.id == id);
    if let Some(call) = last.calls.iter_mut().find(is_it) {
        let exit_status = extra["returncode"].as_i64().and_then(|one| i32::try_from(one).ok());
        call.output = Some(Output { shown: shown.to_owned(), exit_status, seconds: 0.0 });
    }
}

/// A text, or the texts of a list of parts.
pub(super) fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
