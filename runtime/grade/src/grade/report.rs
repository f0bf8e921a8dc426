//! Grades a task whose runner writes a report: any runner except pytest under the recorder.
//!
//! Tests are restored as for pytest. The graded code could write the report itself, so no such
//! verdict is `clean`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use proctor_official::reader::Report;
use proctor_sandbox_api::{
    Command, Completed, SandboxError, SandboxHandle,
    wire::{ChangeTime, EntryKind, RawPath},
};
use proctor_setup::{Applied, ApplyError, Stays, apply_parts, take_away};
use proctor_types::{
    Cause, Evidence, Fault, Layer, Task, TestFormat, TestResults, matches_wildcard, plural,
    shell_word,
};

use super::{GradeOptions, Graded, incomplete, rejected};
use crate::{
    evidence::{self, note},
    hidden::exceptions,
    paths::{Guard, Paths},
    policy::Policy,
    pristine::{Pristine, at, paths_of},
    restore::{remove, restore},
    screening::{Base, screen_patch},
    session::append,
    verdict::draw_up,
};

/// Time limit for finding the test command's program.
const LOOK_LIMIT: Duration = Duration::from_secs(60);

pub(super) struct ReportGrading<'a> {
    pub handle: &'a SandboxHandle,
    pub task: &'a Task,
    pub results: &'a TestResults,
    pub options: &'a GradeOptions,
    /// The model's patch is in the sandbox, or is being applied.
    pub laid: AtomicBool,
}

/// The output of a test run.
struct Run {
    done: Completed,
    files: Vec<Vec<u8>>,
    /// Why reports could not be read.
    unread: Vec<String>,
}

impl ReportGrading<'_> {
    /// Returns a verdict even if the patch makes a grading step fail.
    pub(super) async fn graded(&self, patch: &[u8]) -> Result<Graded, Fault> {
        match self.grade(patch).await {
            Err(fault) if self.laid.load(Ordering::Relaxed) => {
                super::unfinished(self.handle, self.task, self.options, fault).await
            }
            graded => graded,
        }
    }

    async fn grade(&self, patch: &[u8]) -> Result<Graded, Fault> {
        let (handle, task, options) = (self.handle, self.task, self.options);
        let policy = Policy::get()?;
        let is_empty = patch.trim_ascii().is_empty();
        let touched = match if is_empty { Ok(BTreeSet::new()) } else { paths_of(patch) } {
            Ok(touched) => touched,
            Err(error) => return rejected(task, options, &error),
        };
        let masked = self.paths_in("mask", task.mask.as_deref())?;
        let test_patch = self.paths_in("test patch", task.test_patch.as_deref())?;
        self.find_program().await?;
        let tree = Pristine::walk(handle, &task.workdir, policy).await?;
        let paths = self.paths(policy, masked.clone(), &test_patch);
        let pristine = self.pristine(tree, &paths, (&masked, &touched)).await?;

        take_away(handle, task, &options.hidden, Stays::default()).await?;
        for path in &pristine.histories {
            remove(handle, &task.workdir, path).await?;
        }
        let mut evidence = exceptions(&options.hidden);
        if options.defences.screen_patch && !is_empty {
            let screened = |path: &str| paths.guard(path).is_none();
            let base = Base { names: &pristine.names, provided: None, screened: &screened };
            evidence.extend(screen_patch(handle, task, patch, &base).await?);
        }
        self.laid.store(true, Ordering::Relaxed);
        let mut changed = touched;
        if !is_empty {
            let (root, owner) = (RawPath::from(task.workdir.as_str()), task.user.as_deref());
            match apply_parts(handle, &root, patch, owner).await {
                Ok(Applied { paths, left_out }) => {
                    changed.extend(paths.iter().map(RawPath::escaped));
                    evidence.extend(incomplete(left_out));
                }
                Err(ApplyError::Patch(error)) => return rejected(task, options, &error),
                Err(ApplyError::SandboxHandle(error)) => {
                    return Err(error.fault("applying the patch"));
                }
            }
        }
        let own = pristine.files.keys().filter(|path| paths.is_own(path));
        let absent: BTreeSet<String> =
            masked.iter().chain(&test_patch).chain(own).cloned().collect();
        let defences = options.defences;
        let found = restore(handle, &task.workdir, &pristine, &paths, &changed, &absent, defences);
        evidence.extend(found.await?);
        let watched = self.watched(&pristine, &paths, policy);
        let before = self.change_times(&watched).await?;
        let run = self.run(policy).await?;
        let after = self.change_times(&watched).await?;
        let changed = before.iter().filter(|(path, time)| after.get(*path) != Some(*time));
        evidence.extend(changed.map(|(path, _)| {
            note(evidence::CHANGED_DURING_RUN, format!("{path}: written during the run"))
        }));
        self.verdict(run, evidence)
    }

    /// Files of tests that no run may change: what it tests with would not be what was restored.
    fn watched(&self, pristine: &Pristine, paths: &Paths<'_>, policy: &Policy) -> BTreeSet<String> {
        let report = self.results.path.as_deref();
        let is_watched = |path: &&String| {
            let is_report = report.is_some_and(|report| matches_wildcard(report, path));
            let is_scratch =
                path.split('/').any(|part| policy.unwatched.iter().any(|one| one == part));
            let is_test = !matches!(paths.guard(path), None | Some(Guard::Bytecode));
            is_test && !is_report && !is_scratch
        };
        let files = pristine.names.iter().filter(|(_, kind)| **kind != EntryKind::Dir);
        let files = files.map(|(path, _)| path).chain(pristine.files.keys());
        files.filter(is_watched).cloned().collect()
    }

    /// When each of these files last changed. A build script can put back a file's content and its other times, but not
    /// this one.
    async fn change_times(
        &self,
        watched: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, ChangeTime>, Fault> {
        let folder_of = |path: &String| match path.rsplit_once('/') {
            Some((folder, _)) => folder.to_owned(),
            None => String::new(),
        };
        let folders: BTreeSet<String> = watched.iter().map(folder_of).collect();
        let mut times = BTreeMap::new();
        for folder in folders {
            let entries = match self.handle.list(&at(&self.task.workdir, &folder)).await {
                Ok(entries) => entries,
                // The folder is not there any more.
                Err(SandboxError::Refused(_)) => continue,
                Err(error) => return Err(error.fault("checking the tests")),
            };
            for entry in entries {
                let name = entry.name.escaped();
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                if watched.contains(&path) {
                    times.insert(path, entry.changed);
                }
            }
        }
        Ok(times)
    }

    /// Looks for the program of the test command before the patch is laid: later its absence could be the
    /// patch's doing.
    async fn find_program(&self) -> Result<(), Fault> {
        let Some(program) = self.task.test_command.first() else { return Ok(()) };
        let word = shell_word(program);
        let line =
            format!("if command -v {word} > /dev/null; then echo found; else echo missing; fi");
        let look = self.prepared(Command::shell(&line)).time_limit(LOOK_LIMIT);
        let found = self.handle.run(look).await;
        let found = found.map_err(|error| error.fault("checking the test command"))?;
        // Without a shell in the sandbox the answer is unknown.
        if found.stdout.text().trim() != "missing" {
            return Ok(());
        }
        let what =
            format!("the environment does not have {program:?}, the program of `test_command`");
        Err(Fault::new(Layer::Grade, what)
            .cause(Cause::Missing)
            .hint("install it in the task's set-up lines, or fix `test_command`"))
    }

    /// Prepares a command like the tests': in the work directory, with the task's variables and
    /// user.
    fn prepared(&self, command: Command) -> Command {
        let task = self.task;
        let mut command = command.cwd(task.workdir.as_str());
        for (name, value) in task.command_env() {
            command = command.env(&name, value.as_str());
        }
        command.user.clone_from(&task.user);
        command
    }

    /// The paths in one of the task's own patches.
    fn paths_in(&self, what: &str, patch: Option<&str>) -> Result<BTreeSet<String>, Fault> {
        let Some(patch) = patch.filter(|patch| !patch.trim().is_empty()) else {
            return Ok(BTreeSet::new());
        };
        paths_of(patch.as_bytes()).map_err(|error| {
            Fault::new(Layer::Setup, format!("{}: the {what}: {error}", self.task.id))
        })
    }

    fn paths(
        &self,
        policy: &'static Policy,
        masked: BTreeSet<String>,
        test_patch: &BTreeSet<String>,
    ) -> Paths<'static> {
        // For a task without a mask, its gold patch shows which files are source code.
        let gold = self.task.gold.as_deref().filter(|_| self.task.mask.is_none());
        let changed = gold.and_then(|gold| paths_of(gold.as_bytes()).ok()).unwrap_or_default();
        let source = masked.into_iter().chain(changed).collect();
        Paths::by_name(policy, self.task, source, test_patch)
    }

    /// The pristine tree, with the test patch applied to the retained files.
    async fn pristine(
        &self,
        mut pristine: Pristine,
        paths: &Paths<'_>,
        (masked, touched): (&BTreeSet<String>, &BTreeSet<String>),
    ) -> Result<Pristine, Fault> {
        let (handle, task) = (self.handle, self.task);
        let keep = |path: &str| {
            let concerned =
                || paths.is_own(path) || touched.contains(path) || masked.contains(path);
            paths.guard(path).is_some() && concerned()
        };
        pristine.keep(handle, &task.workdir, &keep).await?;
        if let Some(patch) = task.test_patch.as_deref().filter(|text| !text.trim().is_empty()) {
            pristine.overlay(patch.as_bytes()).map_err(|fault| fault.context(&task.id))?;
        }
        Ok(pristine)
    }

    async fn run(&self, policy: &Policy) -> Result<Run, Fault> {
        let (handle, task) = (self.handle, self.task);
        for path in self.report_paths().await? {
            handle
                .remove(&path)
                .await
                .map_err(|error| error.fault("removing the report of an earlier run"))?;
        }
        let own = Duration::from_secs_f64(task.timeouts.grade_seconds.max(0.0));
        let limit = self.options.time_limit.map_or(own, |limit| limit.min(own));
        let words = task.test_command.iter().map(String::as_str);
        let mut command = self.prepared(Command::new(words)).time_limit(limit);
        let on_stdout = self.results.path.is_none();
        let limits = &policy.limits;
        command.output_cap = if on_stdout { limits.report_bytes } else { limits.log_bytes };
        command.reap_all = true;
        let done = handle.run(command).await.map_err(|error| error.fault("running the tests"))?;
        let (mut files, mut unread) = (Vec::new(), Vec::new());
        if on_stdout {
            if !done.stdout.is_whole() {
                let what = format!(
                    "the report on standard output is larger than {} bytes",
                    limits.report_bytes
                );
                unread.push(what);
            }
            files.push(done.stdout.head.clone());
        }
        // Every process of the run is dead, so nothing writes to these files any more.
        let mut left = limits.report_bytes as u64;
        for path in self.report_paths().await? {
            match self.report(&path, left).await? {
                Ok(file) => {
                    left = left.saturating_sub(file.len() as u64);
                    files.push(file);
                }
                Err(why) => unread.push(format!("{path}: {why}")),
            }
        }
        Ok(Run { done, files, unread })
    }

    /// One file of the report, or why it cannot be used.
    async fn report(&self, path: &RawPath, limit: u64) -> Result<Result<Vec<u8>, String>, Fault> {
        let found = self.handle.stat(path).await;
        match found.map_err(|error| error.fault("checking the report"))? {
            Some(entry) if entry.kind == EntryKind::File => {}
            // A link could point to any file of the sandbox.
            _ => return Ok(Err("not a regular file".to_owned())),
        }
        match self.handle.read(path, limit).await {
            Ok(bytes) => Ok(Ok(bytes)),
            Err(SandboxError::Refused(refusal)) => Ok(Err(refusal.what)),
            Err(error) => Err(error.fault("reading the report")),
        }
    }

    /// The existing files of the task's report, sorted by name.
    async fn report_paths(&self) -> Result<Vec<RawPath>, Fault> {
        let Some(path) = &self.results.path else { return Ok(Vec::new()) };
        let workdir = RawPath::from(self.task.workdir.as_str());
        let at = |path: &str| match path.strip_prefix('/') {
            Some(_) => RawPath::from(path),
            None => workdir.join(&RawPath::of_task(path)),
        };
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if !name.contains('*') {
            let full = at(path);
            return match self.handle.stat(&full).await {
                Ok(found) => Ok(found.map(|_| full).into_iter().collect()),
                // A parent is not a directory.
                Err(SandboxError::Refused(_)) => Ok(Vec::new()),
                Err(error) => Err(error.fault("finding the report")),
            };
        }
        let folder = match folder {
            "" if path.starts_with('/') => RawPath::from("/"),
            "" => workdir.clone(),
            folder => at(folder),
        };
        let entries = match self.handle.list(&folder).await {
            Ok(entries) => entries,
            // The directory does not exist or is something else.
            Err(SandboxError::Refused(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.fault("finding the report")),
        };
        let fits = |entry: &RawPath| matches_wildcard(name, &entry.escaped());
        let mut names: Vec<RawPath> = entries.into_iter().map(|entry| entry.name).collect();
        names.retain(fits);
        names.sort();
        Ok(names.iter().map(|name| folder.join(name)).collect())
    }

    fn verdict(&self, run: Run, mut evidence: Vec<Evidence>) -> Result<Graded, Fault> {
        let (task, options) = (self.task, self.options);
        let Run { done, files, unread } = run;
        let format = self.results.format;
        let report = Report::read(format, &files, &task.workdir);
        let wanted: Vec<String> =
            task.fail_to_pass.iter().chain(&task.pass_to_pass).cloned().collect();
        let tests = report.statuses(&wanted);
        evidence.push(note(evidence::READ_FROM_REPORT, unverified_reason(format)));
        if let Some(code) = done.exited.code.filter(|code| *code != 0)
            && report.ended
            && report.failures() == 0
        {
            // A runner may fail for another reason, such as coverage or a linter in the same
            // script.
            let what = format!("exit status {code}, but the report has no failure");
            evidence.push(note(evidence::READ_FROM_REPORT, what));
        }
        let exited = &done.exited;
        let is_early = !exited.timed_out && exited.code.is_none();
        if exited.timed_out {
            let own = Duration::from_secs_f64(task.timeouts.grade_seconds.max(0.0));
            let limit = options.time_limit.map_or(own, |limit| limit.min(own));
            let what = format!("after {} s", limit.as_secs_f64());
            evidence.push(note(evidence::TIMED_OUT, what));
        } else if is_early {
            let signal =
                exited.signal.map_or("no exit status".to_owned(), |it| format!("signal {it}"));
            evidence.push(note(evidence::ENDED_EARLY, signal));
        }
        for why in &unread {
            evidence.push(note(evidence::ENDED_EARLY, why.as_str()));
        }
        if exited.left_behind > 0 {
            let what = format!("{}, killed", plural(exited.left_behind as usize, "process"));
            evidence.push(note(evidence::LEFT_BEHIND, what));
        }
        let doubts = report.doubts.iter().map(|what| note(evidence::LOG_DOUBTED, what.as_str()));
        evidence.extend(doubts);
        evidence.retain(|evidence| !options.expected.contains(evidence));
        let mut log = Vec::new();
        append(&mut log, &done.stdout);
        append(&mut log, &done.stderr);
        let last = match (files.iter().all(Vec::is_empty), report.tests.len()) {
            (true, _) => "\nthe run did not write a report\n".to_owned(),
            (false, 0) => format!("\nthe report has no tests in the format {format}\n"),
            (false, count) => format!("\nthe report has {}\n", plural(count, "test")),
        };
        log.extend_from_slice(last.as_bytes());
        let complete = report.ended && unread.is_empty() && !exited.timed_out && !is_early;
        let verdict = draw_up(task, &tests, complete, evidence, &options.quarantine)?;
        // Standard output is in the log.
        let raw = if self.results.path.is_some() { files.concat() } else { Vec::new() };
        Ok(Graded { verdict, log, raw })
    }
}

/// Why a verdict from a report of this format is not `clean`.
pub fn unverified_reason(format: TestFormat) -> String {
    format!("the process that runs the graded code writes the {format} results")
}
