//! Writes rollouts for training. Each line contains one trial: the conversation in chat format, and
//! its reward.

use serde_json::{Value, json};

use crate::{
    Fidelity, Trial,
    conversation::{Conversation, ResponseTurn, Turn, tools_as_functions},
};

/// Fields of a response in which endpoints return the sampled tokens and their probabilities.
const SAMPLING_FIELDS: [&str; 3] = ["token_ids", "prompt_token_ids", "logprobs"];

/// Converts the trial to one line. Token ids and log-probabilities are included only if the
/// endpoint returned them. Ids that a tokenizer computes afterwards might differ from the sampled
/// ones.
///
/// # Errors
/// Returns an error if the built-in table of omissions cannot be read.
pub fn rollout(trial: &Trial<'_>, fidelity: &mut Fidelity) -> Result<Value, String> {
    fidelity.record_trial(trial.events)?;
    let Conversation { turns, tools } = Conversation::from_events(trial.events);
    let mut messages = Vec::new();
    for turn in turns {
        match turn {
            Turn::Message(told) => messages.push(json!({
                "role": if told.is_system { "system" } else { "user" },
                "content": told.text,
            })),
            Turn::Response(answered) => messages.extend(response_messages(&answered)),
        }
    }
    let spent = trial.outcome.map(|outcome| outcome.spent).unwrap_or_default();
    let mut rollout = json!({
        "task": trial.task.id,
        "arm": trial.arm.name,
        "attempt": trial.attempt,
        "model": trial.model(),
        "messages": messages,
        "tools": tools_as_functions(tools),
        "outcome": trial.ending(),
        "resolved": trial.verdict.map(|verdict| verdict.resolved),
        "passed_rate": trial.verdict.map(|verdict| verdict.passed_rate),
        "integrity": trial.verdict.map(|verdict| verdict.integrity),
        "steps": spent.steps,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "patch": trial.patch_text(fidelity),
    });
    if let Some(all) = trial.interruptions() {
        rollout["interruptions"] = json!(all);
    }
    Ok(rollout)
}

fn response_messages(turn: &ResponseTurn) -> Vec<Value> {
    let ResponseTurn { response: answer, is_grace, .. } = turn;
    let mut assistant = json!({ "role": "assistant", "content": answer.content });
    if !answer.tool_calls.is_empty() {
        assistant["tool_calls"] = turn.chat_calls().into();
    }
    if *is_grace {
        assistant["after_the_limit"] = true.into();
    }
    for field in SAMPLING_FIELDS {
        if let Some(drawn) = answer.extra.get(field) {
            assistant[field] = drawn.clone();
        }
    }
    // A command in the response text is not a call. Its output was sent as the next user message.
    let outputs = turn.chat_outputs().map(
        |(call, output)| json!({ "role": "tool", "tool_call_id": call.id, "content": output.text }),
    );
    let outputs: Vec<Value> = outputs.collect();
    [vec![assistant], outputs].concat()
}
