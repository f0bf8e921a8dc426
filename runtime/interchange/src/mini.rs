//! Writes mini-swe-agent trajectories (format 1.1): a conversation in chat format, and the exit
//! status.

use serde_json::{Value, json};

use crate::{
    Fidelity, Trial,
    conversation::{Conversation, ResponseTurn, Turn},
};

/// The format name in mini-swe-agent's own trajectories.
const FORMAT_NAME: &str = "mini-swe-agent-1.1";

/// Converts the trial to a mini-swe-agent document. `fidelity` counts the data that the document
/// cannot represent.
///
/// # Errors
/// Returns an error if the built-in table of omissions cannot be read.
pub fn mini_trajectory(trial: &Trial<'_>, fidelity: &mut Fidelity) -> Result<Value, String> {
    fidelity.record_trial(trial.events)?;
    let mut messages = Vec::new();
    for turn in Conversation::from_events(trial.events).turns {
        match turn {
            Turn::Message(told) => messages.push(json!({
                "role": if told.is_system { "system" } else { "user" },
                "content": told.text,
                "extra": { "timestamp": told.time },
            })),
            Turn::Response(answered) => messages.extend(response_messages(&answered)),
        }
    }
    let spent = trial.outcome.map(|outcome| outcome.spent).unwrap_or_default();
    Ok(json!({
        "info": {
            "model_stats": { "instance_cost": spent.cost_usd, "api_calls": spent.steps },
            "config": {
                "agent": { "step_limit": trial.arm.budget.steps, "cost_limit": trial.arm.budget.cost_usd },
                "model": { "model_name": trial.model() },
            },
            "exit_status": trial.ending(),
            "submission": trial.patch_text(fidelity),
            "proctor": trial.identity(),
        },
        "messages": messages,
        "trajectory_format": FORMAT_NAME,
        "instance_id": trial.task.id,
    }))
}

fn response_messages(turn: &ResponseTurn) -> Vec<Value> {
    let ResponseTurn { response: answer, calls, time: at, .. } = turn;
    let mut assistant = json!({
        "role": "assistant",
        "content": answer.content,
        "extra": {
            "actions": calls.iter().map(|call| &call.arguments).collect::<Vec<_>>(),
            "cost": answer.cost_usd,
            "timestamp": at,
        },
    });
    if !answer.tool_calls.is_empty() {
        assistant["tool_calls"] = turn.chat_calls().into();
    }
    let outputs = turn.chat_outputs().map(|(call, output)| {
        json!({
            "role": "tool",
            "tool_call_id": call.id,
            "content": output.text,
            "extra": { "returncode": output.exit_status },
        })
    });
    let outputs: Vec<Value> = outputs.collect();
    [vec![assistant], outputs].concat()
}
