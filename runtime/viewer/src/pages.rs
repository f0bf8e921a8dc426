//! Maps addresses to the pages of a viewer.

use std::path::PathBuf;

use proctor_record::RunDir;
use proctor_report::{TrialResult, result_of_trial};

use super::{
    Found, Index,
    beside::beside,
    gold_of, labels_of,
    overview::{filter_of, overview},
    patch_of,
    place::{Form, Query, parts},
    planned,
    search::{for_test, search},
    shown::Shown,
    step, trial,
    workspace::workspace,
};
use crate::{
    ViewError,
    html::{self, FILES, Links, Trial, whole},
};

const HTML: &str = "text/html; charset=utf-8";
/// Bytes from a sandbox or an endpoint are only served as text.
const TEXT: &str = "text/plain; charset=utf-8";

/// The runs of a viewer.
pub struct Pages {
    pub(super) runs: Vec<Shown>,
}

/// The content of an address.
#[derive(Debug)]
pub struct Page {
    pub kind: &'static str,
    pub body: Vec<u8>,
}

impl Page {
    fn html(body: String) -> Self {
        Self { kind: HTML, body: body.into_bytes() }
    }
}

impl Pages {
    pub fn open(runs: &[PathBuf]) -> Result<Self, ViewError> {
        let runs = runs.iter().zip(1..).map(|(path, number)| Shown::open(path, number));
        Ok(Self { runs: runs.collect::<Result<_, _>>()? })
    }

    /// Reads the results of every run. A run that cannot be read is reported on its page.
    pub fn read_ahead(&self) {
        for run in &self.runs {
            let _ = run.read();
        }
    }

    /// Returns the page for an address below the root, which ends in `/`. `None` if there is no such page.
    ///
    /// - empty: the filtered matrix of each run
    /// - `RUN/TASK/ARM/ATTEMPT`: a trial. `RUN` counts from 1, `ARM` has the form used on disk
    /// - `RUN/TASK/ARM/ATTEMPT/step/K`: one step
    /// - `RUN/TASK/ARM/ATTEMPT/bytes/HASH`: the blob with this hash in the trial's record
    /// - `beside/TASK`: the task's trials side by side
    /// - `search`
    /// - the viewer's script and style sheet
    pub fn page(&self, path: &str, query: &str, root: &str) -> Result<Option<Page>, ViewError> {
        if let Some((_, kind, texts)) = FILES.iter().find(|(name, _, _)| *name == path) {
            return Ok(Some(Page { kind, body: whole(texts).into_bytes() }));
        }
        let (parts, query) = (parts(path), Query::of(query));
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let links = Links { root, served: true, ..Links::default() };
        let page = match parts.as_slice() {
            [""] => {
                let told = overview(&self.runs, filter_of(&query), Form::Served, false)?;
                Some(html::matrix(&told, &links)?)
            }
            ["search"] => Some(html::search(&search(&self.runs, &query)?, &links)?),
            ["beside", task] => self.beside(task, &query, &links)?,
            [run, task, arm, attempt, rest @ ..] => {
                let Some((shown, found)) = self.find(run, task, arm, attempt) else {
                    return Ok(None);
                };
                let here = format!("{root}{}", Form::Served.trial(shown.number, &found));
                let links = Links { here: &here, ..links };
                match rest {
                    [] => {
                        let several = self.trials_of(task) > 1;
                        Some(trial_page(shown, found, &links, several)?)
                    }
                    ["step", number] => match number.parse() {
                        Ok(number) => step_page(shown, found, number, Some(&query), &links)?,
                        Err(_) => None,
                    },
                    ["bytes", hash] => return bytes(shown, found, hash),
                    _ => None,
                }
            }
            _ => None,
        };
        Ok(page.map(Page::html))
    }

    fn find(&self, run: &str, task: &str, arm: &str, attempt: &str) -> Option<(&Shown, Found<'_>)> {
        let shown = self.runs.get(run.parse::<usize>().ok()?.checked_sub(1)?)?;
        Some((shown, shown.find(task, arm, attempt)?))
    }

    fn beside(
        &self,
        task: &str,
        query: &Query,
        links: &Links<'_>,
    ) -> Result<Option<String>, ViewError> {
        let named: Vec<&str> = query.all("trial").collect();
        let Some((sides, choices)) = beside(&self.runs, task, &named, Form::Served)? else {
            return Ok(None);
        };
        let here = format!("{}{}", links.root, Form::Served.beside(task));
        let links = Links { here: &here, ..*links };
        Ok(Some(html::beside(task, &sides, &choices, &links)?))
    }

    /// Returns the number of a task's trials, in all runs.
    pub(super) fn trials_of(&self, task: &str) -> usize {
        let of = |run: &Shown| {
            planned(&run.record).iter().filter(|one| one.task.task.id.as_str() == task).count()
        };
        self.runs.iter().map(of).sum()
    }
}

/// Reads a trial, adds the links of its page, and returns whether it is running.
pub(super) fn load_trial(
    shown: &Shown,
    found: Found<'_>,
    index: Option<&Index>,
) -> Result<(Trial, bool), ViewError> {
    let run = RunDir::view(&shown.path)?;
    let result = result_of_trial(&run, &found);
    let mut told = trial(&run, &shown.name, found, &result, index)?;
    for test in told.tests.iter_mut().filter(|test| !test.passed) {
        test.speaks = for_test(shown.number, &found, &test.id);
    }
    Ok((told, is_running(&result)))
}

fn is_running(result: &TrialResult) -> bool {
    let ending = result.outcome.as_ref().map(|outcome| &outcome.ending);
    result.verdict.is_none() && ending.is_none_or(|ending| !ending.is_unfinished())
}

fn trial_page(
    shown: &Shown,
    found: Found<'_>,
    links: &Links<'_>,
    several: bool,
) -> Result<String, ViewError> {
    let run = RunDir::view(&shown.path)?;
    let index = shown.index(&found)?;
    let (mut told, live) = load_trial(shown, found, index.as_deref())?;
    if several {
        told.beside = Form::Served.beside(found.task.task.id.as_str());
    }
    let (patch, gold) = (patch_of(&run, found), gold_of(found.task));
    Ok(html::trial(&told, links, &patch, &gold, live)?)
}

pub(super) fn step_page(
    shown: &Shown,
    found: Found<'_>,
    number: u64,
    query: Option<&Query>,
    links: &Links<'_>,
) -> Result<Option<String>, ViewError> {
    let Some(index) = shown.index(&found)? else { return Ok(None) };
    let run = RunDir::view(&shown.path)?;
    let dir = run.trial_path(&found.id());
    let Some(mut told) = step(&index, &run.blobs_of(&dir), number) else { return Ok(None) };
    told.labels = labels_of(&run, found, Some(number));
    if let Some(query) = query {
        // A damaged tree does not affect the rest of the page.
        match workspace(&index, &run.blobs_of(&dir), number, query) {
            Ok(folder) => told.workspace = folder,
            Err(error) => told.notes.push(error.to_string()),
        }
    }
    let live = !dir.outcome().exists();
    Ok(Some(html::step(&told, &found.name(), &index.rows, links, live)?))
}

/// Returns exact bytes from the record: a request, a response, or a complete output.
fn bytes(shown: &Shown, found: Found<'_>, hash: &str) -> Result<Option<Page>, ViewError> {
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    let run = RunDir::view(&shown.path)?;
    let blobs = run.blobs_of(&run.trial_path(&found.id()));
    if !is_hash || !blobs.has(hash) {
        return Ok(None);
    }
    Ok(Some(Page { kind: TEXT, body: blobs.get(hash)? }))
}
