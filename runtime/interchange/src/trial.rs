//! The trial data that an export contains.

use std::borrow::Cow;

use proctor_types::{Arm, Envelope, Interruptions, Outcome, Task, Verdict};
use serde_json::{Value, json};

use crate::Fidelity;

/// A trial loaded for export.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    pub task: &'a Task,
    pub arm: &'a Arm,
    pub attempt: u32,
    /// The events of the try that counts (see `proctor_types::remove_discarded_events`).
    pub events: &'a [Envelope],
    /// The patch to which the journal refers.
    pub patch: &'a [u8],
    pub outcome: Option<&'a Outcome>,
    pub verdict: Option<&'a Verdict>,
    /// The version of Proctor that ran the trial.
    pub proctor_version: &'a str,
}

impl Trial<'_> {
    /// Returns `TASK/ARM/ATTEMPT`, the name that `proctor show` uses.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.task.id, self.arm.name, self.attempt)
    }

    /// Returns the patch as text. If it contains invalid UTF-8, the invalid bytes are replaced, and
    /// `fidelity` counts the patch.
    pub(crate) fn patch_text(&self, fidelity: &mut Fidelity) -> Cow<'_, str> {
        patch_to_text(self.patch, fidelity)
    }

    /// Returns the trial's task, arm and attempt as an object, for formats that have no keys for
    /// them. Imports use this object to identify the trial.
    pub(crate) fn identity(&self) -> Value {
        let (task, arm) = (&self.task.id, &self.arm.name);
        let mut own = json!({ "task": task, "arm": arm, "attempt": self.attempt });
        if let Some(all) = self.interruptions() {
            own["interruptions"] = json!(all);
        }
        own
    }

    /// Returns the model's name at the endpoint, or `None` if the arm calls no model.
    pub(crate) fn model(&self) -> Option<&str> {
        let model = self.arm.model.as_ref().map(|model| model.name.as_str());
        model.or_else(|| self.import_setting("model"))
    }

    /// Returns the scaffold's name. For an imported trial, returns the agent's name.
    pub(crate) fn agent(&self) -> &str {
        self.import_setting("agent").unwrap_or(&self.arm.scaffold)
    }

    /// Returns a value that was recorded about the arm during import.
    pub(crate) fn import_setting(&self, key: &str) -> Option<&str> {
        self.arm.settings.get("imported")?.get(key)?.as_str()
    }

    /// Returns how the trial was interrupted, or `None` if it was not.
    pub(crate) fn interruptions(&self) -> Option<&Interruptions> {
        self.outcome.map(|outcome| &outcome.interruptions).filter(|all| !all.is_empty())
    }

    /// Returns how the trial ended, for example `submitted` or `budget_steps`.
    pub(crate) fn ending(&self) -> Option<String> {
        self.outcome.map(|outcome| outcome.ending.name())
    }
}

fn patch_to_text<'p>(patch: &'p [u8], fidelity: &mut Fidelity) -> Cow<'p, str> {
    let text = String::from_utf8_lossy(patch);
    if matches!(text, Cow::Owned(_)) {
        fidelity.record_omission("patches with bytes that are not UTF-8: replaced by U+FFFD", 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    #[test]
    fn fidelity_counts_patches_that_are_not_utf8() {
        let mut fidelity = Fidelity::new(Format::Mini);
        assert_eq!(patch_to_text("+\u{e9}\n".as_bytes(), &mut fidelity), "+\u{e9}\n");
        assert!(fidelity.left_out.is_empty());
        assert_eq!(patch_to_text(b"+\xe9\n", &mut fidelity), "+\u{fffd}\n");
        assert_eq!(fidelity.left_out[0].count, 1);
    }
}
