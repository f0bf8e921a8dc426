//! The steps of a trial, out of its journal, an event at a time.

use std::path::Path;

use proctor_html::{Call, Step, StepRow, Url};
use proctor_record::{Blobs, EventLine, Events, PatchPolicy, RecordError, Tree, between};
use proctor_types::{Answer, Envelope, Event, UrlDecision};
use serde_json::Value;

/// Characters of what a step did, on its line.
const WORDS: usize = 100;

/// A line for each step. What cannot be read of the journal is told beside them.
pub fn rows(journal: &Path) -> Result<(Vec<StepRow>, Vec<String>), RecordError> {
    let (mut rows, mut damage): (Vec<StepRow>, Vec<String>) = (Vec::new(), Vec::new());
    let mut last = 0.0;
    for line in Events::of(journal)? {
        let event = match line.and_then(|line| line.event()) {
            Ok(event) => event,
            Err(bad) => {
                damage.push(bad.to_string());
                continue;
            }
        };
        let row = row_of(&mut rows, &event, last);
        if let Some(row) = row {
            if let Event::TrialResumed { whole_steps, .. } = event.event
                && whole_steps < row.number
            {
                undone(row);
            }
            add(row, &event);
            row.seconds = (event.t_mono - row.at).max(row.seconds);
        }
        last = event.t_mono;
    }
    Ok((rows, damage))
}

/// The row of an event. One that comes before the first answer has none.
fn row_of<'a>(rows: &'a mut Vec<StepRow>, event: &Envelope, at: f64) -> Option<&'a mut StepRow> {
    while (rows.len() as u64) < event.step {
        let number = rows.len() as u64 + 1;
        rows.push(StepRow { number, at, ..StepRow::default() });
    }
    rows.get_mut((event.step as usize).checked_sub(1)?)
}

/// Takes back what came of a step's calls: they run again.
fn undone(row: &mut StepRow) {
    (row.tool_seconds, row.failed) = (0.0, false);
}

fn add(row: &mut StepRow, event: &Envelope) {
    match &event.event {
        Event::ModelAnswered { answer } => answered(row, answer),
        Event::ToolCalled { name, arguments, .. } => {
            // The answer named the call already; a client's own tools are known by this event alone.
            let call = words(name, &arguments_text(arguments));
            if !row.did.contains(&call) {
                row.did.push(call);
            }
        }
        Event::ToolReturned { exit_status, seconds, malformed, .. } => {
            row.tool_seconds += seconds;
            row.failed |= *malformed || exit_status.is_some_and(|status| status != 0);
        }
        Event::SnapshotTaken { changed, removed, .. } => row.changed += changed + removed,
        Event::UrlRequested(url) => {
            row.requests += 1;
            row.denied += u64::from(url.decision == UrlDecision::Denied);
        }
        Event::ModelAttempted { error: Some(_), .. } => row.resends += 1,
        _ => {}
    }
}

fn answered(row: &mut StepRow, answer: &Answer) {
    (row.input, row.output) = (answer.usage.input, answer.usage.output);
    row.cost_usd = answer.cost_usd;
    row.did = answer.tool_calls.iter().map(|call| words(&call.name, &call.arguments)).collect();
    if row.did.is_empty() {
        row.did.push(words("", &answer.content));
    }
}

/// The tool and the first words of its call: of arguments with one text, that text.
fn words(name: &str, arguments: &str) -> String {
    let text = match serde_json::from_str::<Value>(arguments) {
        Ok(value) => arguments_text(&value),
        Err(_) => arguments.to_owned(),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(WORDS).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    match name {
        "" => format!("{short}{more}"),
        name => format!("{name}: {short}{more}"),
    }
}

fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let texts: Vec<String> = fields.values().map(arguments_text).collect();
            texts.join(" ")
        }
        other => other.to_string(),
    }
}

/// One step, whole, and whether another follows. `None`: the trial has no such step.
pub fn step(
    journal: &Path,
    blobs: &Blobs,
    number: u64,
) -> Result<Option<(Step, bool)>, RecordError> {
    let (mut step, mut more) = (Step::default(), false);
    let (mut rows, mut before, mut after) = (Vec::new(), None, None);
    let mut last = 0.0;
    for line in Events::of(journal)? {
        let line = match line {
            // A request to the proxy is written when it ends, which may be in a later step: so read on.
            Ok(line) if line.step > number => {
                more = true;
                continue;
            }
            Ok(line) => line,
            Err(bad) => {
                step.notes.push(bad.to_string());
                continue;
            }
        };
        // Of other steps only the trees are needed, and when they ended.
        if line.step < number && line.kind != "snapshot_taken" && line.step + 1 < number {
            continue;
        }
        let event = match EventLine::event(&line) {
            Ok(event) => event,
            Err(bad) => {
                step.notes.push(bad.to_string());
                continue;
            }
        };
        if let Event::SnapshotTaken { snapshot, .. } = &event.event {
            let tree = if line.step < number { &mut before } else { &mut after };
            *tree = Some(snapshot.clone());
        }
        if line.step == number {
            if let Event::TrialResumed { whole_steps, .. } = event.event
                && whole_steps < number
            {
                step.notes.push("the runtime was interrupted in it: its calls ran again".into());
                step.calls.iter_mut().for_each(|call| call.shown = None);
                rows.iter_mut().for_each(undone);
                continue;
            }
            if let Some(row) = row_of(&mut rows, &event, last) {
                add(row, &event);
                row.seconds = (event.t_mono - row.at).max(row.seconds);
            }
            tell(&mut step, event.event);
        } else {
            last = event.t_mono;
        }
    }
    let Some(row) = number.checked_sub(1).and_then(|at| rows.into_iter().nth(at as usize)) else {
        return Ok(None);
    };
    step.row = row;
    if let (Some(before), Some(after)) = (before, after)
        && before != after
    {
        step.diff = diff(blobs, &before, &after)?;
    }
    Ok(Some((step, more)))
}

fn tell(step: &mut Step, event: Event) {
    match event {
        Event::ModelAnswered { answer } => {
            let fields = ["reasoning_content", "reasoning", "thinking"];
            let known = fields.iter().find_map(|field| answer.extra.get(*field));
            step.reasoning = known.map(arguments_text).unwrap_or_default();
            step.calls = answer
                .tool_calls
                .into_iter()
                .map(|call| Call {
                    name: call.name,
                    arguments: pretty(&call.arguments),
                    ..Call::default()
                })
                .collect();
            step.message = answer.content;
        }
        Event::ToolCalled { name, arguments, .. } => {
            let arguments = pretty(&arguments.to_string());
            if !step.calls.iter().any(|call| call.name == name && call.arguments == arguments) {
                step.calls.push(Call { name, arguments, ..Call::default() });
            }
        }
        Event::ToolReturned { name, shown, full, exit_status, seconds, malformed, .. } => {
            // Outputs come in the order of their calls.
            let waiting =
                step.calls.iter_mut().find(|call| call.shown.is_none() && call.name == name);
            if let Some(call) = waiting {
                call.shown = Some(shown);
                call.cut = full.is_some();
                call.exit_status = exit_status;
                call.seconds = Some(seconds);
                call.malformed = malformed;
            }
        }
        Event::UrlRequested(url) => step.urls.push(Url {
            method: url.method,
            url: url.url,
            decision: serde_json::to_value(url.decision)
                .map(|one| arguments_text(&one))
                .unwrap_or_default(),
            why: url.rule.or(url.error).unwrap_or_default(),
        }),
        Event::ModelAttempted { error: Some(error), attempt, .. } => {
            step.notes.push(format!("send {attempt} failed: {error}"));
        }
        Event::BudgetReached { budget, .. } => {
            step.notes.push(format!("the limit on {budget} was reached"))
        }
        Event::TryFailed { fault, .. } => step.notes.push(fault.to_string()),
        _ => {}
    }
}

fn pretty(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(fields)) => {
            let lines =
                fields.iter().map(|(key, value)| format!("{key}: {}", arguments_text(value)));
            lines.collect::<Vec<_>>().join("\n")
        }
        _ => arguments.to_owned(),
    }
}

fn diff(blobs: &Blobs, before: &str, after: &str) -> Result<String, RecordError> {
    let policy = PatchPolicy::shipped()?;
    let (before, after) = (Tree::load(blobs, before)?, Tree::load(blobs, after)?);
    let found = between(&before, &after, blobs, policy)?;
    Ok(String::from_utf8_lossy(&found.bytes).into_owned())
}
