//! `proctor export`: the trials of a run in a form that other tools read.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use proctor_interchange::{Fidelity, Format, Trial, mini, prediction, swe_agent, trajectory};
use proctor_record::{Blobs, RunDir, read_journal};
use proctor_types::{RunRecord, plural, standing};

use crate::{
    args::ExportFormat,
    error::{CommandError, UserError},
    print::result,
    trials::{Found, planned},
};

/// Beside what was written: what it cannot hold.
const FIDELITY: &str = "fidelity.json";

pub fn export(run: &Path, format: ExportFormat, out: &Path) -> Result<ExitCode, CommandError> {
    let dir = RunDir::view(run).map_err(CommandError::of_run)?;
    let record = dir.read_run()?;
    new_or_empty(out)?;
    let format = match format {
        ExportFormat::Atif => Format::Atif,
        ExportFormat::Mini => Format::Mini,
        ExportFormat::SweAgent => Format::SweAgent,
        ExportFormat::Swebench => Format::SweBench,
    };
    let mut export = Export {
        run: &dir,
        record: &record,
        out,
        format,
        fidelity: Fidelity::new(format),
        files: BTreeSet::new(),
    };
    for found in planned(&record) {
        if let Err(why) = export.trial(found)? {
            export.fidelity.not_written.push(format!("{}: {why}", found.name()));
        }
    }
    let Export { fidelity, files, .. } = export;
    let text = serde_json::to_string_pretty(&fidelity)?;
    fs::create_dir_all(out)?;
    fs::write(out.join(FIDELITY), format!("{text}\n"))?;
    result(&format!(
        "{} as {format} in {} below {}\n",
        plural(fidelity.trials, "trial"),
        plural(files.len(), "file"),
        out.display()
    ))?;
    for left in &fidelity.left_out {
        eprintln!("left out: {} ({})", left.what, left.count);
    }
    for trial in &fidelity.not_written {
        eprintln!("not written: {trial}");
    }
    Ok(ExitCode::SUCCESS)
}

/// A folder that nothing is mixed with.
pub fn new_or_empty(out: &Path) -> Result<(), UserError> {
    if fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(UserError::new(format!("{} is not empty", out.display()))
            .hint("name a new or an empty folder"));
    }
    Ok(())
}

struct Export<'a> {
    run: &'a RunDir,
    record: &'a RunRecord,
    out: &'a Path,
    format: Format,
    fidelity: Fidelity,
    files: BTreeSet<PathBuf>,
}

impl Export<'_> {
    /// Writes a trial. The inner error says why it is in no file.
    fn trial(&mut self, found: Found<'_>) -> Result<Result<(), String>, CommandError> {
        let (id, dir) = (found.id(), self.run.trial_path(&found.id()));
        let checked = self.run.check(&id);
        if checked.is_lost() {
            return Ok(Err("its record is damaged; `proctor report` names the file".into()));
        }
        let Some(outcome) = checked.outcome.filter(|_| checked.finished) else {
            return Ok(Err("it has not ended, or ended by a fault".into()));
        };
        let patch = checked.patch.map(|patch| patch.hash).unwrap_or_default();
        let written = dir.read_patch()?.filter(|bytes| Blobs::hash(bytes) == patch);
        let patch = match written {
            Some(bytes) => bytes,
            None => match self.run.blobs_of(&dir).get(&patch) {
                Ok(bytes) => bytes,
                Err(error) => return Ok(Err(error.to_string())),
            },
        };
        let events = standing(read_journal(dir.trajectory())?.events);
        let trial = Trial {
            task: &found.task.task,
            arm: found.arm,
            attempt: found.attempt,
            events: &events,
            patch: &patch,
            outcome: Some(&outcome),
            verdict: checked.verdict.as_ref(),
            proctor: &self.record.proctor,
        };
        let document = match self.format {
            Format::Atif => trajectory(&trial, &mut self.fidelity),
            Format::Mini => mini(&trial, &mut self.fidelity),
            Format::SweAgent => swe_agent(&trial, &mut self.fidelity),
            Format::SweBench => {
                let line = match prediction(&trial) {
                    Ok(line) => line,
                    Err(why) => return Ok(Err(why)),
                };
                self.fidelity.written(&events).map_err(UserError::new)?;
                let file = self.file(&self.arm(found), found.attempt);
                self.write(&file, &line)?;
                return Ok(Ok(()));
            }
        };
        let text = serde_json::to_string_pretty(&document.map_err(UserError::new)?)?;
        let task = self.file(&safe(found.task.task.id.as_str()), found.attempt);
        self.write(&Path::new(&self.arm(found)).join(task), &text)?;
        Ok(Ok(()))
    }

    fn file(&self, name: &str, attempt: u32) -> PathBuf {
        format!("{name}.{attempt}.{}", self.format.ending()).into()
    }

    /// What an arm's files are called. Two arms whose names differ only in what no file name has are told apart by id.
    fn arm(&self, found: Found<'_>) -> String {
        let name = safe(&found.arm.name);
        let alike = self.record.arms.iter().filter(|arm| safe(&arm.name) == name).count();
        match alike {
            1 => name,
            _ => format!("{name}-{:.8}", found.arm.id.as_str()),
        }
    }

    /// Adds a document or a line to a file of the export.
    fn write(&mut self, file: &Path, text: &str) -> Result<(), CommandError> {
        use std::io::Write as _;
        let path = self.out.join(file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut open = fs::File::options().create(true).append(true).open(&path)?;
        writeln!(open, "{text}")?;
        self.files.insert(path);
        Ok(())
    }
}

/// A name as a file's.
fn safe(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._=+-".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    match name.trim_start_matches('.') {
        "" => "unnamed".to_owned(),
        name => name.to_owned(),
    }
}
