//! A trial parsed from another tool's file.

use proctor_types::{BudgetKind, BudgetScope, Ending, ExitCause};
use serde::Deserialize;
use serde_json::Value;

use crate::conversation::Conversation;

/// A trial parsed from another tool's file.
#[derive(Debug, Clone)]
pub struct ImportedTrial {
    /// The task's id. `None` if the file does not contain one.
    pub task: Option<String>,
    /// The arm's name. `None` unless Proctor wrote the file.
    pub arm: Option<String>,
    pub attempt: Option<u32>,
    pub agent_name: String,
    pub version: Option<String>,
    pub model: Option<String>,
    /// The submitted patch. `None` if the file does not contain one.
    pub patch: Option<String>,
    /// The result that the file claims. Proctor's own verdicts only come from grading.
    pub claimed_result: Option<Value>,
    pub(crate) conversation: Conversation,
    pub(crate) ending: Ending,
    /// Total input tokens, output tokens, cached tokens, and cost in US dollars, if the file
    /// contains totals.
    pub(crate) totals: Option<(u64, u64, u64, Option<f64>)>,
}

/// The trial's identity. Proctor adds it to files in formats that have no keys for it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TrialIdentity {
    pub(super) task: Option<String>,
    pub(super) arm: Option<String>,
    pub(super) attempt: Option<u32>,
}

impl ImportedTrial {
    /// Returns the first message to the agent. It serves as the task's statement if no dataset
    /// contains the task.
    pub fn statement(&self) -> &str {
        self.conversation.first_message().unwrap_or_default()
    }

    /// Returns the arm's name if Proctor wrote the file. Otherwise, returns `AGENT/MODEL`, or
    /// `AGENT` if the model is unknown.
    pub fn arm_name(&self) -> String {
        let (agent, model) = (&self.agent_name, self.model.as_deref());
        match (&self.arm, model) {
            (Some(arm), _) => arm.clone(),
            (None, Some(model)) => format!("{agent}/{model}"),
            (None, None) => agent.clone(),
        }
    }
}

/// Parses how a trial ended, as Proctor or another tool describes it.
pub(super) fn parse_ending(ending_text: Option<&str>) -> Ending {
    let said = ending_text.unwrap_or_default().trim();
    let exited = |why: String| Ending::ScaffoldExited { cause: ExitCause::Finished, why };
    if said.eq_ignore_ascii_case("submitted") {
        return Ending::Submitted;
    }
    let kind = said.strip_prefix("budget_").map(Value::from);
    if let Some(budget) = kind.and_then(|kind| serde_json::from_value::<BudgetKind>(kind).ok()) {
        return Ending::Budget { budget, scope: BudgetScope::Trial };
    }
    match said {
        "" => exited("the imported file does not say how the trial ended".to_owned()),
        "model_refused" => {
            Ending::ModelRefused { why: "according to the imported file".to_owned() }
        }
        said => exited(format!("the imported file says: {said}")),
    }
}
