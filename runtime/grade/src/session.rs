//! Runs the test interpreter once under the recorder.

use std::collections::{BTreeMap, BTreeSet};

use proctor_sandbox_api::{
    CapturedOutput, Command, SandboxHandle,
    wire::{ChangeTime, CommandExit, RawPath},
};
use proctor_types::{Evidence, Fault, FaultLayer, TestStatus, count_with_noun, sha256_hex};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    Defenses, TestPlan, TestRun,
    ascii_json::to_ascii_json,
    canary::Canaries,
    evidence::{self, new_evidence},
    hidden::LentModules,
    launch::Launch,
    policy::Policy,
    probe::{Probe, generate_secret_folder, random_bytes},
    records::{Record, Records},
    scripts::{RECORDER_SCRIPTS, START_SCRIPT},
    statuses::determine_statuses,
};

/// The parameters of one run.
#[derive(Clone)]
pub(crate) struct TestSession<'a> {
    pub plan: &'a TestPlan,
    pub launch: &'a Launch,
    pub probe: &'a Probe,
    pub canaries: &'a Canaries,
    /// Files that the recorder hashes, relative to the work directory.
    pub watched_files: Vec<String>,
    /// The tests' data files, relative to the work directory. The recorder records their readers.
    pub data_files: Vec<String>,
    /// Top-level modules that belong to the environment. A patch must not provide them.
    pub provided_modules: BTreeSet<String>,
    /// Test folders, relative to the work directory. A run must not move them.
    pub test_folders: Vec<String>,
    /// Names that tests may use to import modules in test folders.
    pub helper_modules: BTreeSet<String>,
    pub defenses: Defenses,
    /// Modules that the test tool needs to start and that are hidden in the sandbox.
    pub lent_modules: LentModules,
    /// Set if the tested code was written from scratch.
    pub origin_options: Option<OriginOptions>,
}

/// Options of `origin.py`, which keeps a submission apart from the original library.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OriginOptions {
    /// The folder that contains the submission's files.
    pub folder: String,
    pub import_root: Option<String>,
    /// Whether to block access to the original.
    pub guard: bool,
    pub workdir: String,
    /// Top-level modules of the original.
    pub modules: BTreeSet<String>,
    pub test_folders: Vec<String>,
    /// Path relative to the work directory.
    pub test_files: Vec<String>,
}

/// The input of `start.py`: JSON on standard input. The encrypted canaries follow the JSON and are
/// read when they are installed.
#[derive(Serialize)]
struct StartInput<'a> {
    key: String,
    module: String,
    cwd_on_path: bool,
    arguments: Vec<String>,
    files: Vec<&'a str>,
    ids: Option<&'a [String]>,
    canaries_bytes: usize,
    canaries_sha256: String,
    canaries_key: String,
    /// After canaries have run for this many seconds, no further canary starts.
    canary_seconds: f64,
    watch: &'a [String],
    data: &'a [String],
    lent: &'a LentModules,
    /// Whether to compare pytest's own report of each test with the recorder's observations.
    looks: bool,
    /// Optional checks of the `sight` package.
    sees: Vec<&'static str>,
    apart: bool,
    path: &'a [String],
    pythonpath: Option<&'a str>,
    loaded: &'a [String],
    provided: &'a BTreeSet<String>,
    folders: &'a [String],
    helpers: &'a BTreeSet<String>,
    submitted: Option<&'a OriginOptions>,
}

impl TestSession<'_> {
    /// Runs the tests until they end or reach the time limit.
    ///
    /// Also returns the start time of the run, by the sandbox's own clock.
    pub(crate) async fn run(
        &self,
        handle: &SandboxHandle,
    ) -> Result<(TestRun, Records, ChangeTime), Fault> {
        let policy = Policy::get()?;
        let key = random_bytes::<32>()?;
        let folder = generate_secret_folder()?;
        for (name, text) in RECORDER_SCRIPTS {
            handle
                .write(&format!("{folder}/{name}").into(), text.as_bytes(), Some(0o644))
                .await
                .map_err(|error| error.to_fault("writing the recorder"))?;
        }
        // This file was written last, so every other file that grading wrote is older.
        let start_script = format!("{folder}/{START_SCRIPT}");
        let written = handle.stat(&start_script.clone().into()).await;
        let written = written.map_err(|error| error.to_fault("checking the recorder"))?;
        let since = written.map(|entry| entry.changed).unwrap_or_default();
        let input = self.build_input(policy, &key)?;
        let mut argv = self.launch.interpreter.clone();
        argv.push(start_script);
        let mut command = Command::new(argv).cwd(self.plan.workdir.as_str());
        for (name, value) in self.build_environment(policy) {
            command = command.env(&name, value);
        }
        command.stdin = input;
        command.time_limit = Some(self.plan.time_limit);
        command.user.clone_from(&self.plan.user);
        command.head_cap = policy.limits.log_bytes;
        command.has_results_pipe = true;
        command.reap_all = true;
        let done =
            handle.run(command).await.map_err(|error| error.to_fault("running the tests"))?;
        // Removing these files frees space for the next run if the tests filled the disk. Ignore
        // errors: the results have arrived, and the state of the sandbox (a folder that cannot be
        // removed, a disk without free inodes) must not discard them.
        let _ = handle.remove(&folder).await;

        let records = Records::read(&done.results, &key, self.defenses.authenticate);
        let mut log = Vec::new();
        append_output(&mut log, &done.stdout);
        append_output(&mut log, &done.stderr);
        if let Some(fault) = self.recorder_fault(&records, &done.exit, &log, &folder) {
            return Err(fault);
        }
        Ok((self.build_result(&records, done.exit, log, done.results), records, since))
    }

    /// Returns a fault if the recorder failed before it started pytest, which a patch cannot cause.
    ///
    /// There is one exception: a patch can cause this failure if pytest itself is in the work
    /// directory. The traceback then contains files of the work directory, and this function
    /// returns `None`.
    fn recorder_fault(
        &self,
        records: &Records,
        exit: &CommandExit,
        log: &[u8],
        folder: &RawPath,
    ) -> Option<Fault> {
        let failed = exit.code.is_some_and(|code| code != 0) && !exit.timed_out;
        if records.has_start() || !failed || !self.starts_isolated() {
            return None;
        }
        let log = String::from_utf8_lossy(log);
        let is_graded = |line: &str| line.contains(&format!("File \"{}/", self.probe.root));
        if !log.contains(&folder.to_escaped()) || log.lines().any(is_graded) {
            return None;
        }
        let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        let version = self.probe.pytest.as_deref().unwrap_or("an unknown version of pytest");
        let what = format!("the recorder failed before pytest {version} started: {}", last.trim());
        Some(
            Fault::new(FaultLayer::Grade, what)
                .hint("report this error with the environment's versions of Python and pytest")
                .log(log.as_bytes().to_vec()),
        )
    }

    fn build_input(&self, policy: &Policy, key: &[u8; 32]) -> Result<Vec<u8>, Fault> {
        let mut arguments = self.launch.arguments.clone();
        arguments.push(format!("--rootdir={}", self.plan.workdir));
        arguments.extend(policy.pytest.arguments.iter().cloned());
        if self.defenses.freeze_plugins {
            for (name, _) in &self.probe.plugins {
                arguments.extend(["-p".to_owned(), name.clone()]);
                arguments.extend(
                    policy.pytest.plugin_arguments.get(name).into_iter().flatten().cloned(),
                );
            }
        }
        let files: BTreeSet<&str> = self.plan.files.iter().map(String::as_str).collect();
        let canaries = to_ascii_json(&self.canaries.canaries)?;
        let canaries_key = random_bytes::<32>()?;
        let input = StartInput {
            key: proctor_types::hex(key),
            module: format!("_{}", proctor_types::hex(&random_bytes::<8>()?)),
            cwd_on_path: self.launch.cwd_on_path,
            arguments,
            files: files.into_iter().collect(),
            ids: self.plan.ids.as_deref(),
            canaries_bytes: canaries.len(),
            canaries_sha256: sha256_hex(canaries.as_bytes()),
            canaries_key: proctor_types::hex(&canaries_key),
            canary_seconds: policy.canaries.seconds,
            watch: &self.watched_files,
            data: &self.data_files,
            lent: &self.lent_modules,
            looks: self.defenses.fingerprints,
            sees: self.defenses.sight_checks(),
            apart: self.starts_isolated(),
            path: &self.probe.path,
            pythonpath: self.pythonpath(),
            loaded: &self.probe.loaded,
            provided: &self.provided_modules,
            folders: &self.test_folders,
            helpers: &self.helper_modules,
            submitted: self.origin_options.as_ref(),
        };
        let input = to_ascii_json(&input)?;
        let mut stdin = format!("{}\n{input}", input.len()).into_bytes();
        stdin.extend(encrypt(canaries.as_bytes(), &canaries_key));
        Ok(stdin)
    }

    /// The task's own value of `PYTHONPATH`. The tests see it even if the interpreter starts
    /// without it.
    fn pythonpath(&self) -> Option<&str> {
        let given = self.plan.env.get("PYTHONPATH").map(String::as_str);
        given.filter(|_| self.starts_isolated())
    }

    fn starts_isolated(&self) -> bool {
        self.probe.apart && self.defenses.guard_roots
    }

    fn build_environment(&self, policy: &Policy) -> BTreeMap<String, String> {
        let mut env = policy.environment.for_task(&self.plan.env);
        if self.pythonpath().is_some() {
            env.remove("PYTHONPATH");
            if !self.probe.pythonpath.is_empty() {
                env.insert("PYTHONPATH".into(), self.probe.pythonpath.clone());
            }
        }
        if !self.defenses.freeze_plugins {
            env.remove("PYTEST_DISABLE_PLUGIN_AUTOLOAD");
        }
        env
    }

    fn build_result(
        &self,
        records: &Records,
        exit: CommandExit,
        log: Vec<u8>,
        raw_results: Vec<u8>,
    ) -> TestRun {
        let mut evidence = Vec::new();
        let mut tests = determine_statuses(records, &mut evidence);
        let taken = records.records.iter().filter_map(|record| match record {
            Record::Origin { what } => Some(new_evidence(evidence::ORIGINAL_USED, what.as_str())),
            _ => None,
        });
        let taken: Vec<Evidence> = taken.collect();
        let collect_errors: BTreeMap<String, String> = records
            .records
            .iter()
            .filter_map(|record| match record {
                Record::Collect { id, why } => Some((id.clone(), why.clone())),
                _ => None,
            })
            .collect();
        for id in self.plan.ids.iter().flatten() {
            // If a test's file or class could not be collected, its status is an error, not
            // missing.
            let broken = collect_errors.keys().any(|node| {
                id.strip_prefix(node.as_str()).is_some_and(|rest| rest.starts_with("::"))
            });
            let absent = if broken { TestStatus::Error } else { TestStatus::Missing };
            tests.entry(id.clone()).or_insert(absent);
        }
        let complete = self.check_completeness(records, &exit, &mut evidence);
        evidence.extend(taken);
        TestRun { tests, collect_errors, exit, is_complete: complete, log, raw_results, evidence }
    }

    fn check_completeness(
        &self,
        records: &Records,
        exit: &CommandExit,
        evidence: &mut Vec<Evidence>,
    ) -> bool {
        let before = evidence.len();
        if records.garbage_line_count > 0 {
            let what = format!(
                "{}, the first {:?}",
                count_with_noun(records.garbage_line_count, "line"),
                records.garbage_sample
            );
            evidence.push(new_evidence(evidence::RESULTS_PIPE_GARBAGE, what));
        }
        if exit.timed_out {
            let seconds = self.plan.time_limit.as_secs_f64();
            evidence.push(new_evidence(evidence::TIMED_OUT, format!("after {seconds} s")));
        } else if self.defenses.require_end {
            evidence.extend(end_mismatch_evidence(records, exit));
        }
        let complete = evidence.len() == before && records.begin_record().is_some();
        if exit.left_behind > 0 {
            let what =
                format!("{} still running, killed", count_with_noun(exit.left_behind, "process"));
            evidence.push(new_evidence(evidence::LEFT_BEHIND, what));
        }
        complete
    }
}

/// Encrypts the canaries, because graded code can read them from the pipe before the recorder does.
///
/// XORs each block of 32 bytes with the SHA-256 digest of the key and the block's number.
fn encrypt(text: &[u8], key: &[u8; 32]) -> Vec<u8> {
    let mut encrypted = Vec::with_capacity(text.len());
    for (block, number) in text.chunks(32).zip(0_u64..) {
        let pad = Sha256::new().chain_update(key).chain_update(number.to_le_bytes()).finalize();
        encrypted.extend(block.iter().zip(pad).map(|(byte, pad)| byte ^ pad));
    }
    encrypted
}

/// Returns evidence unless the end record exists and matches the kernel's exit status.
fn end_mismatch_evidence(records: &Records, exit: &CommandExit) -> Option<Evidence> {
    let said = match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit status".to_owned(),
    };
    let Some(end) = records.end_record() else {
        // If a run succeeds without an end record, its exit status is forged. If it crashes, the
        // crash explains the missing record.
        let kind = match exit.code {
            Some(0) => evidence::EXIT_WITHOUT_END,
            _ => evidence::ENDED_EARLY,
        };
        return Some(new_evidence(kind, format!("{said} without an end record")));
    };
    let count = records.test_records().count();
    if exit.code != Some(end.code) {
        return Some(new_evidence(
            evidence::EXIT_MISMATCH,
            format!("{said}, but the end record says {}", end.code),
        ));
    }
    (count != end.count).then(|| {
        new_evidence(
            evidence::EXIT_MISMATCH,
            format!(
                "{}, but the end record counts {}",
                count_with_noun(count, "record"),
                end.count
            ),
        )
    })
}

/// Appends the kept parts of a stream. Returns the number of bytes that were omitted in the middle.
pub(crate) fn append_output(log: &mut Vec<u8>, stream: &CapturedOutput) -> u64 {
    log.extend_from_slice(&stream.head);
    if stream.is_complete() {
        return 0;
    }
    let shown = stream.head.len() as u64 + stream.tail.len() as u64;
    let cut = stream.total_bytes.saturating_sub(shown);
    if cut > 0 {
        log.extend_from_slice(format!("\n[{cut} bytes omitted]\n").as_bytes());
    }
    // The head and the tail overlap if the stream is only a little longer than one of them.
    let overlap = shown.saturating_sub(stream.total_bytes) as usize;
    log.extend_from_slice(stream.tail.get(overlap..).unwrap_or_default());
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypting_twice_returns_the_original() {
        let text = "0123456789".repeat(10).into_bytes();
        let encrypted = encrypt(&text, &[7; 32]);
        assert_eq!(encrypt(&encrypted, &[7; 32]), text);
        assert_ne!(encrypted[..32], encrypted[32..64]);
    }

    #[test]
    fn append_output_keeps_the_end_and_counts_the_omitted_middle() {
        let of = |head: &[u8], tail: &[u8], total: u64| {
            let mut log = Vec::new();
            let stream = CapturedOutput {
                head: head.to_vec(),
                tail: tail.to_vec(),
                total_bytes: total,
                spill_file: None,
            };
            let cut = append_output(&mut log, &stream);
            (String::from_utf8(log).unwrap(), cut)
        };
        assert_eq!(of(b"abc", b"", 3), ("abc".to_owned(), 0));
        assert_eq!(of(b"abc", b"def", 6), ("abcdef".to_owned(), 0));
        assert_eq!(of(b"abc", b"xyz", 10), ("abc\n[4 bytes omitted]\nxyz".to_owned(), 4));
    }
}
