//! Detects the format of another tool's file and parses it.

use std::fmt;

use proctor_types::{
    BudgetKind, BudgetScope, Ending, Envelope, ExitCause, Outcome, TrialId, parse_python_json,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{atif, events, mini, swe_agent};
use crate::{Fidelity, Format, conversation::Conversation};

/// A trial parsed from another tool's file.
#[derive(Debug, Clone)]
pub struct ImportedTrial {
    /// The task's id. `None` if the file has none.
    pub task: Option<String>,
    /// The arm's name if Proctor wrote the file.
    pub arm: Option<String>,
    pub attempt: Option<u32>,
    pub agent: String,
    pub version: Option<String>,
    pub model: Option<String>,
    /// The submitted patch. `None` if the file has none.
    pub patch: Option<String>,
    /// The result claimed by the file. Proctor's verdicts come only from grading.
    pub claim: Option<Value>,
    pub(crate) conversation: Conversation,
    pub(crate) ending: Ending,
    /// Total input, output and cached tokens and the cost in US dollars, if the file has totals.
    pub(crate) sum: Option<(u64, u64, u64, Option<f64>)>,
}

/// The trial's identity, for files written by Proctor in a format without keys for it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TrialIdentity {
    pub(super) task: Option<String>,
    pub(super) arm: Option<String>,
    pub(super) attempt: Option<u32>,
}

/// An error about an invalid trajectory file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportError {
    /// The location, such as `steps[3].source`, or a line and column.
    pub place: String,
    pub why: String,
    pub hint: &'static str,
}

impl ImportError {
    pub(crate) fn new(
        place: impl Into<String>,
        why: impl Into<String>,
        hint: &'static str,
    ) -> Self {
        Self { place: place.into(), why: why.into(), hint }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

/// Maximum number of characters of an error message that quotes a value.
const MAX_ERROR_CHARS: usize = 300;
const INVALID_JSON_HINT: &str = "the file may be truncated: download it again, or leave it out";
const UNEXPECTED_SHAPE_HINT: &str =
    "fix the file, or leave it out; docs/import.md lists what each format may contain";

/// Detects a file's format from its content. Returns `None` if it is not a known trajectory format.
pub fn detect_format(name: &str, text: &str) -> Option<Format> {
    // Match on the start of the text, so that a truncated file is still recognized and reported as
    // truncated.
    let from_start = |words: &str| text.get(..4096).unwrap_or(text).contains(words);
    let Ok(value) = parse_python_json(text.as_bytes()) else {
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

/// Parses a trajectory. `fidelity` counts data that the file lacks and data that a record cannot
/// represent.
///
/// # Errors
/// Returns an error if the file is damaged or in another format.
pub fn read_trajectory(
    format: Format,
    text: &str,
    fidelity: &mut Fidelity,
) -> Result<ImportedTrial, ImportError> {
    let imported = match format {
        Format::Atif => atif::parse_trajectory(text, fidelity)?,
        Format::Mini => mini::parse_trajectory(text)?,
        Format::SweAgent => swe_agent::parse_trajectory(text)?,
        _ => {
            return Err(ImportError::new(
                "format",
                format!("importing {format} is not supported"),
                "supported: atif, mini, swe-agent, swebench",
            ));
        }
    };
    imported.conversation.count_gaps(fidelity);
    fidelity.record_missing("patches", u64::from(imported.patch.is_none()));
    fidelity.record_missing(
        "the files after each step",
        imported.conversation.responses().count() as u64,
    );
    fidelity.trials += 1;
    Ok(imported)
}

impl ImportedTrial {
    /// Returns the events and the outcome for a record. The caller stores the patch and adds the
    /// last event, which contains the outcome.
    pub fn to_record(&self, id: &TrialId) -> (Vec<Envelope>, Outcome) {
        events::to_events(self, id)
    }

    /// Returns the first message to the agent. It is used as the task's statement if no dataset
    /// contains the task.
    pub fn statement(&self) -> &str {
        self.conversation.first_message().unwrap_or_default()
    }

    /// Returns the arm's name if Proctor wrote the file. Otherwise returns `AGENT/MODEL`, or `AGENT` if
    /// the model is unknown.
    pub fn arm_name(&self) -> String {
        let (agent, model) = (&self.agent, self.model.as_deref());
        match (&self.arm, model) {
            (Some(arm), _) => arm.clone(),
            (None, Some(model)) => format!("{agent}/{model}"),
            (None, None) => agent.clone(),
        }
    }
}

/// Parses JSON as `T`. Errors contain the location.
pub(super) fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T, ImportError> {
    let value = parse_python_json(text.as_bytes()).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        ImportError::new(place, "invalid or truncated JSON", INVALID_JSON_HINT)
    })?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        let place = error.path().to_string();
        ImportError::new(
            place,
            shorten_error(&error.into_inner().to_string()),
            UNEXPECTED_SHAPE_HINT,
        )
    })
}

/// Shortens the middle of an error message that quotes a long value.
fn shorten_error(why: &str) -> String {
    let count = why.chars().count();
    if count <= MAX_ERROR_CHARS {
        return why.to_owned();
    }
    let head: String = why.chars().take(MAX_ERROR_CHARS / 2).collect();
    let tail: String = why.chars().skip(count - MAX_ERROR_CHARS / 2).collect();
    format!("{head}\u{2026}{tail}")
}

/// Parses how a trial ended, in Proctor's or other tools' terms.
pub(super) fn parse_ending(said: Option<&str>) -> Ending {
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
