//! Maps URLs to the pages of a viewer.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proctor_record::{RecordError, RunDir};
use proctor_report::{TrialResult, read_trial_result};

use super::{
    JournalIndex, PlannedTrial,
    dashboard::dashboard,
    overview::{filter_from_query, overview},
    read::served_files,
    read_labels, read_patch, read_step, read_trial, reference_patch,
    report_page::{comparison_page, report_page},
    results::PRELOAD_PATIENCE,
    search::{find_mentioned_tests, search, test_search_url, trial_key},
    side_by_side::load_side_by_side,
    urls::{HOME_PAGE, Query, UrlForm, split_url},
    viewed_run::{UnreadableRun, ViewedRun, run_name},
    workspace::load_workspace,
};
use crate::{
    ViewError,
    html::{self, ASSETS, Links, TestLine, Trial, TrialName, join_pieces},
};

const HTML_MEDIA_TYPE: &str = "text/html; charset=utf-8";
/// Bytes that come from a sandbox or an endpoint are only served as plain text.
const TEXT_MEDIA_TYPE: &str = "text/plain; charset=utf-8";

/// Maximum number of failed tests that a trial's page links to their mentions in the steps.
const MAX_LINKED_TESTS: usize = 200;

/// The runs that a viewer shows.
pub struct Pages {
    pub(super) runs: Vec<ViewedRun>,
    pub(super) unreadable: Vec<UnreadableRun>,
}

/// The page or file at a URL.
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
    /// Opens the runs. If the plan of a run cannot be read, the dashboard shows the error.
    ///
    /// # Errors
    /// Fails if a path is not a run directory, or if no run can be read.
    pub fn open(paths: &[PathBuf]) -> Result<Self, ViewError> {
        let (mut runs, mut unreadable) = (Vec::new(), Vec::new());
        for (path, number) in paths.iter().zip(1..) {
            match ViewedRun::open(path, number) {
                Ok(run) => runs.push(run),
                // A wrong path is a typing error, not a damaged run.
                Err(error @ ViewError::Record(RecordError::NotARun { .. })) => return Err(error),
                Err(error) => unreadable.push(UnreadableRun { name: run_name(path), error }),
            }
        }
        if runs.is_empty() && !unreadable.is_empty() {
            return Err(unreadable.swap_remove(0).error);
        }
        Ok(Self { runs, unreadable })
    }

    /// Returns the errors of the runs that cannot be read.
    pub fn unreadable_runs(&self) -> Vec<String> {
        self.unreadable.iter().map(|run| run.error.to_string()).collect()
    }

    /// Whether the viewer shows several runs, and therefore has a dashboard.
    pub(super) fn has_several_runs(&self) -> bool {
        self.runs.len() + self.unreadable.len() > 1
    }

    /// Reads the results of every run, small runs first. Meanwhile, pages show the progress. If a
    /// run cannot be read, its page reports the error.
    pub fn preload(&self) {
        self.runs.iter().for_each(ViewedRun::start_preload);
        let _end = PreloadEnd(&self.runs);
        let mut small_first: Vec<&ViewedRun> = self.runs.iter().collect();
        small_first.sort_by_key(|run| run.planned_count());
        for run in small_first {
            let _ = run.current_results();
            run.finish_preload();
        }
    }

    /// Returns the page for a URL below the root (the root ends in `/`), or `None` if there is
    /// no such page.
    ///
    /// - empty: the dashboard, or the run's page if there is only one run
    /// - `RUN`: a run's results and its matrix of filtered trials
    /// - `report/RUN`: the run's report
    /// - `compare/RUN`: the comparison of the run's arms, which the run's page loads afterwards
    /// - `RUN/TASK/ARM/ATTEMPT`: a trial. `RUN` counts from 1, and `ARM` has the same form as in
    ///   the run directory
    /// - `RUN/TASK/ARM/ATTEMPT/step/K`: one step
    /// - `RUN/TASK/ARM/ATTEMPT/bytes/HASH`: the blob with this hash in the trial's record
    /// - `RUN/TASK/ARM/ATTEMPT/file/NAME`: a file of the trial, such as `verdict.json`
    /// - `beside/RUN/TASK`: the task's trials side by side, at first those of the run
    /// - `search`
    /// - the viewer's script and style sheet
    pub fn page(&self, path: &str, query: &str, root: &str) -> Result<Option<Page>, ViewError> {
        if let Some((_, kind, texts)) = ASSETS.iter().find(|(name, _, _)| *name == path) {
            let body = join_pieces(texts).into_bytes();
            return Ok(Some(Page { media_type: kind, body, own_style: None }));
        }
        let (parts, query) = (split_url(path), Query::parse(query));
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let several = self.has_several_runs();
        let links = Links { root, served: true, several, ..Links::default() };
        let page = match parts.as_slice() {
            [""] => Some(match self.runs.as_slice() {
                [run] if !several => self.run_page(run, &query, &links)?,
                _ => html::render_dashboard(&dashboard(self, UrlForm::ServerPath), &links)?,
            }),
            ["report", run] => match self.find_run(run) {
                Some(run) => {
                    let run_page = self.run_page_url(run.number, UrlForm::ServerPath);
                    let links = Links { run_page: &run_page, ..links };
                    return Ok(Some(Page::report(report_page(run, &links)?)));
                }
                None => None,
            },
            ["compare", run] => match self.find_run(run) {
                Some(run) => {
                    let run_page = self.run_page_url(run.number, UrlForm::ServerPath);
                    let links = Links { run_page: &run_page, run: run.number, ..links };
                    Some(comparison_page(run, &links)?)
                }
                None => None,
            },
            ["search"] => Some(html::render_search(&search(&self.runs, &query)?, &links)?),
            ["beside", run, task] => match self.find_run(run) {
                Some(run) => self.side_by_side_page(run, task, &query, &links)?,
                None => None,
            },
            [run] => match self.find_run(run) {
                Some(run) => Some(self.run_page(run, &query, &links)?),
                None => None,
            },
            [run, task, arm, attempt, rest @ ..] => {
                let Some((shown, found)) = self.find_trial(run, task, arm, attempt) else {
                    return Ok(None);
                };
                let here = format!("{root}{}", UrlForm::ServerPath.trial_url(shown.number, &found));
                let run_page = self.run_page_url(shown.number, UrlForm::ServerPath);
                let trial = trial_key(shown.number, &found);
                let links = Links {
                    here: &here,
                    run_page: &run_page,
                    run: shown.number,
                    trial: &trial,
                    ..links
                };
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
                    ["file", name] => return file_page(shown, found, name),
                    _ => None,
                }
            }
            _ => None,
        };
        Ok(page.map(Page::html))
    }

    fn find_run(&self, number: &str) -> Option<&ViewedRun> {
        let number: usize = number.parse().ok()?;
        self.runs.iter().find(|run| run.number == number)
    }

    /// Returns the URL of a run's page, relative to the root and with the suffix.
    pub(super) fn run_page_url(&self, run: usize, form: UrlForm) -> String {
        match (self.has_several_runs(), form) {
            (true, _) => form.run_url(run),
            (_, UrlForm::ServerPath) => String::new(),
            (_, UrlForm::File) => HOME_PAGE.to_owned(),
        }
    }

    fn run_page(
        &self,
        run: &ViewedRun,
        query: &Query,
        links: &Links<'_>,
    ) -> Result<String, ViewError> {
        let form = UrlForm::ServerPath;
        let run_page = self.run_page_url(run.number, form);
        if let Some(read) = run.wait_for_preload(PRELOAD_PATIENCE) {
            return Ok(html::render_loading_page(&run.name, read, run.planned_count(), links)?);
        }
        let page = overview(&self.runs, run, filter_from_query(query), form, &run_page)?;
        let links = Links { run_page: &run_page, run: run.number, ..*links };
        Ok(html::render_matrix(&page, &links)?)
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
        run: &ViewedRun,
        task: &str,
        query: &Query,
        links: &Links<'_>,
    ) -> Result<Option<String>, ViewError> {
        let (form, named) = (UrlForm::ServerPath, query.values("trial").collect::<Vec<&str>>());
        let Some((sides, choices)) = load_side_by_side(&self.runs, run.number, task, &named, form)?
        else {
            return Ok(None);
        };
        let here = format!("{}{}", links.root, form.side_by_side_url(run.number, task));
        let run_page = self.run_page_url(run.number, form);
        let links = Links { here: &here, run_page: &run_page, run: run.number, ..*links };
        Ok(Some(html::render_side_by_side_page(task, &sides, &choices, &links)?))
    }

    /// Returns how many trials a task has across all runs.
    pub(super) fn trial_count(&self, task: &str) -> usize {
        self.runs.iter().map(|run| run.trial_count(task)).sum()
    }
}

/// Ends the preload even if a run makes it panic. Otherwise, pages would wait forever.
struct PreloadEnd<'a>(&'a [ViewedRun]);

impl Drop for PreloadEnd<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(ViewedRun::finish_preload);
    }
}

/// Returns a trial's name without its run.
pub(super) fn trial_name(planned_trial: &PlannedTrial<'_>) -> TrialName {
    TrialName {
        run: String::new(),
        task: planned_trial.task.task.id.to_string(),
        arm: planned_trial.arm.name.clone(),
        attempt: planned_trial.attempt,
    }
}

/// Reads a trial, and returns whether it is running.
pub(super) fn load_trial(
    viewed_run: &ViewedRun,
    planned_trial: PlannedTrial<'_>,
    index: Option<&JournalIndex>,
) -> Result<(Trial, bool), ViewError> {
    let run = RunDir::open_read_only(&viewed_run.path)?;
    // Check this before the files. If no process is working on the run, they are final.
    let is_in_progress = run.is_in_progress();
    let result = read_trial_result(&run, &planned_trial);
    let trial = read_trial(&run, &viewed_run.name, planned_trial, &result, index)?;
    Ok((trial, is_in_progress && is_running(&result)))
}

/// Adds links that search for the failed tests in the trial's steps, where there is something to
/// find.
fn link_failed_tests(
    trial: &mut Trial,
    viewed_run: &ViewedRun,
    planned_trial: &PlannedTrial<'_>,
    journal: &Path,
) {
    let mut failed: Vec<&mut TestLine> =
        trial.tests.iter_mut().filter(|test| !test.passed).take(MAX_LINKED_TESTS).collect();
    let names: Vec<&str> = failed.iter().map(|test| test.id.as_str()).collect();
    let found = find_mentioned_tests(journal, &names);
    for (index, test) in failed.iter_mut().enumerate() {
        if found.as_ref().is_none_or(|found| found[index]) {
            test.speaks = test_search_url(viewed_run.number, planned_trial, &test.id);
        }
    }
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
    let journal = run.trial_dir(&planned_trial.id()).trajectory_path();
    link_failed_tests(&mut told, viewed_run, &planned_trial, &journal);
    if has_several_trials {
        let task = planned_trial.task.task.id.as_str();
        told.beside = UrlForm::ServerPath.side_by_side_url(viewed_run.number, task);
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
    told.statement = planned_trial.task.task.statement.clone();
    if let Some(query) = query {
        // If the tree is corrupt, show the page without it.
        match load_workspace(&index, &run.trial_blobs(&dir), number, query) {
            Ok(folder) => told.workspace = folder,
            Err(error) => told.notes.push(error.to_string()),
        }
    }
    let live = run.is_in_progress() && !dir.outcome_path().exists();
    let name = trial_name(&planned_trial);
    Ok(Some(html::render_step(&told, &name, &index.listed_rows(), links, live)?))
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

/// Returns one of the trial's files as plain text.
fn file_page(
    viewed_run: &ViewedRun,
    planned_trial: PlannedTrial<'_>,
    name: &str,
) -> Result<Option<Page>, ViewError> {
    let run = RunDir::open_read_only(&viewed_run.path)?;
    let dir = run.trial_dir(&planned_trial.id());
    let Some((_, path)) = served_files(&dir).find(|(known, _)| *known == name) else {
        return Ok(None);
    };
    Ok(Some(Page { media_type: TEXT_MEDIA_TYPE, body: fs::read(path)?, own_style: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        planned_trials,
        test_run::{finish_trial, start_trial, write_plan},
    };

    /// Maximum size of a page of the matrix.
    const MAX_PAGE_BYTES: usize = 1_000_000;

    fn open(runs: &[&Path]) -> Result<Pages, ViewError> {
        Pages::open(&runs.iter().map(|path| path.to_path_buf()).collect::<Vec<_>>())
    }

    fn html(pages: &Pages, path: &str, query: &str) -> String {
        let page = pages.page(path, query, "/t/").unwrap().unwrap();
        String::from_utf8(page.body).unwrap()
    }

    #[test]
    fn large_run_has_small_pages() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        write_plan(&path, &["a", "b", "c"], 3_333, 1);
        let pages = open(&[&path]).unwrap();
        for (number, tasks) in [(1, 266), (13, 141)] {
            let page = html(&pages, "", &format!("page={number}"));
            assert!(page.len() < MAX_PAGE_BYTES, "page {number}: {} bytes", page.len());
            assert!(page.contains(&format!("9999 of 9999 trials, page {number} of 13")));
            assert_eq!(page.matches("<bdi>task-").count(), tasks);
        }
        // The filter covers all pages, and the links between pages keep it.
        let found = html(&pages, "", "text=task-03332");
        assert!(found.contains("3 of 9999 trials<"), "{found}");
        assert!(html(&pages, "", "text=task-0").contains("?text=task%2D0&amp;page=2"));
    }

    #[test]
    fn unreadable_run_is_shown_on_the_dashboard() {
        let folder = tempfile::tempdir().unwrap();
        let [bad, good] = ["bad", "good"].map(|name| folder.path().join(name));
        for path in [&bad, &good] {
            write_plan(path, &["a"], 1, 1);
        }
        for name in ["run.json", "run.json.gz"] {
            fs::write(bad.join(name), "broken").unwrap();
        }
        let pages = open(&[&bad, &good]).unwrap();
        assert_eq!(pages.unreadable_runs().len(), 1);
        let dashboard = html(&pages, "", "");
        assert!(dashboard.contains("<h1>2 runs</h1>"), "{dashboard}");
        assert!(dashboard.contains("<bdi>bad</bdi>") && dashboard.contains("cannot be read"));
        assert!(html(&pages, "2", "").contains("<bdi>good</bdi>"));
        assert!(pages.page("1", "", "/t/").unwrap().is_none());
        let files = folder.path().join("files");
        pages.write_pages(&files, &|_, bytes| bytes.into()).unwrap();
        assert!(files.join("2.html").is_file() && !files.join("1.html").exists());
        assert!(fs::read_to_string(files.join("index.html")).unwrap().contains("cannot be read"));
        // Without a readable run, there is nothing to show.
        assert!(open(&[&bad]).is_err());
        assert!(open(&[&good, &folder.path().join("missing")]).is_err());
    }

    #[test]
    fn pages_show_progress_while_trials_are_read_for_the_first_time() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        for path in [&one, &other] {
            write_plan(path, &["a"], 3, 1);
        }
        let pages = open(&[&one, &other]).unwrap();
        pages.runs[0].start_preload();
        let page = html(&pages, "1", "");
        assert!(page.contains("0 of 3 trials read") && page.contains("data-live"), "{page}");
        let dashboard = html(&pages, "", "");
        assert!(dashboard.contains("reading: 0 of 3 trials"), "{dashboard}");
        assert!(html(&pages, "2", "").contains("3 of 3 trials<"));
        pages.preload();
        assert!(html(&pages, "1", "").contains("3 of 3 trials<"));
        assert!(!html(&pages, "", "").contains("reading:"));
    }

    #[test]
    fn side_by_side_page_selects_trials_of_its_own_run() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        for path in [&one, &other] {
            let run = write_plan(path, &["a", "b"], 1, 1);
            for arm in &run.arms {
                start_trial(path, &run.tasks[0], arm);
            }
        }
        let pages = open(&[&one, &other]).unwrap();
        let page = html(&pages, "beside/2/task-00000", "");
        let choices: Vec<bool> = page
            .split("<input type=\"checkbox\" name=\"trial\"")
            .skip(1)
            .map(|choice| choice.split('>').next().unwrap().contains("checked"))
            .collect();
        assert_eq!(choices, [false, false, true, true], "{page}");
        let run_page = html(&pages, "2", "").replace("&#x2f;", "/");
        assert!(run_page.contains("/t/beside/2/task%2D00000"), "{run_page}");
        assert!(pages.page("beside/3/task-00000", "", "/t/").unwrap().is_none());
        assert!(pages.page("beside/1/other", "", "/t/").unwrap().is_none());
    }

    #[test]
    fn comparison_has_its_own_page() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let run = write_plan(&path, &["a", "b"], 1, 1);
        finish_trial(&path, &run.tasks[0], &run.arms[0], true);
        let process = RunDir::open(&path).unwrap();
        let while_running = html(&open(&[&path]).unwrap(), "", "");
        assert!(while_running.contains("Compare the arms"), "{while_running}");
        assert!(!while_running.contains("data-load"), "{while_running}");
        assert!(while_running.contains("shows the comparison when the run has ended"));
        drop(process);
        let stopped = html(&open(&[&path]).unwrap(), "", "");
        assert!(stopped.contains("data-load=") && !stopped.contains("data-live"), "{stopped}");
        assert!(stopped.contains("Stopped: 1 of 2 trials has no verdict (1 not started)."));
        finish_trial(&path, &run.tasks[0], &run.arms[1], false);
        let pages = open(&[&path]).unwrap();
        let page = html(&pages, "", "");
        assert!(page.contains("data-load=") && !page.contains("class=\"headline"), "{page}");
        let comparison = html(&pages, "compare/1", "");
        assert!(comparison.contains("id=\"comparison\"") && comparison.contains("class=\"claim\""));
        assert!(pages.page("compare/2", "", "/t/").unwrap().is_none());
    }

    #[test]
    fn files_of_a_trial_are_served_as_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a"], 1, 1);
        finish_trial(&path, &plan.tasks[0], &plan.arms[0], true);
        let pages = open(&[&path]).unwrap();
        let trial = {
            let found = planned_trials(&plan)[0];
            UrlForm::ServerPath.trial_url(1, &found)
        };
        let page = html(&pages, &trial, "").replace("&#x2f;", "/");
        for name in ["trajectory.jsonl", "patch.diff", "outcome.json", "verdict.json"] {
            assert!(page.contains(&format!("/t/{trial}/file/{name}")), "{name}: {page}");
            let file = pages.page(&format!("{trial}/file/{name}"), "", "/t/").unwrap().unwrap();
            assert!(file.media_type == TEXT_MEDIA_TYPE && !file.body.is_empty(), "{name}");
        }
        for name in ["run.json", "..%2Foutcome.json", "missing"] {
            assert!(pages.page(&format!("{trial}/file/{name}"), "", "/t/").unwrap().is_none());
        }
        // A link could lead to any file.
        let dir = RunDir::open_read_only(&path).unwrap().trial_dir(&planned_trials(&plan)[0].id());
        fs::remove_file(dir.patch_path()).unwrap();
        std::os::unix::fs::symlink(dir.outcome_path(), dir.patch_path()).unwrap();
        assert!(pages.page(&format!("{trial}/file/patch.diff"), "", "/t/").unwrap().is_none());
    }
}
