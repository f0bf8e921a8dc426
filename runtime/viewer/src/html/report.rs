//! Renders the page for `report --format html`.

use std::{
    collections::BTreeSet,
    time::{Duration, UNIX_EPOCH},
};

use minijinja::Error;
use proctor_report::{
    ArmReport, Comparison, Curve, GroupSelection, GroupTable, Pair, Report, TaskReport,
    TrialResult, abbreviate_count, displayed_ks, ending_sentence, ending_words, findings,
    format_dollars, format_ratio, format_ratio_interval, group_tables, noise_rows,
    pairs_in_headline_order, reason_words,
};
use proctor_types::{
    Arm, ArmId, Evidence, EvidenceClass, FailureReason, Integrity, RunRecord, TestGroup,
    TestStatus, Verdict, count_with_noun,
};
use serde::Serialize;

use super::{
    bars::{BarTable, exceptions_table, limits_table, reasons_table},
    budgets::{BudgetChart, budget_charts, graded_curve_chart},
    figures::{
        CostChart, NumberedArms, cost_chart, cost_per_resolved_chart, forest_plots, passed_chart,
        resolved_chart, tokens_per_resolved_chart,
    },
    plot::StripChart,
    summary::{
        CheckRow, FactorRow, FailureRow, HeadlineRow, ScoreRow, VarianceRow, attempts_note,
        check_rows, factor_rows, failure_rows, format_report_size, headline_rows, ranking_text,
        score_rows, variance_rows,
    },
    templates::render_template,
    tiles::{TaskChart, task_chart},
};

/// Maximum number of tests named in a trial's row. Any further tests are only counted.
const MAX_NAMED_TESTS: usize = 20;

/// The input of a report page.
#[derive(Debug, Clone)]
pub struct ReportPage<'a> {
    pub report: &'a Report,
    /// `None` if there is only one arm.
    pub comparison: Option<&'a Comparison>,
    /// The trials from which the report was built.
    pub trials: &'a [TrialResult],
    pub runs: &'a [NamedRun],
    /// Curves computed by `proctor curve` that the page shows.
    pub curves: &'a [Curve],
    /// Where a server shows the run and its trials. `None` for a page that is a file.
    pub urls: Option<&'a ReportUrls>,
}

/// The URLs of the pages that a served report links to.
#[derive(Debug, Clone, Default)]
pub struct ReportUrls {
    pub run: String,
    /// One URL per trial, in the order of the report's trials.
    pub trials: Vec<String>,
}

/// A run, with the name that the page uses for it.
#[derive(Debug, Clone)]
pub struct NamedRun {
    /// The name of the run directory.
    pub name: String,
    pub record: RunRecord,
}

#[derive(Serialize)]
struct ReportContext<'a> {
    /// The number of arms, tasks and trials, as text.
    scale: String,
    /// The URL of the run's page. Empty if the report is a file.
    run_url: &'a str,
    /// How many verdicts are missing and why. Empty if none is missing.
    missing: String,
    /// Which arm is first. Empty if there are fewer than three arms.
    ranking: String,
    /// Whether the usage of an arm under study is an estimate.
    is_estimated: bool,
    scores: Vec<ScoreRow<'a>>,
    factors: Vec<FactorRow>,
    /// Says that the arms' limits are equal. Empty if they aren't, or if that is unknown.
    equal_limits: &'static str,
    headlines: Vec<HeadlineRow>,
    more_headlines: String,
    failures: Vec<FailureRow<'a>>,
    checks: Vec<CheckRow>,
    resolved: StripChart,
    passed: StripChart,
    forests: Vec<StripChart>,
    pairs: Vec<PairRow<'a>>,
    cost: Option<CostChart>,
    /// Why there is no chart of the cost.
    no_cost: &'static str,
    per_resolved: Vec<StripChart>,
    budgets: Vec<BudgetChart>,
    tasks: Option<TaskChart>,
    reasons: Option<BarTable>,
    limits: Option<BarTable>,
    exceptions: Option<BarTable>,
    /// The arms under study.
    arms: Vec<ArmRow<'a>>,
    controls: Vec<ArmRow<'a>>,
    /// Arms under study and controls, in plan order.
    everyone: Vec<ArmRow<'a>>,
    ks: Vec<u32>,
    /// The names of the endings, with the words that describe them.
    endings: Vec<(&'a str, String)>,
    groups: Vec<GroupTable<'a>>,
    /// The classes of evidence found against at least one arm's verdicts, with one cell per arm.
    classes: Vec<(EvidenceClass, Vec<u64>)>,
    evidence: Vec<EvidenceRow<'a>>,
    /// Whether any evidence names steps.
    has_evidence_steps: bool,
    repeats: String,
    variance: Vec<VarianceRow<'a>>,
    /// Rows about how limits and waits affected the trials, with one cell per arm.
    noise: Vec<(&'static str, Vec<String>)>,
    resumed: Vec<ResumedRow<'a>>,
    findings: Vec<Finding>,
    trials: Vec<TrialRow<'a>>,
    runs: Vec<RunRow<'a>>,
}

#[derive(Serialize)]
struct ResumedRow<'a> {
    arm: &'a str,
    task: &'a str,
    attempt: u32,
    text: String,
}

#[derive(Serialize)]
struct ArmRow<'a> {
    /// The arm's number, counted from 1, which is the same in every table and plot. 0 for a
    /// control.
    number: usize,
    #[serde(flatten)]
    report: &'a ArmReport,
    scaffold: &'a str,
    model: &'a str,
    has_steps: bool,
    has_tokens: bool,
    is_timed: bool,
    /// Dollars and tokens per resolved trial.
    cost_each: String,
    tokens_each: String,
    /// Whether the arm is on the Pareto front of cost and score, in words. Empty if the cost is
    /// unknown.
    on_front: &'static str,
}

#[derive(Serialize)]
struct PairRow<'a> {
    #[serde(flatten)]
    pair: &'a Pair,
    /// Whether this is the first row for its two arms.
    first: bool,
    /// Whether the difference is in percentage points instead of the metric's unit.
    is_share: bool,
    /// Whether one of the arms is a control.
    control: bool,
    /// The ratio a / b and its interval. Empty if unknown.
    ratio_value: String,
    ratio_interval: String,
}

#[derive(Serialize)]
struct Finding {
    text: String,
    /// Whether this line gives details about the previous finding.
    deeper: bool,
}

#[derive(Serialize)]
struct EvidenceRow<'a> {
    task: &'a str,
    arm: &'a str,
    attempt: u32,
    integrity: String,
    kind: &'a str,
    class: Option<EvidenceClass>,
    what: &'a str,
    steps: &'a [u64],
}

#[derive(Serialize)]
struct TrialRow<'a> {
    #[serde(flatten)]
    report: &'a TaskReport,
    arm_name: &'a str,
    /// The URL of the trial's page. Empty if the report is a file.
    url: &'a str,
    /// How the trial ended and why it failed, as sentences. `failure` may be empty.
    ending: String,
    failure: &'static str,
    f2p: Option<(usize, usize)>,
    p2p: Option<(usize, usize)>,
    failed: Vec<(&'a str, String)>,
    more_failed: usize,
    why_not: Vec<&'a str>,
    tokens: Option<(u64, u64)>,
}

#[derive(Serialize)]
struct RunRow<'a> {
    name: &'a str,
    proctor: &'a str,
    agent: &'a str,
    made: String,
    attempts: u32,
    host: String,
    flaky: String,
    certificate: Option<String>,
    config: String,
    arms: Vec<(&'a str, &'a str, String)>,
    tasks: Vec<(&'a str, &'a str)>,
}

/// Renders the whole page.
///
/// # Errors
/// Fails if a template refers to a name that does not exist. The content of a run cannot cause
/// this.
pub fn render_report(page: &ReportPage<'_>) -> Result<String, Error> {
    let report = page.report;
    let study: Vec<(usize, &ArmReport)> = (1..).zip(report.arms_under_study()).collect();
    let name_of = |id: &ArmId| {
        report.arms.iter().find(|arm| arm.arm == *id).map_or("", |arm| arm.name.as_str())
    };
    let cost = cost_chart(&study);
    let all: Vec<&ArmReport> = report.arms.iter().collect();
    let [arms, controls, everyone] = [report.arms_under_study(), report.controls(), all]
        .map(|arms| arm_rows(&arms, page.runs, &study, cost.as_ref()));
    let (headlines, more_headlines) = headline_rows(report, page.comparison);
    let evidence: Vec<EvidenceRow<'_>> =
        page.trials.iter().flat_map(|trial| evidence_rows(trial, name_of(&trial.arm))).collect();
    let filling = ReportContext {
        scale: format_report_size(report),
        run_url: page.urls.map_or("", |urls| urls.run.as_str()),
        missing: missing_verdicts_text(report),
        ranking: ranking_text(report, page.comparison),
        is_estimated: study.iter().any(|(_, arm)| arm.usage_estimated),
        scores: score_rows(&study),
        factors: factor_rows(report),
        equal_limits: report.describe_equal_limits().unwrap_or_default(),
        headlines,
        more_headlines,
        failures: failure_rows(&study),
        checks: check_rows(report),
        resolved: resolved_chart(&study),
        passed: passed_chart(&study),
        forests: page.comparison.map(forest_plots).unwrap_or_default(),
        pairs: pair_rows(page.comparison),
        no_cost: match study.iter().all(|(_, arm)| arm.paid.cost_known) {
            true => "No arm was billed for a model",
            false => "The cost is unknown, because a model has no price",
        },
        per_resolved: [cost_per_resolved_chart(&study), tokens_per_resolved_chart(&study)]
            .into_iter()
            .flatten()
            .collect(),
        budgets: {
            let curves = page.curves.iter().enumerate();
            let curves =
                curves.filter_map(|(index, curve)| graded_curve_chart(curve, index, &study));
            budget_charts(report, &study).into_iter().chain(curves).collect()
        },
        tasks: task_chart(report, &study),
        reasons: reasons_table(&study),
        limits: limits_table(&study),
        exceptions: exceptions_table(report, &study),
        arms,
        controls,
        everyone,
        ks: {
            let all = report.arms.iter().flat_map(|arm| arm.pass_at_k.keys().copied());
            all.max().map(displayed_ks).unwrap_or_default()
        },
        endings: {
            let names: BTreeSet<&str> = report
                .arms
                .iter()
                .flat_map(|arm| arm.outcomes.keys())
                .map(String::as_str)
                .collect();
            names.into_iter().map(|name| (name, ending_words(name))).collect()
        },
        groups: group_tables(report, GroupSelection::All),
        classes: evidence_class_rows(&report.arms),
        has_evidence_steps: evidence.iter().any(|row| !row.steps.is_empty()),
        evidence,
        repeats: attempts_note(report),
        variance: variance_rows(report, &study),
        noise: noise_rows(report),
        resumed: report
            .tasks
            .iter()
            .filter(|trial| !trial.interruptions.is_empty())
            .map(|trial| ResumedRow {
                arm: name_of(&trial.arm),
                task: trial.task.as_str(),
                attempt: trial.attempt,
                text: trial.interruptions.to_string(),
            })
            .collect(),
        findings: findings(report)
            .into_iter()
            .map(|text| Finding { deeper: text.starts_with(' '), text: text.trim().to_owned() })
            .collect(),
        trials: report
            .tasks
            .iter()
            .zip(page.trials)
            .enumerate()
            .map(|(index, (told, trial))| {
                let urls = page.urls.and_then(|all| all.trials.get(index));
                TrialRow {
                    url: urls.map_or("", String::as_str),
                    ..trial_row(told, trial, report.arms.iter().find(|arm| arm.arm == trial.arm))
                }
            })
            .collect(),
        runs: page.runs.iter().map(run_row).collect(),
        cost,
    };
    render_template("report.html", &filling)
}

/// Describes the missing verdicts: `5 of 120 trials have no verdict (a: 5 not ended).`
fn missing_verdicts_text(report: &Report) -> String {
    let Some(reasons) = report.missing_verdict_reasons() else { return String::new() };
    let missing = report.tasks.iter().filter(|trial| trial.resolved.is_none()).count();
    let have = if missing == 1 { "has" } else { "have" };
    let trials = count_with_noun(report.tasks.len(), "trial");
    format!("{missing} of {trials} {have} no verdict ({reasons}).")
}

fn arm_rows<'a>(
    arms: &[&'a ArmReport],
    runs: &'a [NamedRun],
    study: &NumberedArms<'_>,
    cost: Option<&CostChart>,
) -> Vec<ArmRow<'a>> {
    let find_arm = |id: &ArmId| -> Option<&'a Arm> {
        runs.iter().flat_map(|run| &run.record.arms).find(|arm| arm.id == *id)
    };
    let number =
        |id: &ArmId| study.iter().find(|(_, arm)| arm.arm == *id).map_or(0, |(number, _)| *number);
    let on_front = |number: usize| match cost.and_then(|cost| cost.on_front.get(&number)) {
        None => "",
        Some(true) => "yes",
        Some(false) => "no",
    };
    arms.iter()
        .map(|&arm| {
            let (known, number) = (find_arm(&arm.arm), number(&arm.arm));
            let each = arm.per_resolved.unwrap_or_default();
            let about = if arm.usage_estimated { "~" } else { "" };
            ArmRow {
                number,
                report: arm,
                scaffold: known.map_or("", |arm| arm.scaffold.as_str()),
                model: known.and_then(|arm| arm.model.as_ref()).map_or("", |model| &model.name),
                has_steps: arm.are_steps_known(),
                has_tokens: arm.are_token_counts_known(),
                is_timed: arm.are_durations_known(),
                cost_each: each.cost_usd.map_or_else(String::new, |cost| {
                    format!("{about}{}", format_dollars(cost.value))
                }),
                tokens_each: each.tokens.map_or_else(String::new, |tokens| {
                    format!("{about}{}", abbreviate_count(tokens.value))
                }),
                on_front: on_front(number),
            }
        })
        .collect()
}

fn pair_rows(comparison: Option<&Comparison>) -> Vec<PairRow<'_>> {
    let Some(comparison) = comparison else { return Vec::new() };
    let mut last = None;
    let mut rows = Vec::new();
    let pairs = pairs_in_headline_order(&comparison.pairs).into_iter().flatten();
    let pairs = pairs.map(|pair| (pair, false));
    for (pair, control) in pairs.chain(comparison.controls.iter().map(|pair| (pair, true))) {
        let arms = Some((&pair.a_arm, &pair.b_arm));
        let is_share = matches!(pair.metric.as_str(), "resolved" | "passed_rate");
        let ratio_interval = pair.ratio.and_then(format_ratio_interval).unwrap_or_default();
        rows.push(PairRow {
            pair,
            first: arms != last,
            is_share,
            control,
            ratio_value: pair.ratio.map_or_else(String::new, |ratio| format_ratio(ratio.value)),
            ratio_interval,
        });
        last = arms;
    }
    rows
}

/// Returns the number of doubtful verdicts of each arm, by class of evidence.
fn evidence_class_rows(arms: &[ArmReport]) -> Vec<(EvidenceClass, Vec<u64>)> {
    let of = |arm: &ArmReport, class| arm.evidence_classes.get(&class).copied().unwrap_or(0);
    let rows = EvidenceClass::ALL.into_iter();
    let rows = rows.map(|class| (class, arms.iter().map(|arm| of(arm, class)).collect::<Vec<_>>()));
    rows.filter(|(_, counts)| counts.iter().any(|count| *count > 0)).collect()
}

/// Returns the evidence that makes a trial's result doubtful. Evidence of missing canaries is left
/// out, because one line of the findings counts it for all trials.
fn evidence_rows<'a>(trial: &'a TrialResult, arm: &'a str) -> Vec<EvidenceRow<'a>> {
    let Some(verdict) = &trial.verdict else { return Vec::new() };
    if verdict.integrity < Integrity::Suspect {
        return Vec::new();
    }
    let row = |evidence: &'a Evidence| EvidenceRow {
        task: trial.task.as_str(),
        arm,
        attempt: trial.attempt,
        integrity: verdict.integrity.to_string(),
        kind: &evidence.kind,
        class: evidence.class.or_else(|| EvidenceClass::for_kind(&evidence.kind)),
        what: &evidence.what,
        steps: &evidence.steps,
    };
    verdict.evidence.iter().map(row).collect()
}

fn trial_row<'a>(
    report: &'a TaskReport,
    trial: &'a TrialResult,
    arm: Option<&'a ArmReport>,
) -> TrialRow<'a> {
    let verdict = trial.verdict.as_ref();
    let counts = |of: fn(&Verdict) -> &TestGroup| {
        verdict.map(of).map(|group| (group.passed.len(), group.passed.len() + group.failed.len()))
    };
    let failed: Vec<_> = verdict
        .into_iter()
        .flat_map(|verdict| verdict.fail_to_pass.failed.iter().chain(&verdict.pass_to_pass.failed))
        .map(|test| {
            let status = verdict.and_then(|verdict| verdict.tests.get(test));
            (test.as_str(), status.unwrap_or(&TestStatus::Missing).to_string())
        })
        .collect();
    let unresolved = verdict.filter(|verdict| !verdict.resolved);
    TrialRow {
        report,
        arm_name: arm.map_or("", |arm| arm.name.as_str()),
        url: "",
        ending: match &trial.outcome {
            Some(outcome) => {
                let budget = arm.and_then(|arm| arm.budget.as_ref());
                ending_sentence(&outcome.ending, budget)
            }
            None => "Not ended".to_owned(),
        },
        failure: match report.reason {
            // The ending already says so.
            None
            | Some(
                FailureReason::OutOfBudget
                | FailureReason::Infrastructure
                | FailureReason::Refused
                | FailureReason::GaveUp,
            ) => "",
            Some(reason) => reason_words(reason),
        },
        f2p: counts(|verdict| &verdict.fail_to_pass),
        p2p: counts(|verdict| &verdict.pass_to_pass),
        more_failed: failed.len().saturating_sub(MAX_NAMED_TESTS),
        failed: failed.into_iter().take(MAX_NAMED_TESTS).collect(),
        why_not: unresolved
            .into_iter()
            .flat_map(|verdict| verdict.policies.values().map(|policy| policy.why.as_str()))
            .collect(),
        tokens: trial
            .outcome
            .as_ref()
            .map(|outcome| (outcome.spent.input_tokens, outcome.spent.output_tokens)),
    }
}

fn run_row(run: &NamedRun) -> RunRow<'_> {
    let record = &run.record;
    RunRow {
        name: &run.name,
        proctor: &record.proctor,
        agent: &record.agent,
        made: format_date(record.created),
        attempts: record.attempts,
        host: record.host.to_string(),
        flaky: serde_json::to_value(record.flaky)
            .ok()
            .and_then(|policy| policy.as_str().map(str::to_owned))
            .unwrap_or_default(),
        certificate: record.certificate.as_ref().map(|certificate| {
            let (backend, made) = (&certificate.backend, format_date(certificate.made));
            let attacks = certificate.attacks.as_ref().map_or(String::new(), |attacks| {
                let digests = record.tasks.iter().map(|task| (&task.task.id, task.digest.as_str()));
                format!(". {}", attacks.summary_sentence(digests))
            });
            format!("{} on {backend}, created {made}{attacks}", certificate.repeat)
        }),
        config: to_pretty_json(&record.config),
        arms: record
            .arms
            .iter()
            .map(|arm| (arm.name.as_str(), arm.id.as_str(), to_pretty_json(&arm.factors())))
            .collect(),
        tasks: record
            .tasks
            .iter()
            .map(|task| (task.task.id.as_str(), task.digest.as_str()))
            .collect(),
    }
}

fn to_pretty_json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn format_date(seconds: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
}
