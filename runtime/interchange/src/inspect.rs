//! Writes Inspect AI logs (`.eval`, version 2). Each trial becomes a sample, and all samples of an
//! arm form one log.

use proctor_types::{Arm, BudgetKind, Ending, TestStatus, sha256_hex};
use serde_json::{Map, Value, json};

use crate::{
    Fidelity, Trial,
    conversation::{Conversation, ResponseTurn, Turn},
    timestamps::format_timestamp,
};

const LOG_VERSION: u32 = 2;

/// The model name in Inspect's logs for an arm that calls no model.
const NO_MODEL: &str = "none/none";

/// Maximum number of bytes that an id contributes to a file name. The zip format limits the whole
/// name to 65,535 bytes.
const MAX_ID_BYTES: usize = 60_000;

/// The name of the scorer whose score represents the verdict.
const RESOLVED_SCORER: &str = "resolved";
const PASSED_RATE_SCORER: &str = "passed_rate";

/// Converts the trial to a sample. The task becomes the sample's id, and the attempt becomes its
/// epoch.
///
/// # Errors
/// Returns an error if the built-in table of omissions cannot be read.
pub fn inspect_sample(trial: &Trial<'_>, fidelity: &mut Fidelity) -> Result<Value, String> {
    fidelity.record_trial(trial.events)?;
    let turns = Conversation::from_events(trial.events).turns;
    let mut messages: Vec<Value> = Vec::new();
    let mut choice = None;
    for turn in &turns {
        match turn {
            Turn::Message(told) => messages.push(json!({
                "role": if told.is_system { "system" } else { "user" },
                "content": told.text,
            })),
            Turn::Response(answered) => {
                let message = assistant_message(answered, trial, fidelity);
                choice = Some(json!({ "message": message, "stop_reason": stop_reason(answered) }));
                messages.push(message);
                messages.extend(tool_messages(answered));
            }
        }
    }
    let spent = trial.outcome.map(|outcome| outcome.spent).unwrap_or_default();
    let uncached = spent.input_tokens.saturating_sub(spent.cached_tokens);
    let usage = json!({
        "input_tokens": uncached,
        "output_tokens": spent.output_tokens,
        "total_tokens": spent.input_tokens + spent.output_tokens,
        "input_tokens_cache_read": spent.cached_tokens,
    });
    let (began, ended) = (trial.events.first(), trial.events.last());
    let seconds = began.zip(ended).map_or(0.0, |(began, ended)| ended.t_wall - began.t_wall);
    let mut sample = json!({
        "id": trial.task.id,
        "epoch": trial.attempt,
        "input": trial.task.statement,
        "target": "",
        "messages": messages,
        "output": { "model": model_name(trial.arm), "choices": choice.into_iter().collect::<Vec<_>>() },
        "scores": scores(trial),
        "metadata": {
            "outcome": trial.ending(),
            "steps": spent.steps,
            "cost_usd": (!spent.unpriced).then_some(spent.cost_usd),
            "integrity": trial.verdict.map(|verdict| verdict.integrity),
            "patch": trial.patch_text(fidelity),
        },
        "model_usage": Map::from_iter([(model_name(trial.arm).to_owned(), usage)]),
        "total_time": seconds,
        "uuid": trial.name(),
    });
    if let Some(all) = trial.interruptions() {
        sample["metadata"]["interruptions"] = json!(all);
    }
    if let Some((began, ended)) = began.zip(ended) {
        sample["started_at"] = json!(format_timestamp(began.t_wall));
        sample["completed_at"] = json!(format_timestamp(ended.t_wall));
    }
    if let Some(limit) = reached_limit(trial) {
        sample["limit"] = limit;
    }
    Ok(sample)
}

/// One arm's log.
#[derive(Debug)]
pub struct InspectLog<'a> {
    arm: &'a Arm,
    proctor_version: &'a str,
    /// When the log was created, in seconds since the Unix epoch.
    creation_time: u64,
    summaries: Vec<Value>,
}

impl<'a> InspectLog<'a> {
    pub fn new(arm: &'a Arm, proctor_version: &'a str, creation_time: u64) -> Self {
        Self { arm, proctor_version, creation_time, summaries: Vec::new() }
    }

    /// Adds a sample, and returns the sample's file name in the archive.
    pub fn add(&mut self, sample: &Value) -> String {
        let kept = [
            "id",
            "epoch",
            "input",
            "target",
            "scores",
            "model_usage",
            "started_at",
            "completed_at",
            "total_time",
            "uuid",
        ];
        let mut summary: Map<String, Value> = kept
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), sample.get(key)?.clone())))
            .collect();
        summary.insert("completed".to_owned(), true.into());
        summary.insert("limit".to_owned(), sample["limit"]["type"].clone());
        let messages = sample["messages"].as_array().map_or(0, Vec::len);
        summary.insert("message_count".to_owned(), messages.into());
        self.summaries.push(Value::Object(summary));
        let id = sample["id"].as_str().unwrap_or_default();
        format!("samples/{}_epoch_{}.json", archive_file_name(id), sample["epoch"])
    }

    /// Returns the archive's other files, by name.
    pub fn other_files(&self) -> Vec<(&'static str, Value)> {
        let eval = self.eval_header();
        let plan = json!({ "name": self.arm.scaffold, "steps": [{ "solver": self.arm.scaffold }] });
        let start = json!({ "version": LOG_VERSION, "eval": eval, "plan": plan });
        let score = |name: &str| {
            let values = self.summaries.iter().map(|one| &one["scores"][name]["value"]);
            let values: Vec<f64> = values.filter_map(score_value).collect();
            let mean = values.iter().sum::<f64>() / (values.len().max(1) as f64);
            json!({
                "name": name, "scorer": name,
                "scored_samples": values.len(),
                "unscored_samples": self.summaries.len() - values.len(),
                "metrics": { "mean": { "name": "mean", "value": mean } },
            })
        };
        let count = self.summaries.len();
        let header = json!({
            "version": LOG_VERSION,
            "status": "success",
            "eval": eval,
            "plan": plan,
            "results": {
                "total_samples": count,
                "completed_samples": count,
                "scores": [score(RESOLVED_SCORER), score(PASSED_RATE_SCORER)],
            },
            "stats": { "started_at": self.created_at(), "completed_at": self.created_at() },
        });
        vec![
            ("_journal/start.json", start),
            ("summaries.json", Value::Array(self.summaries.clone())),
            ("header.json", header),
        ]
    }

    fn created_at(&self) -> Option<String> {
        format_timestamp(self.creation_time as f64)
    }

    fn eval_header(&self) -> Value {
        let mut ids: Vec<&Value> = self.summaries.iter().map(|one| &one["id"]).collect();
        ids.dedup();
        let epochs = self.summaries.iter().filter_map(|one| one["epoch"].as_u64()).max();
        let budget = &self.arm.budget;
        json!({
            "eval_id": self.arm.id,
            "run_id": self.arm.id,
            "task_id": self.arm.id,
            "created": self.created_at(),
            "task": self.arm.name,
            "task_version": 0,
            "solver": self.arm.scaffold,
            "dataset": { "name": "proctor", "samples": ids.len(), "sample_ids": ids },
            "model": model_name(self.arm),
            "config": {
                "epochs": epochs,
                "token_limit": budget.total_tokens,
                "cost_limit": budget.cost_usd,
            },
            "packages": { "proctor": self.proctor_version },
            "metadata": { "proctor": { "arm": self.arm.name, "arm_id": self.arm.id, "budget": budget } },
        })
    }
}

/// Returns the id in the form that a sample's file name contains. Inspect looks up samples by id,
/// so the id is changed only if the archive could not store it, or if unpacking the archive would
/// write outside the target directory.
fn archive_file_name(id: &str) -> String {
    let leaves = id.split(['/', '\\']).any(|part| matches!(part, "" | "." | ".."));
    match leaves || id.len() > MAX_ID_BYTES {
        true => format!("~{}", sha256_hex(id.as_bytes())),
        false => id.to_owned(),
    }
}

fn model_name(arm: &Arm) -> &str {
    arm.model.as_ref().map_or(NO_MODEL, |model| model.name.as_str())
}

fn assistant_message(turn: &ResponseTurn, trial: &Trial<'_>, fidelity: &mut Fidelity) -> Value {
    let calls = turn.calls.iter().map(|call| {
        let arguments = call.arguments_object(fidelity);
        json!({ "id": call.id, "function": call.name, "arguments": arguments, "type": "function" })
    });
    let calls: Vec<Value> = calls.collect();
    let mut message = json!({
        "role": "assistant",
        "content": turn.response.content,
        "source": "generate",
        "model": model_name(trial.arm),
    });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    if turn.is_grace {
        message["metadata"] = json!({ "after_the_limit": true });
    }
    message
}

fn tool_messages(turn: &ResponseTurn) -> impl Iterator<Item = Value> {
    turn.calls.iter().filter_map(|call| {
        let output = call.output.as_ref()?;
        Some(json!({
            "role": "tool",
            "content": output.text,
            "tool_call_id": call.id,
            "function": call.name,
            "metadata": { "exit_status": output.exit_status, "seconds": output.seconds },
        }))
    })
}

/// Returns the name that Inspect uses for the stop reason, or `unknown` if Inspect has no name for
/// it.
fn stop_reason(turn: &ResponseTurn) -> &'static str {
    match turn.response.finish_reason.as_deref() {
        Some("stop" | "end_turn" | "stop_sequence") => "stop",
        Some("length" | "max_tokens") => "max_tokens",
        Some("tool_calls" | "tool_use" | "function_call") => "tool_calls",
        Some("content_filter" | "refusal") => "content_filter",
        _ => "unknown",
    }
}

fn scores(trial: &Trial<'_>) -> Value {
    let Some(verdict) = trial.verdict else { return json!({}) };
    let failed =
        verdict.tests.iter().filter(|(_, status)| **status != TestStatus::Passed).map(|(id, _)| id);
    json!({
        RESOLVED_SCORER: {
            "value": verdict.resolved,
            "explanation": verdict.reason.map(|reason| reason.to_string()),
            "metadata": { "failed": failed.collect::<Vec<_>>(), "policies": verdict.policies },
        },
        PASSED_RATE_SCORER: { "value": verdict.passed_rate },
    })
}

fn score_value(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(|yes| f64::from(u8::from(yes))))
}

/// Returns the limit that ended the trial, as one of Inspect's limit types.
fn reached_limit(trial: &Trial<'_>) -> Option<Value> {
    let Ending::Budget { budget: kind, .. } = &trial.outcome?.ending else { return None };
    let budget = &trial.arm.budget;
    let (named, limit) = match kind {
        BudgetKind::Steps => ("turn", budget.steps.map(|steps| steps as f64)),
        BudgetKind::Cost => ("cost", budget.cost_usd),
        BudgetKind::Wall => ("time", budget.wall_seconds),
        BudgetKind::TotalTokens => ("token", budget.total_tokens.map(|tokens| tokens as f64)),
        _ => ("custom", None),
    };
    Some(
        json!({ "type": named, "limit": limit.unwrap_or(-1.0), "reason": format!("budget_{kind}") }),
    )
}
