//! Imports ATIF up to version 1.8.

use proctor_types::{ModelResponse, TokenClasses, ToolCall, ToolSpec, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    error::ImportError,
    imported_trial::{ImportedTrial, parse_ending},
    json::parse_json,
};
use crate::{
    Fidelity,
    conversation::{Call, CallOutput, Conversation, InputMessage, ResponseTurn, Turn},
    timestamps::parse_timestamp,
};

const VERSION_HINT: &str = "supported: ATIF-v1.0 to ATIF-v1.8";
const STEP_HINT: &str = "ATIF numbers its steps 1, 2, 3, ... without gaps";
const CALL_HINT: &str = "a result must refer to a call in the same step";
/// The newest supported minor version.
const NEWEST_MINOR_VERSION: u32 = 8;

#[derive(Deserialize)]
struct Document {
    schema_version: String,
    session_id: Option<String>,
    agent: Agent,
    steps: Vec<Step>,
    final_metrics: Option<FinalMetrics>,
    #[serde(default)]
    subagent_trajectories: Vec<Value>,
    notes: Option<String>,
    #[serde(default)]
    extra: Value,
}

#[derive(Deserialize)]
struct Agent {
    name: String,
    version: Option<String>,
    model_name: Option<String>,
    #[serde(default)]
    tool_definitions: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Step {
    step_id: u64,
    timestamp: Option<String>,
    source: Source,
    message: Content,
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<CallEntry>>,
    observation: Option<Observation>,
    metrics: Option<Metrics>,
    #[serde(default)]
    extra: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Source {
    System,
    User,
    Agent,
}

#[derive(Deserialize)]
struct CallEntry {
    tool_call_id: String,
    function_name: String,
    arguments: Map<String, Value>,
}

#[derive(Deserialize)]
struct Observation {
    results: Vec<ResultEntry>,
}

#[derive(Deserialize)]
struct ResultEntry {
    source_call_id: Option<String>,
    content: Option<Content>,
    #[serde(default)]
    extra: Option<Value>,
}

#[derive(Deserialize)]
struct Metrics {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    cost_usd: Option<f64>,
    #[serde(default)]
    extra: Option<Value>,
}

#[derive(Deserialize)]
struct FinalMetrics {
    total_prompt_tokens: Option<u64>,
    total_completion_tokens: Option<u64>,
    total_cached_tokens: Option<u64>,
    total_cost_usd: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a string or a list of parts")]
enum Content {
    Text(String),
    Parts(Vec<Value>),
}

impl Content {
    /// Returns the text, and counts the images and audio that are left out.
    fn into_text(self, fidelity: &mut Fidelity) -> String {
        let parts = match self {
            Self::Text(text) => return text,
            Self::Parts(parts) => parts,
        };
        let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        fidelity
            .record_omission("images and audio in messages", (parts.len() - texts.len()) as u64);
        texts.join("\n")
    }
}

pub(super) fn parse_trajectory(
    text: &str,
    fidelity: &mut Fidelity,
) -> Result<ImportedTrial, ImportError> {
    let document: Document = parse_json(text)?;
    let minor = document.schema_version.strip_prefix("ATIF-v1.");
    if minor
        .and_then(|minor| minor.parse().ok())
        .is_none_or(|minor: u32| minor > NEWEST_MINOR_VERSION)
    {
        let reason = format!("unsupported version `{}`", document.schema_version);
        return Err(ImportError::new("schema_version", reason, VERSION_HINT));
    }
    if document.steps.is_empty() {
        return Err(ImportError::new("steps", "empty", "a trajectory must have at least one step"));
    }
    let subagents = document.subagent_trajectories.len() as u64;
    fidelity.record_omission("conversations of subagents", subagents);
    fidelity.record_omission("notes", u64::from(document.notes.is_some()));
    let mut turns = Vec::new();
    for (index, step) in document.steps.into_iter().enumerate() {
        let expected = index as u64 + 1;
        if step.step_id != expected {
            let message = format!("expected {expected}, found {}", step.step_id);
            return Err(ImportError::new(format!("steps[{index}].step_id"), message, STEP_HINT));
        }
        add_step(&mut turns, step, index, fidelity)?;
    }
    let tools = document.agent.tool_definitions.unwrap_or_default();
    let tools = tools.iter().filter_map(parse_tool).collect();
    let own = &document.extra["proctor"];
    let text = |key: &str| own[key].as_str().map(str::to_owned);
    let claim = Some(own["verdict"].clone()).filter(|verdict| !verdict.is_null());
    let sum = document.final_metrics.map(|all| {
        let number = |number: Option<u64>| number.unwrap_or_default();
        let (input, output) = (all.total_prompt_tokens, all.total_completion_tokens);
        (number(input), number(output), number(all.total_cached_tokens), all.total_cost_usd)
    });
    Ok(ImportedTrial {
        task: text("task").or(document.session_id),
        arm: text("arm"),
        attempt: own["attempt"].as_u64().and_then(|attempt| u32::try_from(attempt).ok()),
        agent_name: document.agent.name,
        version: document.agent.version,
        model: document.agent.model_name,
        patch: text("patch"),
        claimed_result: claim,
        conversation: Conversation { turns, tools },
        ending: parse_ending(own["outcome"].as_str()),
        totals: sum,
    })
}

fn add_step(
    turns: &mut Vec<Turn>,
    step: Step,
    index: usize,
    fidelity: &mut Fidelity,
) -> Result<(), ImportError> {
    let at = match &step.timestamp {
        None => 0.0,
        Some(text) => parse_timestamp(text).ok_or_else(|| {
            let location = format!("steps[{index}].timestamp");
            ImportError::new(
                location,
                format!("invalid time `{text}`"),
                "use ISO 8601, such as 2025-01-31T12:00:00Z",
            )
        })?,
    };
    let results = step.observation.map(|all| all.results).unwrap_or_default();
    let message = step.message.into_text(fidelity);
    if step.source != Source::Agent {
        let is_system = step.source == Source::System;
        turns.push(Turn::Message(InputMessage { is_system, text: message, time: at }));
        return add_results_without_call(turns, results, at, fidelity);
    }
    let called = step.tool_calls.unwrap_or_default();
    let mut calls: Vec<Call> = called
        .into_iter()
        .map(|call| Call {
            id: call.tool_call_id,
            name: call.function_name,
            arguments: Value::Object(call.arguments),
            output: None,
        })
        .collect();
    let mut of_none = Vec::new();
    for (number, result) in results.into_iter().enumerate() {
        let call = match &result.source_call_id {
            Some(id) => {
                let call = calls.iter_mut().find(|call| call.id == *id);
                Some(call.ok_or_else(|| {
                    let location =
                        format!("steps[{index}].observation.results[{number}].source_call_id");
                    ImportError::new(location, format!("the step has no call `{id}`"), CALL_HINT)
                })?)
            }
            None => calls.iter_mut().find(|call| call.output.is_none()),
        };
        match call {
            Some(call) if call.output.is_none() => {
                call.output = Some(parse_output(result, fidelity))
            }
            _ => of_none.push(result),
        }
    }
    let tool_calls = calls.iter().map(|call| ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.to_string(),
    });
    let mut extra = Map::new();
    if let Some(reasoning) = step.reasoning_content {
        extra.insert("reasoning_content".to_owned(), reasoning.into());
    }
    let (usage, cost_usd) = step.metrics.map(parse_usage).unwrap_or_default();
    let answer = ModelResponse {
        content: message,
        tool_calls: tool_calls.collect(),
        extra,
        native: None,
        finish_reason: None,
        refused: false,
        usage,
        cost_usd,
    };
    let is_grace = step.extra.is_some_and(|extra| extra["after_the_limit"] == true);
    turns.push(Turn::Response(Box::new(ResponseTurn {
        response: answer,
        calls,
        is_grace,
        time: at,
    })));
    add_results_without_call(turns, of_none, at, fidelity)
}

/// Converts results that belong to no call. Each result's text becomes a message to the agent.
fn add_results_without_call(
    turns: &mut Vec<Turn>,
    results: Vec<ResultEntry>,
    time: f64,
    fidelity: &mut Fidelity,
) -> Result<(), ImportError> {
    for result in results {
        fidelity.record_omission("results without a tool call: kept as messages", 1);
        let text = parse_output(result, fidelity).text;
        turns.push(Turn::Message(InputMessage { is_system: false, text, time }));
    }
    Ok(())
}

fn parse_output(result: ResultEntry, fidelity: &mut Fidelity) -> CallOutput {
    let extra = result.extra.unwrap_or_default();
    let shown = result.content.map(|content| content.into_text(fidelity)).unwrap_or_default();
    let exit_status = extra["exit_status"].as_i64().and_then(|status| i32::try_from(status).ok());
    CallOutput { text: shown, exit_status, seconds: extra["seconds"].as_f64().unwrap_or_default() }
}

fn parse_usage(metrics: Metrics) -> (Usage, Option<f64>) {
    let extra = metrics.extra.unwrap_or_default();
    let classes = serde_json::from_value::<TokenClasses>(extra["classes"].clone());
    let usage = Usage {
        input: metrics.prompt_tokens.unwrap_or_default(),
        output: metrics.completion_tokens.unwrap_or_default(),
        cached: metrics.cached_tokens.unwrap_or_default(),
        reasoning: extra["reasoning_tokens"].as_u64().unwrap_or_default(),
        estimated: extra["estimated"].as_bool().unwrap_or_default(),
        classes: classes.unwrap_or_default(),
    };
    (usage, metrics.cost_usd)
}

/// Parses a function definition in chat format.
pub(super) fn parse_tool(definition: &Value) -> Option<ToolSpec> {
    let function = &definition["function"];
    Some(ToolSpec {
        name: function["name"].as_str()?.to_owned(),
        description: function["description"].as_str().unwrap_or_default().to_owned(),
        parameters: function["parameters"].clone(),
    })
}
