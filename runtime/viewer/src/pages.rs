//! Maps addresses to the pages of a viewer.

use std::path::PathBuf;

use proctor_record::RunDir;
use proctor_report::{TrialResult, read_trial_result};

use super::{
    JournalIndex, PlannedTrial,
    address::{AddressForm, HOME_PAGE, Query, split_address},
    dashboard::dashboard,
    overview::{filter_from_query, overview},
    planned_trials, read_labels, read_patch, read_step, read_trial, reference_patch,
    report_page::report_page,
    search::{readable_address, search, search_address_for_test},
    side_by_side::load_side_by_side,
    viewed_run::ViewedRun,
    workspace::load_workspace,
};
use crate::{
    ViewError,
    html::{self, ASSETS, Links, Trial, join_pieces},
};

const HTML_MEDIA_TYPE: &str = "text/html; charset=utf-8";
/// Bytes that come from a sandbox or an endpoint are only served as plain text.
const TEXT_MEDIA_TYPE: &str = "text/plain; charset=utf-8";

/// The runs that a viewer shows.
pub struct Pages {
    pub(super) runs: Vec<ViewedRun>,
}

/// The page or file at an address.
#[derive(Debug)]
pub struct Page {
    pub media_type: &'static str,
    pub body: Vec<u8>,
    /// The source expression of the only style sheet that a self-contained page may use. `None` for
    /// pages that use the viewer's script and style sheet.
    pub own_style: Option<String>,
}

impl Page {
    fn html(body: String) -> Self {
        Self { media_type: HTML_MEDIA_TYPE, body: body.into_bytes(), own_style: None }
    }

    fn report(body: String) -> Self {
        Self { own_style: Some(html::report_style_source()), ..Self::html(body) }
    }
}

impl Pages {
    pub fn open(runs: &[PathBuf]) -> Result<Self, ViewError> {
        let runs = runs.iter().zip(1..).map(|(path, number)| ViewedRun::open(path, number));
        Ok(Self { runs: runs.collect::<Result<_, _>>()? })
    }

    /// Reads the results of every run. If a run cannot be read, its page reports the error.
    pub fn preload(&self) {
        for run in &self.runs {
            let _ = run.current_results();
        }
    }

    /// Returns the page for an address below the root (the root ends in `/`), or `None` if there is
    /// no such page.
    ///
    /// - empty: the dashboard, or the run's page if there is only one run
    /// - `RUN`: a run's results and its matrix of filtered trials
    /// - `report/RUN`: the run's report
    /// - `RUN/TASK/ARM/ATTEMPT`: a trial. `RUN` counts from 1, and `ARM` has the same form as in
    ///   the run directory
    /// - `RUN/TASK/ARM/ATTEMPT/step/K`: one step
    /// - `RUN/TASK/ARM/ATTEMPT/bytes/HASH`: the blob with this hash in the trial's record
    /// - `beside/TASK`: the task's trials side by side
    /// - `search`
    /// - the viewer's script and style sheet
    pub fn page(&self, path: &str, query: &str, root: &str) -> Result<Option<Page>, ViewError> {
        if let Some((_, kind, texts)) = ASSETS.iter().find(|(name, _, _)| *name == path) {
            let body = join_pieces(texts).into_bytes();
            return Ok(Some(Page { media_type: kind, body, own_style: None }));
        }
        let (parts, query) = (split_address(path), Query::parse(query));
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let several = self.runs.len() > 1;
        let links = Links { root, served: true, several, ..Links::default() };
        let page = match parts.as_slice() {
            [""] => Some(match self.runs.as_slice() {
                [run] => self.run_page(run, &query, &links)?,
                runs => html::render_dashboard(&dashboard(runs, AddressForm::ServerPath), &links)?,
            }),
            ["report", run] => match self.find_run(run) {
                Some(run) => return Ok(Some(Page::report(report_page(run)?))),
                None => None,
            },
            ["search"] => Some(html::render_search(&search(&self.runs, &query)?, &links)?),
            ["beside", task] => self.side_by_side_page(task, &query, &links)?,
            [run] => match self.find_run(run) {
                Some(run) => Some(self.run_page(run, &query, &links)?),
                None => None,
            },
            [run, task, arm, attempt, rest @ ..] => {
                let Some((shown, found)) = self.find_trial(run, task, arm, attempt) else {
                    return Ok(None);
                };
                let here = format!(
                    "{root}{}",
                    AddressForm::ServerPath.trial_address(shown.number, &found)
                );
                let run_page = self.run_page_address(shown.number, AddressForm::ServerPath);
                let trial = readable_address(shown.number, &found);
                let links = Links { here: &here, run_page: &run_page, trial: &trial, ..links };
                match rest {
                    [] => {
                        let has_several = self.trial_count(task) > 1;
                        Some(trial_page(shown, found, &links, has_several)?)
                    }
                    ["step", number] => match number.parse() {
                        Ok(number) => step_page(shown, found, number, Some(&query), &links)?,
                        Err(_) => None,
                    },
                    ["bytes", hash] => return blob_page(shown, found, hash),
                    _ => None,
                }
            }
            _ => None,
        };
        Ok(page.map(Page::html))
    }

    fn find_run(&self, number: &str) -> Option<&ViewedRun> {
        self.runs.get(number.parse::<usize>().ok()?.checked_sub(1)?)
    }

    /// Returns the address of a run's page, relative to the root and with the suffix.
    pub(super) fn run_page_address(&self, run: usize, form: AddressForm) -> String {
        match (self.runs.len(), form) {
            (2.., _) => form.run_address(run),
            (_, AddressForm::ServerPath) => String::new(),
            (_, AddressForm::File) => HOME_PAGE.to_owned(),
        }
    }

    fn run_page(
        &self,
        run: &ViewedRun,
        query: &Query,
        links: &Links<'_>,
    ) -> Result<String, ViewError> {
        let form = AddressForm::ServerPath;
        let page = overview(&self.runs, run, filter_from_query(query), form, false)?;
        let run_page = self.run_page_address(run.number, form);
        Ok(html::render_matrix(&page, &Links { run_page: &run_page, ..*links })?)
    }

    fn find_trial(
        &self,
        run: &str,
        task: &str,
        arm: &str,
        attempt: &str,
    ) -> Option<(&ViewedRun, PlannedTrial<'_>)> {
        let viewed_run = self.find_run(run)?;
        Some((viewed_run, viewed_run.find_trial(task, arm, attempt)?))
    }

    fn side_by_side_page(
        &self,
        task: &str,
        query: &Query,
        links: &Links<'_>,
    ) -> Result<Option<String>, ViewError> {
        let named: Vec<&str> = query.values("trial").collect();
        let Some((sides, choices)) =
            load_side_by_side(&self.runs, task, &named, AddressForm::ServerPath)?
        else {
            return Ok(None);
        };
        let here = format!("{}{}", links.root, AddressForm::ServerPath.side_by_side_address(task));
        let links = Links { here: &here, ..*links };
        Ok(Some(html::render_side_by_side_page(task, &sides, &choices, &links)?))
    }

    /// Returns how many trials a task has in all runs.
    pub(super) fn trial_count(&self, task: &str) -> usize {
        let of = |run: &ViewedRun| {
            planned_trials(&run.record)
                .iter()
                .filter(|one| one.task.task.id.as_str() == task)
                .count()
        };
        self.runs.iter().map(of).sum()
    }
}

/// Reads a trial, adds the links that its page shows, and returns whether the trial is running.
pub(super) fn load_trial(
    viewed_run: &ViewedRun,
    planned_trial: PlannedTrial<'_>,
    index: Option<&JournalIndex>,
) -> Result<(Trial, bool), ViewError> {
    let run = RunDir::open_read_only(&viewed_run.path)?;
    let result = read_trial_result(&run, &planned_trial);
    let mut trial = read_trial(&run, &viewed_run.name, planned_trial, &result, index)?;
    for test in trial.tests.iter_mut().filter(|test| !test.passed) {
        test.speaks = search_address_for_test(viewed_run.number, &planned_trial, &test.id);
    }
    Ok((trial, is_running(&result)))
}

fn is_running(result: &TrialResult) -> bool {
    let ending = result.outcome.as_ref().map(|outcome| &outcome.ending);
    result.verdict.is_none() && ending.is_none_or(|ending| !ending.is_unfinished())
}

fn trial_page(
    viewed_run: &ViewedRun,
    planned_trial: PlannedTrial<'_>,
    links: &Links<'_>,
    has_several_trials: bool,
) -> Result<String, ViewError> {
    let run = RunDir::open_read_only(&viewed_run.path)?;
    let index = viewed_run.current_index(&planned_trial)?;
    let (mut told, live) = load_trial(viewed_run, planned_trial, index.as_deref())?;
    if has_several_trials {
        told.beside =
            AddressForm::ServerPath.side_by_side_address(planned_trial.task.task.id.as_str());
    }
    let (patch, gold) = (read_patch(&run, planned_trial), reference_patch(planned_trial.task));
    Ok(html::render_trial(&told, links, &patch, &gold, live)?)
}

pub(super) fn step_page(
    viewed_run: &ViewedRun,
    planned_trial: PlannedTrial<'_>,
    number: u64,
    query: Option<&Query>,
    links: &Links<'_>,
) -> Result<Option<String>, ViewError> {
    let Some(index) = viewed_run.current_index(&planned_trial)? else { return Ok(None) };
    let run = RunDir::open_read_only(&viewed_run.path)?;
    let dir = run.trial_dir(&planned_trial.id());
    let Some(mut told) = read_step(&index, &run.trial_blobs(&dir), number) else { return Ok(None) };
    told.labels = read_labels(&run, planned_trial, Some(number));
    if let Some(query) = query {
        // If the tree is corrupt, show the page without it.
        match load_workspace(&index, &run.trial_blobs(&dir), number, query) {
            Ok(folder) => told.workspace = folder,
            Err(error) => told.notes.push(error.to_string()),
        }
    }
    let live = !dir.outcome_path().exists();
    Ok(Some(html::render_step(&told, &planned_trial.name(), &index.rows, links, live)?))
}

/// Returns raw bytes from the record: a request, a response, or a tool's full output.
fn blob_page(
    viewed_run: &ViewedRun,
    planned_trial: PlannedTrial<'_>,
    hash: &str,
) -> Result<Option<Page>, ViewError> {
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    let run = RunDir::open_read_only(&viewed_run.path)?;
    let blobs = run.trial_blobs(&run.trial_dir(&planned_trial.id()));
    if !is_hash || !blobs.contains(hash) {
        return Ok(None);
    }
    Ok(Some(Page { media_type: TEXT_MEDIA_TYPE, body: blobs.get(hash)?, own_style: None }))
}
