//! Collects findings that tables of numbers cannot show: missing, corrupt or doubtful results, and
//! results that are counted separately.

use std::{cmp::Reverse, collections::BTreeMap};

use proctor_types::{ArmId, FailureReason, Integrity, Responders, count_with_noun, noun_for_count};
use serde::{Deserialize, Serialize};

use crate::{
    ArmReport, Report, TaskReport, agreement, endings::reason_words_for, format::format_percent,
    limit_warnings, noise, repeats::deduplicate_errors,
};

/// Maximum number of responders named in one sentence, and of trials named for the same error.
const MAX_LISTED_NAMES: usize = 5;

/// Maximum number of trials named for a condition that many trials may have.
const MAX_EXAMPLES: usize = 2;

/// Whether a finding about several trials is one line in total, or one line per trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DetailLevel {
    /// One line for all trials.
    OneLine,
    LinePerTrial,
}

/// The importance of a finding. If space is limited, findings with the first ranks are shown first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingRank {
    /// Something is missing or corrupt, or the run has a remark.
    Missing,
    /// The finding may change the meaning of the numbers.
    Doubtful,
    /// The finding is worth knowing.
    Informational,
}

impl FindingRank {
    pub(crate) const ALL: [Self; 3] = [Self::Missing, Self::Doubtful, Self::Informational];
}

/// A finding: a sentence with optional detail lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FindingNote {
    pub(crate) rank: FindingRank,
    /// Whether the note is shown before all others if space is limited.
    pub(crate) is_pinned: bool,
    /// The first line is the sentence; each further line begins with two spaces.
    pub(crate) lines: Vec<String>,
}

/// A finding in `report --format json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub rank: FindingRank,
    /// The sentence, and a line for each detail, which begins with two spaces.
    pub text: String,
}

impl Report {
    /// Adds the findings that the other formats print below the tables, with one finding per trial,
    /// and the factors that differ. Call this method last, because the findings depend on all other
    /// fields.
    #[must_use]
    pub fn with_findings(self) -> Self {
        let findings = notes(&self, DetailLevel::LinePerTrial)
            .into_iter()
            .map(|note| Finding { rank: note.rank, text: note.lines.join("\n") })
            .collect();
        Self { findings, differing_factors: self.find_differing_factors(), ..self }
    }
}

/// Returns one line per finding, followed by its detail lines, which begin with two spaces. A
/// finding about several trials has only one line.
pub fn findings(report: &Report) -> Vec<String> {
    notes(report, DetailLevel::OneLine).into_iter().flat_map(|note| note.lines).collect()
}

/// Returns the findings, followed by the report's remarks.
pub(crate) fn notes(report: &Report, detail: DetailLevel) -> Vec<FindingNote> {
    let mut all = leading_notes(report);
    let mut add = |rank: FindingRank, text: String| {
        all.push(FindingNote { rank, is_pinned: false, lines: vec![text] });
    };
    for arm in &report.arms {
        let trials: Vec<&TaskReport> =
            report.tasks.iter().filter(|trial| trial.arm == arm.arm).collect();
        let warnings = [
            limit_warnings::limit_warning(&arm.name, trials.iter().copied()),
            limit_warnings::scaffold_warning(&arm.name, trials.iter().copied()),
        ];
        for warning in warnings.into_iter().flatten() {
            add(FindingRank::Doubtful, warning);
        }
        if let Some(sentence) = noise::describe_trial_limits(arm, &trials) {
            add(FindingRank::Informational, sentence);
        }
        if let Some(sentence) = noise::describe_grading_limits(arm, &trials) {
            add(FindingRank::Doubtful, sentence);
        }
    }
    let beyond = |arm: &'_ ArmReport| arm.single_shot.as_ref().map_or(0, |shot| shot.beyond_window);
    for arm in report.arms.iter().filter(|arm| beyond(arm) > 0) {
        let text = format!(
            "{}: x: {} of {} did not fit the context window and count as not resolved.",
            arm.name,
            beyond(arm),
            count_with_noun(arm.trials, "prompt")
        );
        add(FindingRank::Informational, text);
    }
    for sentence in agreement::agreement_sentences(&report.rank_agreement) {
        add(FindingRank::Informational, sentence);
    }
    for arm in report.arms.iter().filter(|arm| arm.responders.is_mixture()) {
        add(
            FindingRank::Doubtful,
            format!("{}: {}.", arm.name, describe_responders(&arm.responders)),
        );
    }
    if report.arms.iter().any(|arm| arm.usage_estimated) {
        let text =
            "~: an endpoint reported no usage, or only part of it; tokens and cost are estimates.";
        add(FindingRank::Informational, text.to_owned());
    }
    for arm in report.arms.iter().filter(|arm| arm.earlier_tries.was_billed()) {
        let earlier = arm.earlier_tries;
        let tokens =
            format!("{} in, {} out", count_with_noun(earlier.input, "token"), earlier.output);
        let text = format!(
            "{}: {}: {} ({tokens}), billed but excluded from means.",
            arm.name,
            match arm.unfinished {
                0 => count_with_noun(earlier.tries, "discarded try"),
                _ => format!("{} discarded or unfinished", count_with_noun(earlier.tries, "try")),
            },
            format_cost_sum(earlier.cost_usd, arm.paid.cost_known),
        );
        add(FindingRank::Informational, text);
    }
    for arm in report.arms.iter().filter(|arm| arm.side.requests > 0) {
        let side = arm.side;
        let tokens = format!("{} in, {} out", count_with_noun(side.input, "token"), side.output);
        let requests = count_with_noun(side.requests, "side request");
        add(
            FindingRank::Informational,
            format!("{}: {requests}, {tokens}; not counted as steps.", arm.name),
        );
    }
    for arm in report.arms.iter().filter(|arm| arm.grace.answers > 0) {
        let grace = arm.grace;
        let input = count_with_noun(grace.input, "token");
        let cost = format_cost_sum(grace.cost_usd, arm.paid.cost_known);
        let tokens = format!("{input} in, {} out, {cost}", grace.output);
        let answers = count_with_noun(grace.answers, "response");
        let text =
            format!("{}: {answers} after the limit, counted separately: {tokens}.", arm.name);
        add(FindingRank::Informational, text);
    }
    for arm in report.arms.iter().filter(|arm| arm.waited_seconds.total >= 1.0) {
        let waited = arm.waited_seconds.total;
        let text =
            format!("{}: waited {waited:.0} s for the endpoint (not working time).", arm.name);
        add(FindingRank::Informational, text);
    }
    for arm in report.arms.iter().filter(|arm| arm.outgrown > 0) {
        let trials = count_with_noun(arm.outgrown, "trial");
        let text = format!(
            "{}: in {trials}, a response used more than the amount reserved for its request. Token and cost limits may be exceeded by more than the last response.",
            arm.name
        );
        add(FindingRank::Informational, text);
    }
    for arm in report.arms.iter().filter(|arm| !arm.paid.cost_known) {
        let message = match arm.paid.cost_usd > 0.0 {
            true => format!("some responses have no price (known cost: ${:.4})", arm.paid.cost_usd),
            false => "cost unknown, because its model has no price".to_owned(),
        };
        add(
            FindingRank::Informational,
            format!("{}: {message}; set [models.NAME] price.", arm.name),
        );
    }
    for arm in report.arms.iter().filter(|arm| arm.malformed_calls > 0) {
        let calls = count_with_noun(arm.malformed_calls, "tool call");
        add(FindingRank::Informational, format!("{}: {calls} could not be parsed.", arm.name));
    }
    for arm in report.arms.iter().filter(|arm| arm.resolved_clean != arm.resolved) {
        let text = format!(
            "{}: {}/{} resolved, {}/{} ({}) counting only clean verdicts.",
            arm.name,
            arm.resolved,
            arm.trials,
            arm.resolved_clean,
            arm.trials,
            format_percent(arm.resolved_rate_clean),
        );
        add(FindingRank::Doubtful, text);
    }
    let unmarked = |arm: &'_ ArmReport| arm.unmarked.filter(|one| one.trials < arm.trials);
    for (arm, one) in report.arms.iter().filter_map(|arm| Some((arm, unmarked(arm)?))) {
        let text = format!(
            "{}: {}/{} ({}) resolved without marked tasks, {}/{} ({}) with them.",
            arm.name,
            one.resolved,
            one.trials,
            format_percent(one.resolved_rate),
            arm.resolved,
            arm.trials,
            format_percent(arm.resolved_rate),
        );
        add(FindingRank::Doubtful, text);
    }
    for arm in report.arms.iter().filter(|arm| arm.integrity.unverified > 0) {
        let count = arm.integrity.unverified;
        let (verdicts, are) = if count == 1 { ("verdict", "is") } else { ("verdicts", "are") };
        let text = format!(
            "{}: {count} {verdicts} {are} unverified: {}.",
            arm.name,
            unverified_reasons(report, Some(&arm.arm))
        );
        add(FindingRank::Informational, text);
    }
    for line in error_lines(doubtful_verdicts(report), detail) {
        add(FindingRank::Doubtful, line);
    }
    let differing = report.tasks.iter().filter(|trial| !trial.policies_differ.is_empty());
    let differing = differing.map(|trial| {
        let said: Vec<String> =
            trial.policies_differ.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        (trial_name(report, trial), format!("the policies differ. {}.", said.join("; ")))
    });
    for line in error_lines(differing.collect(), detail) {
        add(FindingRank::Doubtful, line);
    }
    let ends = report.tasks.iter().filter_map(|trial| {
        let outcome = trial.outcome.as_deref().unwrap_or_default().replace('_', " ");
        Some((trial_name(report, trial), format!("{outcome}: {}", trial.why.as_ref()?)))
    });
    for line in deduplicate_errors(ends, MAX_LISTED_NAMES) {
        add(FindingRank::Informational, line);
    }
    for line in describe_interruptions(report, detail) {
        add(FindingRank::Informational, line);
    }
    for trial in report.tasks.iter().filter(|trial| !trial.damage.is_empty()) {
        let mut lines = vec![format!("{}: corrupt record:", trial_name(report, trial))];
        lines.extend(trial.damage.iter().map(|damage| format!("  {damage}")));
        all.push(FindingNote { rank: FindingRank::Missing, is_pinned: false, lines });
    }
    let of_trials = |fault_of: fn(&TaskReport) -> Option<&String>| -> Vec<(String, String)> {
        let faults = report.tasks.iter().filter_map(|trial| Some((trial, fault_of(trial)?)));
        faults.map(|(trial, fault)| (trial_name(report, trial), fault.clone())).collect()
    };
    let resumed = report.describe_resumed_faults();
    let resumed = resumed.map_or_else(String::new, |words| format!("; {words}"));
    for (noun, faults, more) in [
        ("Infrastructure fault", of_trials(|trial| trial.fault.as_ref()), resumed.as_str()),
        ("Grading fault", of_trials(|trial| trial.grading_fault.as_ref()), ""),
    ] {
        if faults.is_empty() {
            continue;
        }
        let word = noun_for_count(faults.len(), noun);
        let mut lines = vec![format!("{word} (scores count these trials as not resolved{more}):")];
        lines.extend(
            deduplicate_errors(faults, MAX_LISTED_NAMES)
                .into_iter()
                .map(|line| format!("  {line}")),
        );
        all.push(FindingNote { rank: FindingRank::Missing, is_pinned: false, lines });
    }
    all.extend(report.remarks.iter().map(|remark| FindingNote {
        rank: FindingRank::Missing,
        is_pinned: false,
        lines: vec![remark.clone()],
    }));
    all
}

/// Returns the notes that come first: scripted models, limits that differ, doubtful verdicts,
/// missing verdicts, and why trials failed.
fn leading_notes(report: &Report) -> Vec<FindingNote> {
    let mut all: Vec<FindingNote> = Vec::new();
    let mut add = |rank: FindingRank, is_pinned: bool, text: String| {
        all.push(FindingNote { rank, is_pinned, lines: vec![text] });
    };
    let scripted = report.arms.iter().filter(|arm| arm.is_scripted);
    let scripted: Vec<&str> = scripted.map(|arm| arm.name.as_str()).collect();
    match scripted.as_slice() {
        [] => {}
        [name] => {
            let text = format!("{name}: its model is a script, so its results are meaningless.");
            add(FindingRank::Missing, false, text);
        }
        names => {
            let names = names.join(", ");
            let text =
                format!("{names}: their models are scripts, so the results are meaningless.");
            add(FindingRank::Missing, false, text);
        }
    }
    if let Some(text) = report.describe_differing_limits() {
        add(FindingRank::Doubtful, false, format!("{text}."));
    }
    for arm in &report.arms {
        if let Some(text) = describe_doubtful_verdicts(report, &arm.arm) {
            add(FindingRank::Doubtful, true, format!("{}: {text}.", arm.name));
        }
    }
    for arm in report.arms.iter().filter(|arm| !arm.complete) {
        let text = format!(
            "{}: incomplete, {} of {} {} no verdict ({}); resolved is between {} and {}.",
            arm.name,
            arm.trials - arm.graded,
            count_with_noun(arm.trials, "trial"),
            if arm.trials == 1 { "has" } else { "have" },
            report.missing_verdict_reasons_for(&arm.arm).unwrap_or_default(),
            format_percent(arm.resolved_bounds.lower),
            format_percent(arm.resolved_bounds.upper),
        );
        add(FindingRank::Missing, false, text);
    }
    let study = report.arms_under_study();
    for arm in &report.arms {
        if let Some(reasons) = failure_reasons(arm, usize::MAX) {
            let is_under_study = study.iter().any(|other| other.arm == arm.arm);
            let text = format!("{}: failed: {reasons}.", arm.name);
            add(FindingRank::Informational, is_under_study, text);
        }
    }
    all
}

/// Counts an arm's suspect and contaminated verdicts, and how many of them are resolved, and says why
/// the others are not: `17 suspect verdicts, none resolved: all ran nothing after their last edit`.
/// `None` if there are none.
pub(crate) fn describe_doubtful_verdicts(report: &Report, arm: &ArmId) -> Option<String> {
    let doubtful = |trial: &&TaskReport| {
        trial.arm == *arm
            && matches!(trial.integrity, Some(Integrity::Suspect | Integrity::Contaminated))
    };
    let doubtful: Vec<&TaskReport> = report.tasks.iter().filter(doubtful).collect();
    let count = |integrity: Integrity| {
        doubtful.iter().filter(|trial| trial.integrity == Some(integrity)).count()
    };
    let resolved = doubtful.iter().filter(|trial| trial.resolved == Some(true)).count();
    let all = doubtful.len();
    let (suspect, contaminated) = (count(Integrity::Suspect), count(Integrity::Contaminated));
    let verdicts = match (suspect, contaminated) {
        (0, 0) => return None,
        (_, 0) => count_with_noun(all as u64, "suspect verdict"),
        (0, _) => count_with_noun(all as u64, "contaminated verdict"),
        _ => format!(
            "{suspect} suspect and {}",
            count_with_noun(contaminated as u64, "contaminated verdict")
        ),
    };
    let reasons = describe_reasons(&doubtful);
    let with_reasons = |text: String| match &reasons {
        Some(reasons) => format!("{text}: {reasons}"),
        None => text,
    };
    Some(match (all, resolved) {
        (1, 0) => with_reasons(format!("{verdicts}, not resolved")),
        (1, _) => format!("{verdicts}, resolved"),
        (_, 0) => with_reasons(format!("{verdicts}, none resolved")),
        _ => {
            let reasons = reasons.map_or_else(String::new, |text| format!(" (the others: {text})"));
            format!("{verdicts}, {resolved} of them resolved{reasons}")
        }
    })
}

/// Says why trials are not resolved, most frequent reason first: `it gave up`, `all gave up`, or `3 gave
/// up, 2 changed nothing`. `None` if no reason is known.
fn describe_reasons(trials: &[&TaskReport]) -> Option<String> {
    let failed = trials.iter().filter(|trial| trial.resolved == Some(false)).count() as u64;
    let mut counts: BTreeMap<FailureReason, u64> = BTreeMap::new();
    trials.iter().filter_map(|trial| trial.reason).for_each(|reason| {
        *counts.entry(reason).or_default() += 1;
    });
    let phrases: Vec<String> = sort_by_count(&counts)
        .into_iter()
        .map(|(reason, count)| {
            let who = match count {
                1 if failed == 1 => "it".to_owned(),
                _ if count == failed => "all".to_owned(),
                _ => count.to_string(),
            };
            format!("{who} {}", reason_words_for(reason, count))
        })
        .collect();
    (!phrases.is_empty()).then(|| phrases.join(", "))
}

/// Returns one line per distinct error for [`DetailLevel::OneLine`], or one line per trial for
/// [`DetailLevel::LinePerTrial`].
fn error_lines(errors: Vec<(String, String)>, detail: DetailLevel) -> Vec<String> {
    match detail {
        DetailLevel::OneLine => deduplicate_errors(errors, MAX_EXAMPLES),
        DetailLevel::LinePerTrial => {
            errors.into_iter().map(|(place, error)| format!("{place}: {error}")).collect()
        }
    }
}

fn doubtful_verdicts(report: &Report) -> Vec<(String, String)> {
    let word = |trial: &TaskReport| match trial.integrity {
        Some(Integrity::Suspect) => Some("suspect"),
        Some(Integrity::Contaminated) => Some("contaminated"),
        // Unverified verdicts get a single line per arm. If the tests have no canary, every verdict
        // is unverified.
        Some(Integrity::Clean | Integrity::Unverified) | None => None,
    };
    let line = |trial: &TaskReport| {
        let word = word(trial)?;
        let classes: Vec<String> =
            trial.evidence_classes.iter().map(|class| class.name().replace('_', " ")).collect();
        let classes = match classes.is_empty() {
            true => String::new(),
            false => format!(" ({})", classes.join(", ")),
        };
        let text = format!("the verdict is {word}{classes}; verdict.json has the evidence.");
        Some((trial_name(report, trial), text))
    };
    report.tasks.iter().filter_map(line).collect()
}

/// Returns why the verdicts of one arm, or of all arms, are unverified, with the most frequent
/// reason first. If there are several reasons, each is followed by its number of verdicts.
pub(crate) fn unverified_reasons(report: &Report, arm: Option<&ArmId>) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for trial in report.tasks.iter().filter(|trial| arm.is_none_or(|arm| trial.arm == *arm)) {
        trial.unverified.iter().for_each(|reason| *counts.entry(reason).or_default() += 1);
    }
    let counts = sort_by_count(&counts);
    match &counts[..] {
        [] => "verdict.json has the reason".to_owned(),
        [(reason, _)] => (*reason).to_owned(),
        _ => counts
            .iter()
            .map(|(reason, count)| format!("{reason} ({count})"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Describes trials that were interrupted. The steps after which trials resumed vary, so the trials
/// are only listed individually if there are few of them. The note about faults counts the trials
/// that ended in a fault, so they are left out unless each trial has a line.
fn describe_interruptions(report: &Report, detail: DetailLevel) -> Vec<String> {
    let all = report.tasks.iter().filter(|trial| {
        let is_counted = trial.fault.is_none() || detail == DetailLevel::LinePerTrial;
        !trial.interruptions.is_empty() && is_counted
    });
    let all: Vec<(String, String)> = all
        .map(|trial| (trial_name(report, trial), format!("interrupted: {}.", trial.interruptions)))
        .collect();
    if detail == DetailLevel::LinePerTrial || all.len() <= MAX_EXAMPLES {
        return error_lines(all, detail);
    }
    let (count, more) = (all.len(), all.len() - MAX_EXAMPLES);
    let named: Vec<String> = all.into_iter().take(MAX_EXAMPLES).map(|(place, _)| place).collect();
    let named = named.join(", ");
    vec![format!(
        "{count} trials were interrupted, then resumed or started over: {named} and {more} more."
    )]
}

/// Returns why an arm's trials failed, most frequent reason first: `8 failed an assertion, 3
/// reached a limit and 2 more`. If only one reason would be left out, names it, too. Trials without a
/// verdict have not failed. `None` if no failed trial has a reason.
pub fn failure_reasons(arm: &ArmReport, max_reasons: usize) -> Option<String> {
    let mut counts = sort_by_count(&arm.reasons);
    counts.retain(|(reason, _)| *reason != FailureReason::Infrastructure);
    let max_reasons = match counts.len().checked_sub(max_reasons) {
        Some(1) => counts.len(),
        _ => max_reasons,
    };
    let more: u64 = counts.iter().skip(max_reasons).map(|(_, count)| count).sum();
    let phrases: Vec<String> = counts
        .iter()
        .take(max_reasons)
        .map(|(reason, count)| format!("{count} {}", reason_words_for(*reason, *count)))
        .collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!phrases.is_empty()).then(|| phrases.join(", ") + &more)
}

/// Formats a total cost. `all_priced` is false if some responses have no price.
fn format_cost_sum(sum: f64, all_priced: bool) -> String {
    match all_priced || sum > 0.0 {
        true => format!("${sum:.4}"),
        false => "cost unknown".to_owned(),
    }
}

/// Lists the models, providers and server configurations that responded to one arm's requests.
pub(crate) fn describe_responders(responders: &Responders) -> String {
    let all = responders.sorted_counts();
    let mut named: Vec<String> = all
        .iter()
        .take(MAX_LISTED_NAMES)
        .map(|(responder, count)| format!("{responder}: {}", count_with_noun(*count, "response")))
        .collect();
    if let Some(more) = all.len().checked_sub(MAX_LISTED_NAMES).filter(|more| *more > 0) {
        named.push(format!("and {more} more"));
    }
    format!("{} different models, providers or servers responded: {}", all.len(), named.join(", "))
}

fn trial_name(report: &Report, trial: &TaskReport) -> String {
    format!("{} / {} / {}", arm_name(report, &trial.arm), trial.task, trial.attempt)
}

fn arm_name<'a>(report: &'a Report, id: &'a ArmId) -> &'a str {
    report.arms.iter().find(|arm| arm.arm == *id).map_or(id.as_str(), |arm| &arm.name)
}

/// Sorts by count, most frequent first.
fn sort_by_count<T: Copy>(counts: &BTreeMap<T, u64>) -> Vec<(T, u64)> {
    let mut counts: Vec<_> = counts.iter().map(|(item, count)| (*item, *count)).collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}
