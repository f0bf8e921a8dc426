//! The pages of a viewer, by their addresses, and all of them as files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use proctor_html::{Cell, Links, Matrix};
use proctor_record::RunDir;
use proctor_report::{ArmReport, TrialResult, build, findings, percent};
use proctor_types::RunRecord;

use super::{Found, gold_of, patch_of, planned, step, trial};
use crate::{
    commands::{result_of_trial, results_of},
    error::CommandError,
};

/// The first page as a file, and what the others end in.
const HOME: &str = "index.html";
const ENDING: &str = ".html";
/// Hex digits of an arm's id in an address, as on disk.
const ARM: usize = 12;

/// The address of a trial, by the number of its run.
type Address = fn(&str, &Found<'_>) -> String;

/// The runs that are shown.
pub struct Pages {
    runs: Vec<Shown>,
}

struct Shown {
    path: PathBuf,
    name: String,
    record: RunRecord,
}

impl Pages {
    pub fn open(runs: &[PathBuf]) -> Result<Self, CommandError> {
        let open = |path: &PathBuf| -> Result<Shown, CommandError> {
            let record = RunDir::view(path).map_err(CommandError::of_run)?.read_run()?;
            let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
            let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Shown { path: path.clone(), name, record })
        };
        Ok(Self { runs: runs.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// The page of an address below the root, which ends in `/`. `None`: there is none.
    ///
    /// - nothing: the matrix of each run
    /// - `RUN/TASK/ARM/ATTEMPT`: a trial. `RUN` counts from 1, `ARM` is as on disk
    /// - `RUN/TASK/ARM/ATTEMPT/step/K`: one step
    pub fn page(&self, path: &str, root: &str) -> Result<Option<String>, CommandError> {
        let parts: Vec<String> = path
            .split('/')
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            [""] => self.matrix(&Links { root, ..Links::default() }, address).map(Some),
            [run, task, arm, attempt] => self.trial([run, task, arm, attempt], root),
            [run, task, arm, attempt, "step", number] => {
                let Ok(number) = number.parse() else { return Ok(None) };
                self.step([run, task, arm, attempt], number, root)
            }
            _ => Ok(None),
        }
    }

    fn find(&self, [run, task, arm, attempt]: [&str; 4]) -> Option<(&Shown, Found<'_>)> {
        let shown = self.runs.get(run.parse::<usize>().ok()?.checked_sub(1)?)?;
        let record = &shown.record;
        let task = record.tasks.iter().find(|one| one.task.id.as_str() == task)?;
        let arm = record.arms.iter().find(|one| one.id.as_str().get(..ARM) == Some(arm))?;
        let attempt = attempt.parse().ok().filter(|one| (1..=record.attempts).contains(one))?;
        Some((shown, Found { task, arm, attempt }))
    }

    fn trial(&self, place: [&str; 4], root: &str) -> Result<Option<String>, CommandError> {
        let Some((shown, found)) = self.find(place) else { return Ok(None) };
        let run = RunDir::view(&shown.path)?;
        let result = result_of_trial(&run, &found);
        let told = trial(&run, &shown.name, found, &result)?;
        let here = format!("{root}{}", address(place[0], &found));
        let links = Links { root, here: &here, ..Links::default() };
        let (patch, gold) = (patch_of(&run, found), gold_of(found.task));
        Ok(Some(proctor_html::trial(&told, &links, &patch, &gold)?))
    }

    fn step(
        &self,
        place: [&str; 4],
        number: u64,
        root: &str,
    ) -> Result<Option<String>, CommandError> {
        let Some((shown, found)) = self.find(place) else { return Ok(None) };
        let here = format!("{root}{}", address(place[0], &found));
        step_page(shown, found, number, &Links { root, here: &here, ..Links::default() })
    }

    /// Writes every page as a file. Links between them are relative, so the folder can be opened, moved and hosted.
    /// Returns how many there are.
    pub fn write(&self, out: &Path) -> Result<u64, CommandError> {
        let links = Links { root: "", home: HOME, here: "", ending: ENDING };
        fs::create_dir_all(out)?;
        fs::write(out.join(HOME), self.matrix(&links, file_address)?)?;
        let mut pages = 1;
        for (index, shown) in self.runs.iter().enumerate() {
            let run = RunDir::view(&shown.path)?;
            for found in planned(&shown.record) {
                let place = file_address(&(index + 1).to_string(), &found);
                let (above, step_above) = ("../../../", "../../../../../");
                let result = result_of_trial(&run, &found);
                let told = trial(&run, &shown.name, found, &result)?;
                let here = format!("{above}{place}");
                let links = Links { root: above, here: &here, ..links };
                let (patch, gold) = (patch_of(&run, found), gold_of(found.task));
                let page = proctor_html::trial(&told, &links, &patch, &gold)?;
                let file = out.join(format!("{place}{ENDING}"));
                let steps = out.join(&place).join("step");
                let folder = if told.steps.is_empty() { file.parent() } else { Some(&*steps) };
                fs::create_dir_all(folder.unwrap_or(out))?;
                fs::write(file, page)?;
                let here = format!("{step_above}{place}");
                let links = Links { root: step_above, here: &here, ..links };
                for number in 1..=told.steps.len() as u64 {
                    if let Some(page) = step_page(shown, found, number, &links)? {
                        fs::write(steps.join(format!("{number}{ENDING}")), page)?;
                        pages += 1;
                    }
                }
                pages += 1;
            }
        }
        Ok(pages)
    }

    fn matrix(&self, links: &Links<'_>, address: Address) -> Result<String, CommandError> {
        let mut runs = Vec::new();
        for (index, shown) in self.runs.iter().enumerate() {
            let results = results_of(&shown.path, false)?;
            let report = build(results.clone());
            let mut by_cell: BTreeMap<_, Vec<&TrialResult>> = BTreeMap::new();
            for one in &results {
                by_cell.entry((&one.task, &one.arm)).or_default().push(one);
            }
            let arms = shown.record.arms.iter().map(|arm| {
                let told = report.arms.iter().find(|one| one.arm == arm.id);
                (arm.name.clone(), told.map(reached).unwrap_or_default())
            });
            let rows = shown.record.tasks.iter().map(|task| {
                let cells = shown.record.arms.iter().map(|arm| {
                    let trials = by_cell.get(&(&task.task.id, &arm.id)).into_iter().flatten();
                    let number = (index + 1).to_string();
                    trials
                        .map(|one| {
                            cell(one, address(&number, &Found { task, arm, attempt: one.attempt }))
                        })
                        .collect()
                });
                (task.task.id.to_string(), cells.collect())
            });
            runs.push(Matrix {
                run: shown.name.clone(),
                arms: arms.collect(),
                rows: rows.collect(),
                findings: findings(&report),
            });
        }
        Ok(proctor_html::matrix(&runs, links)?)
    }
}

fn step_page(
    shown: &Shown,
    found: Found<'_>,
    number: u64,
    links: &Links<'_>,
) -> Result<Option<String>, CommandError> {
    let run = RunDir::view(&shown.path)?;
    let dir = run.trial_path(&found.id());
    let journal = dir.trajectory();
    if !journal.exists() {
        return Ok(None);
    }
    let read = step(&journal, &run.blobs_of(&dir), number)?;
    let page = read.map(|(told, more)| proctor_html::step(&told, &found.name(), more, links));
    Ok(page.transpose()?)
}

/// The same as the name of a file. No letter of it needs an escape in an address.
fn file_address(run: &str, found: &Found<'_>) -> String {
    // No name begins with a point: it would be hidden, or lead out.
    let plain = |at: usize, byte: u8| {
        byte.is_ascii_alphanumeric() || b"_-".contains(&byte) || (byte == b'.' && at > 0)
    };
    let task = found.task.task.id.as_str().bytes().enumerate();
    let task: String = task
        .map(|(at, byte)| match plain(at, byte) {
            true => char::from(byte).to_string(),
            false => format!("~{byte:02x}"),
        })
        .collect();
    let arm = found.arm.id.as_str();
    format!("{run}/{task}/{}/{}", arm.get(..ARM).unwrap_or(arm), found.attempt)
}

fn address(run: &str, found: &Found<'_>) -> String {
    let task = utf8_percent_encode(found.task.task.id.as_str(), NON_ALPHANUMERIC);
    let arm = found.arm.id.as_str();
    format!("{run}/{task}/{}/{}", arm.get(..ARM).unwrap_or(arm), found.attempt)
}

fn reached(arm: &ArmReport) -> String {
    format!("{}/{} resolved, {}", arm.resolved, arm.trials, percent(arm.resolved_rate))
}

fn cell(trial: &TrialResult, href: String) -> Cell {
    let (word, class) = match &trial.verdict {
        Some(verdict) if verdict.resolved => ("resolved", "yes"),
        Some(_) => ("not resolved", "no"),
        None => ("no verdict", "open"),
    };
    let ended = trial.outcome.as_ref();
    let ending = ended.map_or("not ended".to_owned(), |one| one.ending.name().replace('_', " "));
    let steps = ended.map_or(0, |one| one.spent.steps);
    let detail = format!("{ending}, {}", proctor_types::plural(steps, "step"));
    Cell { href, attempt: trial.attempt, word: word.to_owned(), class, detail }
}
