//! Builds a run's page: its progress, its results by arm, and a matrix of the trials that match the
//! filter.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, UNIX_EPOCH},
};

use proctor_report::{ArmReport, TaskReport, TrialResult, format_percent};
use proctor_types::{Arm, RunTask, count_with_noun, escape_unprintable_line};

use super::{
    PlannedTrial,
    failure_label::failure_label,
    finding_links::RunNames,
    gap::verdict_gap,
    matrix_pages::{TaskGroup, matrix_pages},
    pages::trial_name,
    planned_trials,
    results::RunResults,
    urls::{Query, UrlForm, comparison_url, matrix_file, percent_encode, report_url},
    viewed_run::ViewedRun,
};
use crate::{
    ViewError,
    html::{
        Filter, FilterOptions, Matrix, MatrixCell, MatrixRow, Overview, PageLinks, RunSummary,
        TrialName,
    },
};

/// Maximum number of trials on a page of the matrix, on a server and in a file. The page then stays
/// well below a megabyte. A file has more trials, because its filter covers only one page.
const TRIALS_PER_PAGE: usize = 800;
const TRIALS_PER_FILE: usize = 1_500;
/// Number of pages before and after the current one that have a link.
const NEARBY_PAGES: usize = 4;
/// Maximum number of running trials that are listed.
const MAX_RUNNING_LISTED: usize = 12;

pub fn filter_from_query(query: &Query) -> Filter {
    let text = |name| query.first_value(name).to_owned();
    Filter {
        text: text("text"),
        arm: text("arm"),
        outcome: text("outcome"),
        reason: text("reason"),
        integrity: text("integrity"),
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
        ("integrity", &filter.integrity),
        ("sort", &filter.sort),
    ];
    let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
    let given: String =
        given.map(|(name, value)| format!("{name}={}&", percent_encode(value))).collect();
    format!("?{given}page=")
}

/// Returns one page of a run's matrix, with the run's results. `run_page` is the URL of the
/// first page.
pub fn overview(
    runs: &[ViewedRun],
    run: &ViewedRun,
    mut filter: Filter,
    form: UrlForm,
    run_page: &str,
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
    let limit = match form {
        UrlForm::ServerPath => TRIALS_PER_PAGE,
        UrlForm::File => TRIALS_PER_FILE,
    };
    let mut pages = matrix_pages(groups, limit);
    filter.page = filter.page.clamp(1, pages.len());
    let page_url = |page: usize| match form {
        UrlForm::ServerPath => format!("{run_page}{}{page}", filter_query(&filter)),
        UrlForm::File if page == 1 => run_page.to_owned(),
        UrlForm::File => matrix_file(run.number, page),
    };
    let page_links = link_pages(filter.page, pages.len(), page_url);
    let row = |group: TaskGroup<'_>| {
        // A task's trials in other runs are also on the page that shows its trials side by side.
        let trials: usize = runs.iter().map(|one| one.trial_count(group.task)).sum();
        let beside = match trials > 1 {
            true => form.side_by_side_url(run.number, group.task),
            false => String::new(),
        };
        MatrixRow { task: group.task.to_owned(), beside, cells: group.cells }
    };
    let rows = pages.swap_remove(filter.page - 1).into_iter().map(row).collect();
    let (state, going_on) = run_state(run, &run_results, form)?;
    let gap = verdict_gap(run, &run_results, form);
    let names = RunNames::new(run, form);
    let findings = run_results.findings().iter().map(|text| names.link_finding(text));
    let several_arms = run_results.report.arms_under_study().len() > 1;
    Ok(Overview {
        run: Matrix {
            run: run.name.clone(),
            state,
            gap: gap.summary,
            faults: gap.faults,
            ended: run_results.ended_count(),
            trials: run_results.results.len(),
            going_on,
            arms: arm_results(run, &run_results),
            rows,
            findings: findings.collect(),
        },
        summary: RunSummary::from_report(&run_results.report),
        report: report_url(run.number),
        comparison: if several_arms { comparison_url(run.number) } else { String::new() },
        filter,
        shown: counts.shown_count,
        of: counts.total_count,
        choices: counts.into_options(),
        pages: page_links,
        live: run_results.is_live(),
    })
}

/// Returns the links from one page of the matrix to the others.
fn link_pages(current: usize, count: usize, url: impl Fn(usize) -> String) -> PageLinks {
    let is_linked =
        |page: &usize| *page == 1 || *page == count || page.abs_diff(current) <= NEARBY_PAGES;
    PageLinks {
        current,
        count,
        previous: if current > 1 { url(current - 1) } else { String::new() },
        next: if current < count { url(current + 1) } else { String::new() },
        numbered: (1..=count).filter(is_linked).map(|page| (page, url(page))).collect(),
    }
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
    integrities: BTreeMap<String, u64>,
    shown_count: usize,
    total_count: usize,
}

impl FilterCounts {
    fn filter_groups<'a>(
        &mut self,
        run: &'a ViewedRun,
        run_results: &RunResults,
        filter: &Filter,
        form: UrlForm,
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
        let reports = run_results.report.tasks.iter().zip(&run_results.results);
        let all = places.iter().zip(reports).zip(&run_results.trial_started);
        for ((found, (report, result)), begun) in all {
            let Some(&task) = rows.get(&address(found.task)) else { continue };
            let is_it = |one: &Arm| std::ptr::eq(one, found.arm);
            let Some(arm) = record.arms.iter().position(is_it) else { continue };
            let cell = matrix_cell(found, report, result, *begun, (run.number, form));
            self.count_cell(&cell, found);
            let fits = |asked: &str, has: &str| asked.is_empty() || asked == has;
            let outcome = fits(&filter.outcome, cell.word) || filter.outcome == cell.ending;
            let all = || {
                let (task, arm) = (found.task.task.id.as_str(), found.arm.name.as_str());
                let (word, ending) = (cell.word, &cell.ending);
                format!("{task} {arm} {word} {ending} {} {}", cell.reason, cell.failure)
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
                && fits(&filter.reason, &cell.reason)
                && fits(&filter.integrity, &cell.integrity))
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
        *self.arms.entry(escape_unprintable_line(&planned_trial.arm.name)).or_default() += 1;
        *self.verdicts.entry(cell.word).or_default() += 1;
        *self.endings.entry(cell.ending.clone()).or_default() += 1;
        if !cell.reason.is_empty() {
            *self.reasons.entry(cell.reason.clone()).or_default() += 1;
        }
        if !cell.integrity.is_empty() {
            *self.integrities.entry(cell.integrity.clone()).or_default() += 1;
        }
    }

    fn into_options(self) -> FilterOptions {
        let words = self.verdicts.into_iter().map(|(word, count)| (word.to_owned(), count));
        FilterOptions {
            arms: self.arms.into_iter().collect(),
            outcomes: words.chain(self.endings).collect(),
            reasons: self.reasons.into_iter().collect(),
            integrities: self.integrities.into_iter().collect(),
        }
    }
}

fn matrix_cell(
    planned_trial: &PlannedTrial<'_>,
    report: &TaskReport,
    result: &TrialResult,
    has_started: bool,
    (run, form): (usize, UrlForm),
) -> MatrixCell {
    let (word, class) = verdict_word_and_class(report.resolved);
    MatrixCell {
        href: form.trial_url(run, planned_trial),
        attempt: planned_trial.attempt,
        word,
        class,
        ending: report
            .outcome
            .clone()
            .unwrap_or_else(|| if has_started { "under_way" } else { "not_begun" }.to_owned()),
        reason: report.reason.map(|reason| reason.to_string()).unwrap_or_default(),
        failure: failure_label(result, report.reason, &[]),
        integrity: report.integrity.map(|integrity| integrity.to_string()).unwrap_or_default(),
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

/// A run's progress as a sentence, and its running trials.
type RunState = (String, Vec<(String, TrialName, String)>);

fn run_state(
    run: &ViewedRun,
    run_results: &RunResults,
    form: UrlForm,
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
        ));
    }
    let mut running_trials = Vec::new();
    let mut last = 0.0_f64;
    let all = planned_trials(&run.record);
    let begun = all.iter().zip(&run_results.results).zip(&run_results.trial_started);
    let is_live = run_results.is_live();
    let begun = begun.filter(|((_, result), begun)| is_live && **begun && result.outcome.is_none());
    for ((found, _), _) in begun.take(MAX_RUNNING_LISTED) {
        if let Some(index) = run.current_index(found)? {
            last = last.max(index.last_wall_time);
            running_trials.push((
                form.trial_url(run.number, found),
                trial_name(found),
                index.current_activity(),
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
    Ok((progress_text, running_trials))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_run::{finish_trial, write_plan};

    #[test]
    fn pages_link_to_nearby_pages() {
        let links = link_pages(7, 13, |page| format!("?page={page}"));
        assert_eq!((links.previous.as_str(), links.next.as_str()), ("?page=6", "?page=8"));
        let numbers: Vec<usize> = links.numbered.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13]);
        let only = link_pages(1, 1, |page| page.to_string());
        assert_eq!((only.previous.as_str(), only.next.as_str()), ("", ""));
    }

    #[test]
    fn filter_finds_trials_by_integrity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a"], 3, 1);
        finish_trial(&path, &plan.tasks[0], &plan.arms[0], true);
        let runs = [ViewedRun::open(&path, 1).unwrap()];
        for (integrity, shown) in [("", 3), ("clean", 1), ("suspect", 0)] {
            let query = Query::parse(&format!("integrity={integrity}"));
            let filter = filter_from_query(&query);
            let page = overview(&runs, &runs[0], filter, UrlForm::ServerPath, "").unwrap();
            assert_eq!(page.shown, shown, "{integrity}");
            assert_eq!(page.choices.integrities, [("clean".to_owned(), 1)]);
        }
    }

    #[test]
    fn exported_matrix_has_several_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        write_plan(&path, &["a", "b", "c"], 700, 1);
        let runs = [ViewedRun::open(&path, 1).unwrap()];
        let page = |number, form| {
            let filter = Filter { page: number, ..Filter::default() };
            overview(&runs, &runs[0], filter, form, "index.html").unwrap()
        };
        let [first, second] = [1, 2].map(|number| page(number, UrlForm::File));
        assert_eq!((first.pages.count, first.run.rows.len(), second.run.rows.len()), (2, 500, 200));
        assert_eq!(
            (first.pages.next.as_str(), second.pages.previous.as_str()),
            ("trials/1/2.html", "index.html")
        );
        assert_eq!((first.shown, first.of), (2_100, 2_100), "the counts cover all pages");
        let served = page(99, UrlForm::ServerPath);
        assert_eq!((served.pages.current, served.pages.count), (3, 3), "the last page");
    }
}
