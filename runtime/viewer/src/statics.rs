//! Writes all pages as files. Links between them are relative, so the directory can be opened,
//! moved and hosted anywhere.

use std::{collections::BTreeSet, fs, io, path::Path};

use proctor_record::RunDir;

use super::{
    Pages,
    beside::beside,
    gold_of,
    overview::overview,
    pages::{load_trial, step_page},
    patch_of,
    place::Form,
    planned,
};
use crate::{
    MaskText, ViewError,
    html::{self, FILES, Filter, Links},
};

/// The first page's file name, and the suffix of the other pages.
const HOME: &str = "index.html";
const ENDING: &str = ".html";

impl Pages {
    /// Writes every page with secrets masked. Returns the number of files.
    ///
    /// # Errors
    /// A run cannot be read, or a file cannot be written.
    pub fn write(&self, out: &Path, mask: MaskText<'_>) -> Result<u64, ViewError> {
        let links = Links { home: HOME, ending: ENDING, ..Links::default() };
        fs::create_dir_all(out)?;
        for (name, _, texts) in &FILES {
            fs::write(out.join(name), html::whole(texts))?;
        }
        let whole =
            overview(&self.runs, Filter { page: 1, ..Filter::default() }, Form::File, true)?;
        let write = |file: &Path, page: &str| {
            let name = file.strip_prefix(out).unwrap_or(file);
            fs::write(file, mask(name, page.as_bytes()))
        };
        write(&out.join(HOME), &html::matrix(&whole, &links)?)?;
        let mut files = 1 + FILES.len() as u64;
        let mut tasks = BTreeSet::new();
        for shown in &self.runs {
            let run = RunDir::view(&shown.path)?;
            for found in planned(&shown.record) {
                let task = found.task.task.id.as_str();
                let several = self.trials_of(task) > 1;
                if several && tasks.insert(task) {
                    files += self.write_beside(out, task, links, &write)?;
                }
                let place = Form::File.trial(shown.number, &found);
                let (above, step_above) = ("../../../", "../../../../../");
                let index = shown.index(&found)?;
                let (mut told, _) = load_trial(shown, found, index.as_deref())?;
                if several {
                    told.beside = Form::File.beside(task);
                }
                let here = format!("{above}{place}");
                let trial_links = Links { root: above, here: &here, ..links };
                let (patch, gold) = (patch_of(&run, found), gold_of(found.task));
                let page = html::trial(&told, &trial_links, &patch, &gold, false)?;
                let file = out.join(format!("{place}{ENDING}"));
                let steps = out.join(&place).join("step");
                let folder = if told.steps.is_empty() { file.parent() } else { Some(&*steps) };
                fs::create_dir_all(folder.unwrap_or(out))?;
                write(&file, &page)?;
                files += 1;
                let here = format!("{step_above}{place}");
                let step_links = Links { root: step_above, here: &here, ..links };
                for number in 1..=told.steps.len() as u64 {
                    if let Some(page) = step_page(shown, found, number, None, &step_links)? {
                        write(&steps.join(format!("{number}{ENDING}")), &page)?;
                        files += 1;
                    }
                }
            }
        }
        Ok(files)
    }

    fn write_beside(
        &self,
        out: &Path,
        task: &str,
        links: Links<'_>,
        write: &dyn Fn(&Path, &str) -> io::Result<()>,
    ) -> Result<u64, ViewError> {
        let Some((sides, choices)) = beside(&self.runs, task, &[], Form::File)? else {
            return Ok(0);
        };
        let file = out.join(format!("{}{ENDING}", Form::File.beside(task)));
        fs::create_dir_all(file.parent().unwrap_or(out))?;
        let page = html::beside(task, &sides, &choices, &Links { root: "../", ..links })?;
        write(&file, &page)?;
        Ok(1)
    }
}
