//! Results of one arm.

use std::collections::BTreeMap;

use proctor_types::{
    Arm, ArmId, Budget, EvidenceClass, FailureReason, ForkOrigin, Integrity, Outcome, Responders,
    SCRIPT_URL_PREFIX, Spending, TokenClasses, Verdict, canonical_json, sha256_hex,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    BilledUsage, Bounds, CountStats, DurationStats, EarlierTriesReport, ExceptionCount, GraceStats,
    GroupReport, IntegrityCounts, Intervals, NoiseReport, PerResolved, PerStepStats,
    SideRequestStats, SingleShotReport, StepStats, TokenStats, ToolCallStats, TrialResult,
    UnmarkedScore, VarianceReport,
    groups::summarize_groups,
    limits::own_limit,
    rounding::{round_to_four_decimals, round_to_micro_dollars},
    spread::{compute_intervals, count_failure_reasons, pass_at_k, pass_hat_k, resolved_variance},
};

/// The report of one arm.
///
/// - Rates are over all planned trials.
/// - Means exclude trials that a fault or a shared limit ended, because the arm did not cause these
///   endings.
/// - Totals cover all trials that have ended.
///
/// Means and totals include only the try of each trial that counts. `paid` includes all tries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmReport {
    pub arm: ArmId,
    pub name: String,
    /// The trial and step from which a forked arm's trials continue. Absent if the arm's trials
    /// start from the task's initial state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOrigin>,
    /// Whether the arm is a control, which is shown separately from the arms under study.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// The scaffold. Absent, like the next three fields, in reports built from trials alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaffold: Option<String>,
    /// The model's name at the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the model is a script, so that the results are meaningless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_scripted: bool,
    /// The limits of each trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// All factors. Prompts may be long, so each is replaced with the SHA-256 of its canonical
    /// JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factors: Option<Value>,
    /// The model's `base_url` and `price`, which are not factors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Value>,
    /// Planned trials.
    pub trials: u64,
    /// Trials with a verdict.
    pub graded: u64,
    /// Whether all trials have a verdict.
    pub complete: bool,
    pub resolved: u64,
    /// `resolved / trials`.
    pub resolved_rate: f64,
    /// The lowest and highest value that `resolved_rate` can reach once the missing verdicts are
    /// known.
    pub resolved_bounds: Bounds,
    /// Resolved trials whose verdict has clean integrity. Trials with an unverified verdict are not
    /// included.
    #[serde(default)]
    pub resolved_clean: u64,
    /// `resolved_clean / trials`.
    #[serde(default)]
    pub resolved_rate_clean: f64,
    /// The score over the tasks that the quality file does not mark. Absent without a quality file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmarked: Option<UnmarkedScore>,
    /// The mean fraction of fail-to-pass tests that passed, over all trials. A missing verdict
    /// counts as 0.
    pub passed_rate: f64,
    /// The lowest and highest value that `passed_rate` can reach once the missing verdicts are
    /// known.
    pub passed_bounds: Bounds,
    /// 95% confidence intervals, clustered by task. Missing verdicts widen the intervals
    /// (`docs/concepts/statistics.md`).
    #[serde(default)]
    pub intervals: Intervals,
    /// Trials whose patch was not empty and could be applied.
    #[serde(default)]
    pub applied: u64,
    /// `applied / trials`.
    #[serde(default)]
    pub applied_rate: f64,
    #[serde(default)]
    pub empty_patches: u64,
    /// Unbiased estimates of pass@k for each k up to the number of attempts. Absent with one
    /// attempt, and while a verdict is missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pass_at_k: BTreeMap<u32, f64>,
    /// Estimates of the probability that all of k attempts resolve a task, for the same values of k
    /// as `pass_at_k`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pass_hat_k: BTreeMap<u32, f64>,
    /// The variance of a single trial's `resolved` value (0 or 1). Absent if no task has several
    /// graded attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variance: Option<VarianceReport>,
    /// Results by kind of group, then by the group's name. The kinds are `level`, `repo`,
    /// `category`, `benchmark`, `shared_repositories`, `split`, `cutoff`, `functions_added` and
    /// `attempt`. A kind is left out if all trials are in the same group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, BTreeMap<String, GroupReport>>,
    /// Results specific to single-response arms. Absent for other arms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_shot: Option<SingleShotReport>,
    pub infrastructure_faults: u64,
    /// Trials that have not ended.
    pub unfinished: u64,
    pub steps: StepStats,
    pub tokens: TokenStats,
    /// Whether some token counts were computed locally instead of reported by the endpoint.
    pub usage_estimated: bool,
    /// Total cost in US dollars of the tries that count.
    pub cost_usd: f64,
    /// Whether every response has a price. If false, `cost_usd` includes only the responses with a
    /// price.
    #[serde(default)]
    pub cost_known: bool,
    /// Everything that was billed, including earlier tries and responses received after a limit was
    /// reached.
    #[serde(default)]
    pub paid: BilledUsage,
    /// `paid` divided by the number of resolved trials. Absent if either is zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_resolved: Option<PerResolved>,
    #[serde(default)]
    pub earlier_tries: EarlierTriesReport,
    pub wall_seconds: DurationStats,
    /// Time spent waiting for the endpoint. This time does not count as working time.
    #[serde(default)]
    pub waited_seconds: DurationStats,
    #[serde(default)]
    pub tool_seconds: DurationStats,
    /// Totals over all trials, like `grace`.
    #[serde(default)]
    pub side: SideRequestStats,
    #[serde(default)]
    pub grace: GraceStats,
    /// Absent if the tool calls of any trial were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<ToolCallStats>,
    /// Averages per step, over the same trials as the means. Absent if these trials have no steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_step: Option<PerStepStats>,
    /// Tool calls with unparsable arguments, over all trials.
    pub malformed_calls: u64,
    /// Trials with a response that used more than the amount reserved for its request. These trials
    /// may have exceeded their token and cost limits by more than the last response.
    #[serde(default)]
    pub outgrown: u64,
    /// Number of verdicts by integrity.
    pub integrity: IntegrityCounts,
    /// Number of suspect or contaminated verdicts by class of evidence. One verdict may count in
    /// several classes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evidence_classes: BTreeMap<EvidenceClass, u64>,
    /// Number of trials by label (`proctor label`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, u64>,
    /// Number of trials by the name of their outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// The fraction of trials that ended at one of their own limits, by kind of limit.
    #[serde(default)]
    pub limit_bound: BTreeMap<String, f64>,
    /// How limits and waits affected the trials. Absent if no sandbox was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseReport>,
    /// Number of trials that did not resolve their task, by reason.
    #[serde(default)]
    pub reasons: BTreeMap<FailureReason, u64>,
    /// Failed tests of the trials that did not resolve their task, by exception class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exceptions: BTreeMap<String, ExceptionCount>,
    /// Number of responses by responder: the model, provider and server configuration that the
    /// endpoint reported. Absent if no response reports a responder.
    #[serde(default, skip_serializing_if = "Responders::is_empty")]
    pub responders: Responders,
}

impl ArmReport {
    pub(crate) fn from_trials(arm: &ArmId, trials: &[&TrialResult]) -> Self {
        let planned = trials.len() as f64;
        let ended: Vec<&Outcome> =
            trials.iter().filter_map(|trial| trial.outcome.as_ref()).collect();
        let measured: Vec<&Outcome> =
            ended.iter().copied().filter(|outcome| !outcome.ending.is_unfinished()).collect();
        let verdicts: Vec<&Verdict> =
            trials.iter().filter_map(|trial| trial.verdict.as_ref()).collect();
        let resolved = verdicts.iter().filter(|verdict| verdict.resolved).count();
        let clean = |verdict: &&&Verdict| verdict.resolved && verdict.integrity == Integrity::Clean;
        let resolved_clean = verdicts.iter().filter(clean).count();
        let missing = trials.len() - verdicts.len();
        let passed: f64 = verdicts.iter().map(|verdict| verdict.passed_rate).sum();
        let mean = |of: &dyn Fn(&Outcome) -> f64| {
            let sum: f64 = measured.iter().map(|outcome| of(outcome)).sum();
            round_to_four_decimals(sum / measured.len().max(1) as f64)
        };
        let count = |of: fn(&Spending) -> u64| CountStats {
            total: ended.iter().map(|outcome| of(&outcome.spent)).sum(),
            mean: mean(&|outcome| of(&outcome.spent) as f64),
        };
        let share = |sum: f64| round_to_four_decimals(sum / planned.max(1.0));
        let bounds = |sum: f64| Bounds { lower: share(sum), upper: share(sum + missing as f64) };
        let mut integrity = IntegrityCounts::default();
        for verdict in &verdicts {
            *match verdict.integrity {
                Integrity::Clean => &mut integrity.clean,
                Integrity::Unverified => &mut integrity.unverified,
                Integrity::Suspect => &mut integrity.suspect,
                Integrity::Contaminated => &mut integrity.contaminated,
            } += 1;
        }
        let mut evidence_classes = BTreeMap::new();
        for class in verdicts.iter().flat_map(|verdict| verdict.evidence_classes()) {
            *evidence_classes.entry(class).or_default() += 1;
        }
        let mut outcomes = BTreeMap::new();
        for outcome in &ended {
            *outcomes.entry(outcome.ending.name()).or_default() += 1;
        }
        let mut limit_bound: BTreeMap<String, f64> = BTreeMap::new();
        for kind in trials.iter().filter_map(|trial| own_limit(trial)) {
            *limit_bound.entry(kind.to_string()).or_default() += 1.0;
        }
        limit_bound.values_mut().for_each(|count| *count = share(*count));
        let applied = trials.iter().filter(|trial| trial.has_applied_patch()).count() as u64;
        let seconds = |of: fn(&Outcome) -> f64| DurationStats {
            total: round_to_four_decimals(ended.iter().map(|outcome| of(outcome)).sum()),
            mean: mean(&of),
            max: round_to_four_decimals(
                ended.iter().map(|outcome| of(outcome)).fold(0.0, f64::max),
            ),
        };
        let total = |of: fn(&Spending) -> u64| ended.iter().map(|one| of(&one.spent)).sum::<u64>();
        let grace_cost: f64 = ended.iter().map(|outcome| outcome.spent.grace_cost_usd).sum();
        let cost: f64 = ended.iter().map(|outcome| outcome.spent.cost_usd).sum();
        Self {
            arm: arm.clone(),
            name: trials.first().map(|trial| trial.arm_name.clone()).unwrap_or_default(),
            forked_from: None,
            control: trials.iter().any(|trial| trial.is_control),
            scaffold: None,
            model: None,
            is_scripted: false,
            budget: None,
            factors: None,
            endpoint: None,
            trials: trials.len() as u64,
            graded: verdicts.len() as u64,
            complete: missing == 0,
            resolved: resolved as u64,
            resolved_rate: share(resolved as f64),
            resolved_bounds: bounds(resolved as f64),
            resolved_clean: resolved_clean as u64,
            resolved_rate_clean: share(resolved_clean as f64),
            unmarked: None,
            passed_rate: share(passed),
            passed_bounds: bounds(passed),
            applied,
            applied_rate: share(applied as f64),
            empty_patches: trials.iter().filter(|trial| trial.patch_bytes == Some(0)).count()
                as u64,
            intervals: compute_intervals(trials),
            pass_at_k: pass_at_k(trials),
            pass_hat_k: pass_hat_k(trials),
            variance: resolved_variance(trials),
            groups: summarize_groups(trials),
            single_shot: SingleShotReport::from_trials(trials),
            infrastructure_faults: ended.iter().filter(|one| one.ending.is_fault()).count() as u64,
            unfinished: (trials.len() - ended.len()) as u64,
            steps: StepStats {
                mean: mean(&|outcome| outcome.spent.steps as f64),
                max: ended.iter().map(|outcome| outcome.spent.steps).max().unwrap_or(0),
            },
            tokens: TokenStats {
                input: count(|spent| spent.input_tokens),
                output: count(|spent| spent.output_tokens),
                cached: count(|spent| spent.cached_tokens),
                uncached_input: count(Spending::uncached_input_tokens),
                classes: ended.iter().fold(TokenClasses::default(), |mut sum, outcome| {
                    sum.add(&outcome.spent.classes);
                    sum
                }),
            },
            usage_estimated: ended.iter().any(|outcome| outcome.spent.estimated)
                || trials.iter().any(|trial| trial.earlier_tries.spent.estimated),
            cost_usd: round_to_micro_dollars(cost),
            cost_known: !ended.iter().any(|outcome| outcome.spent.unpriced),
            paid: BilledUsage::from_trials(trials),
            per_resolved: PerResolved::from_trials(trials),
            earlier_tries: EarlierTriesReport::from_trials(trials),
            wall_seconds: seconds(|outcome| outcome.wall_seconds),
            waited_seconds: seconds(|outcome| outcome.waited_seconds),
            tool_seconds: seconds(|outcome| outcome.tool_seconds),
            side: SideRequestStats {
                requests: total(|spent| spent.side_requests),
                input: total(|spent| spent.side_input_tokens),
                output: total(|spent| spent.side_output_tokens),
            },
            grace: GraceStats {
                answers: total(|spent| spent.grace_answers),
                input: total(|spent| spent.grace_input_tokens),
                output: total(|spent| spent.grace_output_tokens),
                cost_usd: round_to_micro_dollars(grace_cost),
            },
            tool_calls: tool_call_counts(&ended).map(|calls| ToolCallStats {
                total: calls.iter().sum(),
                mean: mean(&|outcome| outcome.tool_calls.unwrap_or(0) as f64),
                max: calls.iter().copied().max().unwrap_or(0),
            }),
            per_step: per_step_stats(&measured),
            malformed_calls: ended.iter().map(|outcome| outcome.malformed_calls).sum(),
            outgrown: ended.iter().filter(|outcome| outcome.spent.outgrown).count() as u64,
            integrity,
            evidence_classes,
            labels: BTreeMap::new(),
            outcomes,
            limit_bound,
            noise: NoiseReport::from_trials(trials),
            reasons: count_failure_reasons(trials),
            exceptions: count_exceptions(&verdicts),
            responders: count_responders(trials),
        }
    }
}

impl ArmReport {
    /// Adds the scaffold, model, budget and factors from the plan.
    pub fn add_plan_details(&mut self, arm: &Arm) {
        let mut factors = arm.factors();
        if let Some(prompts) = factors.get_mut("prompts") {
            *prompts = format!("sha256:{}", sha256_hex(canonical_json(prompts).as_bytes())).into();
        }
        self.forked_from = arm.forked_from.clone();
        self.control = arm.is_control();
        self.scaffold = Some(arm.scaffold.clone());
        self.model = arm.model.as_ref().map(|model| model.name.clone());
        let is_script = |url: &str| url.starts_with(SCRIPT_URL_PREFIX);
        self.is_scripted = arm.model.as_ref().is_some_and(|model| is_script(&model.base_url));
        self.budget = Some(arm.budget.clone());
        self.factors = Some(factors);
        self.endpoint = endpoint_settings(arm);
    }

    /// Whether the durations of the trials are known. They are unknown for predictions, some
    /// imports, and trials that are still running.
    pub fn are_durations_known(&self) -> bool {
        self.wall_seconds.total > 0.0
    }

    /// Whether the number of steps is known. For an arm that calls no model, it is known to be zero.
    pub fn are_steps_known(&self) -> bool {
        self.steps.max > 0 || self.are_durations_known()
    }

    /// Whether the token counts are known. Every response has tokens, so a count of zero means that
    /// the tokens were not counted.
    pub fn are_token_counts_known(&self) -> bool {
        self.tokens.input.total + self.tokens.output.total > 0
            || (self.steps.max == 0 && self.are_durations_known())
    }
}

/// Returns the settings of an arm's model that are not factors, but that readers of a comparison need:
/// where the model runs, and what it costs.
pub(crate) fn endpoint_settings(arm: &Arm) -> Option<Value> {
    let model = arm.model.as_ref()?;
    Some(json!({ "base_url": model.base_url, "price": model.price }))
}

/// Counts the responses of the given trials by responder.
pub(crate) fn count_responders(trials: &[&TrialResult]) -> Responders {
    let mut all = Responders::default();
    for outcome in trials.iter().filter_map(|trial| trial.outcome.as_ref()) {
        all.merge(&outcome.responders);
    }
    all
}

/// Returns the number of tool calls in each trial, or `None` if the calls of any trial were not
/// counted or there are no trials.
fn tool_call_counts(outcomes: &[&Outcome]) -> Option<Vec<u64>> {
    let all: Option<Vec<u64>> = outcomes.iter().map(|outcome| outcome.tool_calls).collect();
    all.filter(|all| !all.is_empty())
}

fn per_step_stats(outcomes: &[&Outcome]) -> Option<PerStepStats> {
    let sum = |of: fn(&Spending) -> u64| outcomes.iter().map(|one| of(&one.spent)).sum::<u64>();
    let steps = sum(|spent| spent.steps);
    let each = |total: u64| round_to_four_decimals(total as f64 / steps as f64);
    (steps > 0).then(|| PerStepStats {
        input: each(sum(|spent| spent.input_tokens)),
        output: each(sum(|spent| spent.output_tokens)),
        tool_calls: tool_call_counts(outcomes).map(|calls| each(calls.iter().sum())),
    })
}

fn count_exceptions(verdicts: &[&Verdict]) -> BTreeMap<String, ExceptionCount> {
    let mut counts: BTreeMap<String, ExceptionCount> = BTreeMap::new();
    for (class, tests) in verdicts.iter().flat_map(|verdict| &verdict.exceptions) {
        let count = counts.entry(class.clone()).or_default();
        count.tests += tests;
        count.trials += 1;
    }
    counts
}
