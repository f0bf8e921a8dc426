//! Writes all pages as files. The links between them are relative, so the directory can be opened
//! locally, moved, or hosted anywhere.

use std::{collections::BTreeSet, fs, io, path::Path};

use proctor_record::RunDir;

use super::{
    Pages, PlannedTrial,
    dashboard::dashboard,
    overview::overview,
    pages::{load_trial, step_page},
    planned_trials, read_patch, reference_patch,
    report_page::{comparison_page, report_page},
    side_by_side::load_side_by_side,
    urls::{HOME_PAGE, PAGE_SUFFIX, UrlForm, comparison_url, matrix_file, report_url},
    viewed_run::ViewedRun,
};
use crate::{
    MaskText, ViewError,
    html::{self, ASSETS, Filter, Links},
};

/// The directory to which pages are written.
struct PageFolder<'a> {
    path: &'a Path,
    mask: MaskText<'a>,
    file_count: u64,
}

impl PageFolder<'_> {
    /// Writes a page, with secrets masked. `name` is relative to the directory.
    fn write(&mut self, name: &str, page: &str) -> io::Result<()> {
        let file = self.path.join(name);
        let text = (self.mask)(Path::new(name), page.as_bytes());
        match fs::write(&file, &text) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(file.parent().unwrap_or(self.path))?;
                fs::write(&file, &text)?;
            }
            written => written?,
        }
        self.file_count += 1;
        Ok(())
    }
}

impl Pages {
    /// Writes every page, with secrets masked. Returns the number of files written.
    ///
    /// # Errors
    /// Fails if a run cannot be read, or if a file cannot be written.
    pub fn write_pages(&self, out: &Path, mask: MaskText<'_>) -> Result<u64, ViewError> {
        let several = self.has_several_runs();
        let links = Links { home: HOME_PAGE, ending: PAGE_SUFFIX, several, ..Links::default() };
        fs::create_dir_all(out)?;
        for (name, _, texts) in &ASSETS {
            fs::write(out.join(name), html::join_pieces(texts))?;
        }
        let mut folder = PageFolder { path: out, mask, file_count: ASSETS.len() as u64 };
        if several {
            let page = html::render_dashboard(&dashboard(self, UrlForm::File), &links)?;
            folder.write(HOME_PAGE, &page)?;
        }
        for shown in &self.runs {
            let run_page = self.run_page_url(shown.number, UrlForm::File);
            let links = Links { run_page: &run_page, ..links };
            self.write_run(&mut folder, shown, links)?;
            let mut tasks = BTreeSet::new();
            for found in planned_trials(&shown.record) {
                let task = found.task.task.id.as_str();
                if self.trial_count(task) > 1 && tasks.insert(task) {
                    self.write_side_by_side(&mut folder, shown, task, links)?;
                }
                self.write_trial(&mut folder, shown, found, links)?;
            }
        }
        Ok(folder.file_count)
    }

    /// Writes the pages of the run's matrix, its comparison and its report.
    fn write_run(
        &self,
        folder: &mut PageFolder<'_>,
        run: &ViewedRun,
        links: Links<'_>,
    ) -> Result<(), ViewError> {
        let mut number = 1;
        loop {
            let filter = Filter { page: number, ..Filter::default() };
            let page = overview(&self.runs, run, filter, UrlForm::File, links.run_page)?;
            let (name, root) = match number {
                1 => (links.run_page.to_owned(), ""),
                _ => (matrix_file(run.number, number), "../../"),
            };
            folder.write(&name, &html::render_matrix(&page, &Links { root, ..links })?)?;
            if number == 1 && !page.comparison.is_empty() {
                let name = format!("{}{PAGE_SUFFIX}", comparison_url(run.number));
                folder.write(&name, &comparison_page(run, &Links { root: "../", ..links })?)?;
            }
            if number >= page.pages.count {
                break;
            }
            number += 1;
        }
        let name = format!("{}{PAGE_SUFFIX}", report_url(run.number));
        folder.write(&name, &report_page(run, &links)?)?;
        Ok(())
    }

    /// Writes a trial's page and the pages of its steps.
    fn write_trial(
        &self,
        folder: &mut PageFolder<'_>,
        shown: &ViewedRun,
        found: PlannedTrial<'_>,
        links: Links<'_>,
    ) -> Result<(), ViewError> {
        let run = RunDir::open_read_only(&shown.path)?;
        let task = found.task.task.id.as_str();
        let place = UrlForm::File.trial_url(shown.number, &found);
        let (above, step_above) = ("../../../", "../../../../../");
        let index = shown.current_index(&found)?;
        let (mut told, _) = load_trial(shown, found, index.as_deref())?;
        if self.trial_count(task) > 1 {
            told.beside = UrlForm::File.side_by_side_url(shown.number, task);
        }
        let here = format!("{above}{place}");
        let trial_links = Links { root: above, here: &here, ..links };
        let (patch, gold) = (read_patch(&run, found), reference_patch(found.task));
        let page = html::render_trial(&told, &trial_links, &patch, &gold, false)?;
        folder.write(&format!("{place}{PAGE_SUFFIX}"), &page)?;
        let here = format!("{step_above}{place}");
        let step_links = Links { root: step_above, here: &here, ..links };
        let pages = told.steps.len() + usize::from(told.unanswered.is_some());
        for number in 1..=pages as u64 {
            if let Some(page) = step_page(shown, found, number, None, &step_links)? {
                folder.write(&format!("{place}/step/{number}{PAGE_SUFFIX}"), &page)?;
            }
        }
        Ok(())
    }

    fn write_side_by_side(
        &self,
        folder: &mut PageFolder<'_>,
        run: &ViewedRun,
        task: &str,
        links: Links<'_>,
    ) -> Result<(), ViewError> {
        let form = UrlForm::File;
        let Some((sides, choices)) = load_side_by_side(&self.runs, run.number, task, &[], form)?
        else {
            return Ok(());
        };
        let links = Links { root: "../../", ..links };
        let page = html::render_side_by_side_page(task, &sides, &choices, &links)?;
        let name = form.side_by_side_url(run.number, task);
        folder.write(&format!("{name}{PAGE_SUFFIX}"), &page)?;
        Ok(())
    }
}
