//! Rollouts: what a trainer reads. A line a trial: the conversation as chat, and what it was worth.

use serde_json::{Value, json};

use crate::{
    Fidelity, Trial,
    conversation::{Answered, Conversation, Turn, as_functions},
};

/// The fields of an answer in which endpoints give what they drew and how likely it was.
const DRAWN: [&str; 3] = ["token_ids", "prompt_token_ids", "logprobs"];

/// The trial as a line. Token ids and log-probabilities are in it where the endpoint gave them, and absent where it did not:
/// ids that a tokenizer guesses afterwards are not those that were drawn.
///
/// # Errors
/// The shipped table of what is left out cannot be read.
pub fn rollout(trial: &Trial<'_>, fidelity: &mut Fidelity) -> Result<Value, String> {
    fidelity.written(trial.events)?;
    let Conversation { turns, tools } = Conversation::of(trial.events);
    let mut messages = Vec::new();
    for turn in turns {
        match turn {
            Turn::Told(told) => messages.push(json!({
                "role": if told.is_system { "system" } else { "user" },
                "content": told.text,
            })),
            Turn::Answered(answered) => messages.extend(answer_and_outputs(&answered)),
        }
    }
    let spent = trial.outcome.map(|outcome| outcome.spent).unwrap_or_default();
    let mut rollout = json!({
        "task": trial.task.id,
        "arm": trial.arm.name,
        "attempt": trial.attempt,
        "model": trial.model(),
        "messages": messages,
        "tools": as_functions(tools),
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

fn answer_and_outputs(answered: &Answered) -> Vec<Value> {
    let Answered { answer, is_grace, .. } = answered;
    let mut assistant = json!({ "role": "assistant", "content": answer.content });
    if !answer.tool_calls.is_empty() {
        assistant["tool_calls"] = answered.wire_calls().into();
    }
    if *is_grace {
        assistant["after_the_limit"] = true.into();
    }
    for field in DRAWN {
        if let Some(drawn) = answer.extra.get(field) {
            assistant[field] = drawn.clone();
        }
    }
    // A command that stands in the text is none of the wire's calls: its output came as the user's next message.
    let outputs = answered.wire_outputs().map(|(call, output)| {
        json!({ "role": "tool", "tool_call_id": call.id, "content": output.shown })
    });
    let outputs: Vec<Value> = outputs.collect();
    [vec![assistant], outputs].concat()
}
