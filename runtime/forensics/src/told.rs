//! What a scaffold told the model: texts of the hidden solution and tests in it.

use std::collections::HashSet;

use proctor_patch::{Patch, Side, gold_of};
use proctor_record::{Blobs, RecordError, Remedy, Tree};
use proctor_types::{Answer, Envelope, Event, Fault, Task};
use proctor_wire::EntryKind;
use serde_json::Value;

use crate::{
    finding::{Finding, Kind},
    rules::Answers,
};

/// Larger files of the tree are no source.
const MOST_BYTES: u64 = 1 << 20;
/// Parts of a message that the scaffold did not write: what the model said, and what tools answered.
const OTHERS: &[&str] = &[
    "tool_calls",
    "functionCall",
    "functionResponse",
    "function_call",
    "function_call_output",
    "tool_use",
    "tool_result",
    "custom_tool_call",
    "custom_tool_call_output",
    "thinking",
    "reasoning",
];
const SPEAKERS: &[&str] = &["assistant", "model", "tool", "function"];

const DEFINES: &[&str] = &["def ", "async def ", "class "];

/// Successive words, in lower case.
type Words = Vec<String>;

/// Texts that the scaffold added to the conversation and that hold a part of the hidden solution or tests which is
/// nowhere else: not in the task's row, not in the tree that the agent was given, and neither said by the model nor
/// shown by a tool before.
pub(crate) fn told(
    task: &Task,
    events: &[Envelope],
    blobs: Option<&Blobs>,
    limits: Answers,
) -> Result<Vec<Finding>, Fault> {
    let mut hidden = hidden(task, limits.words);
    take_row(task, &mut hidden, limits.words);
    let (mut read, mut found) = (HashSet::new(), Vec::new());
    let mut base = None;
    for envelope in events {
        if hidden.is_empty() {
            break;
        }
        let mut known = |text: &str| take(text, &mut hidden, limits.words);
        let request = match &envelope.event {
            Event::SetupFinished { base_snapshot, .. } => {
                base = Some(base_snapshot.as_str());
                continue;
            }
            Event::ToolReturned { shown, .. } => {
                known(shown);
                continue;
            }
            Event::ModelAnswered { answer } => {
                said(answer, &mut known);
                continue;
            }
            Event::ModelAsked { ask } => serde_json::to_value(ask).unwrap_or_default(),
            Event::RequestServed { request, answer, .. } => {
                let Some(blobs) = blobs else { continue };
                if let Some(answer) = answer {
                    said(answer, &mut known);
                }
                // One that came again.
                if !read.insert(request.clone()) {
                    continue;
                }
                let body = blobs.get(request).map_err(lost)?;
                serde_json::from_slice(&body)
                    .unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into())
            }
            _ => continue,
        };
        let mut hits = HashSet::new();
        added(&request, &mut |text| {
            if read.insert(text.to_owned()) {
                hits.extend(runs(text, limits.words).filter(|run| hidden.contains(run)));
            }
        });
        if hits.len() < limits.runs {
            continue;
        }
        // Only now, since it is the dear part: what stands in the tree is no secret.
        if let (Some(blobs), Some(base)) = (blobs, base.take()) {
            take_tree(blobs, base, &mut hidden, limits.words)?;
            hits.retain(|run| hidden.contains(run));
        }
        if hits.len() >= limits.runs {
            let first = hits.iter().min().map(|run| run.join(" ")).unwrap_or_default();
            let what = format!(
                "the scaffold told the model what only the hidden solution or tests have: {first}"
            );
            found.push(Finding { kind: Kind::AnswerInScaffold, what, step: Some(envelope.step) });
        }
    }
    Ok(found)
}

fn lost(error: RecordError) -> Fault {
    error.fault().hint(Remedy::Copy.hint()).lasting()
}

/// What the gold adds and what the test patch adds, but for the lines that define something: a benchmark shows
/// these as the interface. A gold that cannot be read is the setup's to tell of.
fn hidden(task: &Task, words: usize) -> HashSet<Words> {
    let gold = gold_of(task).ok().flatten();
    let tests = task.test_patch.as_ref().map(|text| text.as_bytes().to_vec());
    let (mut all, mut defined) = (HashSet::new(), Vec::new());
    for patch in gold.into_iter().chain(tests) {
        for file in &Patch::read(&patch).files {
            for (side, lines) in file.hunks().iter().flat_map(|hunk| hunk.runs()) {
                if side == Side::New {
                    let text: Vec<String> = lines.iter().map(|line| line.text()).collect();
                    all.extend(runs(&text.join("\n"), words));
                    let defines = |line: &String| {
                        DEFINES.iter().any(|word| line.trim_start().starts_with(word))
                    };
                    defined.extend(text.into_iter().filter(defines));
                }
            }
        }
    }
    defined.iter().for_each(|line| take(line, &mut all, words));
    all
}

/// The statement and whatever else the row gives the agent, such as the interfaces of new functions.
fn take_row(task: &Task, hidden: &mut HashSet<Words>, words: usize) {
    let Ok(Value::Object(mut row)) = serde_json::to_value(task) else { return };
    for key in ["mask", "gold", "test_patch"] {
        row.remove(key);
    }
    strings(&Value::Object(row), &mut |text| take(text, hidden, words));
}

fn take_tree(
    blobs: &Blobs,
    base: &str,
    hidden: &mut HashSet<Words>,
    words: usize,
) -> Result<(), Fault> {
    for entry in Tree::load(blobs, base).map_err(lost)?.entries.values() {
        let (EntryKind::File, Some(hash)) = (entry.kind, &entry.hash) else { continue };
        // Content that was not kept was too large, or is the environment's and unchanged.
        if entry.size <= MOST_BYTES && blobs.has(hash) {
            let bytes = blobs.get(hash).map_err(lost)?;
            take(&String::from_utf8_lossy(&bytes), hidden, words);
        }
    }
    Ok(())
}

fn said(answer: &Answer, known: &mut impl FnMut(&str)) {
    known(&answer.content);
    strings(&serde_json::to_value(&answer.extra).unwrap_or_default(), known);
    for call in &answer.tool_calls {
        // The arguments are JSON in a text: their line ends are letters there.
        let call = serde_json::to_value(call).unwrap_or_default();
        strings(&call, &mut |text| match serde_json::from_str::<Value>(text) {
            Ok(inner) if !inner.is_string() => strings(&inner, known),
            _ => known(text),
        });
    }
}

fn take(text: &str, hidden: &mut HashSet<Words>, words: usize) {
    for run in runs(text, words) {
        hidden.remove(&run);
    }
}

/// Every run of so many words.
fn runs(text: &str, words: usize) -> impl Iterator<Item = Words> {
    let all: Words = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let count = (all.len() + 1).saturating_sub(words);
    (0..count).map(move |at| all[at..at + words].to_vec())
}

/// The texts of a request, in whichever wire format, that are neither the model's nor a tool's.
fn added(value: &Value, text: &mut impl FnMut(&str)) {
    match value {
        Value::String(one) => text(one),
        Value::Array(all) => all.iter().for_each(|one| added(one, text)),
        Value::Object(keys) => {
            let is = |key: &str, names: &[&str]| {
                keys.get(key).and_then(Value::as_str).is_some_and(|name| names.contains(&name))
            };
            if is("role", SPEAKERS) || is("type", OTHERS) {
                return;
            }
            let own = keys.iter().filter(|(key, _)| !OTHERS.contains(&key.as_str()));
            own.for_each(|(_, one)| added(one, text));
        }
        _ => {}
    }
}

fn strings(value: &Value, text: &mut impl FnMut(&str)) {
    match value {
        Value::String(one) => text(one),
        Value::Array(all) => all.iter().for_each(|one| strings(one, text)),
        Value::Object(keys) => keys.values().for_each(|one| strings(one, text)),
        _ => {}
    }
}
