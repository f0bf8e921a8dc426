//! Writes SWE-agent trajectories (`.traj`): one entry per step, the conversation, and the exit
//! status.

use serde_json::{Value, json};

use crate::{
    Fidelity, Trial,
    conversation::{Conversation, ResponseTurn, Turn},
};

/// Converts the trial to a SWE-agent document. `fidelity` counts the data that the document cannot
/// represent.
///
/// # Errors
/// Returns an error if the built-in table of omissions cannot be read.
pub fn swe_agent_trajectory(trial: &Trial<'_>, fidelity: &mut Fidelity) -> Result<Value, String> {
    fidelity.record_trial(trial.events)?;
    let (mut trajectory, mut history) = (Vec::new(), Vec::new());
    for turn in Conversation::from_events(trial.events).turns {
        match turn {
            Turn::Message(told) => history.push(json!({
                "role": if told.is_system { "system" } else { "user" },
                "content": told.text,
                "agent": "main",
            })),
            Turn::Response(answered) => {
                trajectory.push(trajectory_entry(&answered));
                history.push(json!({
                    "role": "assistant", "content": answered.response.content, "agent": "main",
                    "thought": answered.response.content, "action": format_actions(&answered),
                }));
                let observed = format_observation(&answered);
                if !observed.is_empty() {
                    history.push(json!({ "role": "tool", "content": observed, "agent": "main" }));
                }
            }
        }
    }
    let spent = trial.outcome.map(|outcome| outcome.spent).unwrap_or_default();
    Ok(json!({
        "trajectory": trajectory,
        "history": history,
        "info": {
            "model_stats": {
                "instance_cost": spent.cost_usd,
                "tokens_sent": spent.input_tokens,
                "tokens_received": spent.output_tokens,
                "api_calls": spent.steps,
            },
            "exit_status": trial.ending(),
            "submission": trial.patch_text(fidelity),
            "proctor": trial.identity(),
        },
        "replay_config": null,
        "environment": trial.task.id,
    }))
}

fn trajectory_entry(turn: &ResponseTurn) -> Value {
    let seconds: f64 =
        turn.calls.iter().filter_map(|call| Some(call.output.as_ref()?.seconds)).sum();
    json!({
        "action": format_actions(turn),
        "observation": format_observation(turn),
        "response": turn.response.content,
        "thought": turn.response.content,
        "execution_time": seconds,
        "state": {},
        "query": [],
        "extra_info": { "after_the_limit": turn.is_grace },
    })
}

/// Formats the calls in a step. The format has one action per step, so each call becomes one line
/// of that action.
fn format_actions(turn: &ResponseTurn) -> String {
    let calls = turn.calls.iter().map(|call| match call.arguments["command"].as_str() {
        Some(command) if call.arguments.as_object().is_some_and(|all| all.len() == 1) => {
            command.to_owned()
        }
        _ => format!("{} {}", call.name, call.arguments),
    });
    calls.collect::<Vec<_>>().join("\n")
}

fn format_observation(turn: &ResponseTurn) -> String {
    let outputs = turn.calls.iter().filter_map(|call| call.output.as_ref());
    outputs.map(|output| output.text.as_str()).collect::<Vec<_>>().join("\n")
}
