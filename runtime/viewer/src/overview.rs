//! Builds a run's page: its progress, its results by arm, and a matrix of the trials that match the
//! filter.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, UNIX_EPOCH},
};

use proctor_report::{ArmReport, TaskReport, findings, format_percent};
use proctor_types::{Arm, RunTask, count_with_noun, escape_unprintable_line};

use super::{
    PlannedTrial,
    address::{AddressForm, Query, percent_encode, report_address},
    planned_trials,
    results::RunResults,
    viewed_run::ViewedRun,
};
use crate::{
    ViewError,
    html::{Filter, FilterOptions, Matrix, MatrixCell, MatrixRow, Overview, RunSummary},
};

/// Number of trials per page. The trials of one task always stay on the same page, which may
/// therefore have more.
const TRIALS_PER_PAGE: usize = 800;
/// Maximum number of running trials that are listed.
const MAX_RUNNING_LISTED: usize = 12;

/// One task's row in the matrix: the task's trials by arm, and how many of them resolve the task.
struct TaskGroup<'a> {
    task: &'a str,
    cells: Vec<Vec<MatrixCell>>,
    trial_count: usize,
    resolved: usize,
}

pub fn filter_from_query(query: &Query) -> Filter {
    let text = |name| query.first_value(name).to_owned();
    Filter {
        text: text("text"),
        arm: text("arm"),
        outcome: text("outcome"),
        reason: text("reason"),
        sort: text("sort"),
        page: query.first_value("page").parse().unwrap_or(1).max(1),
    }
}

/// Returns the query string of the page with this filter, without the page number.
fn filter_query(filter: &Filter) -> String {
    let fields = [
        ("text", &filter.text),
        ("arm", &filter.arm),
        ("outcome", &filter.outcome),
        ("reason", &filter.reason),
        ("sort", &filter.sort),
    ];
    let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
    let given: String =
        given.map(|(name, value)| format!("{name}={}&", percent_encode(value))).collect();
    format!("?{given}page=")
}

/// Returns the page of one of the runs. If `show_all` is true, the page contains all trials, because
/// exported files have no further pages.
pub fn overview(
    runs: &[ViewedRun],
    run: &ViewedRun,
    mut filter: Filter,
    form: AddressForm,
    show_all: bool,
) -> Result<Overview, ViewError> {
    let run_results = run.current_results()?;
    let mut counts = FilterCounts::default();
    let mut groups = counts.filter_groups(run, &run_results, &filter, form);
    match filter.sort.as_str() {
        "task" => groups.sort_by(|a, b| a.task.cmp(b.task)),
        "least" => groups.sort_by(|a, b| resolved_fraction(a).total_cmp(&resolved_fraction(b))),
        "most" => groups.sort_by(|a, b| resolved_fraction(b).total_cmp(&resolved_fraction(a))),
        _ => {}
    }
    let (mut pages, mut on_it) = (1, 0);
    let mut page_of = Vec::with_capacity(groups.len());
    for group in &groups {
        if !show_all && on_it > 0 && on_it + group.trial_count > TRIALS_PER_PAGE {
            (pages, on_it) = (pages + 1, 0);
        }
        on_it += group.trial_count;
        page_of.push(pages);
    }
    filter.page = filter.page.min(pages);
    // A task's trials in other runs are also on the page that shows its trials side by side.
    let others = runs.iter().filter(|other| other.number != run.number);
    let elsewhere: HashSet<&str> =
        others.flat_map(|other| &other.record.tasks).map(|task| task.task.id.as_str()).collect();
    let mut rows = Vec::new();
    for (group, page) in groups.into_iter().zip(page_of) {
        if page == filter.page {
            let trials = counts.trial_counts.get(group.task).copied().unwrap_or_default();
            let several = trials > 1 || elsewhere.contains(group.task);
            let beside =
                if several { form.side_by_side_address(group.task) } else { String::new() };
            rows.push(MatrixRow { task: group.task.to_owned(), beside, cells: group.cells });
        }
    }
    let (state, going_on, live) = run_state(run, &run_results, form)?;
    Ok(Overview {
        run: Matrix {
            run: run.name.clone(),
            state,
            ended: run_results.ended_count(),
            trials: run_results.results.len(),
            going_on,
            arms: arm_results(run, &run_results),
            rows,
            findings: findings(&run_results.report),
        },
        summary: RunSummary::from_report(&run_results.report),
        report: report_address(run.number),
        again: filter_query(&filter),
        filter,
        shown: counts.shown_count,
        of: counts.total_count,
        choices: counts.into_options(),
        pages,
        live,
    })
}

fn resolved_fraction(group: &TaskGroup<'_>) -> f64 {
    group.resolved as f64 / group.trial_count.max(1) as f64
}

fn arm_results(run: &ViewedRun, run_results: &RunResults) -> Vec<(String, String)> {
    let arms = run.record.arms.iter().map(|arm| {
        let arm_report = run_results.report.arms.iter().find(|one| one.arm == arm.id);
        (arm.name.clone(), arm_report.map(format_arm_result).unwrap_or_default())
    });
    arms.collect()
}

fn format_arm_result(arm: &ArmReport) -> String {
    format!("{}/{} resolved, {}", arm.resolved, arm.trials, format_percent(arm.resolved_rate))
}

/// Counts that are collected while the trials are filtered.
#[derive(Debug, Default)]
struct FilterCounts {
    arms: BTreeMap<String, u64>,
    verdicts: BTreeMap<&'static str, u64>,
    endings: BTreeMap<String, u64>,
    reasons: BTreeMap<String, u64>,
    /// Number of each task's trials.
    trial_counts: BTreeMap<String, usize>,
    shown_count: usize,
    total_count: usize,
}

impl FilterCounts {
    fn filter_groups<'a>(
        &mut self,
        run: &'a ViewedRun,
        run_results: &RunResults,
        filter: &Filter,
        form: AddressForm,
    ) -> Vec<TaskGroup<'a>> {
        let record = &run.record;
        let search_words: Vec<String> =
            filter.text.to_lowercase().split_whitespace().map(str::to_owned).collect();
        let mut groups: Vec<TaskGroup<'a>> = record
            .tasks
            .iter()
            .map(|task| TaskGroup {
                task: task.task.id.as_str(),
                cells: record.arms.iter().map(|_| Vec::new()).collect(),
                trial_count: 0,
                resolved: 0,
            })
            .collect();
        let places = planned_trials(record);
        // Look up tasks by memory address. With ten thousand trials, this is faster than by name.
        let address = |task: &RunTask| std::ptr::from_ref(task).addr();
        let rows = record.tasks.iter().map(address).zip(0..).collect::<HashMap<_, usize>>();
        let all = places.iter().zip(&run_results.report.tasks).zip(&run_results.trial_started);
        for ((found, report), begun) in all {
            let Some(&task) = rows.get(&address(found.task)) else { continue };
            let is_it = |one: &Arm| std::ptr::eq(one, found.arm);
            let Some(arm) = record.arms.iter().position(is_it) else { continue };
            let cell = matrix_cell(found, report, *begun, run.number, form);
            self.count_cell(&cell, found);
            let fits = |asked: &str, has: &str| asked.is_empty() || asked == has;
            let outcome = fits(&filter.outcome, cell.word) || filter.outcome == cell.ending;
            let all = || {
                let (task, arm) = (found.task.task.id.as_str(), found.arm.name.as_str());
                format!("{task} {arm} {} {} {}", cell.word, cell.ending, cell.reason)
                    .replace('_', " ")
                    .to_lowercase()
            };
            let text = search_words.is_empty() || {
                let (all, plain) = (all(), found.task.task.id.as_str().to_lowercase());
                search_words.iter().all(|word| {
                    all.contains(&word.replace('_', " ")) || plain.contains(word.as_str())
                })
            };
            if !(outcome
                && text
                && fits(&filter.arm, &escape_unprintable_line(&found.arm.name))
                && fits(&filter.reason, &cell.reason))
            {
                continue;
            }
            self.shown_count += 1;
            groups[task].trial_count += 1;
            groups[task].resolved += usize::from(cell.class == "yes");
            groups[task].cells[arm].push(cell);
        }
        groups.retain(|group| group.trial_count > 0);
        groups
    }

    fn count_cell(&mut self, cell: &MatrixCell, planned_trial: &PlannedTrial<'_>) {
        self.total_count += 1;
        *self.trial_counts.entry(planned_trial.task.task.id.to_string()).or_default() += 1;
        *self.arms.entry(escape_unprintable_line(&planned_trial.arm.name)).or_default() += 1;
        *self.verdicts.entry(cell.word).or_default() += 1;
        *self.endings.entry(cell.ending.clone()).or_default() += 1;
        if !cell.reason.is_empty() {
            *self.reasons.entry(cell.reason.clone()).or_default() += 1;
        }
    }

    fn into_options(self) -> FilterOptions {
        let words = self.verdicts.into_iter().map(|(word, count)| (word.to_owned(), count));
        FilterOptions {
            arms: self.arms.into_iter().collect(),
            outcomes: words.chain(self.endings).collect(),
            reasons: self.reasons.into_iter().collect(),
        }
    }
}

fn matrix_cell(
    planned_trial: &PlannedTrial<'_>,
    report: &TaskReport,
    has_started: bool,
    run: usize,
    form: AddressForm,
) -> MatrixCell {
    let (word, class) = verdict_word_and_class(report.resolved);
    MatrixCell {
        href: form.trial_address(run, planned_trial),
        attempt: planned_trial.attempt,
        word,
        class,
        ending: report
            .outcome
            .clone()
            .unwrap_or_else(|| if has_started { "under_way" } else { "not_begun" }.to_owned()),
        reason: report.reason.map(|reason| reason.to_string()).unwrap_or_default(),
        steps: report.steps.map(|steps| count_with_noun(steps, "step")).unwrap_or_default(),
    }
}

/// Returns a verdict in words, followed by its CSS class.
pub fn verdict_word_and_class(resolved: Option<bool>) -> (&'static str, &'static str) {
    match resolved {
        Some(true) => ("resolved", "yes"),
        Some(false) => ("not resolved", "no"),
        None => ("no verdict", "open"),
    }
}

/// A run's progress as a sentence, its running trials, and whether the page may still change.
type RunState = (String, Vec<(String, String)>, bool);

fn run_state(
    run: &ViewedRun,
    run_results: &RunResults,
    form: AddressForm,
) -> Result<RunState, ViewError> {
    let of = run_results.results.len();
    let ended = run_results.ended_count();
    let graded = run_results.results.iter().filter(|one| one.verdict.is_some()).count();
    if ended == of {
        let missing = of - graded;
        let open = if missing == 0 { "all of them" } else { &format!("{graded} of them") };
        return Ok((
            format!("All {} have ended, {open} graded.", count_with_noun(of, "trial")),
            vec![],
            run_results.may_change(),
        ));
    }
    let mut running_trials = Vec::new();
    let mut last = 0.0_f64;
    let all = planned_trials(&run.record);
    let begun = all.iter().zip(&run_results.results).zip(&run_results.trial_started);
    let begun = begun.filter(|((_, result), begun)| **begun && result.outcome.is_none());
    for ((found, _), _) in begun.take(MAX_RUNNING_LISTED) {
        if let Some(index) = run.current_index(found)? {
            last = last.max(index.last_wall_time);
            running_trials.push((
                form.trial_address(run.number, found),
                format!("{}: {}", found.name(), index.current_activity()),
            ));
        }
    }
    let at = match last > 0.0 {
        true => {
            let at = UNIX_EPOCH + Duration::from_secs(last as u64);
            format!(" Last event: {}.", httpdate::fmt_http_date(at))
        }
        false => String::new(),
    };
    let progress_text =
        format!("{ended} of {} have ended, {graded} are graded.{at}", count_with_noun(of, "trial"));
    Ok((progress_text, running_trials, true))
}
