//! Detects the format of another tool's file, and reads it.

use std::fmt;

use proctor_types::{
    BudgetKind, BudgetScope, Ending, Envelope, ExitCause, Outcome, TrialId, python_json,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{atif, events, mini, swe_agent};
use crate::{Fidelity, Format, conversation::Conversation};

/// A trial as described by another tool's file.
#[derive(Debug, Clone)]
pub struct Imported {
    /// Absent if the file does not name it.
    pub task: Option<String>,
    /// The name of the arm, if Proctor wrote the file.
    pub arm: Option<String>,
    pub attempt: Option<u32>,
    pub agent: String,
    pub version: Option<String>,
    pub model: Option<String>,
    /// The submitted patch. Absent if the file has none.
    pub patch: Option<String>,
    /// The file's own claim about its result. Proctor's verdicts come from grading alone.
    pub claim: Option<Value>,
    pub(crate) conversation: Conversation,
    pub(crate) ending: Ending,
    /// Total input, output and cached tokens, and dollars, if the file has totals.
    pub(crate) sum: Option<(u64, u64, u64, Option<f64>)>,
}

/// The trial's identity, if Proctor wrote the file in a format that has no keys for it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Own {
    pub(super) task: Option<String>,
    pub(super) arm: Option<String>,
    pub(super) attempt: Option<u32>,
}

/// A file that is not a valid trajectory: the place and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSource {
    /// `steps[3].source`, or a line and a column.
    pub place: String,
    pub why: String,
    pub hint: &'static str,
}

impl BadSource {
    pub(crate) fn at(place: impl Into<String>, why: impl Into<String>, hint: &'static str) -> Self {
        Self { place: place.into(), why: why.into(), hint }
    }
}

impl fmt::Display for BadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

/// Maximum number of characters quoted of an error about a value.
const QUOTED: usize = 300;
const NO_JSON: &str = "the file may be truncated: download it again, or leave it out";
const OTHER_SHAPE: &str =
    "correct the file, or leave it out; docs/import.md lists what each format may contain";

/// The format of a file, judged by its content. `None` if it is not a known trajectory.
pub fn trajectory_format(name: &str, text: &str) -> Option<Format> {
    // A truncated file should be reported as truncated, not as something else.
    let from_start = |words: &str| text.get(..4096).unwrap_or(text).contains(words);
    let Ok(value) = python_json(text.as_bytes()) else {
        return match name {
            _ if from_start("\"ATIF-v") => Some(Format::Atif),
            _ if name.ends_with(".traj.json") => Some(Format::Mini),
            _ if name.ends_with(".traj") => Some(Format::SweAgent),
            _ => None,
        };
    };
    let has = |key: &str| !value[key].is_null();
    if value["schema_version"].as_str().is_some_and(|version| version.starts_with("ATIF")) {
        Some(Format::Atif)
    } else if has("trajectory_format") || (has("messages") && has("info")) {
        Some(Format::Mini)
    } else if has("trajectory") {
        Some(Format::SweAgent)
    } else {
        None
    }
}

/// Reads a trajectory. `fidelity` counts what the record of a trial would have but the file lacks,
/// and what the file has but a record has no place for.
///
/// # Errors
/// The file is damaged, or has another format.
pub fn read_trajectory(
    format: Format,
    text: &str,
    fidelity: &mut Fidelity,
) -> Result<Imported, BadSource> {
    let imported = match format {
        Format::Atif => atif::read(text, fidelity)?,
        Format::Mini => mini::read(text)?,
        Format::SweAgent => swe_agent::read(text)?,
        _ => {
            return Err(BadSource::at(
                "format",
                format!("importing {format} is not supported"),
                "supported: atif, mini, swe-agent, swebench",
            ));
        }
    };
    imported.conversation.count_gaps(fidelity);
    fidelity.lacks("patches", u64::from(imported.patch.is_none()));
    fidelity.lacks("the files after each step", imported.conversation.answers().count() as u64);
    fidelity.trials += 1;
    Ok(imported)
}

impl Imported {
    /// Its events and its outcome, as in a record. The last event, with the outcome, is left to the
    /// code that stores the patch.
    pub fn record(&self, id: &TrialId) -> (Vec<Envelope>, Outcome) {
        events::of(self, id)
    }

    /// The first message to the agent; serves as the task's statement if no dataset has the task.
    pub fn statement(&self) -> &str {
        self.conversation.first_words().unwrap_or_default()
    }

    /// `AGENT/MODEL`, or the name that Proctor wrote.
    pub fn arm_name(&self) -> String {
        let (agent, model) = (&self.agent, self.model.as_deref());
        match (&self.arm, model) {
            (Some(arm), _) => arm.clone(),
            (None, Some(model)) => format!("{agent}/{model}"),
            (None, None) => agent.clone(),
        }
    }
}

/// Parses JSON as `T`, or returns the place where it does not fit.
pub(super) fn shaped<T: DeserializeOwned>(text: &str) -> Result<T, BadSource> {
    let value = python_json(text.as_bytes()).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        BadSource::at(place, "invalid or truncated JSON", NO_JSON)
    })?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        let place = error.path().to_string();
        BadSource::at(place, shortened(&error.into_inner().to_string()), OTHER_SHAPE)
    })
}

/// A sentence that quotes a value of the file, with the middle of a long one removed.
fn shortened(why: &str) -> String {
    let count = why.chars().count();
    if count <= QUOTED {
        return why.to_owned();
    }
    let head: String = why.chars().take(QUOTED / 2).collect();
    let tail: String = why.chars().skip(count - QUOTED / 2).collect();
    format!("{head}\u{2026}{tail}")
}

/// How a trial ended, in the terms of Proctor or of other tools.
pub(super) fn ending(said: Option<&str>) -> Ending {
    let said = said.unwrap_or_default().trim();
    let exited = |why: String| Ending::ScaffoldExited { cause: ExitCause::Finished, why };
    if said.eq_ignore_ascii_case("submitted") {
        return Ending::Submitted;
    }
    let kind = said.strip_prefix("budget_").map(Value::from);
    if let Some(budget) = kind.and_then(|kind| serde_json::from_value::<BudgetKind>(kind).ok()) {
        return Ending::Budget { budget, scope: BudgetScope::Trial };
    }
    match said {
        "" => exited("the imported file does not say how it ended".to_owned()),
        "model_refused" => {
            Ending::ModelRefused { why: "according to the imported file".to_owned() }
        }
        said => exited(format!("the imported file says: {said}")),
    }
}
