//! Grades a task whose test runner writes a report. This applies to every runner except pytest,
//! which runs with the recorder.
//!
//! Tests are restored as for pytest. The graded code could forge the report. Therefore, if the
//! report says that the task is resolved, the command runs again with canaries in a separate
//! sandbox.

mod canary_run;
mod missing_ids;
mod redirect;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use proctor_official::reader::Report;
use proctor_patch::PatchError;
use proctor_sandbox_api::{
    Command, CommandOutput, SandboxError, SandboxHandle,
    wire::{ChangeTime, EntryKind, RawPath},
};
use proctor_setup::{
    AppliedPatch, ApplyError, ContentToKeep, apply_graded_patch, remove_hidden_content,
};
use proctor_types::{
    Evidence, Fault, FaultCause, FaultLayer, Task, TestResults, TestStatus, Verdict,
    count_with_noun, matches_wildcard, quote_shell_word,
};

use self::{
    missing_ids::describe_missing_ids,
    redirect::{ReportCommand, redirect_report},
};
use super::{
    fresh_sandboxes::FreshSandboxes,
    unfinished::{build_exhausted_result, build_rejected_result},
};
use crate::{
    GradeOptions, GradingResult,
    evidence::{self, incomplete_patch_evidence, new_evidence},
    hidden::exposed_content_evidence,
    path_rules::{GuardReason, PathRules},
    policy::Policy,
    pristine::{PristineTree, patch_paths, workdir_path},
    restore::{remove_entry, restore_guarded_paths},
    screening::{ScreeningBase, screen_patch},
    session::append_output,
    verdict::build_verdict,
};

/// Time limit for finding the test command's program.
const PROGRAM_CHECK_LIMIT: Duration = Duration::from_secs(60);

pub(super) struct ReportGrading<'a> {
    pub handle: &'a SandboxHandle,
    pub task: &'a Task,
    pub results: &'a TestResults,
    pub options: &'a GradeOptions,
    /// Provides a sandbox for the run with canaries.
    pub fresh_sandboxes: Option<&'a dyn FreshSandboxes>,
    /// Whether Proctor has started to apply the model's patch.
    pub has_started_applying_patch: AtomicBool,
}

/// The output of a test run.
struct RunOutput {
    command_output: CommandOutput,
    files: Vec<Vec<u8>>,
    /// Whether `files` came through the results pipe instead of the sandbox or standard output.
    is_from_pipe: bool,
    /// The reports that could not be read, with the reason.
    unreadable_reports: Vec<String>,
    /// Evidence of tests that changed during the run.
    change_evidence: Vec<Evidence>,
}

/// The results of a test run.
struct RunResults {
    report: Report,
    /// The status of each expected test.
    tests: BTreeMap<String, TestStatus>,
    /// Whether the run and its report ended properly.
    is_complete: bool,
    evidence: Vec<Evidence>,
}

/// The tree that the patch is applied to.
struct BaseTree<'a> {
    pristine: &'a PristineTree,
    paths: &'a PathRules<'a>,
    /// The paths in the patch.
    touched_paths: &'a BTreeSet<String>,
    /// Paths that grading itself removes.
    removed_paths: BTreeSet<String>,
}

impl ReportGrading<'_> {
    /// Grades the patch. Returns a verdict even if the patch makes a grading step fail.
    pub(super) async fn grade(&self, patch: &[u8]) -> Result<GradingResult, Fault> {
        match self.try_grade(patch).await {
            Err(fault) if self.has_started_applying_patch.load(Ordering::Relaxed) => {
                build_exhausted_result(self.handle, self.task, self.options, fault).await
            }
            graded => graded,
        }
    }

    async fn try_grade(&self, patch: &[u8]) -> Result<GradingResult, Fault> {
        let (handle, task, options) = (self.handle, self.task, self.options);
        let policy = Policy::get()?;
        let is_empty = patch.trim_ascii().is_empty();
        let touched = match if is_empty { Ok(BTreeSet::new()) } else { patch_paths(patch) } {
            Ok(touched) => touched,
            Err(error) => return build_rejected_result(task, options, &error),
        };
        let masked = self.task_patch_paths("mask", task.mask.as_deref())?;
        let test_patch = self.task_patch_paths("test patch", task.test_patch.as_deref())?;
        self.check_program_exists().await?;
        let walked = PristineTree::walk(handle, &task.workdir, policy).await?;
        let paths = self.build_path_rules(policy, masked.clone(), &test_patch);
        let pristine = self.load_pristine_tree(walked, &paths, (&masked, &touched)).await?;
        let own = pristine.files.keys().filter(|path| paths.is_task_path(path));
        let absent = masked.iter().chain(&test_patch).chain(own).cloned().collect();
        let tree = BaseTree {
            pristine: &pristine,
            paths: &paths,
            touched_paths: &touched,
            removed_paths: absent,
        };

        self.strip_sandbox(handle, &tree).await?;
        let mut evidence = exposed_content_evidence(&options.hidden_copies);
        if options.defenses.screen_patch && !is_empty {
            let screened = |path: &str| paths.guard_reason(path).is_none();
            let base = ScreeningBase {
                entries: &pristine.entries,
                provided_modules: None,
                is_screened: &screened,
            };
            evidence.extend(screen_patch(handle, task, patch, &base).await?);
        }
        self.has_started_applying_patch.store(true, Ordering::Relaxed);
        match self.apply_and_restore(handle, &tree, patch).await? {
            Ok(found) => evidence.extend(found),
            Err(error) => return build_rejected_result(task, options, &error),
        }
        let run = self.run(handle, &tree).await?;
        let reading = self.parse_results(&run);
        evidence.extend(reading.evidence.iter().cloned());
        let first = self.verdict(&reading, &evidence)?;
        let mut log = self.build_log(&run, &reading);
        let verdict = if first.resolved && options.defenses.canaries {
            evidence
                .extend(Box::pin(self.canary_evidence(&tree, patch, &reading, &mut log)).await?);
            self.verdict(&reading, &evidence)?
        } else {
            evidence.push(self.unverified_report_evidence());
            self.verdict(&reading, &evidence)?
        };
        // If the report came on standard output, it is already in the log.
        let has_raw = run.is_from_pipe || self.results.path.is_some();
        let raw = if has_raw { run.files.concat() } else { Vec::new() };
        Ok(GradingResult { verdict, log, raw_results: raw })
    }

    /// Removes everything that the agent did not have.
    async fn strip_sandbox(
        &self,
        handle: &SandboxHandle,
        tree: &BaseTree<'_>,
    ) -> Result<(), Fault> {
        let task = self.task;
        remove_hidden_content(handle, task, &self.options.hidden_copies, ContentToKeep::default())
            .await?;
        for path in &tree.pristine.history_folders {
            remove_entry(handle, &task.workdir, path).await?;
        }
        Ok(())
    }

    /// Applies the patch and then restores the tests. Returns the evidence from both steps, or the
    /// reason why the patch cannot be applied.
    async fn apply_and_restore(
        &self,
        handle: &SandboxHandle,
        tree: &BaseTree<'_>,
        patch: &[u8],
    ) -> Result<Result<Vec<Evidence>, PatchError>, Fault> {
        let (task, defenses) = (self.task, self.options.defenses);
        let mut evidence = Vec::new();
        let mut changed = tree.touched_paths.clone();
        if !patch.trim_ascii().is_empty() {
            let (root, owner) = (RawPath::from(task.workdir.as_str()), task.user.as_deref());
            match apply_graded_patch(handle, &root, patch, owner).await {
                Ok(AppliedPatch { changed_paths: paths, deviations: left_out }) => {
                    changed.extend(paths.iter().map(RawPath::to_escaped));
                    evidence.extend(incomplete_patch_evidence(left_out));
                }
                Err(ApplyError::Patch(error)) => return Ok(Err(error)),
                Err(ApplyError::Sandbox(error)) => {
                    return Err(error.to_fault("applying the patch"));
                }
            }
        }
        let BaseTree { pristine, paths, removed_paths: absent, .. } = tree;
        let found = restore_guarded_paths(
            handle,
            &task.workdir,
            pristine,
            paths,
            &changed,
            absent,
            defenses,
        );
        evidence.extend(found.await?);
        if defenses.canaries {
            self.rewrite_tests(handle, tree).await?;
        }
        Ok(Ok(evidence))
    }

    /// Returns the test files that a run must not change, because grading restored them before it.
    fn watched_files(
        &self,
        pristine: &PristineTree,
        paths: &PathRules<'_>,
        policy: &Policy,
    ) -> BTreeSet<String> {
        let report = self.results.path.as_deref();
        let is_watched = |path: &&String| {
            let is_report = report.is_some_and(|report| matches_wildcard(report, path));
            let is_scratch =
                path.split('/').any(|part| policy.unwatched.iter().any(|one| one == part));
            let is_test = !matches!(paths.guard_reason(path), None | Some(GuardReason::Bytecode));
            is_test && !is_report && !is_scratch
        };
        let files = pristine.entries.iter().filter(|(_, kind)| **kind != EntryKind::Dir);
        let files = files.map(|(path, _)| path).chain(pristine.files.keys());
        files.filter(is_watched).cloned().collect()
    }

    /// Returns the change time (ctime) of each watched file. A build script can restore a file's
    /// content and its other times, but not its ctime.
    async fn change_times(
        &self,
        handle: &SandboxHandle,
        watched_paths: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, ChangeTime>, Fault> {
        let folder_of = |path: &String| match path.rsplit_once('/') {
            Some((folder, _)) => folder.to_owned(),
            None => String::new(),
        };
        let folders: BTreeSet<String> = watched_paths.iter().map(folder_of).collect();
        let mut times = BTreeMap::new();
        for folder in folders {
            let entries = match handle.list(&workdir_path(&self.task.workdir, &folder)).await {
                Ok(entries) => entries,
                // The folder no longer exists, so its files have no change time.
                Err(SandboxError::Refused(_)) => continue,
                Err(error) => return Err(error.to_fault("checking the tests")),
            };
            for entry in entries {
                let name = entry.name.to_escaped();
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                if watched_paths.contains(&path) {
                    times.insert(path, entry.changed);
                }
            }
        }
        Ok(times)
    }

    /// Checks that the test command's program exists. Call this before the patch is applied,
    /// because the patch could remove the program.
    async fn check_program_exists(&self) -> Result<(), Fault> {
        let Some(program) = self.task.test_command.first() else { return Ok(()) };
        let word = quote_shell_word(program);
        let line =
            format!("if command -v {word} > /dev/null; then echo found; else echo missing; fi");
        let look = self.prepare_command(Command::shell(&line)).time_limit(PROGRAM_CHECK_LIMIT);
        let found = self.handle.run(look).await;
        let found = found.map_err(|error| error.to_fault("checking the test command"))?;
        // Without a shell in the sandbox, the output is not `missing`, and the check is skipped.
        if found.stdout.text().trim() != "missing" {
            return Ok(());
        }
        let what =
            format!("the environment does not have {program:?}, which `test_command` starts");
        Err(Fault::new(FaultLayer::Grade, what)
            .cause(FaultCause::Missing)
            .hint("install it in the task's setup commands, or fix `test_command`"))
    }

    /// Prepares a command to run like the tests: in the work directory, with the task's variables
    /// and user.
    fn prepare_command(&self, command: Command) -> Command {
        let task = self.task;
        let mut command = command.cwd(task.workdir.as_str());
        for (name, value) in task.command_env() {
            command = command.env(&name, value.as_str());
        }
        command.user.clone_from(&task.user);
        command
    }

    /// Returns the paths in one of the task's own patches.
    fn task_patch_paths(
        &self,
        patch_name: &str,
        patch: Option<&str>,
    ) -> Result<BTreeSet<String>, Fault> {
        let Some(patch) = patch.filter(|patch| !patch.trim().is_empty()) else {
            return Ok(BTreeSet::new());
        };
        patch_paths(patch.as_bytes()).map_err(|error| {
            Fault::new(
                FaultLayer::Setup,
                format!("{}: invalid {patch_name}: {error}", self.task.id),
            )
        })
    }

    fn build_path_rules(
        &self,
        policy: &'static Policy,
        masked_paths: BTreeSet<String>,
        test_patch_paths: &BTreeSet<String>,
    ) -> PathRules<'static> {
        // If the task has no mask, the gold patch shows which files are source code.
        let gold = self.task.gold.as_deref().filter(|_| self.task.mask.is_none());
        let changed = gold.and_then(|gold| patch_paths(gold.as_bytes()).ok()).unwrap_or_default();
        let source = masked_paths.into_iter().chain(changed).collect();
        PathRules::for_report_task(policy, self.task, source, test_patch_paths)
    }

    /// Returns the pristine tree with the test patch applied to the retained files.
    async fn load_pristine_tree(
        &self,
        mut pristine: PristineTree,
        paths: &PathRules<'_>,
        (masked, touched): (&BTreeSet<String>, &BTreeSet<String>),
    ) -> Result<PristineTree, Fault> {
        let (handle, task) = (self.handle, self.task);
        let readable = self.canary_files(&pristine, paths)?;
        let keep = |path: &str| {
            let concerned = || {
                paths.is_task_path(path)
                    || touched.contains(path)
                    || masked.contains(path)
                    || readable.contains(path)
            };
            paths.guard_reason(path).is_some() && concerned()
        };
        pristine.store_files(handle, &task.workdir, &keep).await?;
        if let Some(patch) = task.test_patch.as_deref().filter(|text| !text.trim().is_empty()) {
            pristine.apply_test_patch(patch.as_bytes()).map_err(|fault| fault.context(&task.id))?;
        }
        Ok(pristine)
    }

    async fn run(&self, handle: &SandboxHandle, tree: &BaseTree<'_>) -> Result<RunOutput, Fault> {
        let policy = Policy::get()?;
        let watched = self.watched_files(tree.pristine, tree.paths, policy);
        let before = self.change_times(handle, &watched).await?;
        let mut run = self.run_test_command(handle, policy).await?;
        let after = self.change_times(handle, &watched).await?;
        let changed = before.iter().filter(|(path, time)| after.get(*path) != Some(*time));
        run.change_evidence.extend(changed.map(|(path, _)| {
            new_evidence(evidence::CHANGED_DURING_RUN, format!("{path}: written during the run"))
        }));
        Ok(run)
    }

    async fn run_test_command(
        &self,
        handle: &SandboxHandle,
        policy: &Policy,
    ) -> Result<RunOutput, Fault> {
        let task = self.task;
        for path in self.report_paths(handle).await? {
            handle
                .remove(&path)
                .await
                .map_err(|error| error.to_fault("removing the report of an earlier run"))?;
        }
        let programs = &policy.report.pipe_programs;
        let ReportCommand { command, is_from_pipe: by_pipe } =
            redirect_report(&task.test_command, self.results, programs);
        let words = command.iter().map(String::as_str);
        let mut command = self.prepare_command(Command::new(words)).time_limit(self.time_limit());
        let on_stdout = self.results.path.is_none() && !by_pipe;
        let limits = &policy.limits;
        command.head_cap = if on_stdout { limits.report_bytes } else { limits.log_bytes };
        command.has_results_pipe = by_pipe;
        command.reap_all = true;
        let done =
            handle.run(command).await.map_err(|error| error.to_fault("running the tests"))?;
        let (mut files, mut unread) = (Vec::new(), Vec::new());
        if on_stdout {
            if !done.stdout.is_complete() {
                let what = format!(
                    "the report on standard output is larger than {} bytes",
                    limits.report_bytes
                );
                unread.push(what);
            }
            files.push(done.stdout.head.clone());
        }
        if by_pipe {
            files.push(done.results.clone());
            return Ok(RunOutput {
                command_output: done,
                files,
                is_from_pipe: by_pipe,
                unreadable_reports: unread,
                change_evidence: Vec::new(),
            });
        }
        // All processes of the run have ended, so these files no longer change.
        let mut left = limits.report_bytes as u64;
        for path in self.report_paths(handle).await? {
            match self.read_report_file(handle, &path, left).await? {
                Ok(file) => {
                    left = left.saturating_sub(file.len() as u64);
                    files.push(file);
                }
                Err(why) => unread.push(format!("{path}: {why}")),
            }
        }
        Ok(RunOutput {
            command_output: done,
            files,
            is_from_pipe: by_pipe,
            unreadable_reports: unread,
            change_evidence: Vec::new(),
        })
    }

    /// The time limit of a run.
    fn time_limit(&self) -> Duration {
        let own = Duration::from_secs_f64(self.task.timeouts.grade_seconds.max(0.0));
        self.options.time_limit.map_or(own, |limit| limit.min(own))
    }

    /// Reads one file of the report, or returns why it cannot be used.
    async fn read_report_file(
        &self,
        handle: &SandboxHandle,
        path: &RawPath,
        limit: u64,
    ) -> Result<Result<Vec<u8>, String>, Fault> {
        let found = handle.stat(path).await;
        match found.map_err(|error| error.to_fault("checking the report"))? {
            Some(entry) if entry.kind == EntryKind::File => {}
            // A link could point to any file in the sandbox.
            _ => return Ok(Err("not a regular file".to_owned())),
        }
        match handle.read(path, limit).await {
            Ok(bytes) => Ok(Ok(bytes)),
            Err(SandboxError::Refused(refusal)) => Ok(Err(refusal.what)),
            Err(error) => Err(error.to_fault("reading the report")),
        }
    }

    /// Returns the existing files of the task's report, sorted by name.
    async fn report_paths(&self, handle: &SandboxHandle) -> Result<Vec<RawPath>, Fault> {
        let Some(path) = &self.results.path else { return Ok(Vec::new()) };
        let workdir = RawPath::from(self.task.workdir.as_str());
        let at = |path: &str| match path.strip_prefix('/') {
            Some(_) => RawPath::from(path),
            None => workdir.join(&RawPath::from_task_path(path)),
        };
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if !name.contains('*') {
            let full = at(path);
            return match handle.stat(&full).await {
                Ok(found) => Ok(found.map(|_| full).into_iter().collect()),
                // A parent of the path is not a directory.
                Err(SandboxError::Refused(_)) => Ok(Vec::new()),
                Err(error) => Err(error.to_fault("finding the report")),
            };
        }
        let folder = match folder {
            "" if path.starts_with('/') => RawPath::from("/"),
            "" => workdir.clone(),
            folder => at(folder),
        };
        let entries = match handle.list(&folder).await {
            Ok(entries) => entries,
            // The path does not exist or is not a directory.
            Err(SandboxError::Refused(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.to_fault("finding the report")),
        };
        let fits = |entry: &RawPath| matches_wildcard(name, &entry.to_escaped());
        let mut names: Vec<RawPath> = entries.into_iter().map(|entry| entry.name).collect();
        names.retain(fits);
        names.sort();
        Ok(names.iter().map(|name| folder.join(name)).collect())
    }

    fn parse_results(&self, run: &RunOutput) -> RunResults {
        let (task, format) = (self.task, self.results.format);
        let RunOutput {
            command_output: done,
            files,
            unreadable_reports: unread,
            change_evidence: changed,
            ..
        } = run;
        let report = Report::parse(format, files, &task.workdir);
        let wanted: Vec<String> =
            task.fail_to_pass.iter().chain(&task.pass_to_pass).cloned().collect();
        let tests = report.expected_statuses(&wanted);
        let mut evidence = changed.clone();
        if let Some(code) = done.exit.code.filter(|code| *code != 0)
            && report.is_complete
            && report.failure_count() == 0
        {
            // The exit status may have another cause, such as a coverage threshold or a linter in
            // the same script.
            let what = format!("exit status {code}, but the report has no failure");
            evidence.push(new_evidence(evidence::READ_FROM_REPORT, what));
        }
        let exited = &done.exit;
        let is_early = !exited.timed_out && exited.code.is_none();
        if exited.timed_out {
            let what = format!("after {} s", self.time_limit().as_secs_f64());
            evidence.push(new_evidence(evidence::TIMED_OUT, what));
        } else if is_early {
            let signal =
                exited.signal.map_or("no exit status".to_owned(), |it| format!("signal {it}"));
            evidence.push(new_evidence(evidence::ENDED_EARLY, signal));
        }
        for why in unread {
            evidence.push(new_evidence(evidence::ENDED_EARLY, why.as_str()));
        }
        if exited.left_behind > 0 {
            let what = format!(
                "{} still running, killed",
                count_with_noun(exited.left_behind as usize, "process")
            );
            evidence.push(new_evidence(evidence::LEFT_BEHIND, what));
        }
        let doubts =
            report.doubts.iter().map(|what| new_evidence(evidence::LOG_DOUBTED, what.as_str()));
        evidence.extend(doubts);
        let complete = report.is_complete && unread.is_empty() && !exited.timed_out && !is_early;
        RunResults { report, tests, is_complete: complete, evidence }
    }

    /// Returns the verdict on a run, based on the evidence so far.
    fn verdict(&self, results: &RunResults, evidence: &[Evidence]) -> Result<Verdict, Fault> {
        let (task, options) = (self.task, self.options);
        let counts = |evidence: &&Evidence| !options.expected_evidence.contains(evidence);
        let evidence = evidence.iter().filter(counts).cloned().collect();
        build_verdict(task, &results.tests, results.is_complete, evidence, &options.quarantine)
    }

    fn build_log(&self, run: &RunOutput, results: &RunResults) -> Vec<u8> {
        let mut log = Vec::new();
        append_output(&mut log, &run.command_output.stdout);
        append_output(&mut log, &run.command_output.stderr);
        if run.is_from_pipe {
            log.extend_from_slice(b"\n===== report =====\n");
            run.files.iter().for_each(|file| log.extend_from_slice(file));
        }
        let format = self.results.format;
        let last = match (run.files.iter().all(Vec::is_empty), results.report.tests.len()) {
            (true, _) => "\nthe run did not write a report\n".to_owned(),
            (false, 0) => format!("\nthe report has no tests in the format {format}\n"),
            (false, count) => format!("\nthe report has {}\n", count_with_noun(count, "test")),
        };
        log.extend_from_slice(last.as_bytes());
        let missing = describe_missing_ids(&results.report, &results.tests);
        log.extend_from_slice(missing.as_bytes());
        log
    }

    /// Returns evidence that no canary verified the report.
    fn unverified_report_evidence(&self) -> Evidence {
        let format = self.results.format;
        let what = format!("the process that runs the graded code writes the {format} results");
        new_evidence(evidence::READ_FROM_REPORT, what)
    }
}
