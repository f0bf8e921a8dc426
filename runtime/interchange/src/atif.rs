//! Writes ATIF 1.8, Harbor's trajectory format.
//!
//! ATIF objects must not have unknown keys. Data for which ATIF has no key is either written to
//! `extra` or counted as left out.

use proctor_types::Usage;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    Fidelity, Trial,
    conversation::{Call, Conversation, InputMessage, ResponseTurn, Turn, tools_as_functions},
    timestamps::format_timestamp,
};

const ATIF_VERSION: &str = "ATIF-v1.8";

/// Fields of a response in which endpoints return reasoning.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

#[derive(Debug, Serialize)]
struct Trajectory {
    schema_version: &'static str,
    session_id: String,
    trajectory_id: String,
    agent: Agent,
    steps: Vec<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_metrics: Option<FinalMetrics>,
    extra: Value,
}

#[derive(Debug, Serialize)]
struct Agent {
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_definitions: Vec<Value>,
}

#[derive(Debug, Default, Serialize)]
struct Step {
    step_id: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    source: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<Observation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_call_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<Value>,
}

#[derive(Debug, Serialize)]
struct ToolCall {
    tool_call_id: String,
    function_name: String,
    arguments: Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct Observation {
    results: Vec<ObservationResult>,
}

#[derive(Debug, Serialize)]
struct ObservationResult {
    source_call_id: String,
    content: String,
    extra: Value,
}

#[derive(Debug, Serialize)]
struct Metrics {
    prompt_tokens: u64,
    completion_tokens: u64,
    cached_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    extra: Value,
}

#[derive(Debug, Serialize)]
struct FinalMetrics {
    total_prompt_tokens: u64,
    total_completion_tokens: u64,
    total_cached_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_cost_usd: Option<f64>,
    total_steps: usize,
}

/// Converts the trial to an ATIF document. `fidelity` counts the data that the document cannot
/// represent.
///
/// # Errors
/// Returns an error if the document cannot be serialized or the built-in table of omissions cannot
/// be read.
pub fn atif_trajectory(trial: &Trial<'_>, fidelity: &mut Fidelity) -> Result<Value, String> {
    let Conversation { mut turns, tools } = Conversation::from_events(trial.events);
    let is_told = |turn: &Turn| matches!(turn, Turn::Message(told) if !told.is_system);
    if !turns.iter().any(is_told) {
        // `gold`, `noop` and some agents don't record a first message. Use the task's statement
        // instead.
        let at = trial.events.first().map_or(0.0, |first| first.t_wall);
        let text = trial.task.statement.clone();
        turns.insert(0, Turn::Message(InputMessage { is_system: false, text, time: at }));
    }
    fidelity.record_trial(trial.events)?;
    let mut steps = Vec::with_capacity(turns.len());
    for (index, turn) in turns.into_iter().enumerate() {
        let step = match turn {
            Turn::Message(told) => Step {
                source: if told.is_system { "system" } else { "user" },
                timestamp: format_timestamp(told.time),
                message: told.text,
                ..Step::default()
            },
            Turn::Response(answered) => to_atif_step(*answered, fidelity),
        };
        steps.push(Step { step_id: index + 1, ..step });
    }
    let total_steps = steps.len();
    let final_metrics = trial.outcome.map(|outcome| FinalMetrics {
        total_prompt_tokens: outcome.spent.input_tokens,
        total_completion_tokens: outcome.spent.output_tokens,
        total_cached_tokens: outcome.spent.cached_tokens,
        total_cost_usd: (!outcome.spent.unpriced).then_some(outcome.spent.cost_usd),
        total_steps,
    });
    let document = Trajectory {
        schema_version: ATIF_VERSION,
        session_id: trial.name(),
        trajectory_id: trial.name(),
        agent: Agent {
            name: trial.agent().to_owned(),
            version: agent_version(trial),
            model_name: trial.model().map(str::to_owned),
            tool_definitions: tools_as_functions(tools),
        },
        steps,
        final_metrics,
        extra: extra_data(trial, fidelity),
    };
    serde_json::to_value(document).map_err(|error| error.to_string())
}

/// Returns a command-line agent's version. For loops that Proctor itself runs, returns Proctor's
/// version.
fn agent_version(trial: &Trial<'_>) -> String {
    let own = trial.arm.prompts["version"].as_str().or_else(|| trial.import_setting("version"));
    own.unwrap_or(trial.proctor_version).to_owned()
}

fn to_atif_step(turn: ResponseTurn, fidelity: &mut Fidelity) -> Step {
    let ResponseTurn { response: answer, calls, is_grace, time: at } = turn;
    let results: Vec<ObservationResult> = calls.iter().filter_map(to_observation_result).collect();
    let tool_calls = calls
        .into_iter()
        .map(|call| ToolCall {
            arguments: call.arguments_object(fidelity),
            tool_call_id: call.id,
            function_name: call.name,
        })
        .collect();
    let reasoning = REASONING_FIELDS.iter().find_map(|field| answer.extra.get(*field)?.as_str());
    Step {
        source: "agent",
        timestamp: format_timestamp(at),
        reasoning_content: reasoning.map(str::to_owned),
        message: answer.content,
        tool_calls,
        observation: (!results.is_empty()).then_some(Observation { results }),
        metrics: Some(to_metrics(answer.usage, answer.cost_usd)),
        llm_call_count: Some(1),
        extra: is_grace.then(|| json!({ "after_the_limit": true })),
        ..Step::default()
    }
}

fn to_observation_result(call: &Call) -> Option<ObservationResult> {
    let output = call.output.as_ref()?;
    Some(ObservationResult {
        source_call_id: call.id.clone(),
        content: output.text.clone(),
        extra: json!({ "exit_status": output.exit_status, "seconds": output.seconds }),
    })
}

fn to_metrics(usage: Usage, cost_usd: Option<f64>) -> Metrics {
    Metrics {
        prompt_tokens: usage.input,
        completion_tokens: usage.output,
        cached_tokens: usage.cached,
        cost_usd,
        extra: json!({
            "reasoning_tokens": usage.reasoning,
            "estimated": usage.estimated,
            "classes": usage.classes,
        }),
    }
}

/// Returns the data for which ATIF has no key, under a key named after Proctor.
fn extra_data(trial: &Trial<'_>, fidelity: &mut Fidelity) -> Value {
    let verdict = trial.verdict.map(|verdict| {
        json!({
            "resolved": verdict.resolved,
            "passed_rate": verdict.passed_rate,
            "integrity": verdict.integrity,
            "policies": verdict.policies,
        })
    });
    let mut proctor_data = json!({ "proctor": {
        "task": trial.task.id,
        "arm": trial.arm.name,
        "arm_id": trial.arm.id,
        "attempt": trial.attempt,
        "budget": trial.arm.budget,
        "outcome": trial.ending(),
        "verdict": verdict,
        "patch": trial.patch_text(fidelity),
    }});
    if let Some(all) = trial.interruptions() {
        proctor_data["proctor"]["interruptions"] = json!(all);
    }
    proctor_data
}
