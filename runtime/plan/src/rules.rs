//! Checks the version of the rules that a run uses.

use proctor_record::{RunDir, trial_lookup::planned_trials};
use proctor_types::{RULES_VERSION, RunRecord, UserError};

/// Rejects further trials for a run that uses another version of the rules, because a run must not
/// mix versions.
pub fn require_current_rules(run: &RunDir, record: &RunRecord) -> Result<(), UserError> {
    if record.rules == RULES_VERSION {
        return Ok(());
    }
    let (found, maker) = (record.rules, &record.proctor);
    let what = format!(
        "{} uses version {found} of the attribution and grading rules (Proctor {maker}), but this Proctor has version {RULES_VERSION}",
        run.path().display()
    );
    let hint = format!(
        "a run cannot mix rules versions: finish it with Proctor {maker}, or start a new run; `proctor \
         report --recheck {}` lists the finished trials whose attribution or verdict would \
         change under version {RULES_VERSION}",
        run.path().display()
    );
    Err(UserError::new(what).hint(hint))
}

/// Like [`require_current_rules`], but accepts any version of the rules if every trial has a
/// verdict.
pub fn require_rules_unless_finished(run: &RunDir, record: &RunRecord) -> Result<(), UserError> {
    let is_open =
        |checked: proctor_record::CheckedTrial| !checked.is_finished || checked.verdict.is_none();
    match record.rules != RULES_VERSION
        && planned_trials(record).iter().any(|found| is_open(run.check_trial(&found.id())))
    {
        true => require_current_rules(run, record),
        false => Ok(()),
    }
}
