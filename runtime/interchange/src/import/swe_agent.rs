//! Imports SWE-agent trajectories (`.traj`).

use proctor_types::{ModelResponse, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    error::ImportError,
    imported_trial::{ImportedTrial, TrialIdentity, parse_ending},
    json::parse_json,
    mini::message_text,
};
use crate::conversation::{Call, CallOutput, Conversation, InputMessage, ResponseTurn, Turn};

#[derive(Deserialize)]
struct Document {
    trajectory: Vec<Entry>,
    #[serde(default)]
    history: Vec<HistoryMessage>,
    #[serde(default)]
    info: Info,
    environment: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    action: Option<String>,
    #[serde(default)]
    observation: Option<String>,
    #[serde(default)]
    response: Option<String>,
    #[serde(default)]
    thought: Option<String>,
    #[serde(default)]
    execution_time: Option<f64>,
    #[serde(default)]
    extra_info: Value,
}

#[derive(Deserialize)]
struct HistoryMessage {
    role: String,
    #[serde(default)]
    content: Value,
}

#[derive(Default, Deserialize)]
struct Info {
    exit_status: Option<String>,
    submission: Option<String>,
    #[serde(default)]
    model_stats: Value,
    swe_agent_version: Option<String>,
    #[serde(default)]
    proctor: TrialIdentity,
}

pub(super) fn parse_trajectory(text: &str) -> Result<ImportedTrial, ImportError> {
    let Document { trajectory, history, info, environment } = parse_json(text)?;
    let mut turns = Vec::new();
    // The trajectory's entries repeat the later messages.
    for said in history.iter().take_while(|said| said.role != "assistant") {
        let is_system = said.role == "system";
        turns.push(Turn::Message(InputMessage {
            is_system,
            text: message_text(&said.content),
            time: 0.0,
        }));
    }
    for (index, entry) in trajectory.into_iter().enumerate() {
        turns.push(Turn::Response(Box::new(entry_to_turn(entry, index))));
    }
    let stats = &info.model_stats;
    let number = |key: &str| stats[key].as_u64().unwrap_or_default();
    let sum = stats.is_object().then(|| {
        (number("tokens_sent"), number("tokens_received"), 0, stats["instance_cost"].as_f64())
    });
    Ok(ImportedTrial {
        task: info.proctor.task.or(environment),
        arm: info.proctor.arm,
        attempt: info.proctor.attempt,
        agent_name: "swe-agent".to_owned(),
        version: info.swe_agent_version,
        model: None,
        patch: info.submission,
        claimed_result: None,
        conversation: Conversation { turns, tools: Vec::new() },
        ending: parse_ending(info.exit_status.as_deref()),
        totals: sum,
    })
}

fn entry_to_turn(entry: Entry, index: usize) -> ResponseTurn {
    let response = entry.response.filter(|text| !text.is_empty());
    let content = response.or(entry.thought).unwrap_or_default();
    let seconds = entry.execution_time.unwrap_or_default();
    let shown = entry.observation.unwrap_or_default();
    let call = |command: String| Call {
        id: format!("entry-{}", index + 1),
        name: "shell".to_owned(),
        arguments: json!({ "command": command }),
        output: Some(CallOutput { text: shown, exit_status: None, seconds }),
    };
    let action = entry.action.filter(|action| !action.is_empty());
    let answer = ModelResponse {
        content,
        tool_calls: Vec::new(),
        extra: Map::new(),
        native: None,
        finish_reason: None,
        refused: false,
        usage: Usage::default(),
        cost_usd: None,
    };
    let is_grace = entry.extra_info["after_the_limit"] == true;
    ResponseTurn {
        response: answer,
        calls: action.map(call).into_iter().collect(),
        is_grace,
        time: 0.0,
    }
}
