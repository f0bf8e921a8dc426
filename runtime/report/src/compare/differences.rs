//! Lists the differences between two arms' settings and conditions, as opposed to their results.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use proctor_types::{
    Arm, ArmId, RequestChanges, Responders, count_with_noun, escape_unprintable_line, sha256_hex,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    TrialResult,
    arm::{count_responders, endpoint_settings},
    format::format_percent,
    limits::own_limit,
    notes::describe_responders,
};

/// Maximum length of a string in characters. Longer strings are shown as a digest.
const MAX_TEXT_LENGTH: usize = 60;
/// Maximum number of tasks named in a line.
const MAX_NAMED_TASKS: usize = 5;
/// Prefix of the factors that contain the versions of an agent's packages.
const PACKAGE_PREFIX: &str = "prompts.bundle.versions.";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairDifferences {
    pub a: String,
    pub a_arm: ArmId,
    pub b: String,
    pub b_arm: ArmId,
    /// The factors that differ between the arms, with dotted keys, and the models' addresses and
    /// prices that differ.
    pub factors: Vec<FactorDifference>,
    /// The fraction of each arm's trials that ended at a limit, by kind of limit.
    pub a_limits: BTreeMap<String, f64>,
    pub b_limits: BTreeMap<String, f64>,
    /// Number of each arm's trials that ended with an infrastructure fault.
    pub a_faults: u64,
    pub b_faults: u64,
    /// The responders of each arm. Absent if no response names its responder.
    #[serde(default, skip_serializing_if = "Responders::is_empty")]
    pub a_responders: Responders,
    #[serde(default, skip_serializing_if = "Responders::is_empty")]
    pub b_responders: Responders,
    /// The gateway's changes to each arm's requests, with the number of changed requests. Absent if
    /// nothing was changed.
    #[serde(default, skip_serializing_if = "RequestChanges::is_empty")]
    pub a_changes: RequestChanges,
    #[serde(default, skip_serializing_if = "RequestChanges::is_empty")]
    pub b_changes: RequestChanges,
    /// Tasks whose revisions differ between the arms.
    pub task_revisions: Vec<String>,
    /// Tasks that were graded in different environments.
    pub environments: Vec<String>,
}

/// How the values of factors are shown if they are long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongTextStyle {
    /// As digests.
    Digests,
    Full,
}

/// A factor that differs. A value is null if the arm has no such factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorDifference {
    pub factor: String,
    pub a: Value,
    pub b: Value,
}

type TrialsByTask<'a> = BTreeMap<&'a str, Vec<&'a TrialResult>>;

pub(super) fn find_differences(
    a: (&ArmId, &str),
    b: (&ArmId, &str),
    arms: &[Arm],
    trials_by_task: [&TrialsByTask<'_>; 2],
    style: LongTextStyle,
) -> PairDifferences {
    let factors = |id: &ArmId| {
        let arm = arms.iter().find(|arm| arm.id == *id);
        let mut flat = BTreeMap::new();
        if let Some(arm) = arm {
            flatten_value("", &arm.factors(), &mut flat);
            if let Some(endpoint) = endpoint_settings(arm) {
                flatten_value("model", &endpoint, &mut flat);
            }
        }
        flat
    };
    let (of_a, of_b) = (factors(a.0), factors(b.0));
    let keys: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
    let value = |of: &BTreeMap<String, Value>, key: &String| {
        let value = of.get(key).cloned().unwrap_or_default();
        if style == LongTextStyle::Full { value } else { shorten_value(value) }
    };
    let factors = keys
        .into_iter()
        .filter(|key| of_a.get(*key) != of_b.get(*key))
        .map(|key| FactorDifference {
            factor: key.clone(),
            a: value(&of_a, key),
            b: value(&of_b, key),
        })
        .collect();
    let differing = |of: &dyn Fn(&TrialResult) -> Option<String>| {
        let set = |trials: &[&TrialResult]| -> BTreeSet<String> {
            trials.iter().filter_map(|trial| of(trial)).collect()
        };
        let differs = |(task, trials): (&&str, &Vec<&TrialResult>)| {
            let (own, other) = (set(trials), set(trials_by_task[1].get(task)?));
            (!own.is_empty() && !other.is_empty() && own != other).then(|| (*task).to_owned())
        };
        trials_by_task[0].iter().filter_map(differs).collect::<Vec<String>>()
    };
    let environment = |trial: &TrialResult| {
        let verdict_environment = trial.verdict.as_ref()?.environment.as_ref()?;
        serde_json::to_string(verdict_environment).ok()
    };
    PairDifferences {
        a: a.1.to_owned(),
        a_arm: a.0.clone(),
        b: b.1.to_owned(),
        b_arm: b.0.clone(),
        factors,
        a_limits: limit_fractions(trials_by_task[0]),
        b_limits: limit_fractions(trials_by_task[1]),
        a_faults: count_faults(trials_by_task[0]),
        b_faults: count_faults(trials_by_task[1]),
        a_responders: merge_responders(trials_by_task[0]),
        b_responders: merge_responders(trials_by_task[1]),
        a_changes: merge_request_changes(trials_by_task[0]),
        b_changes: merge_request_changes(trials_by_task[1]),
        task_revisions: differing(&|trial| trial.facts.revision.clone()),
        environments: differing(&environment),
    }
}

pub(crate) fn flatten_value(path: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let dot = if path.is_empty() { "" } else { "." };
                flatten_value(&format!("{path}{dot}{key}"), value, out);
            }
        }
        Value::Null => {}
        other => drop(out.insert(path.to_owned(), other.clone())),
    }
}

fn shorten_value(value: Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > MAX_TEXT_LENGTH => {
            let lines = count_with_noun(text.lines().count(), "line");
            Value::String(format!("text of {lines}, sha256 {}", short_digest(&text)))
        }
        other => other,
    }
}

fn short_digest(text: &str) -> String {
    sha256_hex(text.as_bytes())[..12].to_owned()
}

/// Formats a value on one line.
pub(crate) fn format_on_one_line(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => escape_unprintable_line(text),
        other => {
            let text = other.to_string();
            let kind = match other {
                Value::Array(items) => format!("list of {}", count_with_noun(items.len(), "value")),
                _ => "value".to_owned(),
            };
            match text.chars().count() > MAX_TEXT_LENGTH {
                true => format!("{kind}, sha256 {}", short_digest(&text)),
                false => text,
            }
        }
    }
}

/// Formats a value on separate lines, or returns `None` if it fits on one line.
fn format_in_full(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        other if other.is_array() || other.is_object() => {
            serde_json::to_string_pretty(other).ok()?
        }
        _ => return None,
    };
    (text.contains('\n') || text.chars().count() > MAX_TEXT_LENGTH).then_some(text)
}

/// Formats one arm's value of a factor. The lines of a long text follow the arm's name.
fn format_arm_value(arm: &str, value: &Value) -> String {
    match format_in_full(value) {
        Some(text) => {
            let lines: Vec<String> = text.lines().map(|line| format!("      {line}")).collect();
            format!("    {arm}:\n{}", lines.join("\n"))
        }
        None => format!("    {arm}: {}", format_on_one_line(value)),
    }
}

fn limit_fractions(trials_by_task: &TrialsByTask<'_>) -> BTreeMap<String, f64> {
    let trials: Vec<_> = trials_by_task.values().flatten().collect();
    let mut shares: BTreeMap<String, f64> = BTreeMap::new();
    for kind in trials.iter().filter_map(|trial| own_limit(trial)) {
        *shares.entry(kind.to_string()).or_default() += 1.0 / trials.len() as f64;
    }
    shares
}

fn count_faults(trials_by_task: &TrialsByTask<'_>) -> u64 {
    let is_fault = |trial: &&&TrialResult| {
        trial.outcome.as_ref().is_some_and(|outcome| outcome.ending.is_fault())
    };
    trials_by_task.values().flatten().filter(is_fault).count() as u64
}

fn merge_responders(trials_by_task: &TrialsByTask<'_>) -> Responders {
    let trials: Vec<&TrialResult> = trials_by_task.values().flatten().copied().collect();
    count_responders(&trials)
}

fn merge_request_changes(trials_by_task: &TrialsByTask<'_>) -> RequestChanges {
    let mut all = RequestChanges::default();
    for trial in trials_by_task.values().flatten() {
        trial.outcome.iter().for_each(|outcome| all.merge(&outcome.changes));
    }
    all
}

/// Formats one line per factor. If strings are shown in full, a long string has its own lines.
pub(super) fn differences_text(differences: &PairDifferences, style: LongTextStyle) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{text}");
    };
    line(format!("\ndifferences between {} and {}", differences.a, differences.b));
    let (mut only_a, mut only_b) = (0_usize, 0_usize);
    for factor in &differences.factors {
        match (factor.factor.starts_with(PACKAGE_PREFIX), &factor.a, &factor.b) {
            (true, _, Value::Null) => only_a += 1,
            (true, Value::Null, _) => only_b += 1,
            (_, a, b) => {
                let is_long = format_in_full(a).is_some() || format_in_full(b).is_some();
                let name = escape_unprintable_line(&factor.factor);
                if style == LongTextStyle::Full && is_long {
                    line(format!(
                        "  {name}:\n{}\n{}",
                        format_arm_value(&differences.a, a),
                        format_arm_value(&differences.b, b)
                    ));
                } else {
                    line(format!(
                        "  {name}: {} vs {}",
                        format_on_one_line(a),
                        format_on_one_line(b)
                    ));
                }
            }
        }
    }
    if only_a + only_b > 0 {
        // Different agents have almost no bundled packages in common, and a list of a hundred
        // packages would hide the other differences. Show only the counts.
        line(format!("  packages in only one of them: {only_a} vs {only_b}"));
    }
    let shares = |limits: &BTreeMap<String, f64>| {
        let shares =
            limits.iter().map(|(kind, share)| format!("{kind} {}", format_percent(*share)));
        let shares: Vec<String> = shares.collect();
        if shares.is_empty() { "none".to_owned() } else { shares.join(", ") }
    };
    line(format!(
        "  trials ended at a limit: {} vs {}",
        shares(&differences.a_limits),
        shares(&differences.b_limits)
    ));
    line(format!("  infrastructure faults: {} vs {}", differences.a_faults, differences.b_faults));
    for (name, responders) in
        [(&differences.a, &differences.a_responders), (&differences.b, &differences.b_responders)]
    {
        if responders.is_mixture() {
            line(format!("  {name}: {}", describe_responders(responders)));
        }
    }
    for (name, changes) in
        [(&differences.a, &differences.a_changes), (&differences.b, &differences.b_changes)]
    {
        for (what, counts) in
            [("requests repaired", &changes.repairs), ("lost in translation", &changes.losses)]
        {
            let counts: Vec<_> =
                counts.iter().map(|(name, count)| format!("{name} ({count})")).collect();
            if !counts.is_empty() {
                line(format!("  {name}: {what}: {}", counts.join(", ")));
            }
        }
    }
    for (what, tasks) in [
        ("task revisions", &differences.task_revisions),
        ("environments", &differences.environments),
    ] {
        let task_names = tasks.iter().take(MAX_NAMED_TASKS).cloned().collect::<Vec<_>>().join(", ");
        let more = tasks.len().saturating_sub(MAX_NAMED_TASKS);
        line(match (tasks.len(), more) {
            (0, _) => format!("  {what}: the same"),
            (count, 0) => format!("  {what}: {count} differ: {task_names}"),
            (count, more) => format!("  {what}: {count} differ: {task_names} and {more} more"),
        });
    }
    out
}
