//! Every pair of arms, in every metric.

use std::{collections::BTreeMap, fmt::Write as _};

use proctor_statistics as statistics;
use proctor_types::{Arm, ArmId};
use serde::{Deserialize, Serialize};

use super::{
    metric::Metric,
    sentence::sentence,
    shared::{ExcludedTasks, SharedTask, by_task, shared},
    why::{PairWhy, why, why_text},
};
use crate::{TrialResult, lines::wrapped};

pub const COMPARISON_SCHEMA: u32 = 1;

/// What `compare --format json` prints, unrounded. Fields are only ever added within a schema version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub schema_version: u32,
    /// Pairs in the order of the plan, one entry a metric.
    pub pairs: Vec<Pair>,
    /// One a pair of arms, where it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<PairWhy>,
}

/// Two arms in one metric; every difference is a - b.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Names.
    pub a: String,
    pub a_arm: ArmId,
    pub b: String,
    pub b_arm: ArmId,
    /// `resolved`, `passed_rate`, `tokens` (in and out), `cost` (US dollars) or `steps`.
    pub metric: String,
    /// Compared on.
    pub tasks: u64,
    /// Left out.
    pub excluded: u64,
    pub excluded_by: ExcludedTasks,
    /// Tasks that only one of them resolves; null with several attempts and in other metrics.
    pub a_only: Option<u64>,
    pub b_only: Option<u64>,
    /// Of rates, or of means over tasks. Null, like the three below, where no task is shared.
    pub difference: Option<f64>,
    /// 95 %; null where too few tasks tell nothing of an amount, too.
    pub interval: Option<[f64; 2]>,
    pub p_value: Option<f64>,
    /// Holm, over the pairs of this metric.
    pub p_adjusted: Option<f64>,
    /// `mcnemar_exact` or `paired_bootstrap_by_task`.
    pub test: String,
    /// For a difference like this one to be seen at 5 % with a power of 80 %. Null where none is seen.
    pub tasks_needed: Option<u64>,
    /// The smallest difference that these tasks would show likewise.
    pub smallest_visible: Option<f64>,
    /// With whole repositories drawn; absent with fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_repository: Option<ByRepository>,
    pub sentence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ByRepository {
    pub repositories: u64,
    pub interval: Option<[f64; 2]>,
    pub p_value: f64,
}

/// Compares all arms of the trials, in the order in which they come. `arms` says what each is, where `--why`
/// is asked for; `None` leaves that out.
pub fn compare(trials: &[TrialResult], arms: Option<&[Arm]>) -> Comparison {
    let mut ids: Vec<(&ArmId, &str)> = Vec::new();
    for trial in trials {
        if !ids.iter().any(|(id, _)| **id == trial.arm) {
            ids.push((&trial.arm, &trial.arm_name));
        }
    }
    let tasks: Vec<_> = ids.iter().map(|(id, _)| by_task(trials, id)).collect();
    let (mut pairs, mut reasons) = (Vec::new(), Vec::new());
    for (first, a) in ids.iter().enumerate() {
        for (second, b) in ids.iter().enumerate().skip(first + 1) {
            let (shared, excluded) = shared(&tasks[first], &tasks[second]);
            let metrics = Metric::ALL.into_iter();
            pairs.extend(metrics.filter_map(|metric| pair(metric, *a, *b, &shared, excluded)));
            if let Some(arms) = arms {
                reasons.push(why(*a, *b, arms, [&tasks[first], &tasks[second]]));
            }
        }
    }
    adjust(&mut pairs);
    for pair in &mut pairs {
        pair.sentence = sentence(pair);
    }
    Comparison { schema_version: COMPARISON_SCHEMA, pairs, why: reasons }
}

/// Holm within each metric.
fn adjust(pairs: &mut [Pair]) {
    let mut metrics: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, pair) in pairs.iter().enumerate().filter(|(_, pair)| pair.p_value.is_some()) {
        metrics.entry(pair.metric.clone()).or_default().push(index);
    }
    for indices in metrics.into_values() {
        let values: Vec<f64> = indices.iter().filter_map(|index| pairs[*index].p_value).collect();
        for (index, adjusted) in indices.into_iter().zip(statistics::holm(&values)) {
            pairs[index].p_adjusted = Some(adjusted);
        }
    }
}

/// `None` where the metric of a shared task is not known.
fn pair(
    metric: Metric,
    a: (&ArmId, &str),
    b: (&ArmId, &str),
    shared: &[SharedTask<'_>],
    excluded: ExcludedTasks,
) -> Option<Pair> {
    let mean = |trials: &[&TrialResult]| -> Option<f64> {
        let values: Option<Vec<f64>> = trials.iter().map(|trial| metric.of(trial)).collect();
        let values = values?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    };
    let differences: Option<Vec<f64>> =
        shared.iter().map(|task| Some(mean(&task.a)? - mean(&task.b)?)).collect();
    let differences = differences?;
    let single = shared.iter().all(|task| task.a.len() == 1 && task.b.len() == 1);
    let exact = metric == Metric::Resolved && single && !shared.is_empty();
    let mut pair = Pair {
        a: a.1.to_owned(),
        a_arm: a.0.clone(),
        b: b.1.to_owned(),
        b_arm: b.0.clone(),
        metric: metric.name().to_owned(),
        tasks: shared.len() as u64,
        excluded: excluded.all(),
        excluded_by: excluded,
        a_only: None,
        b_only: None,
        difference: None,
        interval: None,
        p_value: None,
        p_adjusted: None,
        test: if exact { "mcnemar_exact" } else { "paired_bootstrap_by_task" }.to_owned(),
        tasks_needed: None,
        smallest_visible: None,
        by_repository: by_repository(metric, shared, &differences),
        sentence: String::new(),
    };
    if exact {
        mcnemar(&mut pair, &differences);
    } else {
        bootstrap(&mut pair, &differences, metric);
    }
    Some(pair)
}

fn mcnemar(pair: &mut Pair, differences: &[f64]) {
    let count = |of: f64| differences.iter().filter(|one| **one == of).count() as u64;
    let (a_only, b_only, tasks) = (count(1.0), count(-1.0), pair.tasks);
    let difference = (a_only as f64 - b_only as f64) / tasks as f64;
    let discordant = (a_only + b_only) as f64 / tasks as f64;
    (pair.a_only, pair.b_only) = (Some(a_only), Some(b_only));
    pair.difference = Some(difference);
    pair.interval = statistics::difference_interval(a_only, b_only, tasks, statistics::LEVEL);
    pair.p_value = Some(statistics::mcnemar_exact(a_only, b_only));
    let (alpha, power) = (statistics::ALPHA, statistics::POWER);
    pair.tasks_needed = statistics::discordant_tasks(difference, discordant, alpha, power);
    pair.smallest_visible = statistics::discordant_difference(tasks, discordant, alpha, power);
}

fn bootstrap(pair: &mut Pair, differences: &[f64], metric: Metric) {
    let clusters: Vec<Vec<f64>> = differences.iter().map(|one| vec![*one]).collect();
    let found = statistics::paired_bootstrap(&clusters, metric.scale(), statistics::LEVEL);
    let Some(found) = found else { return };
    pair.difference = Some(found.difference);
    pair.interval = found.interval;
    pair.p_value = Some(found.p_value);
    if found.deviation > 0.0 {
        let (alpha, power) = (statistics::ALPHA, statistics::POWER);
        let (difference, deviation) = (found.difference, found.deviation);
        pair.tasks_needed =
            statistics::tasks_for_mean_difference(difference, deviation, alpha, power);
        pair.smallest_visible =
            statistics::smallest_mean_difference(pair.tasks, deviation, alpha, power);
    }
}

fn by_repository(
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
    let found = statistics::paired_bootstrap(&clusters, metric.scale(), statistics::LEVEL)?;
    let (repositories, interval) = (clusters.len() as u64, found.interval);
    Some(ByRepository { repositories, interval, p_value: found.p_value })
}

/// The sentences, pair by pair.
pub fn comparison_text(comparison: &Comparison) -> String {
    let mut out = String::new();
    let mut last: Option<(&ArmId, &ArmId)> = None;
    for pair in &comparison.pairs {
        let arms = (&pair.a_arm, &pair.b_arm);
        if last.is_some_and(|last| last != arms) {
            out.push('\n');
        }
        if last != Some(arms) {
            // Writing to a text cannot fail.
            let _ = writeln!(out, "{} against {}", pair.a, pair.b);
        }
        last = Some(arms);
        let _ = writeln!(out, "  {}", pair.sentence);
    }
    for why in &comparison.why {
        out.push_str(&why_text(why));
    }
    wrapped(&out)
}
