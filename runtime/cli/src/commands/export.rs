//! `proctor export`: writes the trials of a run in other tools' formats.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use proctor_interchange::{
    Fidelity, Format, InspectLog, TableFormat, Trial, atif_trajectory, inspect_sample,
    mini_trajectory, otel_spans, prediction, rollout, swe_agent_trajectory,
};
use proctor_record::{
    RunDir, read_journal,
    trial_lookup::{PlannedTrial, planned_trials},
};
use proctor_types::{RunRecord, count_with_noun, remove_discarded_events, sha256_hex};
use serde_json::Value;
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::{
    args::ExportFormat,
    commands::{
        export_tables::export_tables,
        output_folder::check_new_or_empty,
        submission::{SubmissionFolders, submission_folder, trial_files},
    },
    error::{CommandError, UserError},
    mask::SecretMask,
    print::print_escaped,
};

/// Name of the file, next to the export, that lists the data that the format cannot represent.
pub const FIDELITY_FILE: &str = "fidelity.json";

/// Maximum length, in bytes, of a name that is part of a file name. File systems limit the whole
/// file name to 255 bytes.
const MAX_NAME_LENGTH: usize = 180;

pub fn export(
    run: &Path,
    format: ExportFormat,
    out: &Path,
    secret_mask: &SecretMask,
) -> Result<ExitCode, CommandError> {
    let format = match format {
        ExportFormat::Atif => Format::Atif,
        ExportFormat::Inspect => Format::Inspect,
        ExportFormat::Mini => Format::Mini,
        ExportFormat::Otel => Format::Otel,
        ExportFormat::Rollouts => Format::Rollouts,
        ExportFormat::SweAgent => Format::SweAgent,
        ExportFormat::Swebench => Format::SweBench,
        ExportFormat::SwebenchSubmission => Format::Submission,
        ExportFormat::Csv => return export_tables(run, TableFormat::Csv, out, secret_mask),
        ExportFormat::Jsonl => return export_tables(run, TableFormat::JsonLines, out, secret_mask),
        ExportFormat::Parquet => return export_tables(run, TableFormat::Parquet, out, secret_mask),
    };
    let dir = RunDir::open_read_only(run).map_err(CommandError::from_record_error)?;
    let record = dir.read_run()?;
    check_new_or_empty(out)?;
    let mut export = Exporter {
        run: &dir,
        record: &record,
        out,
        secret_mask,
        format,
        fidelity: Fidelity::new(format),
        files: BTreeSet::new(),
        archives: BTreeMap::new(),
        submission_folders: SubmissionFolders::default(),
    };
    for found in planned_trials(&record) {
        let before = export.fidelity.trials;
        if let Err(why) = export.export_trial(found)? {
            export.fidelity.trials = before;
            export.fidelity.not_written.push(format!("{}: {why}", found.name()));
        }
    }
    export.close_archives()?;
    export.submission_folders.write_pages(&record, out, secret_mask, &mut export.files)?;
    let Exporter { fidelity, files, .. } = export;
    let text = serde_json::to_string(&fidelity)?;
    let mut document: Value =
        serde_json::from_str(&secret_mask.mask_text(Path::new(FIDELITY_FILE), &text))?;
    if secret_mask.is_on() {
        document["masked"] = secret_mask.masked_counts();
    }
    let text = serde_json::to_string_pretty(&document)?;
    fs::create_dir_all(out)?;
    fs::write(out.join(FIDELITY_FILE), format!("{text}\n"))?;
    print_escaped(&format!(
        "exported {} as {format}: {} in {}\n",
        count_with_noun(fidelity.trials, "trial"),
        count_with_noun(files.len(), "file"),
        out.display()
    ))?;
    secret_mask.print_summary();
    for left in &fidelity.left_out {
        tell!("left out: {} ({})", left.what, left.count);
    }
    for trial in &fidelity.not_written {
        tell!("not written: {trial}");
    }
    Ok(ExitCode::SUCCESS)
}

struct Exporter<'a> {
    run: &'a RunDir,
    record: &'a RunRecord,
    out: &'a Path,
    secret_mask: &'a SecretMask,
    format: Format,
    fidelity: Fidelity,
    files: BTreeSet<PathBuf>,
    /// Archives in the Inspect format, by arm name. All stay open, because the trials of different
    /// arms alternate.
    archives: BTreeMap<String, (ZipWriter<fs::File>, InspectLog<'a>)>,
    /// The directories of a SWE-bench submission.
    submission_folders: SubmissionFolders<'a>,
}

impl<'a> Exporter<'a> {
    /// Writes a trial. The inner error is the reason why the trial was not written.
    fn export_trial(
        &mut self,
        planned_trial: PlannedTrial<'a>,
    ) -> Result<Result<(), String>, CommandError> {
        let (id, dir) = (planned_trial.id(), self.run.trial_dir(&planned_trial.id()));
        let checked = self.run.check_trial(&id);
        if checked.is_unrecoverable() {
            return Ok(Err(
                "its record is corrupt; `proctor report` lists the corrupt files".into()
            ));
        }
        let Some(outcome) = checked.outcome.filter(|_| checked.is_finished) else {
            return Ok(Err("the trial has not ended, or has ended with a fault".into()));
        };
        let patch = checked.patch.map(|patch| patch.hash).unwrap_or_default();
        let patch = match self.run.load_patch(&dir, &patch) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let events = remove_discarded_events(read_journal(dir.trajectory_path())?.events);
        let trial = Trial {
            task: &planned_trial.task.task,
            arm: planned_trial.arm,
            attempt: planned_trial.attempt,
            events: &events,
            patch: &patch,
            outcome: Some(&outcome),
            verdict: checked.verdict.as_ref(),
            proctor_version: &self.record.proctor,
        };
        let document = match self.format {
            Format::Atif => atif_trajectory(&trial, &mut self.fidelity),
            Format::Mini | Format::Submission => mini_trajectory(&trial, &mut self.fidelity),
            Format::SweAgent => swe_agent_trajectory(&trial, &mut self.fidelity),
            Format::Otel => otel_spans(&trial, &mut self.fidelity),
            Format::Rollouts => rollout(&trial, &mut self.fidelity),
            Format::Inspect => inspect_sample(&trial, &mut self.fidelity),
            Format::SweBench => {
                let line = match prediction(&trial) {
                    Ok(line) => line,
                    Err(why) => return Ok(Err(why)),
                };
                self.fidelity.record_trial(&events).map_err(UserError::new)?;
                let file = self
                    .shared_file_path(&self.arm_file_name(planned_trial), planned_trial.attempt);
                self.append_line(&file, &line)?;
                return Ok(Ok(()));
            }
        };
        let document = document.map_err(UserError::new)?;
        match self.format {
            Format::Submission => {
                let line = match prediction(&trial) {
                    Ok(line) => line,
                    Err(why) => return Ok(Err(why)),
                };
                let folder = submission_folder(
                    self.record,
                    planned_trial,
                    &self.arm_file_name(planned_trial),
                );
                let log = dir.read_log();
                let task = task_file_name(planned_trial.task.task.id.as_str());
                let files = trial_files(&trial, &document, &log, &task, &mut self.fidelity)?;
                for (file, content) in files {
                    if let Err(why) = self.write_new_file(&folder.join(file), &content)? {
                        return Ok(Err(why));
                    }
                }
                self.append_line(&folder.join("all_preds.jsonl"), &line)?;
                self.submission_folders.count_trial(
                    folder,
                    planned_trial,
                    checked.verdict.as_ref(),
                );
                return Ok(Ok(()));
            }
            Format::Inspect => {
                self.add_to_archive(planned_trial, &document)?;
                return Ok(Ok(()));
            }
            Format::Otel | Format::Rollouts => {
                let file = self
                    .shared_file_path(&self.arm_file_name(planned_trial), planned_trial.attempt);
                self.append_line(&file, &document.to_string())?;
                return Ok(Ok(()));
            }
            _ => {}
        }
        let text = serde_json::to_string_pretty(&document)? + "\n";
        let task = self.shared_file_path(
            &task_file_name(planned_trial.task.task.id.as_str()),
            planned_trial.attempt,
        );
        self.write_new_file(
            &Path::new(&self.arm_file_name(planned_trial)).join(task),
            text.as_bytes(),
        )
    }

    fn shared_file_path(&self, name: &str, attempt: u32) -> PathBuf {
        format!("{name}.{attempt}.{}", self.format.extension()).into()
    }

    /// Returns the arm's name for use in file names. Arms whose names differ only in characters
    /// that are not allowed in file names are distinguished by id.
    fn arm_file_name(&self, planned_trial: PlannedTrial<'_>) -> String {
        let name = safe_file_name(&planned_trial.arm.name);
        let alike = self.record.arms.iter().filter(|arm| safe_file_name(&arm.name) == name).count();
        match alike {
            1 => name,
            _ => format!("{name}-{:.8}", planned_trial.arm.id.as_str()),
        }
    }

    /// Adds a sample to its arm's archive.
    fn add_to_archive(
        &mut self,
        planned_trial: PlannedTrial<'a>,
        sample: &Value,
    ) -> Result<(), CommandError> {
        let name = self.arm_file_name(planned_trial);
        if !self.archives.contains_key(&name) {
            let path = self.out.join(format!("{name}.{}", self.format.extension()));
            fs::create_dir_all(self.out)?;
            let archive = ZipWriter::new(fs::File::create(&path)?);
            let log = InspectLog::new(planned_trial.arm, &self.record.proctor, self.record.created);
            self.files.insert(path);
            self.archives.insert(name.clone(), (archive, log));
        }
        let shown = PathBuf::from(format!("{name}.{}", self.format.extension()));
        if let Some((archive, log)) = self.archives.get_mut(&name) {
            let file = log.add(sample);
            write_archive_file(archive, &file, sample, (&shown, self.secret_mask))?;
        }
        Ok(())
    }

    fn close_archives(&mut self) -> Result<(), CommandError> {
        for (name, (mut archive, log)) in std::mem::take(&mut self.archives) {
            let file_label = PathBuf::from(format!("{name}.{}", self.format.extension()));
            for (file, content) in log.other_files() {
                write_archive_file(&mut archive, file, &content, (&file_label, self.secret_mask))?;
            }
            archive.finish().map_err(std::io::Error::other)?;
        }
        Ok(())
    }

    /// Writes a file that belongs to one trial. The inner error means that another trial already
    /// wrote this file, as can happen on a case-insensitive file system.
    fn write_new_file(
        &mut self,
        file: &Path,
        content: &[u8],
    ) -> Result<Result<(), String>, CommandError> {
        let path = self.out.join(file);
        fs::create_dir_all(path.parent().unwrap_or(self.out))?;
        let mut open = match fs::File::create_new(&path) {
            Ok(open) => open,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Ok(Err(format!(
                    "{} was already written for another trial",
                    path.display()
                )));
            }
            Err(error) => return Err(error.into()),
        };
        open.write_all(&self.secret_mask.mask_bytes(file, content))?;
        self.files.insert(path);
        Ok(Ok(()))
    }

    /// Adds a line to a file that several trials share.
    fn append_line(&mut self, file: &Path, line: &str) -> Result<(), CommandError> {
        let path = self.out.join(file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut open = fs::File::options().create(true).append(true).open(&path)?;
        writeln!(open, "{}", self.secret_mask.mask_text(file, line))?;
        self.files.insert(path);
        Ok(())
    }
}

/// Adds a file to an archive. `shown` names the archive in the list of masked values.
fn write_archive_file(
    archive: &mut ZipWriter<fs::File>,
    file: &str,
    content: &Value,
    (shown, secret_mask): (&Path, &SecretMask),
) -> Result<(), CommandError> {
    archive.start_file(file, SimpleFileOptions::default()).map_err(std::io::Error::other)?;
    archive.write_all(&secret_mask.mask_bytes(shown, &serde_json::to_vec(content)?))?;
    Ok(())
}

/// Converts a task's id to a file name. If the id has to be changed, `~` and a hash are appended,
/// because other ids may map to the same characters. Unchanged names never contain `~`, so they do
/// not collide with changed ones.
fn task_file_name(id: &str) -> String {
    match safe_file_name(id) {
        name if name == id || name.contains('~') => name,
        name => format!("{name}~{:.16}", sha256_hex(id.as_bytes())),
    }
}

/// Converts a name to a file name. A long name is truncated and ends in a hash, so that two long
/// names do not collide.
fn safe_file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._=+-".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    match plain.trim_start_matches('.') {
        "" => "unnamed".to_owned(),
        long if long.len() > MAX_NAME_LENGTH => {
            format!("{}~{:.16}", &long[..MAX_NAME_LENGTH - 17], sha256_hex(name.as_bytes()))
        }
        plain => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_file_name_keeps_safe_ids_and_makes_others_unique() {
        let longest = "t".repeat(MAX_NAME_LENGTH);
        for stays in ["demo__roman-1", "a-b", "a..b", "A=1+2", longest.as_str()] {
            assert_eq!(task_file_name(stays), stays);
        }
        let long = |end: &str| "t".repeat(MAX_NAME_LENGTH) + end;
        let (lower, upper) = (long("a"), long("A"));
        let changed = [
            "a/b", "A/b", "a b", "größe", "GRÖSSE", ".a", "..a", "", "...", "unnamed~", &lower,
            &upper,
        ];
        let names = changed.map(|id| task_file_name(id).to_lowercase());
        for (name, id) in names.iter().zip(changed) {
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{id}: {name}");
            assert!(name.contains('~') && name.len() <= MAX_NAME_LENGTH + 17, "{id}: {name}");
            assert_eq!(*name, task_file_name(id).to_lowercase());
        }
    }
}
