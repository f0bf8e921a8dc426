//! What a form is made of.

use std::{borrow::Cow, fmt};

use proctor_types::{Arm, Envelope, Interruptions, Outcome, Task, Verdict};
use serde_json::{Value, json};

use crate::Fidelity;

/// A form of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Harbor's trajectories, version 1.8: a document a trial.
    Atif,
    /// Logs of Inspect AI: an archive an arm, with a sample a trial.
    Inspect,
    /// The trajectories of mini-swe-agent, format 1.1.
    Mini,
    /// Spans of OpenTelemetry: a line a trial.
    Otel,
    /// Conversations with what they were worth, for training: a line a trial.
    Rollouts,
    /// The trajectories of SWE-agent.
    SweAgent,
    /// Predictions, a line a trial: SWE-bench, FEA-Bench and all that read the same three keys.
    SweBench,
    /// The folder that SWE-bench's repository of experiments takes.
    Submission,
}

impl Format {
    /// As it is written in commands and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Atif => "atif",
            Self::Inspect => "inspect",
            Self::Mini => "mini",
            Self::Otel => "otel",
            Self::Rollouts => "rollouts",
            Self::SweAgent => "swe-agent",
            Self::SweBench => "swebench",
            Self::Submission => "swebench-submission",
        }
    }
}

impl Format {
    /// The forms.
    pub const ALL: [Self; 8] = [
        Self::Atif,
        Self::Inspect,
        Self::Mini,
        Self::Otel,
        Self::Rollouts,
        Self::SweAgent,
        Self::SweBench,
        Self::Submission,
    ];

    /// What its files end in.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Atif => "json",
            Self::Mini | Self::Submission => "traj.json",
            Self::SweAgent => "traj",
            Self::Inspect => "eval",
            Self::Otel | Self::Rollouts | Self::SweBench => "jsonl",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A trial, read.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    pub task: &'a Task,
    pub arm: &'a Arm,
    pub attempt: u32,
    /// The events that stand (`proctor_types::standing`).
    pub events: &'a [Envelope],
    /// The one that the journal names.
    pub patch: &'a [u8],
    pub outcome: Option<&'a Outcome>,
    pub verdict: Option<&'a Verdict>,
    /// The version of Proctor that made the run.
    pub proctor: &'a str,
}

impl Trial<'_> {
    /// `TASK/ARM/ATTEMPT`, as `proctor show` names it.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.task.id, self.arm.name, self.attempt)
    }

    /// The patch, for forms that hold text. What is no text is replaced, and `fidelity` says so.
    pub(crate) fn patch_text(&self, fidelity: &mut Fidelity) -> Cow<'_, str> {
        text_of(self.patch, fidelity)
    }

    /// Whose trial it is, for forms that have no key for it: an import finds its arm again by it.
    pub(crate) fn own(&self) -> Value {
        let (task, arm) = (&self.task.id, &self.arm.name);
        let mut own = json!({ "task": task, "arm": arm, "attempt": self.attempt });
        if let Some(all) = self.interruptions() {
            own["interruptions"] = json!(all);
        }
        own
    }

    /// What the endpoint calls the model; absent where none is asked.
    pub(crate) fn model(&self) -> Option<&str> {
        let model = self.arm.model.as_ref().map(|model| model.name.as_str());
        model.or_else(|| self.imported("model"))
    }

    /// The scaffold, or the agent of an imported trial.
    pub(crate) fn agent(&self) -> &str {
        self.imported("agent").unwrap_or(&self.arm.scaffold)
    }

    /// What an import knew of its arm.
    pub(crate) fn imported(&self, key: &str) -> Option<&str> {
        self.arm.settings.get("imported")?.get(key)?.as_str()
    }

    /// What interruptions did to it. Absent: it ran without one.
    pub(crate) fn interruptions(&self) -> Option<&Interruptions> {
        self.outcome.map(|outcome| &outcome.interruptions).filter(|all| !all.is_none())
    }

    /// How it ended: `submitted`, `budget_steps`...
    pub(crate) fn ending(&self) -> Option<String> {
        self.outcome.map(|outcome| outcome.ending.name())
    }
}

fn text_of<'p>(patch: &'p [u8], fidelity: &mut Fidelity) -> Cow<'p, str> {
    let text = String::from_utf8_lossy(patch);
    if matches!(text, Cow::Owned(_)) {
        fidelity.leave_out("patches with bytes that are not UTF-8: each such byte is U+FFFD", 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_that_is_no_text_is_counted() {
        let mut fidelity = Fidelity::new(Format::Mini);
        assert_eq!(text_of("+\u{e9}\n".as_bytes(), &mut fidelity), "+\u{e9}\n");
        assert!(fidelity.left_out.is_empty());
        assert_eq!(text_of(b"+\xe9\n", &mut fidelity), "+\u{fffd}\n");
        assert_eq!(fidelity.left_out[0].count, 1);
    }
}
