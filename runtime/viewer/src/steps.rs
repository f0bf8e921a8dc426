//! Reads one step of a trial with all its details.

use proctor_record::{Blobs, PatchPolicy, RecordError, Tree, collect_patch};
use proctor_types::Event;
use serde::de::IgnoredAny;

use super::{
    JournalIndex,
    response_text::{join_texts, model_reasoning, model_refusal, other_fields, said_text},
    tool_calls::{agent_text, arguments_text, format_arguments, summarize_call},
};
use crate::html::{Call, EgressRequest, EndpointRequest, Step};

/// Reads one step from its journal lines. Returns `None` if the trial has no such step.
pub fn read_step(index: &JournalIndex, blobs: &Blobs, number: u64) -> Option<Step> {
    let unanswered = || index.unanswered_row().filter(|row| row.number == number);
    let row = index.rows.get(number.checked_sub(1)? as usize).cloned().or_else(unanswered)?;
    let side_requests = index.side_requests.iter().filter(|one| one.step == number);
    let side_requests = side_requests.cloned().collect();
    let mut step = Step { row, side_requests, ..Step::default() };
    for line in index.step_lines(number) {
        match line.and_then(|line| line.parse_event()) {
            Ok(event) => add_event(&mut step, event.event),
            Err(bad) => step.notes.push(bad.to_string()),
        }
    }
    step.notes = count_repeats(step.notes);
    if let Some([before, after, first]) = index.trees_around_step(number) {
        // If a tree is corrupt, show the step without its diffs.
        let mut told = |diff: Result<String, RecordError>| {
            diff.unwrap_or_else(|error| {
                step.notes.push(error.to_string());
                String::new()
            })
        };
        let changed = told(diff_trees(blobs, before, after));
        let so_far =
            if first == before { String::new() } else { told(diff_trees(blobs, first, after)) };
        (step.diff, step.so_far) = (changed, so_far);
    }
    Some(step)
}

/// Returns a step's calls, or its message if it has no calls, without the outputs. This is the text
/// in which steps of different trials are compared.
pub fn read_step_text(index: &JournalIndex, number: u64) -> String {
    let mut step = Step::default();
    // Outputs may be megabytes long, so don't parse them.
    let is_needed = |kind: &str| matches!(kind, "model_answered" | "tool_called");
    for line in index.step_lines(number).flatten().filter(|line| is_needed(&line.kind)) {
        if let Ok(event) = line.parse_event() {
            add_event(&mut step, event.event);
        }
    }
    let calls: Vec<String> =
        step.calls.iter().map(|call| format!("{}: {}", call.name, call.arguments)).collect();
    if calls.is_empty() { join_texts(&step.message, &step.refusal) } else { calls.join("\n") }
}

/// Returns a step's changes to the work directory as a diff. `None` if there is no snapshot, or if a
/// tree cannot be read.
pub fn read_step_diff(index: &JournalIndex, blobs: &Blobs, number: u64) -> Option<String> {
    let [before, after, _] = index.trees_around_step(number)?;
    diff_trees(blobs, before, after).ok()
}

fn add_event(step: &mut Step, event: Event) {
    match event {
        Event::ModelAnswered { answer } => {
            step.reasoning = model_reasoning(&answer.extra);
            step.refusal = model_refusal(&answer.extra);
            step.other_fields = other_fields(&answer.extra);
            step.is_refused = answer.refused;
            step.finish_reason = answer.finish_reason.unwrap_or_default();
            let calls = answer.tool_calls.into_iter();
            let call = |call: proctor_types::ToolCall| Call {
                id: call.id,
                name: call.name,
                arguments: format_arguments(&call.arguments),
                is_json: serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok(),
                ..Call::default()
            };
            step.calls = calls.map(call).collect();
            step.message = answer.content;
        }
        Event::GraceAnswered { answer } => {
            let calls = answer.tool_calls.iter();
            let calls = calls.map(|call| summarize_call(&call.name, &call.arguments));
            let texts = [said_text(&answer)].into_iter().chain(calls);
            let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
            step.grace_response = texts.join("\n");
        }
        Event::ToolCalled { call_id, name, arguments } => {
            // The journal records arguments that are not JSON as a string.
            let is_json = !arguments.is_string();
            let arguments = format_arguments(&arguments.to_string());
            // Some clients rewrite the ids of calls, so also compare the calls themselves.
            let by_id = step.calls.iter().position(|call| call.id == call_id && call.name == name);
            let is_same = |call: &Call| call.name == name && call.arguments == arguments;
            let by_text = || step.calls.iter().position(|call| is_same(call) && !call.ran);
            let found = by_id.or_else(by_text).or_else(|| step.calls.iter().position(is_same));
            match found {
                Some(at) => step.calls[at].ran = true,
                None => {
                    let call = Call { name, arguments, is_json, ran: true, ..Call::default() };
                    step.calls.push(call);
                }
            }
        }
        Event::ToolReturned { name, shown, full, exit_status, seconds, malformed, .. } => {
            // Results are recorded in the order of their calls, so this result belongs to the first
            // call with the same name that has no result yet.
            let waiting =
                step.calls.iter_mut().find(|call| call.shown.is_none() && call.name == name);
            if let Some(call) = waiting {
                call.ran = true;
                call.shown = Some(shown);
                call.full = full;
                call.exit_status = exit_status;
                call.seconds = Some(seconds);
                call.malformed = malformed;
            }
        }
        Event::UrlRequested(url) => step.urls.push(EgressRequest {
            method: url.method,
            url: url.url,
            decision: serde_json::to_value(url.decision)
                .map(|one| arguments_text(&one))
                .unwrap_or_default(),
            why: url.rule.or(url.error).unwrap_or_default(),
        }),
        Event::ModelAttempted {
            attempt,
            status,
            error,
            wait_seconds,
            queued_seconds,
            seconds,
            request,
            body,
            ..
        } => {
            if let Some(error) = error {
                step.notes.push(format!("request failed: {error}"));
            }
            let waited_seconds = wait_seconds + queued_seconds;
            step.sends.push(EndpointRequest {
                attempt,
                status,
                seconds,
                waited_seconds,
                request,
                body,
            });
        }
        Event::TrialResumed { whole_steps, .. } if whole_steps < step.row.number => {
            step.notes.push("interrupted during this step; its calls ran again".into());
            step.calls.iter_mut().for_each(|call| call.shown = None);
        }
        Event::BudgetReached { budget, .. } => {
            step.notes.push(format!("reached the limit on {budget}"))
        }
        Event::TryFailed { fault, .. } => step.notes.push(format!("try failed: {fault}")),
        Event::Noted { note } => step.agent_logs.extend(agent_text(&note)),
        _ => {}
    }
}

/// Replaces equal notes that follow each other by one note with their number.
fn count_repeats(notes: Vec<String>) -> Vec<String> {
    let same = notes.chunk_by(|one, next| one == next);
    same.map(|group| match group {
        [note] => note.clone(),
        _ => format!("{} ({} times)", group[0], group.len()),
    })
    .collect()
}

fn diff_trees(blobs: &Blobs, tree_before: &str, tree_after: &str) -> Result<String, RecordError> {
    if tree_before == tree_after {
        return Ok(String::new());
    }
    let policy = PatchPolicy::shipped()?;
    let (before, after) = (Tree::load(blobs, tree_before)?, Tree::load(blobs, tree_after)?);
    let patch = collect_patch(&before, &after, blobs, policy)?;
    Ok(String::from_utf8_lossy(&patch.bytes).into_owned())
}
