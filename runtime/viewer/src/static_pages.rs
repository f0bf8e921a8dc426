//! Writes all pages as files. The links between them are relative, so the directory can be opened
//! locally, moved, or hosted anywhere.

use std::{collections::BTreeSet, fs, io, path::Path};

use proctor_record::RunDir;

use super::{
    Pages,
    address::{AddressForm, HOME_PAGE, PAGE_SUFFIX, report_address},
    dashboard::dashboard,
    overview::overview,
    pages::{load_trial, step_page},
    planned_trials, read_patch, reference_patch,
    report_page::report_page,
    side_by_side::load_side_by_side,
};
use crate::{
    MaskText, ViewError,
    html::{self, ASSETS, Filter, Links},
};

impl Pages {
    /// Writes every page, with secrets masked. Returns the number of files written.
    ///
    /// # Errors
    /// Fails if a run cannot be read, or if a file cannot be written.
    pub fn write_pages(&self, out: &Path, mask: MaskText<'_>) -> Result<u64, ViewError> {
        let several = self.runs.len() > 1;
        let links = Links { home: HOME_PAGE, ending: PAGE_SUFFIX, several, ..Links::default() };
        fs::create_dir_all(out)?;
        for (name, _, texts) in &ASSETS {
            fs::write(out.join(name), html::join_pieces(texts))?;
        }
        let write = |file: &Path, page: &str| {
            let name = file.strip_prefix(out).unwrap_or(file);
            fs::write(file, mask(name, page.as_bytes()))
        };
        let mut files = ASSETS.len() as u64;
        if several {
            let page = html::render_dashboard(&dashboard(&self.runs, AddressForm::File), &links)?;
            write(&out.join(HOME_PAGE), &page)?;
            files += 1;
        }
        let mut tasks = BTreeSet::new();
        for shown in &self.runs {
            let run = RunDir::open_read_only(&shown.path)?;
            let run_page = self.run_page_address(shown.number, AddressForm::File);
            let links = Links { run_page: &run_page, ..links };
            let filter = Filter { page: 1, ..Filter::default() };
            let page = overview(&self.runs, shown, filter, AddressForm::File, true)?;
            write(&out.join(&run_page), &html::render_matrix(&page, &links)?)?;
            let report = out.join(format!("{}{PAGE_SUFFIX}", report_address(shown.number)));
            fs::create_dir_all(report.parent().unwrap_or(out))?;
            write(&report, &report_page(shown)?)?;
            files += 2;
            for found in planned_trials(&shown.record) {
                let task = found.task.task.id.as_str();
                let has_several = self.trial_count(task) > 1;
                if has_several && tasks.insert(task) {
                    files += self.write_side_by_side(out, task, links, &write)?;
                }
                let place = AddressForm::File.trial_address(shown.number, &found);
                let (above, step_above) = ("../../../", "../../../../../");
                let index = shown.current_index(&found)?;
                let (mut told, _) = load_trial(shown, found, index.as_deref())?;
                if has_several {
                    told.beside = AddressForm::File.side_by_side_address(task);
                }
                let here = format!("{above}{place}");
                let trial_links = Links { root: above, here: &here, ..links };
                let (patch, gold) = (read_patch(&run, found), reference_patch(found.task));
                let page = html::render_trial(&told, &trial_links, &patch, &gold, false)?;
                let file = out.join(format!("{place}{PAGE_SUFFIX}"));
                let steps = out.join(&place).join("step");
                let folder = if told.steps.is_empty() { file.parent() } else { Some(&*steps) };
                fs::create_dir_all(folder.unwrap_or(out))?;
                write(&file, &page)?;
                files += 1;
                let here = format!("{step_above}{place}");
                let step_links = Links { root: step_above, here: &here, ..links };
                for number in 1..=told.steps.len() as u64 {
                    if let Some(page) = step_page(shown, found, number, None, &step_links)? {
                        write(&steps.join(format!("{number}{PAGE_SUFFIX}")), &page)?;
                        files += 1;
                    }
                }
            }
        }
        Ok(files)
    }

    fn write_side_by_side(
        &self,
        out: &Path,
        task: &str,
        links: Links<'_>,
        write: &dyn Fn(&Path, &str) -> io::Result<()>,
    ) -> Result<u64, ViewError> {
        let Some((sides, choices)) = load_side_by_side(&self.runs, task, &[], AddressForm::File)?
        else {
            return Ok(0);
        };
        let file =
            out.join(format!("{}{PAGE_SUFFIX}", AddressForm::File.side_by_side_address(task)));
        fs::create_dir_all(file.parent().unwrap_or(out))?;
        let page = html::render_side_by_side_page(
            task,
            &sides,
            &choices,
            &Links { root: "../", ..links },
        )?;
        write(&file, &page)?;
        Ok(1)
    }
}
