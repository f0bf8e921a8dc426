//! Compares how two sets of tasks rank the arms. The two sets are two levels, a lite set and the
//! full set, or two splits.

use std::collections::{BTreeMap, BTreeSet};

use proctor_statistics::{CONFIDENCE_LEVEL, rank_agreement};
use proctor_types::{ArmId, TaskId, count_with_noun};
use serde::{Deserialize, Serialize};

use crate::{TaskFacts, TrialResult, rounding::round_to_four_decimals};

/// The name of the smaller set in collections and benchmarks.
const LITE_SET_NAME: &str = "lite";

/// Minimum number of arms for a ranking to be meaningful.
const MIN_ARMS: usize = 3;

/// Rank correlation between two sets of tasks. In each set, the arms are ranked by the fraction of
/// tasks that they resolve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankAgreement {
    /// The property that separates the two sets: `level`, `category` or `split`.
    pub kind: String,
    /// The names of the two sets. If `b` is `full`, that set contains `a`.
    pub a: String,
    pub b: String,
    pub a_tasks: u64,
    pub b_tasks: u64,
    pub arms: u64,
    /// Kendall's tau-b.
    pub tau: f64,
    /// 95% confidence interval from a bootstrap over tasks.
    pub interval: Option<[f64; 2]>,
}

/// A task that all arms attempted, with each arm's fraction of trials that resolve the task.
type TaskRates<'a> = (&'a TaskFacts, Vec<f64>);

/// Computes the rank agreement for each pair of sets. Controls are not ranked. The result is empty
/// while a verdict is missing or if there are fewer than three arms.
pub(crate) fn rank_agreements(inputs: &[TrialResult]) -> Vec<RankAgreement> {
    let trials: Vec<&TrialResult> = inputs.iter().filter(|trial| !trial.is_control).collect();
    let arms: BTreeSet<&ArmId> = trials.iter().map(|trial| &trial.arm).collect();
    if arms.len() < MIN_ARMS || trials.iter().any(|trial| trial.verdict.is_none()) {
        return Vec::new();
    }
    let rows = task_rates(&trials, &arms);
    let select = |wanted: &dyn Fn(&TaskFacts) -> bool| -> Vec<Vec<f64>> {
        let chosen = rows.iter().filter(|(facts, _)| wanted(facts));
        chosen.map(|(_, scores)| scores.clone()).collect()
    };
    let compared = |kind: &str, names: [&str; 2], sets: [Vec<Vec<f64>>; 2], nested: bool| {
        let [a, b] = &sets;
        let agreement = rank_agreement(a, b, nested, CONFIDENCE_LEVEL)?;
        let rest = if nested { a.len() } else { 0 };
        Some(RankAgreement {
            kind: kind.to_owned(),
            a: names[0].to_owned(),
            b: names[1].to_owned(),
            a_tasks: a.len() as u64,
            b_tasks: (b.len() + rest) as u64,
            arms: arms.len() as u64,
            tau: round_to_four_decimals(agreement.tau),
            interval: agreement.interval.map(|ends| ends.map(round_to_four_decimals)),
        })
    };
    let of_level = |level: u32| select(&|facts| facts.level == Some(level));
    let is_lite = |facts: &TaskFacts| facts.categories.iter().any(|name| name == LITE_SET_NAME);
    let mut out = Vec::new();
    out.extend(compared("level", ["1", "2"], [of_level(1), of_level(2)], false));
    let lite = [select(&is_lite), select(&|facts| !is_lite(facts))];
    out.extend(compared("category", [LITE_SET_NAME, "full"], lite, true));
    let splits: BTreeSet<&str> =
        rows.iter().filter_map(|(facts, _)| facts.split.as_deref()).collect();
    let splits: Vec<&str> = splits.into_iter().collect();
    for (index, a) in splits.iter().enumerate() {
        for b in splits.iter().skip(index + 1) {
            let of = |name: &str| select(&|facts| facts.split.as_deref() == Some(name));
            out.extend(compared("split", [a, b], [of(a), of(b)], false));
        }
    }
    out
}

fn task_rates<'a>(trials: &[&'a TrialResult], arms: &BTreeSet<&ArmId>) -> Vec<TaskRates<'a>> {
    type RateSums<'s> = BTreeMap<&'s ArmId, (f64, f64)>;
    // The split is part of the key: with `report RUN-LITE RUN-FULL`, the same task may have been
    // attempted once in each split.
    type TaskKey<'s> = (Option<&'s str>, &'s TaskId);
    let mut tasks: BTreeMap<TaskKey<'_>, (&TaskFacts, RateSums<'_>)> = BTreeMap::new();
    for trial in trials {
        let name = (trial.facts.split.as_deref(), &trial.task);
        let of_task = tasks.entry(name).or_insert_with(|| (&trial.facts, RateSums::new()));
        let (sum, count) = of_task.1.entry(&trial.arm).or_default();
        let resolved = trial.verdict.as_ref().is_some_and(|verdict| verdict.resolved);
        *sum += f64::from(u8::from(resolved));
        *count += 1.0;
    }
    let complete = tasks.into_values().filter(|(_, sums)| sums.len() == arms.len());
    complete
        .map(|(facts, sums)| (facts, sums.into_values().map(|(sum, count)| sum / count).collect()))
        .collect()
}

/// Returns a sentence for each pair of sets.
pub(crate) fn agreement_sentences(agreements: &[RankAgreement]) -> Vec<String> {
    let sentence = |one: &RankAgreement| {
        let interval = one
            .interval
            .map_or_else(String::new, |[lower, upper]| format!(" (95% {lower:.2} to {upper:.2})"));
        format!(
            "ranking of {} by {}: Kendall's tau between {} ({}) and {} ({}) is {:.2}{interval}.",
            count_with_noun(one.arms, "arm"),
            one.kind,
            one.a,
            count_with_noun(one.a_tasks, "task"),
            one.b,
            count_with_noun(one.b_tasks, "task"),
            one.tau,
        )
    };
    agreements.iter().map(sentence).collect()
}
