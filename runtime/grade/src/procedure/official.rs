//! Grades a patch in a fresh sandbox as the benchmark's own harness does.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use proctor_official::{
    FileRun, OfficialPolicy, OfficialVerdict, PolicyError, Subject, add_official_verdict,
};
use proctor_patch::CurrentFile;
use proctor_sandbox_api::{Command, CommandOutput, SandboxHandle, wire::RawPath};
use proctor_screening::is_test_path;
use proctor_setup::{
    ApplyError, ContentToKeep, HiddenCopies, apply_graded_patch, apply_patch, remove_hidden_content,
};
use proctor_types::{
    Commands, Evidence, Fault, FaultCause, FaultLayer, Integrity, Task, quote_shell_word,
};
use serde_json::Value;

use crate::{
    ExpectedEvidence, GradeOptions, GradingResult, SANDBOX_KILLED, TIMED_OUT,
    evidence::{KEPT_FOR_TOOL, OFFICIAL_ONLY, SANDBOX_EXHAUSTED, new_evidence},
    exhaustion,
    expected_evidence::strict_failure,
    hidden::exposed_content_evidence,
    launch::starts_pytest,
    paths::file_from_test_id,
    policy::Policy,
    pristine::{patch_paths, read_entry},
    procedure::script,
    restore::replace_entry,
    screening::{ScreeningBase, entries_at_roots, screen_patch},
    session::append_output,
};

/// The result of the official procedure.
#[derive(Debug, Clone)]
pub struct OfficialRun {
    pub verdict: OfficialVerdict,
    /// The output of all runs, in order.
    pub log: Vec<u8>,
    /// Why the results are incomplete, if they are.
    pub incomplete_reason: Option<IncompleteReason>,
    /// Evidence from screening, and evidence of hidden copies that were kept for the procedure.
    pub evidence: Vec<Evidence>,
}

/// The reason why the procedure got no complete test results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncompleteReason {
    /// None of the harness's commands applied the patch.
    Rejected,
    /// A run reached its time limit. Grading the patch again may succeed.
    TimedOut,
    /// The sandbox's content prevented a step.
    Exhausted,
    /// The kernel killed the sandbox at its memory limit.
    Killed,
}

impl GradingResult {
    /// Combines the strict and the official grading and their logs. Adds evidence if only the
    /// official policy resolves the task, unless gold's grading differs in the same way.
    #[must_use]
    pub fn merge_official(
        mut self,
        run: OfficialRun,
        expected_evidence: &ExpectedEvidence,
    ) -> Self {
        let heading =
            format!("\n===== official: {} {} =====\n", run.verdict.benchmark, run.verdict.version);
        self.log.extend_from_slice(heading.as_bytes());
        self.log.extend_from_slice(&run.log);
        let kind = match run.incomplete_reason {
            None | Some(IncompleteReason::Rejected) => None,
            Some(IncompleteReason::TimedOut) => Some(TIMED_OUT),
            Some(IncompleteReason::Exhausted) => Some(SANDBOX_EXHAUSTED),
            Some(IncompleteReason::Killed) => Some(SANDBOX_KILLED),
        };
        if let Some(kind) = kind {
            self.verdict.evidence.push(new_evidence(kind, run.verdict.reason.clone()));
        }
        let mut evidence = run.evidence;
        // The copies that were kept for the procedure only matter if the strict policy does not
        // resolve the task.
        if run.verdict.is_resolved
            && !self.verdict.resolved
            && let Ok(policy) = Policy::get()
        {
            let differs =
                strict_failure(&self.verdict).map(|what| new_evidence(OFFICIAL_ONLY, what));
            evidence.extend(differs.filter(|evidence| !expected_evidence.contains(evidence)));
            let told = evidence.iter().map(|evidence| policy.effect(evidence).integrity).max();
            self.verdict.integrity = told.into_iter().fold(self.verdict.integrity, Integrity::max);
        }
        self.verdict.evidence.extend(evidence);
        self.verdict = add_official_verdict(self.verdict, run.verdict);
        self
    }
}

const PATCH_PATH: &str = "/tmp/patch.diff";
const TEST_PATCH_PATH: &str = "/tmp/test_patch.diff";
const SCRIPT_PATH: &str = "/tmp/eval.sh";
/// Maximum number of output bytes to keep from the start and from the end of one run. The end is
/// needed because the end marker for the harness's parser is there.
const MAX_OUTPUT_BYTES: usize = 64 << 20;
const APPLY_LIMIT: Duration = Duration::from_secs(120);
const COMMAND_NOT_FOUND_STATUS: i32 = 127;
/// The exit status of the `timeout` program.
const TIMED_OUT_STATUS: i32 = 124;

/// Grades `patch` with the official policy of the task's benchmark, in a fresh sandbox with the
/// task's environment and its unmasked source. The sandbox cannot be reused.
///
/// Returns `None` for a task without a benchmark or without the benchmark's test command. Only the
/// strict policy grades such a task.
///
/// # Errors
///
/// A setup fault if the mask does not apply, a grading fault if the policy is unknown, or a sandbox
/// fault.
pub async fn run_official(
    handle: &SandboxHandle,
    task: &Task,
    patch: &[u8],
    options: &GradeOptions,
) -> Result<Option<OfficialRun>, Fault> {
    let Some(policy) = OfficialPolicy::for_task(task).map_err(policy_fault)? else {
        return Ok(None);
    };
    let test_command = official_test_command(task);
    let Some(test_command) = test_command else { return Ok(None) };
    let seconds = policy.run.seconds.unwrap_or(task.timeouts.grade_seconds);
    let own = Duration::from_secs_f64(seconds.max(0.0));
    let time_limit = options.time_limit.map_or(own, |limit| limit.min(own));
    let hidden = &options.hidden_copies;
    let laid = AtomicBool::new(false);
    let live = OfficialGrading {
        handle,
        task,
        hidden_copies: hidden,
        policy,
        test_command,
        time_limit,
        has_started_applying_patch: laid,
    };
    let mut run = match live.grade(patch).await {
        Err(fault) if live.has_started_applying_patch.load(Ordering::Relaxed) => {
            live.exhausted_run(fault).await?
        }
        run => run?,
    };
    run.evidence.extend(exposed_content_evidence(hidden));
    // The Git repository of a masked source contains the code that the mask removes.
    if task.mask.is_some() && live.needs_history() {
        run.evidence
            .push(new_evidence(KEPT_FOR_TOOL, "the repository: the procedure's commands use Git"));
    }
    Ok(Some(run))
}

/// Returns all commands of the procedure as one string, or `None` if there is no procedure. The
/// string determines which hidden copies stay in the sandbox.
///
/// # Errors
///
/// A grading fault if the task's policy is unknown.
pub fn procedure_commands(task: &Task) -> Result<Option<String>, Fault> {
    let policy = OfficialPolicy::for_task(task).map_err(policy_fault)?;
    Ok(policy.filter(|_| has_official_run(task)).map(|policy| join_commands(task, policy)))
}

fn join_commands(task: &Task, policy: &OfficialPolicy) -> String {
    let rules = &policy.run;
    let mut lines = vec![rules.prelude.clone()];
    lines.extend(official_test_command(task));
    lines.extend(find_row_script(task, policy).map(|(script, _)| script));
    lines.extend(rules.apply.iter().chain(&rules.between).chain(&rules.check_applied).cloned());
    lines.extend(task.from_scratch.as_ref().map(|start| start.install.clone()));
    lines.join("\n")
}

fn needs_history(commands: &str) -> bool {
    let calls = commands.split("git ").skip(1);
    calls.map(str::trim_start).any(|call| {
        let is_plain = call.starts_with("apply")
            && !call.lines().next().is_some_and(|line| line.contains("--3way"));
        !is_plain
    })
}

/// Whether [`run_official`] runs anything for this task. If not, the caller need not open a
/// sandbox.
pub fn has_official_run(task: &Task) -> bool {
    official_test_command(task).is_some()
}

/// Whether only the benchmark's own procedure can grade the task. This is the case if pytest does
/// not run its tests (Django and sympy have their own runners), because the recorder could not
/// start before the graded code.
pub fn is_official_only(task: &Task) -> bool {
    has_official_run(task)
        && task.command_test_results().is_none()
        && !starts_pytest(&task.test_command)
}

pub(super) struct OfficialGrading<'a> {
    pub(super) handle: &'a SandboxHandle,
    pub(super) task: &'a Task,
    hidden_copies: &'a HiddenCopies,
    pub(super) policy: &'static OfficialPolicy,
    test_command: String,
    /// Time limit of the script, or of each file's run if files run separately.
    time_limit: Duration,
    /// Whether Proctor has started to apply the model's patch.
    pub(super) has_started_applying_patch: AtomicBool,
}

impl OfficialGrading<'_> {
    async fn grade(&self, patch: &[u8]) -> Result<OfficialRun, Fault> {
        if patch.trim_ascii().is_empty() {
            return Ok(self.run_without_tests(
                "the patch is empty, so the harness runs no tests",
                Vec::new(),
            ));
        }
        if let Some(start) = &self.task.from_scratch {
            return self.grade_submission(start, patch).await;
        }
        let tests = self.read_original_tests().await?;
        self.strip_sandbox().await?;
        let screened = self.screen(patch).await?;
        let mut run = self.apply_and_run(patch, &tests).await?;
        run.evidence.extend(screened);
        Ok(run)
    }

    /// Screens the patch, unless a strict grading also runs and screens it.
    async fn screen(&self, patch: &[u8]) -> Result<Vec<Evidence>, Fault> {
        if !is_official_only(self.task) {
            return Ok(Vec::new());
        }
        let base = ScreeningBase {
            entries: &entries_at_roots(self.handle, &self.task.workdir).await?,
            provided_modules: None,
            is_screened: &|path: &str| !is_test_path(path),
        };
        screen_patch(self.handle, self.task, patch, &base).await
    }

    async fn apply_and_run(
        &self,
        patch: &[u8],
        original_tests: &BTreeMap<String, Option<CurrentFile>>,
    ) -> Result<OfficialRun, Fault> {
        let rules = &self.policy.run;
        let mut log = Vec::new();
        if let Some(script) = self.prepare_row_script().await? {
            if !self.apply_model_patch(patch).await? {
                return Ok(self.rejected_run(log));
            }
            return self.run_script(&script, log).await;
        }
        if rules.tests_first {
            log.extend(self.restore_tests(original_tests).await?);
        }
        let applied = self.apply_model_patch(patch).await?;
        if !applied {
            return Ok(self.rejected_run(log));
        }
        if !rules.tests_first {
            log.extend(self.restore_tests(original_tests).await?);
        }
        match self.policy.subject {
            Subject::Id => self.run_script(&self.compose_script(), log).await,
            Subject::File => self.run_files(log).await,
        }
    }

    pub(super) fn rejected_run(&self, log: Vec<u8>) -> OfficialRun {
        let run = self.run_without_tests("the harness cannot apply the patch", log);
        OfficialRun { incomplete_reason: Some(IncompleteReason::Rejected), ..run }
    }

    /// Returns the run's result if the sandbox failed because of the applied patch.
    async fn exhausted_run(&self, fault: Fault) -> Result<OfficialRun, Fault> {
        let found = exhaustion::exhaustion_evidence(self.handle, fault).await?;
        let trouble = Some(match found.kind.as_str() {
            TIMED_OUT => IncompleteReason::TimedOut,
            SANDBOX_KILLED => IncompleteReason::Killed,
            _ => IncompleteReason::Exhausted,
        });
        let log = format!("the run failed: {}\n", found.what).into_bytes();
        Ok(OfficialRun { incomplete_reason: trouble, ..self.run_without_tests(&found.what, log) })
    }

    pub(super) fn run_without_tests(&self, reason: &str, log: Vec<u8>) -> OfficialRun {
        OfficialRun {
            verdict: self.policy.verdict_without_tests(self.task, reason),
            log,
            incomplete_reason: None,
            evidence: Vec::new(),
        }
    }

    /// Returns the original content at the tests' paths; `None` for a new test.
    async fn read_original_tests(&self) -> Result<BTreeMap<String, Option<CurrentFile>>, Fault> {
        let task = self.task;
        let mut paths: Vec<String> = task.hidden.clone();
        // The harness restores this file even if the agent could see it.
        if self.policy.subject == Subject::File {
            paths.extend(task.fail_to_pass.first().cloned());
        }
        if let Some(patch) = test_patch(task) {
            let touched = patch_paths(patch.as_bytes())
                .map_err(|error| Fault::new(FaultLayer::Setup, format!("{}: {error}", task.id)))?;
            paths.extend(touched);
        }
        if self.policy.run.restore_expected {
            let ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
            paths.extend(ids.map(|id| file_from_test_id(id).to_owned()));
        }
        let mut tests = BTreeMap::new();
        for path in paths {
            let was = read_entry(self.handle, &task.workdir, &path).await?;
            tests.insert(path, was);
        }
        Ok(tests)
    }

    /// Removes everything that the agent did not have, except what the procedure itself needs.
    async fn strip_sandbox(&self) -> Result<(), Fault> {
        let stays = ContentToKeep {
            keeps_hidden_files: self.policy.run.keep_hidden,
            keeps_history: self.needs_history(),
        };
        remove_hidden_content(self.handle, self.task, self.hidden_copies, stays).await
    }

    /// Whether a command of the procedure reads the Git history. Applying a patch does not.
    fn needs_history(&self) -> bool {
        needs_history(&join_commands(self.task, self.policy))
    }

    /// Applies the patch with the harness's commands. If the sandbox has none of the programs that
    /// these commands start, Proctor applies the patch itself. The harness's own images have these
    /// programs.
    pub(super) async fn apply_model_patch(&self, patch: &[u8]) -> Result<bool, Fault> {
        let rules = &self.policy.run;
        let mut patch = patch.to_vec();
        if rules.final_newline && !patch.ends_with(b"\n") {
            patch.push(b'\n');
        }
        self.has_started_applying_patch.store(true, Ordering::Relaxed);
        self.write_file(PATCH_PATH, &patch).await?;
        let mut absent = true;
        for (number, command) in rules.apply.iter().enumerate() {
            if let Some(between) = rules.between.as_ref().filter(|_| number > 0) {
                self.run_shell(between, APPLY_LIMIT).await?;
            }
            let done = self.run_shell(&format!("{command} {PATCH_PATH}"), APPLY_LIMIT).await?;
            if done.success() {
                return Ok(true);
            }
            absent &= done.exit.code == Some(COMMAND_NOT_FOUND_STATUS);
        }
        if absent {
            let root = RawPath::from(self.task.workdir.as_str());
            return match apply_graded_patch(self.handle, &root, &patch, self.task.user.as_deref())
                .await
            {
                Ok(_) => Ok(true),
                Err(ApplyError::Patch(_)) => Ok(false),
                Err(ApplyError::Sandbox(error)) => Err(error.to_fault("applying the patch")),
            };
        }
        let Some(check) = &rules.check_applied else { return Ok(false) };
        Ok(self.run_shell(&format!("{check} {PATCH_PATH}"), APPLY_LIMIT).await?.success())
    }

    /// Restores the tests and applies the test patch. If that fails, the output says so and the run
    /// continues, as in the harness's script.
    async fn restore_tests(
        &self,
        original_tests: &BTreeMap<String, Option<CurrentFile>>,
    ) -> Result<Vec<u8>, Fault> {
        let (handle, task) = (self.handle, self.task);
        for (path, was) in original_tests {
            if was.is_some() || self.policy.run.remove_new_tests {
                replace_entry(handle, &task.workdir, path, was.as_ref()).await?;
            }
        }
        self.apply_test_patch().await
    }

    pub(super) async fn apply_test_patch(&self) -> Result<Vec<u8>, Fault> {
        let (handle, task) = (self.handle, self.task);
        let Some(patch) = test_patch(task) else { return Ok(Vec::new()) };
        self.write_file(TEST_PATCH_PATH, patch.as_bytes()).await?;
        let done =
            self.run_shell(&format!("git apply -v {TEST_PATCH_PATH} 2>&1"), APPLY_LIMIT).await?;
        if done.exit.code != Some(COMMAND_NOT_FOUND_STATUS) {
            return Ok(done.stdout.head);
        }
        let root = RawPath::from(task.workdir.as_str());
        match apply_patch(handle, &root, patch.as_bytes(), task.user.as_deref()).await {
            Ok(_) => Ok(b"Applied patch without git.\n".to_vec()),
            Err(ApplyError::Patch(error)) => Ok(format!("error: {error}\n").into_bytes()),
            Err(ApplyError::Sandbox(error)) => Err(error.to_fault("applying the test patch")),
        }
    }

    /// Returns the row's own script, if it has one and the sandbox has the programs that it needs.
    async fn prepare_row_script(&self) -> Result<Option<String>, Fault> {
        let Some((script, status)) = find_row_script(self.task, self.policy) else {
            return Ok(None);
        };
        // Ignore the work directory's owner, because the script itself marks the directory as safe
        // for Git.
        let fits = "command -v bash && git -c safe.directory='*' rev-parse --git-dir";
        let fits = self.run_shell(fits, APPLY_LIMIT).await?.success();
        Ok(fits.then(|| script::row_script(&script, status, self.policy)))
    }

    fn compose_script(&self) -> String {
        let directives = self.task.details().and_then(|details| details.test_directives.get());
        let directives = directives.map(|words| words.join(" ")).unwrap_or_default();
        let command = format!("{} {directives}", self.test_command);
        script::command_script(
            &command,
            &quote_shell_word(&self.task.workdir),
            &self.policy.run.prelude,
        )
    }

    /// Runs all tests once, between the harness's markers.
    async fn run_script(&self, script: &str, mut log: Vec<u8>) -> Result<OfficialRun, Fault> {
        self.write_file(SCRIPT_PATH, script.as_bytes()).await?;
        let line = format!("{} {SCRIPT_PATH} 2>&1", self.find_shell().await?);
        let done = self.run_shell(&line, self.time_limit).await?;
        let cut = append_output(&mut log, &done.stdout);
        if done.exit.timed_out {
            let why = format!("the tests did not end within {} s", self.time_limit.as_secs_f64());
            let trouble = Some(IncompleteReason::TimedOut);
            return Ok(OfficialRun {
                incomplete_reason: trouble,
                ..self.run_without_tests(&why, log)
            });
        }
        let official = self.read_log(&log).map_err(policy_fault)?;
        let official = note_truncation(official, cut);
        Ok(OfficialRun { verdict: official, log, incomplete_reason: None, evidence: Vec::new() })
    }

    /// Reads the log. Some harnesses replace invalid UTF-8 before they read it.
    fn read_log(&self, log: &[u8]) -> Result<OfficialVerdict, PolicyError> {
        if self.policy.run.replaces_bytes {
            let text = String::from_utf8_lossy(log);
            return self.policy.grade_log(self.task, text.as_bytes());
        }
        self.policy.grade_log(self.task, log)
    }

    /// Runs each test file separately. The result depends on the exit status of each run.
    pub(super) async fn run_files(&self, mut log: Vec<u8>) -> Result<OfficialRun, Fault> {
        let details = self.task.details();
        let per_test = details.and_then(|details| details.timeout_one.get());
        let per_test = per_test.filter(|seconds| **seconds > 0);
        let option = per_test.map_or(String::new(), |seconds| format!(" --timeout={seconds}"));
        let uv = details.is_some_and(|details| details.use_uv.get() == Some(&true));
        let command = format!("{}{}{option}", if uv { "uv run " } else { "" }, self.test_command);
        let (mut runs, mut cut) = (Vec::new(), 0);
        // Of several fail-to-pass files, the harness runs only the first.
        let f2p = self.task.fail_to_pass.iter().take(1);
        for file in f2p.chain(&self.task.pass_to_pass) {
            let path = quote_shell_word(&format!("{}/{file}", self.task.workdir));
            let line = format!("{}; {command} {path} 2>&1", self.policy.run.prelude);
            let done = self.run_shell(&line, self.time_limit).await?;
            let exit = if done.exit.timed_out { Some(TIMED_OUT_STATUS) } else { done.exit.code };
            let said = exit.map_or("none".to_owned(), |exit| exit.to_string());
            let mut output = Vec::new();
            cut += append_output(&mut output, &done.stdout);
            log.extend_from_slice(format!("+ {command} {path}\n").as_bytes());
            log.extend_from_slice(&output);
            log.extend_from_slice(format!("{file}: exit status {said}\n").as_bytes());
            runs.push(FileRun { file: file.clone(), log: output, exit_status: exit });
        }
        let Some((first, rest)) = runs.split_first() else {
            return Ok(self.run_without_tests("the task has no fail-to-pass file", log));
        };
        let late = runs.iter().any(|run| run.exit_status == Some(TIMED_OUT_STATUS));
        let graded = self.policy.grade_files(self.task, first, rest).map_err(policy_fault);
        let mut official = note_truncation(graded?, cut);
        if late && !official.is_resolved {
            let seconds = self.time_limit.as_secs_f64();
            official
                .reason
                .push_str(&format!("; a run was stopped at the time limit of {seconds} s"));
        }
        let trouble = late.then_some(IncompleteReason::TimedOut);
        Ok(OfficialRun { verdict: official, log, incomplete_reason: trouble, evidence: Vec::new() })
    }

    async fn find_shell(&self) -> Result<&'static str, Fault> {
        let done = self.run_shell("command -v bash", APPLY_LIMIT).await?;
        Ok(if done.success() { "bash" } else { "sh" })
    }

    async fn write_file(&self, path: &str, bytes: &[u8]) -> Result<(), Fault> {
        let what = || format!("writing {path}");
        self.handle.write(&path.into(), bytes, None).await.map_err(|error| error.to_fault(what()))
    }

    /// Runs a shell line in the work directory. On `PATH`, the programs in the task's environment
    /// precede those in the sandbox.
    pub(super) async fn run_shell(
        &self,
        line: &str,
        limit: Duration,
    ) -> Result<CommandOutput, Fault> {
        self.run_shell_with_variables(line, limit, &BTreeMap::new()).await
    }

    pub(super) async fn run_shell_with_variables(
        &self,
        line: &str,
        limit: Duration,
        variables: &BTreeMap<String, String>,
    ) -> Result<CommandOutput, Fault> {
        let task = self.task;
        let mut command = Command::shell(line).cwd(task.workdir.as_str()).time_limit(limit);
        let image = self.handle.image_env();
        if task.environment.image.is_some() || !image.is_empty() {
            // The harness's containers only have `PATH`, `HOME` and the image's variables, if any.
            command.env.remove("LANG");
        }
        for (name, value) in image {
            command = command.env(name, value.as_str());
        }
        for (name, value) in task.command_env() {
            command = command.env(&name, value.as_str());
        }
        let programs = task.test_command.first().and_then(|first| first.rsplit_once('/'));
        if let Some((folder, _)) = programs.filter(|(folder, _)| folder.starts_with('/')) {
            let path = task.env.get("PATH").or_else(|| image.get("PATH"));
            let path = path.map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
            command = command.env("PATH", format!("{folder}:{path}"));
        }
        for (name, value) in variables {
            command = command.env(name, value.as_str());
        }
        command.user.clone_from(&task.user);
        command.head_cap = MAX_OUTPUT_BYTES;
        command.tail_cap = MAX_OUTPUT_BYTES;
        command.reap_all = true;
        self.handle
            .run(command)
            .await
            .map_err(|error| error.to_fault("running the official procedure"))
    }
}

/// Adds a note to the official verdict's reason if part of the output was discarded.
fn note_truncation(mut official: OfficialVerdict, omitted_bytes: u64) -> OfficialVerdict {
    if omitted_bytes > 0 {
        let kept = 2 * (MAX_OUTPUT_BYTES >> 20);
        official.reason.push_str(&format!(
            "; {omitted_bytes} bytes of output beyond {kept} MiB were discarded"
        ));
    }
    official
}

/// The row's test command. Several commands are joined so that each one runs, as in the harness.
fn official_test_command(task: &Task) -> Option<String> {
    let line = match task.details()?.test_cmd.get()? {
        Commands::One(line) => line.clone(),
        Commands::Several(lines) => lines.join(" ; "),
    };
    (!line.is_empty()).then_some(line)
}

/// The row's own script, and the variable in which to store the tests' exit status.
fn find_row_script<'a>(task: &Task, policy: &'a OfficialPolicy) -> Option<(String, &'a str)> {
    let rule = policy.run.script.as_ref()?;
    match rule.detail.value_in(task.details()?)? {
        Value::String(script) => Some((script, &rule.status)),
        _ => None,
    }
}

pub(crate) fn test_patch(task: &Task) -> Option<&str> {
    task.test_patch.as_deref().filter(|text| !text.trim().is_empty())
}

pub(crate) fn policy_fault(error: PolicyError) -> Fault {
    Fault::new(FaultLayer::Grade, error.message).cause(FaultCause::Invalid).hint(error.hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_history_ignores_plain_git_apply() {
        assert!(!needs_history("git apply --verbose\ngit apply --whitespace=fix -v\npatch -p1 -i"));
        assert!(!needs_history("pytest tests/test_digits.py"));
        for asked in ["git apply --verbose --3way", "git checkout -- .", "cd /x && git  status"] {
            assert!(needs_history(asked), "{asked}");
        }
    }
}
