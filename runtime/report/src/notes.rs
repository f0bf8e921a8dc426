//! What a table of numbers cannot show: what is missing, broken, doubtful, or counted separately.

use std::{collections::BTreeMap, fmt::Write as _};

use proctor_types::{ArmId, Integrity, Reason, Responders, noun_of, plural};

use crate::{
    ArmReport, Report, TaskReport, agreement, limits, noise, repeats::once_each, text::percent,
};

/// Number of responders named in a mixture, and of trials named for the same error.
const NAMED: usize = 5;

/// One sentence each for what the numbers do not show. A line that belongs to the one before begins
/// with two spaces.
pub fn findings(report: &Report) -> Vec<String> {
    let mut out = String::new();
    notes(report, &mut out);
    out.lines().map(str::to_owned).chain(report.remarks.iter().cloned()).collect()
}

/// One sentence per line, below the tables.
pub(crate) fn notes(report: &Report, out: &mut String) {
    let mut note = |text: &str| {
        let _ = writeln!(out, "{text}");
    };
    for arm in report.arms.iter().filter(|arm| !arm.complete) {
        note(&format!(
            "{}: incomplete, {} of {} {} no verdict; resolved is between {} and {}.",
            arm.name,
            arm.trials - arm.graded,
            plural(arm.trials, "trial"),
            if arm.trials == 1 { "has" } else { "have" },
            percent(arm.resolved_bounds.lower),
            percent(arm.resolved_bounds.upper),
        ));
    }
    for arm in report.arms.iter().filter(|arm| !arm.reasons.is_empty()) {
        let counts: Vec<String> = by_count(&arm.reasons)
            .into_iter()
            .map(|(reason, count)| format!("{count} {}", reason.name().replace('_', " ")))
            .collect();
        note(&format!("{}: not resolved: {}.", arm.name, counts.join(", ")));
    }
    for arm in &report.arms {
        let trials = report.tasks.iter().filter(|trial| trial.arm == arm.arm);
        if let Some(warning) = limits::warning(&arm.name, trials) {
            note(&warning);
        }
        let trials = report.tasks.iter().filter(|trial| trial.arm == arm.arm);
        if let Some(warning) = limits::scaffold_warning(&arm.name, trials) {
            note(&warning);
        }
        let trials: Vec<_> = report.tasks.iter().filter(|trial| trial.arm == arm.arm).collect();
        let sentences = [noise::of_trials(arm, &trials), noise::of_gradings(arm, &trials)];
        for sentence in sentences.into_iter().flatten() {
            note(&sentence);
        }
    }
    let beyond = |arm: &'_ ArmReport| arm.single_shot.as_ref().map_or(0, |shot| shot.beyond_window);
    for arm in report.arms.iter().filter(|arm| beyond(arm) > 0) {
        note(&format!(
            "{}: x: {} of {} did not fit the context window and count as not resolved.",
            arm.name,
            beyond(arm),
            plural(arm.trials, "prompt")
        ));
    }
    for sentence in agreement::sentences(report) {
        note(&sentence);
    }
    for arm in report.arms.iter().filter(|arm| arm.responders.is_mixture()) {
        note(&format!("{}: {}.", arm.name, mixture(&arm.responders)));
    }
    if report.arms.iter().any(|arm| arm.usage_estimated) {
        note(
            "~: an endpoint reported no usage, or only part of it; tokens and cost are estimates.",
        );
    }
    for arm in report.arms.iter().filter(|arm| arm.earlier_tries.is_paid()) {
        let earlier = arm.earlier_tries;
        let tokens = format!("{} in, {} out", plural(earlier.input, "token"), earlier.output);
        note(&format!(
            "{}: {}: {} ({tokens}), billed but excluded from means.",
            arm.name,
            match arm.unfinished {
                0 => plural(earlier.tries, "discarded try"),
                _ => format!("{} discarded or unfinished", plural(earlier.tries, "try")),
            },
            dollars(earlier.cost_usd, arm.paid.cost_known),
        ));
    }
    for arm in report.arms.iter().filter(|arm| arm.side.requests > 0) {
        let side = arm.side;
        let tokens = format!("{} in, {} out", plural(side.input, "token"), side.output);
        let requests = plural(side.requests, "side request");
        note(&format!("{}: {requests}, {tokens}; not counted as steps.", arm.name));
    }
    for arm in report.arms.iter().filter(|arm| arm.grace.answers > 0) {
        let grace = arm.grace;
        let input = plural(grace.input, "token");
        let cost = dollars(grace.cost_usd, arm.paid.cost_known);
        let tokens = format!("{input} in, {} out, {cost}", grace.output);
        let answers = plural(grace.answers, "response");
        note(&format!("{}: {answers} after the limit, counted separately: {tokens}.", arm.name));
    }
    for arm in report.arms.iter().filter(|arm| arm.waited_seconds.total >= 1.0) {
        let waited = arm.waited_seconds.total;
        note(&format!("{}: waited {waited:.0} s for the endpoint (not working time).", arm.name));
    }
    for arm in report.arms.iter().filter(|arm| arm.outgrown > 0) {
        let trials = plural(arm.outgrown, "trial");
        note(&format!(
            "{}: outgrown in {trials}: a response was larger than its request allowed. Token and cost limits may be exceeded by more than one response.",
            arm.name
        ));
    }
    for arm in report.arms.iter().filter(|arm| !arm.paid.cost_known) {
        let what = match arm.paid.cost_usd > 0.0 {
            true => format!("some responses have no price (known: ${:.4})", arm.paid.cost_usd),
            false => "cost unknown, because its model has no price".to_owned(),
        };
        note(&format!("{}: {what}; set [models.NAME] price.", arm.name));
    }
    for arm in report.arms.iter().filter(|arm| arm.malformed_calls > 0) {
        let calls = plural(arm.malformed_calls, "tool call");
        note(&format!("{}: {calls} could not be parsed.", arm.name));
    }
    for arm in report.arms.iter().filter(|arm| arm.resolved_clean != arm.resolved) {
        note(&format!(
            "{}: {}/{} resolved, {}/{} ({}) counting only clean integrity.",
            arm.name,
            arm.resolved,
            arm.trials,
            arm.resolved_clean,
            arm.trials,
            percent(arm.resolved_rate_clean),
        ));
    }
    let unmarked = |arm: &'_ ArmReport| arm.unmarked.filter(|one| one.trials < arm.trials);
    for (arm, one) in report.arms.iter().filter_map(|arm| Some((arm, unmarked(arm)?))) {
        note(&format!(
            "{}: {}/{} ({}) resolved without marked tasks, {}/{} ({}) with them.",
            arm.name,
            one.resolved,
            one.trials,
            percent(one.resolved_rate),
            arm.resolved,
            arm.trials,
            percent(arm.resolved_rate),
        ));
    }
    for arm in report.arms.iter().filter(|arm| arm.integrity.unverified > 0) {
        let count = arm.integrity.unverified;
        let (verdicts, are) = if count == 1 { ("verdict", "is") } else { ("verdicts", "are") };
        note(&format!(
            "{}: {count} {verdicts} {are} unverified: no canary test was judged.",
            arm.name
        ));
    }
    let doubtful = report.tasks.iter().filter_map(|trial| match trial.integrity {
        Some(Integrity::Suspect) => Some((trial, "suspect")),
        Some(Integrity::Contaminated) => Some((trial, "contaminated")),
        // The arm's own line counts these: if the tests offer no canary, all of them are
        // unverified.
        Some(Integrity::Clean | Integrity::Unverified) | None => None,
    });
    for (trial, word) in doubtful {
        let classes: Vec<String> =
            trial.evidence_classes.iter().map(|class| class.name().replace('_', " ")).collect();
        let classes = match classes.is_empty() {
            true => String::new(),
            false => format!(" ({})", classes.join(", ")),
        };
        note(&format!(
            "{}: the verdict is {word}{classes}; verdict.json has the evidence.",
            place(report, trial)
        ));
    }
    for trial in report.tasks.iter().filter(|trial| !trial.policies_differ.is_empty()) {
        let said: Vec<String> =
            trial.policies_differ.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        note(&format!("{}: the policies differ. {}.", place(report, trial), said.join("; ")));
    }
    let ends = report.tasks.iter().filter_map(|trial| {
        let outcome = trial.outcome.as_deref().unwrap_or_default().replace('_', " ");
        Some((place(report, trial), format!("{outcome}: {}", trial.why.as_ref()?)))
    });
    for line in once_each(ends, NAMED) {
        note(&line);
    }
    for trial in report.tasks.iter().filter(|trial| !trial.interruptions.is_none()) {
        note(&format!("{}: interrupted: {}.", place(report, trial), trial.interruptions));
    }
    for trial in report.tasks.iter().filter(|trial| !trial.damage.is_empty()) {
        note(&format!("{}: damaged record:", place(report, trial)));
        for damage in &trial.damage {
            note(&format!("  {damage}"));
        }
    }
    let faults: Vec<_> =
        report.tasks.iter().filter_map(|trial| Some((trial, trial.fault.as_ref()?))).collect();
    if !faults.is_empty() {
        let word = noun_of(faults.len(), "fault");
        note(&format!("Infrastructure {word} (not counted against an arm):"));
    }
    let faults = faults.into_iter().map(|(trial, fault)| (place(report, trial), fault.to_string()));
    for line in once_each(faults, NAMED) {
        note(&format!("  {line}"));
    }
}

/// A sum of which some part may be unknown.
fn dollars(sum: f64, known: bool) -> String {
    match known || sum > 0.0 {
        true => format!("${sum:.4}"),
        false => "cost unknown".to_owned(),
    }
}

/// Models, providers and server configurations that gave the responses of one arm.
pub(crate) fn mixture(responders: &Responders) -> String {
    let all = responders.by_count();
    let mut named: Vec<String> = all
        .iter()
        .take(NAMED)
        .map(|(responder, count)| format!("{responder}: {}", plural(*count, "response")))
        .collect();
    if let Some(more) = all.len().checked_sub(NAMED).filter(|more| *more > 0) {
        named.push(format!("and {more} more"));
    }
    format!("{} different models, providers or servers responded: {}", all.len(), named.join(", "))
}

fn place(report: &Report, trial: &TaskReport) -> String {
    format!("{} / {} / {}", name(report, &trial.arm), trial.task, trial.attempt)
}

fn name<'a>(report: &'a Report, id: &'a ArmId) -> &'a str {
    report.arms.iter().find(|arm| arm.arm == *id).map_or(id.as_str(), |arm| &arm.name)
}

/// The most frequent first.
fn by_count(reasons: &BTreeMap<Reason, u64>) -> Vec<(Reason, u64)> {
    let mut counts: Vec<_> = reasons.iter().map(|(reason, count)| (*reason, *count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}
