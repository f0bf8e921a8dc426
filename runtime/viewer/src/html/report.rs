//! `report --format html`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, UNIX_EPOCH},
};

use minijinja::Error;
use proctor_report::{
    ArmReport, Comparison, ExceptionCount, GroupTable, Groups, Pair, Report, TaskReport,
    TrialResult, exception_rows, findings, group_tables, noise_rows, percent, telling_ks,
};
use proctor_types::{
    Arm, ArmId, Evidence, EvidenceClass, Integrity, RunRecord, TestGroup, TestStatus, Verdict,
};
use serde::Serialize;

use super::{
    plot::{Bar, Bars, Dot, Scatter, bars, scatter},
    templates::fill,
};

/// Number of tests that a trial's row names; the others are counted.
const NAMED_TESTS: usize = 20;

/// The input of a report page.
#[derive(Debug, Clone)]
pub struct ReportPage<'a> {
    pub report: &'a Report,
    /// Absent with one arm.
    pub comparison: Option<&'a Comparison>,
    /// The trials that the report was built from.
    pub trials: &'a [TrialResult],
    pub runs: &'a [RunPage],
}

/// A run, as the page names it.
#[derive(Debug, Clone)]
pub struct RunPage {
    /// Its directory.
    pub name: String,
    pub record: RunRecord,
}

#[derive(Serialize)]
struct Page<'a> {
    report: &'a Report,
    complete: bool,
    pairs: Vec<PairRow<'a>>,
    arms: Vec<ArmRow<'a>>,
    resolved: Bars,
    passed: Bars,
    limits: Option<Bars>,
    /// The effect of limits and waits, with a cell for each arm.
    noise: Vec<(&'static str, Vec<String>)>,
    cost: Option<Scatter>,
    /// Names of kinds of ending, limit and reason that any arm has.
    endings: BTreeSet<&'a str>,
    limit_kinds: BTreeSet<&'a str>,
    reasons: Vec<String>,
    /// Exception classes, and how many failed tests of each arm have them.
    exceptions: Vec<(&'a str, Vec<Option<ExceptionCount>>)>,
    groups: Vec<GroupTable<'a>>,
    ks: Vec<u32>,
    findings: Vec<Finding>,
    /// The classes that any arm has, and a cell for each arm.
    classes: Vec<(EvidenceClass, Vec<u64>)>,
    evidence: Vec<EvidenceRow<'a>>,
    trials: Vec<TrialRow<'a>>,
    runs: Vec<RunRow<'a>>,
}

#[derive(Serialize)]
struct ArmRow<'a> {
    /// Counted from 1; the same in every table and plot.
    number: usize,
    #[serde(flatten)]
    report: &'a ArmReport,
    scaffold: &'a str,
    model: &'a str,
    /// By the words of [`Page::reasons`].
    reason_counts: BTreeMap<String, u64>,
    has_steps: bool,
    has_tokens: bool,
    is_timed: bool,
}

#[derive(Serialize)]
struct PairRow<'a> {
    #[serde(flatten)]
    pair: &'a Pair,
    /// Whether it is the first of its two arms.
    first: bool,
    /// In points rather than units.
    is_share: bool,
    /// One of the arms is a control.
    control: bool,
}

#[derive(Serialize)]
struct Finding {
    text: String,
    /// It belongs to the one before.
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

/// The whole page.
///
/// # Errors
/// A template refers to something that does not exist. No content of a run can cause this.
pub fn report(page: &ReportPage<'_>) -> Result<String, Error> {
    let report = page.report;
    let arm_of = |id: &ArmId| -> Option<&Arm> {
        page.runs.iter().flat_map(|run| &run.record.arms).find(|arm| arm.id == *id)
    };
    let name_of = |id: &ArmId| {
        report.arms.iter().find(|arm| arm.arm == *id).map_or("", |arm| arm.name.as_str())
    };
    let arms: Vec<ArmRow<'_>> = report
        .arms
        .iter()
        .zip(1..)
        .map(|(arm, number)| {
            let known = arm_of(&arm.arm);
            let reasons = arm.reasons.iter().map(|(reason, count)| (reason.to_string(), *count));
            ArmRow {
                number,
                report: arm,
                scaffold: known.map_or("", |arm| arm.scaffold.as_str()),
                model: known.and_then(|arm| arm.model.as_ref()).map_or("", |model| &model.name),
                reason_counts: reasons.collect(),
                has_steps: arm.has_steps(),
                has_tokens: arm.has_tokens(),
                is_timed: arm.is_timed(),
            }
        })
        .collect();
    let limits: Vec<Bar<'_>> = report.arms.iter().map(limit_bar).collect();
    let limits = limits
        .iter()
        .any(|bar| bar.value > 0.0)
        .then(|| bars("limits", "Trials that a limit of their own ended, of all trials", &limits));
    let filling = Page {
        report,
        complete: report.complete(),
        pairs: pairs(page.comparison),
        resolved: bars("resolved", "Resolved, with 95 % intervals", &rates(report, true)),
        passed: bars(
            "passed",
            "Fail-to-pass tests passed, with 95 % intervals",
            &rates(report, false),
        ),
        limits,
        noise: noise_rows(report),
        cost: cost(&arms),
        endings: report
            .arms
            .iter()
            .flat_map(|arm| arm.outcomes.keys())
            .map(String::as_str)
            .collect(),
        limit_kinds: report
            .arms
            .iter()
            .flat_map(|arm| arm.limit_bound.keys())
            .map(String::as_str)
            .collect(),
        reasons: {
            let all: BTreeSet<_> = report.arms.iter().flat_map(|arm| arm.reasons.keys()).collect();
            all.into_iter().map(ToString::to_string).collect()
        },
        exceptions: exception_rows(report),
        groups: group_tables(report, Groups::All),
        ks: {
            let all = report.arms.iter().flat_map(|arm| arm.pass_at_k.keys().copied());
            all.max().map(telling_ks).unwrap_or_default()
        },
        findings: findings(report)
            .into_iter()
            .map(|text| Finding { deeper: text.starts_with(' '), text: text.trim().to_owned() })
            .collect(),
        classes: classes(&report.arms),
        evidence: page
            .trials
            .iter()
            .flat_map(|trial| evidence(trial, name_of(&trial.arm)))
            .collect(),
        trials: report
            .tasks
            .iter()
            .zip(page.trials)
            .map(|(told, trial)| trial_row(told, trial, name_of(&trial.arm)))
            .collect(),
        runs: page.runs.iter().map(run_row).collect(),
        arms,
    };
    fill("report.html", &filling)
}

fn rates(report: &Report, resolved: bool) -> Vec<Bar<'_>> {
    let bar = |arm: &'_ ArmReport| match resolved {
        true => (arm.resolved_rate, arm.intervals.resolved_rate),
        false => (arm.passed_rate, arm.intervals.passed_rate),
    };
    let arms = report.arms.iter();
    arms.map(|arm| {
        let (value, ends) = bar(arm);
        let label = if resolved {
            format!("{} ({}/{})", percent(value), arm.resolved, arm.trials)
        } else {
            percent(value)
        };
        Bar { name: &arm.name, value, ends, label }
    })
    .collect()
}

fn limit_bar(arm: &ArmReport) -> Bar<'_> {
    let value = arm.limit_bound.values().sum();
    let kinds = arm.limit_bound.keys().cloned().collect::<Vec<_>>().join(", ");
    let label =
        if kinds.is_empty() { percent(value) } else { format!("{} {kinds}", percent(value)) };
    Bar { name: &arm.name, value, ends: None, label }
}

/// For the arms that call a model and whose cost is known.
fn cost(arms: &[ArmRow<'_>]) -> Option<Scatter> {
    let dots: Vec<Dot<'_>> = arms
        .iter()
        .filter(|arm| !arm.model.is_empty() && arm.report.paid.cost_known)
        .map(|arm| Dot {
            name: &arm.report.name,
            x: arm.report.paid.cost_usd / arm.report.trials.max(1) as f64,
            y: arm.report.resolved_rate,
            ends: arm.report.intervals.resolved_rate,
            number: arm.number,
        })
        .collect();
    if !dots.iter().any(|dot| dot.x > 0.0) {
        return None;
    }
    let titles = ["Resolved against cost", "US dollars a trial, retries included", "resolved"];
    let most = dots.iter().map(|dot| dot.x).fold(0.0, f64::max);
    let digits = (2.0 - most.log10().floor()).clamp(0.0, 7.0) as usize;
    Some(scatter("cost", titles, &dots, |dollars| format!("${dollars:.digits$}")))
}

fn pairs(comparison: Option<&Comparison>) -> Vec<PairRow<'_>> {
    let Some(comparison) = comparison else { return Vec::new() };
    let mut last = None;
    let mut rows = Vec::new();
    let pairs = comparison.pairs.iter().map(|pair| (pair, false));
    for (pair, control) in pairs.chain(comparison.controls.iter().map(|pair| (pair, true))) {
        let arms = Some((&pair.a_arm, &pair.b_arm));
        let is_share = matches!(pair.metric.as_str(), "resolved" | "passed_rate");
        rows.push(PairRow { pair, first: arms != last, is_share, control });
        last = arms;
    }
    rows
}

/// Doubtful verdicts of each arm, by class of evidence.
fn classes(arms: &[ArmReport]) -> Vec<(EvidenceClass, Vec<u64>)> {
    let of = |arm: &ArmReport, class| arm.evidence_classes.get(&class).copied().unwrap_or(0);
    let rows = EvidenceClass::ALL.into_iter();
    let rows = rows.map(|class| (class, arms.iter().map(|arm| of(arm, class)).collect::<Vec<_>>()));
    rows.filter(|(_, counts)| counts.iter().any(|count| *count > 0)).collect()
}

/// What makes results worth a second look. A missing canary is not a finding of a trial: a line of
/// the findings counts these.
fn evidence<'a>(trial: &'a TrialResult, arm: &'a str) -> Vec<EvidenceRow<'a>> {
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
        class: evidence.class.or_else(|| EvidenceClass::of(&evidence.kind)),
        what: &evidence.what,
        steps: &evidence.steps,
    };
    verdict.evidence.iter().map(row).collect()
}

fn trial_row<'a>(
    report: &'a TaskReport,
    trial: &'a TrialResult,
    arm_name: &'a str,
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
        arm_name,
        f2p: counts(|verdict| &verdict.fail_to_pass),
        p2p: counts(|verdict| &verdict.pass_to_pass),
        more_failed: failed.len().saturating_sub(NAMED_TESTS),
        failed: failed.into_iter().take(NAMED_TESTS).collect(),
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

fn run_row(run: &RunPage) -> RunRow<'_> {
    let record = &run.record;
    RunRow {
        name: &run.name,
        proctor: &record.proctor,
        agent: &record.agent,
        made: date(record.created),
        attempts: record.attempts,
        host: record.host.to_string(),
        flaky: serde_json::to_value(record.flaky)
            .ok()
            .and_then(|policy| policy.as_str().map(str::to_owned))
            .unwrap_or_default(),
        certificate: record.certificate.as_ref().map(|certificate| {
            let (backend, made) = (&certificate.backend, date(certificate.made));
            let attacks = certificate.attacks.as_ref().map_or(String::new(), |attacks| {
                let digests = record.tasks.iter().map(|task| (&task.task.id, task.digest.as_str()));
                format!(". {}", attacks.cite(digests))
            });
            format!("{} on {backend}, made {made}{attacks}", certificate.repeat)
        }),
        config: pretty(&record.config),
        arms: record
            .arms
            .iter()
            .map(|arm| (arm.name.as_str(), arm.id.as_str(), pretty(&arm.factors())))
            .collect(),
        tasks: record
            .tasks
            .iter()
            .map(|task| (task.task.id.as_str(), task.digest.as_str()))
            .collect(),
    }
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn date(seconds: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
}
