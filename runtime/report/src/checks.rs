//! A short list of checks that show whether a result is sound.

use proctor_types::{FailureReason, count_with_noun, join_first_few};

use crate::{
    ArmReport, Report, TaskReport,
    endings::reason_words,
    format::format_percent,
    limit_warnings,
    notes::{describe_doubtful_verdicts, unverified_reasons},
    run::HOST_BOUND_REMARK,
};

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
pub struct SoundnessCheck {
    pub level: CheckLevel,
    /// The text, without a full stop.
    pub text: String,
}

/// Returns one line each about scripted models, missing verdicts and faults, differing limits,
/// integrity, controls, limits, interruptions, the environment and attempts. Each problem has only
/// one line.
pub fn soundness_checks(report: &Report) -> Vec<SoundnessCheck> {
    let mut all = Vec::new();
    let scripted = report.arms.iter().filter(|arm| arm.is_scripted);
    let scripted: Vec<String> = scripted.map(|arm| arm.name.clone()).collect();
    if !scripted.is_empty() {
        let of = join_first_few(scripted);
        let text = format!("The model is a script, so the results are meaningless: {of}");
        all.push(warning_check(text));
    }
    all.push(check_verdicts(report));
    all.extend(report.describe_differing_limits().map(warning_check));
    all.extend(report.describe_equal_limits().map(|text| good_check(text.to_owned())));
    all.extend([check_integrity(report), check_controls(report), check_limits(report)]);
    let damaged = report.tasks.iter().filter(|trial| !trial.damage.is_empty()).count();
    if damaged > 0 {
        all.push(warning_check(format!(
            "The record of {} is corrupt",
            count_with_noun(damaged, "trial")
        )));
    }
    // The line about missing verdicts counts interrupted trials that ended in a fault.
    let is_interrupted =
        |trial: &&TaskReport| !trial.interruptions.is_empty() && trial.fault.is_none();
    let interrupted = report.tasks.iter().filter(is_interrupted).count();
    if interrupted > 0 {
        let trials = count_with_noun(interrupted, "trial");
        all.push(note_check(format!("{trials} interrupted, then resumed or started over")));
    }
    let is_mixed = |arm: &&&ArmReport| arm.responders.is_mixture();
    let study = report.arms_under_study();
    let mixed: Vec<&str> = study.iter().filter(is_mixed).map(|arm| arm.name.as_str()).collect();
    if !mixed.is_empty() {
        let of = mixed.join(", ");
        all.push(warning_check(format!("Several models, providers or servers responded to: {of}")));
    }
    if study.iter().any(|arm| arm.usage_estimated) {
        all.push(note_check("Some tokens and costs are estimates".to_owned()));
    }
    if report.remarks.iter().any(|remark| remark == HOST_BOUND_REMARK) {
        all.push(note_check(HOST_BOUND_REMARK.trim_end_matches('.').to_owned()));
    }
    all.push(check_attempts(report));
    all
}

fn note_check(text: String) -> SoundnessCheck {
    SoundnessCheck { level: CheckLevel::Note, text }
}

fn warning_check(text: String) -> SoundnessCheck {
    SoundnessCheck { level: CheckLevel::Warning, text }
}

fn good_check(text: String) -> SoundnessCheck {
    SoundnessCheck { level: CheckLevel::Good, text }
}

fn check_verdicts(report: &Report) -> SoundnessCheck {
    let sum = |of: fn(&ArmReport) -> u64| report.arms.iter().map(of).sum::<u64>();
    let (graded, trials) = (sum(|arm| arm.graded), sum(|arm| arm.trials));
    let have = if trials == 1 { "has" } else { "have" };
    let text = format!("{graded} of {} {have} a verdict", count_with_noun(trials, "trial"));
    match report.missing_verdict_reasons() {
        Some(reasons) => {
            let resumed = report.describe_resumed_faults();
            let resumed = resumed.map_or_else(String::new, |words| format!(" ({words})"));
            warning_check(format!(
                "{text}. Without a verdict, counted as not resolved: {reasons}{resumed}"
            ))
        }
        None => good_check(text),
    }
}

fn check_integrity(report: &Report) -> SoundnessCheck {
    let sum = |of: fn(&ArmReport) -> u64| report.arms.iter().map(of).sum::<u64>();
    let unverified = sum(|arm| arm.integrity.unverified);
    let are = |count: u64| if count == 1 { "is" } else { "are" };
    let doubtful: Vec<String> = report
        .arms
        .iter()
        .filter_map(|arm| {
            Some(format!("{}: {}", arm.name, describe_doubtful_verdicts(report, &arm.arm)?))
        })
        .collect();
    if !doubtful.is_empty() {
        return warning_check(doubtful.join("; "));
    }
    if unverified > 0 {
        let (verdicts, are) = (count_with_noun(unverified, "verdict"), are(unverified));
        let reason = unverified_reasons(report, None);
        return note_check(format!("{verdicts} {are} unverified: {reason}"));
    }
    good_check("No verdict is suspect".to_owned())
}

/// Checks that gold resolves every task and that noop resolves none. Without gold, the tasks may have
/// no solution, so noop alone is not enough.
fn check_controls(report: &Report) -> SoundnessCheck {
    let is = |arm: &&ArmReport, name: &str| arm.scaffold.as_deref().unwrap_or(&arm.name) == name;
    let judged: Vec<&ArmReport> =
        report.arms.iter().filter(|arm| is(arm, GOLD) || is(arm, NOOP)).collect();
    if judged.is_empty() {
        return note_check(
            "No controls: without a gold arm, it isn't shown that the tasks can be solved, and \
             without a noop arm, that doing nothing fails"
                .to_owned(),
        );
    }
    let descriptions: Vec<String> = judged
        .iter()
        .map(|arm| format!("{} resolves {} of {}", arm.name, arm.resolved, arm.trials))
        .collect();
    let has_gold = judged.iter().any(|arm| is(arm, GOLD));
    let gap = match has_gold {
        true => "",
        false => "; no gold arm, so it isn't shown that the tasks can be solved",
    };
    let text = format!("Controls: {}{gap}", descriptions.join(", "));
    let is_right = |arm: &&ArmReport| arm.resolved == if is(arm, GOLD) { arm.trials } else { 0 };
    match (judged.iter().all(is_right), has_gold) {
        (true, true) => good_check(text),
        (true, false) => note_check(text),
        (false, _) => warning_check(text),
    }
}

fn check_limits(report: &Report) -> SoundnessCheck {
    let study = report.arms_under_study();
    let share = |arm: &ArmReport| arm.limit_bound.values().sum::<f64>();
    let descriptions: Vec<String> = study
        .iter()
        .filter(|arm| share(arm) > 0.0)
        .map(|arm| {
            let unreadable = describe_unreadable_calls(report, arm);
            format!("{} {}{unreadable}", arm.name, format_percent(share(arm)))
        })
        .collect();
    if descriptions.is_empty() {
        return good_check("No trial ended at its own limit".to_owned());
    }
    let text = format!("Ended at a limit: {}", descriptions.join(", "));
    let matters = study.iter().any(|arm| {
        let arm_trials = report.tasks.iter().filter(|trial| trial.arm == arm.arm);
        limit_warnings::limit_warning(&arm.name, arm_trials).is_some()
    });
    if matters { warning_check(text) } else { note_check(text) }
}

/// Says how many of the trials that ended at a limit failed for another reason, because none of their
/// tool calls could be parsed. Empty if there are none.
fn describe_unreadable_calls(report: &Report, arm: &ArmReport) -> String {
    let limited = report.tasks.iter().filter(|trial| trial.arm == arm.arm && trial.limit.is_some());
    let limited: Vec<&TaskReport> = limited.collect();
    let reason = FailureReason::FormatErrors;
    match limited.iter().filter(|trial| trial.reason == Some(reason)).count() {
        0 => String::new(),
        count => format!(" ({count} of {} {})", limited.len(), reason_words(reason)),
    }
}

fn check_attempts(report: &Report) -> SoundnessCheck {
    match report.tasks.iter().map(|trial| trial.attempt).max() {
        None | Some(0 | 1) => note_check(
            "One attempt per task: variation between attempts is not measured".to_owned(),
        ),
        Some(most) => good_check(format!("{most} attempts per task")),
    }
}
