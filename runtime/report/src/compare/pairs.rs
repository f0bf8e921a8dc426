//! Compares every pair of arms in every metric.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use proctor_statistics::{
    self as statistics, ALPHA, CONFIDENCE_LEVEL, PairedDifference, PowerTarget, Scale,
};
use proctor_types::{Arm, ArmId};

use super::{
    comparison::{ByRepository, COMPARISON_SCHEMA, CommonLimit, Comparison, Pair},
    differences::{LongTextStyle, differences_text, find_differences},
    limits::{StepLimit, common_step_limit, differ_in_price, differing_limits},
    metric::Metric,
    missing::bound_missing_verdicts,
    sentence::sentence,
    shared::{SharedTask, SharedTasks, group_by_task, shared_tasks},
};
use crate::{Ratio, TrialResult, lines::wrap_long_lines};

/// Compares all arms of the trials, in order of first appearance. `arms` contains the arms'
/// settings. If `arms` is `None`, the comparison doesn't mention differences in limits and prices.
pub fn compare(trials: &[TrialResult], arms: Option<&[Arm]>) -> Comparison {
    compare_arms(trials, arms.unwrap_or_default(), None)
}

/// Like [`compare`], and also lists the differences between the arms of each pair. Long factor
/// values are shown in the given style.
pub fn compare_with_differences(
    trials: &[TrialResult],
    arms: &[Arm],
    style: LongTextStyle,
) -> Comparison {
    compare_arms(trials, arms, Some(style))
}

/// Lists the differences between the arms of each pair if `style` is given.
fn compare_arms(trials: &[TrialResult], arms: &[Arm], style: Option<LongTextStyle>) -> Comparison {
    let mut ids: Vec<(&ArmId, &str)> = Vec::new();
    let mut controls: BTreeSet<&ArmId> = BTreeSet::new();
    for trial in trials {
        if !ids.iter().any(|(id, _)| **id == trial.arm) {
            ids.push((&trial.arm, &trial.arm_name));
        }
        if trial.is_control {
            controls.insert(&trial.arm);
        }
    }
    let tasks: Vec<_> = ids.iter().map(|(id, _)| group_by_task(trials, id)).collect();
    let settings_of = |id: &ArmId| arms.iter().find(|arm| arm.id == *id);
    let is_under_study =
        |arm: &&Arm| ids.iter().any(|(id, _)| **id == arm.id) && !controls.contains(&arm.id);
    let common_steps = common_step_limit(arms.iter().filter(is_under_study));
    let (mut asked, mut with_control, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    let (mut limited, mut limited_with_control) = (Vec::new(), Vec::new());
    for (first, a) in ids.iter().enumerate() {
        for (second, b) in ids.iter().enumerate().skip(first + 1) {
            let shared = shared_tasks(&tasks[first], &tasks[second]);
            let is_control = controls.contains(a.0) || controls.contains(b.0);
            let (pairs, limited) = match is_control {
                true => (&mut with_control, &mut limited_with_control),
                false => (&mut asked, &mut limited),
            };
            let settings = settings_of(a.0).zip(settings_of(b.0));
            let limits = settings.map(|(a, b)| differing_limits(a, b)).unwrap_or_default();
            let prices_differ = settings.is_some_and(|(a, b)| differ_in_price(a, b));
            for metric in Metric::ALL {
                let Some(mut one) = PendingPair::compare(metric, *a, *b, &shared) else { continue };
                (one.pair.limits, one.pair.prices_differ) = (limits.clone(), prices_differ);
                pairs.push(one);
            }
            // Pairs with equal limits are compared at the smallest limit, too, because the ranking
            // gives every arm's rate at this limit.
            let limit = settings.and_then(|(a, b)| match is_control {
                true => StepLimit::from_arms(common_step_limit([a, b])?, a, b),
                false => StepLimit::from_arms(common_steps?, a, b),
            });
            if limit.is_some() || !is_control && common_steps.is_some() {
                let metric =
                    limit.map_or(Metric::Resolved, |limit| Metric::ResolvedWithin(limit.steps));
                let pair = PendingPair::compare(metric, *a, *b, &shared);
                limited.extend(pair.map(|pair| LimitedPair { limit, pair }));
            }
            if let Some(style) = style {
                reasons.push(find_differences(
                    *a,
                    *b,
                    arms,
                    [&tasks[first], &tasks[second]],
                    style,
                ));
            }
        }
    }
    for metric in Metric::ALL {
        adjust_p_values(asked.iter_mut().filter(|one| one.metric == metric));
    }
    adjust_p_values(limited.iter_mut().map(|one| &mut one.pair));
    let mut powers = PowerCache::default();
    let mut done = |compared: Vec<PendingPair>, limited: Vec<LimitedPair>| -> Vec<Pair> {
        let mut pairs: Vec<Pair> =
            compared.into_iter().map(|one| one.finish(&mut powers)).collect();
        for LimitedPair { limit, pair } in limited {
            if let Some(limit) = limit {
                add_common_limit(&mut pairs, limit, &pair.finish(&mut powers));
            }
        }
        pairs
    };
    let (pairs, controls) = (done(asked, limited), done(with_control, limited_with_control));
    let schema_version = COMPARISON_SCHEMA;
    Comparison { schema_version, pairs, controls, gates: Vec::new(), differences: reasons }
}

/// A pair compared in `resolved` at a common step limit.
struct LimitedPair {
    /// `None` if an arm has no model, so that no step limit applies to it. The pair still counts for
    /// the adjustment of p-values.
    limit: Option<StepLimit>,
    pair: PendingPair,
}

/// Adds the result at a common step limit to the pair of the same arms.
fn add_common_limit(pairs: &mut [Pair], limit: StepLimit, limited: &Pair) {
    let same_arms = |pair: &&mut Pair| {
        pair.metric == limited.metric
            && (&pair.a_arm, &pair.b_arm) == (&limited.a_arm, &limited.b_arm)
    };
    if let Some(pair) = pairs.iter_mut().find(same_arms) {
        pair.common_limit = CommonLimit::from_pair(limit, limited);
        pair.sentence = sentence(pair);
    }
}

/// Applies Holm's adjustment to the pairs of one metric, both to the analysis by task and to the
/// analysis by repository.
fn adjust_p_values<'a>(pairs: impl Iterator<Item = &'a mut PendingPair>) {
    let mut of: Vec<&mut PendingPair> = pairs.filter(|one| one.pair.p_value.is_some()).collect();
    let count = of.len() as u64;
    let values: Vec<f64> = of.iter().filter_map(|one| one.pair.p_value).collect();
    for (one, adjusted) in of.iter_mut().zip(statistics::holm_p_values(&values)) {
        one.pair.p_adjusted = Some(adjusted);
        one.pair.adjusted_for = count;
    }
    // A pair without missing verdicts has only one possible p-value.
    let values: Vec<f64> = of
        .iter()
        .filter_map(|one| {
            one.pair.missing_verdicts.map(|missing| missing.p_value).or(one.pair.p_value)
        })
        .collect();
    for (one, adjusted) in of.iter_mut().zip(statistics::holm_p_values(&values)) {
        if let Some(missing) = &mut one.pair.missing_verdicts {
            missing.p_adjusted = Some(adjusted);
        }
    }
    let mut by: Vec<&mut ByRepository> =
        of.into_iter().filter_map(|one| one.pair.by_repository.as_mut()).collect();
    let values: Vec<f64> = by.iter().map(|one| one.p_value).collect();
    for (one, adjusted) in by.iter_mut().zip(statistics::holm_p_values(&values)) {
        one.p_adjusted = Some(adjusted);
    }
}

/// Caches the results of power analyses for McNemar's test by task counts, because many pairs have
/// the same counts.
#[derive(Default)]
struct PowerCache(BTreeMap<[u64; 4], (Option<u64>, Option<f64>)>);

impl PowerCache {
    fn get_or_compute(
        &mut self,
        a_only: u64,
        b_only: u64,
        tasks: u64,
        pairs: u64,
    ) -> (Option<u64>, Option<f64>) {
        let key = [a_only.min(b_only), a_only.max(b_only), tasks, pairs];
        *self.0.entry(key).or_insert_with(|| {
            let share = |count: u64| count as f64 / tasks as f64;
            let (difference, discordant) = (share(a_only.abs_diff(b_only)), share(a_only + b_only));
            let target = PowerTarget::for_comparisons(pairs);
            (
                statistics::mcnemar_tasks_needed(difference, discordant, target),
                statistics::mcnemar_detectable_difference(tasks, discordant, target),
            )
        })
    }
}

/// A pair of arms, with the data for the fields that are computed only after all pairs have been
/// compared.
struct PendingPair {
    metric: Metric,
    pair: Pair,
    /// One difference per task.
    differences: Vec<f64>,
    /// The bootstrap's result. `None` if McNemar's test was used, or if the arms have no tasks in
    /// common.
    bootstrap_result: Option<PairedDifference>,
}

impl PendingPair {
    /// Compares two arms. Returns `None` if the metric's value is unknown for a shared task.
    fn compare(
        metric: Metric,
        a: (&ArmId, &str),
        b: (&ArmId, &str),
        tasks: &SharedTasks<'_>,
    ) -> Option<Self> {
        let (shared, excluded) = (&tasks.graded, tasks.excluded);
        let mean = |trials: &[&TrialResult]| -> Option<f64> {
            let values: Option<Vec<f64>> =
                trials.iter().map(|trial| metric.value_for(trial)).collect();
            let values = values?;
            Some(values.iter().sum::<f64>() / values.len() as f64)
        };
        let means: Option<Vec<(f64, f64)>> =
            shared.iter().map(|task| Some((mean(&task.a)?, mean(&task.b)?))).collect();
        let means = means?;
        let differences: Vec<f64> =
            means.iter().map(|(a, b)| statistics::difference(*a, *b)).collect();
        let overall = |of: fn(&(f64, f64)) -> f64| {
            let sum = means.iter().map(of).sum::<f64>();
            (!means.is_empty()).then(|| sum / means.len() as f64)
        };
        let single = shared.iter().all(|task| task.a.len() == 1 && task.b.len() == 1);
        let is_binary = matches!(metric, Metric::Resolved | Metric::ResolvedWithin(_));
        let exact = is_binary && single && !shared.is_empty();
        let mut pair = Pair {
            a: a.1.to_owned(),
            a_arm: a.0.clone(),
            b: b.1.to_owned(),
            b_arm: b.0.clone(),
            metric: metric.name().to_owned(),
            tasks: shared.len() as u64,
            excluded: excluded.total(),
            excluded_by: excluded,
            a_only: None,
            b_only: None,
            difference: None,
            interval: None,
            p_value: None,
            p_adjusted: None,
            adjusted_for: 0,
            interval_adjusted: None,
            distinguishable: None,
            clear: None,
            test: if exact { "mcnemar_exact" } else { "paired_bootstrap_by_task" }.to_owned(),
            tasks_needed: None,
            smallest_visible: None,
            a_mean: overall(|of_both| of_both.0),
            b_mean: overall(|of_both| of_both.1),
            ratio: match metric.scale() {
                Scale::Amount => Ratio::from_tasks(&means),
                Scale::Proportion => None,
            },
            by_repository: compare_by_repository(metric, shared, &differences),
            missing_verdicts: None,
            limits: Vec::new(),
            prices_differ: false,
            common_limit: None,
            sentence: String::new(),
        };
        let mut found = None;
        if exact {
            apply_mcnemar(&mut pair, &differences);
        } else {
            found = statistics::paired_bootstrap(
                &one_cluster_per_task(&differences),
                metric.scale(),
                CONFIDENCE_LEVEL,
            );
        }
        if let Some(found) = &found {
            pair.difference = Some(found.difference);
            pair.interval = found.interval;
            pair.p_value = Some(found.p_value);
        }
        // Without a task to compare, there is no result that missing verdicts could change.
        if pair.p_value.is_some() {
            pair.missing_verdicts =
                bound_missing_verdicts(metric, shared.iter().chain(&tasks.ungraded));
        }
        Some(Self { metric, pair, differences, bootstrap_result: found })
    }

    /// Computes the fields that depend on the number of pairs. Call this after the p-values have
    /// been adjusted.
    fn finish(self, powers: &mut PowerCache) -> Pair {
        let Self { metric, mut pair, differences, bootstrap_result: found } = self;
        let Some(p_value) = pair.p_value else {
            pair.sentence = sentence(&pair);
            return pair;
        };
        let target = PowerTarget::for_comparisons(pair.adjusted_for);
        if let Some(found) = &found {
            let (deviation, differing) = (found.deviation, found.differing_fraction);
            pair.tasks_needed = statistics::tasks_for_mean_difference(
                found.difference,
                deviation,
                differing,
                target,
            );
            pair.smallest_visible =
                statistics::detectable_mean_difference(pair.tasks, deviation, target)
                    .filter(|_| deviation > 0.0);
        } else if let (Some(a_only), Some(b_only)) = (pair.a_only, pair.b_only) {
            (pair.tasks_needed, pair.smallest_visible) =
                powers.get_or_compute(a_only, b_only, pair.tasks, pair.adjusted_for.max(1));
        }
        let decides = pair.p_adjusted.unwrap_or(p_value);
        pair.interval_adjusted = match (&found, pair.a_only, pair.b_only) {
            _ if pair.adjusted_for <= 1 => pair.interval,
            // The level at which the unadjusted p-value leads to the same decision as the adjusted
            // p-value does at 5%.
            (Some(found), ..) => {
                let alpha = ALPHA * p_value / decides;
                statistics::adjusted_interval(
                    &one_cluster_per_task(&differences),
                    metric.scale(),
                    found,
                    alpha,
                )
            }
            (None, Some(a_only), Some(b_only)) => {
                let alpha = ALPHA * p_value / decides;
                statistics::adjusted_difference_interval(
                    a_only,
                    b_only,
                    pair.tasks,
                    CONFIDENCE_LEVEL,
                    alpha,
                )
            }
            (None, ..) => None,
        };
        let distinguishable = decides < ALPHA;
        pair.distinguishable = Some(distinguishable);
        let difference = pair.difference.unwrap_or_default();
        if let Some(missing) = &mut pair.missing_verdicts {
            let has_same_sign = missing.difference.iter().all(|end| end * difference > 0.0);
            missing.is_difference_certain =
                has_same_sign && missing.p_adjusted.unwrap_or(missing.p_value) < ALPHA;
        }
        let is_certain = pair.missing_verdicts.is_none_or(|missing| missing.is_difference_certain);
        pair.clear = Some(distinguishable && is_certain);
        if let Some(by) = &mut pair.by_repository {
            by.changes_conclusion =
                (by.p_adjusted.unwrap_or(by.p_value) < ALPHA) != distinguishable;
        }
        pair.sentence = sentence(&pair);
        pair
    }
}

/// Makes each task its own cluster.
fn one_cluster_per_task(differences: &[f64]) -> Vec<Vec<f64>> {
    differences.iter().map(|one| vec![*one]).collect()
}

fn apply_mcnemar(pair: &mut Pair, differences: &[f64]) {
    let count = |of: f64| differences.iter().filter(|one| **one == of).count() as u64;
    let (a_only, b_only, tasks) = (count(1.0), count(-1.0), pair.tasks);
    (pair.a_only, pair.b_only) = (Some(a_only), Some(b_only));
    pair.difference = Some((a_only as f64 - b_only as f64) / tasks as f64);
    pair.interval = statistics::difference_interval(a_only, b_only, tasks, CONFIDENCE_LEVEL);
    pair.p_value = Some(statistics::mcnemar_exact_p(a_only, b_only));
}

fn compare_by_repository(
    metric: Metric,
    shared: &[SharedTask<'_>],
    differences: &[f64],
) -> Option<ByRepository> {
    let mut repositories: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (task, difference) in shared.iter().zip(differences) {
        repositories.entry(task.repository()?).or_default().push(*difference);
    }
    let clusters: Vec<Vec<f64>> = repositories.into_values().collect();
    if clusters.len() < 2 {
        return None;
    }
    let estimate = statistics::paired_bootstrap(&clusters, metric.scale(), CONFIDENCE_LEVEL)?;
    Some(ByRepository {
        repositories: clusters.len() as u64,
        interval: estimate.interval,
        p_value: estimate.p_value,
        p_adjusted: None,
        changes_conclusion: false,
    })
}

/// Formats the comparison as text: the pairs, the pairs with a control, then the gates.
pub fn comparison_text(comparison: &Comparison) -> String {
    comparison_text_with_style(comparison, LongTextStyle::Digests)
}

/// Like [`comparison_text`], with long factor values shown in the given style.
pub fn comparison_text_with_style(comparison: &Comparison, style: LongTextStyle) -> String {
    let mut out = String::new();
    let mut last: Option<(&ArmId, &ArmId)> = None;
    let mut last_sentence = "";
    let pairs = comparison.pairs.iter().map(|pair| (pair, ""));
    let controls = comparison.controls.iter().map(|pair| (pair, " (control)"));
    for (pair, kind) in pairs.chain(controls) {
        let arms = (&pair.a_arm, &pair.b_arm);
        if last.is_some_and(|last| last != arms) {
            out.push('\n');
        }
        if last != Some(arms) {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{} vs {}{kind}", pair.a, pair.b);
            last_sentence = "";
        }
        last = Some(arms);
        // If two arms have no results to compare, all their metrics have the same sentence.
        if pair.sentence != last_sentence {
            let _ = writeln!(out, "  {}", pair.sentence);
        }
        last_sentence = &pair.sentence;
    }
    if !comparison.gates.is_empty() && !out.is_empty() {
        out.push('\n');
    }
    for gate in &comparison.gates {
        let _ = writeln!(out, "{}", gate.sentence);
    }
    for why in &comparison.differences {
        out.push_str(&differences_text(why, style));
    }
    wrap_long_lines(&out)
}
