//! A short list of checks that show whether a result is sound.

use proctor_types::plural;

use crate::{ArmReport, Report, format::percent, limit_warnings, notes::unverified_reasons};

/// The names of the controls. `gold` must resolve every task, and `noop` must resolve none.
const GOLD: &str = "gold";
const NOOP: &str = "noop";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckLevel {
    /// As expected.
    Good,
    /// Worth knowing.
    Note,
    /// May change the meaning of the numbers.
    Warning,
}

/// One line about the soundness of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub level: CheckLevel,
    /// The text, without a full stop.
    pub text: String,
}

/// Returns one line each about verdicts, integrity, controls, limits, faults, interruptions and
/// attempts.
pub fn checks(report: &Report) -> Vec<Check> {
    let mut all = vec![
        check_verdicts(report),
        check_integrity(report),
        check_controls(report),
        check_limits(report),
    ];
    let faults: u64 = report.arms.iter().map(|arm| arm.infrastructure_faults).sum();
    if faults > 0 {
        let faults = plural(faults, "infrastructure fault");
        all.push(warning(format!("{faults}: not counted against any arm")));
    }
    let damaged = report.tasks.iter().filter(|trial| !trial.damage.is_empty()).count();
    if damaged > 0 {
        all.push(warning(format!("The record of {} is corrupt", plural(damaged, "trial"))));
    }
    let interrupted = report.tasks.iter().filter(|trial| !trial.interruptions.is_empty()).count();
    if interrupted > 0 {
        let trials = plural(interrupted, "trial");
        all.push(note(format!("{trials} interrupted, then resumed or started over")));
    }
    let is_mixed = |arm: &&&ArmReport| arm.responders.is_mixture();
    let study = report.arms_under_study();
    let mixed: Vec<&str> = study.iter().filter(is_mixed).map(|arm| arm.name.as_str()).collect();
    if !mixed.is_empty() {
        let of = mixed.join(", ");
        all.push(warning(format!("Several models, providers or servers answered: {of}")));
    }
    if study.iter().any(|arm| arm.usage_estimated) {
        all.push(note("Some tokens and costs are estimates".to_owned()));
    }
    all.push(check_attempts(report));
    all
}

fn note(text: String) -> Check {
    Check { level: CheckLevel::Note, text }
}

fn warning(text: String) -> Check {
    Check { level: CheckLevel::Warning, text }
}

fn good(text: String) -> Check {
    Check { level: CheckLevel::Good, text }
}

fn check_verdicts(report: &Report) -> Check {
    let sum = |of: fn(&ArmReport) -> u64| report.arms.iter().map(of).sum::<u64>();
    let (graded, trials) = (sum(|arm| arm.graded), sum(|arm| arm.trials));
    let have = if trials == 1 { "has" } else { "have" };
    let text = format!("{graded} of {} {have} a verdict", plural(trials, "trial"));
    if graded == trials { good(text) } else { warning(text) }
}

fn check_integrity(report: &Report) -> Check {
    let sum = |of: fn(&ArmReport) -> u64| report.arms.iter().map(of).sum::<u64>();
    let doubtful = sum(|arm| arm.integrity.suspect + arm.integrity.contaminated);
    let unverified = sum(|arm| arm.integrity.unverified);
    let are = |count: u64| if count == 1 { "is" } else { "are" };
    if doubtful > 0 {
        let (verdicts, are) = (plural(doubtful, "verdict"), are(doubtful));
        return warning(format!("{verdicts} {are} suspect or contaminated"));
    }
    if unverified > 0 {
        let (verdicts, are) = (plural(unverified, "verdict"), are(unverified));
        let why = unverified_reasons(report, None);
        return note(format!("{verdicts} {are} unverified: {why}"));
    }
    good("No verdict is suspect".to_owned())
}

/// Checks that gold resolves every task and that noop resolves none.
fn check_controls(report: &Report) -> Check {
    let is = |arm: &&ArmReport, name: &str| arm.scaffold.as_deref().unwrap_or(&arm.name) == name;
    let judged: Vec<&ArmReport> =
        report.arms.iter().filter(|arm| is(arm, GOLD) || is(arm, NOOP)).collect();
    if judged.is_empty() {
        return note("No control arm (gold, noop) shows that the tasks work".to_owned());
    }
    let told: Vec<String> = judged
        .iter()
        .map(|arm| format!("{} resolves {} of {}", arm.name, arm.resolved, arm.trials))
        .collect();
    let text = format!("Controls: {}", told.join(", "));
    let is_right = |arm: &&ArmReport| arm.resolved == if is(arm, GOLD) { arm.trials } else { 0 };
    if judged.iter().all(is_right) { good(text) } else { warning(text) }
}

fn check_limits(report: &Report) -> Check {
    let study = report.arms_under_study();
    let share = |arm: &ArmReport| arm.limit_bound.values().sum::<f64>();
    let told: Vec<String> = study
        .iter()
        .filter(|arm| share(arm) > 0.0)
        .map(|arm| format!("{} {}", arm.name, percent(share(arm))))
        .collect();
    if told.is_empty() {
        return good("No trial ended at its own limit".to_owned());
    }
    let text = format!("Ended at a limit: {}", told.join(", "));
    let matters = study.iter().any(|arm| {
        let own = report.tasks.iter().filter(|trial| trial.arm == arm.arm);
        limit_warnings::limit_warning(&arm.name, own).is_some()
    });
    if matters { warning(text) } else { note(text) }
}

fn check_attempts(report: &Report) -> Check {
    match report.tasks.iter().map(|trial| trial.attempt).max() {
        None | Some(0 | 1) => {
            note("One attempt per task: variation between attempts is not measured".to_owned())
        }
        Some(most) => good(format!("{most} attempts per task")),
    }
}
