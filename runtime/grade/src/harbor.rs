//! Runs Harbor's verifier, `tests/test.sh`, and reads the rewards that it writes.
//!
//! The verifier writes to a folder that no process of the agent could access. The rewards are read
//! after the verifier's last process has ended. As in Harbor, the verifier's exit status is
//! ignored.

use std::{collections::BTreeMap, time::Duration};

use proctor_harbor::{InputEntry, REWARD_LIMIT, Rules, TEST_SCRIPT, read_rewards};
use proctor_sandbox_api::{
    Command, SandboxHandle,
    wire::{EntryKind, RawPath},
};
use proctor_setup::{LOG_DIR, copy_inputs, create_log_dirs};
use proctor_types::{
    Fault, FaultCause, FaultLayer, HARBOR_RULES_VERSION, HarborNetwork, Integrity, PolicyVerdict,
    Task, TestGroup, TestStatus, VERDICT_SCHEMA_VERSION, Verdict, count_with_noun,
};
use serde_json::Value;

use crate::{GradingResult, session::append_output};

/// Path of the tests in a sandbox.
const TESTS_PATH: &str = "/tests";

/// The rewards folder, below the logs.
const VERIFIER_FOLDER: &str = "verifier";

/// The file with the verifier's output, in [`VERIFIER_FOLDER`].
const OUTPUT_FILE: &str = "test-stdout.txt";

/// Maximum number of output bytes to keep, from the end.
const OUTPUT_LIMIT: u64 = 8 << 20;

/// Harbor runs a verifier with bash. In the few images without bash, `sh` runs the verifier.
const BASH_OR_SH: &str =
    r#"command -v bash >/dev/null 2>&1 && exec bash -c "$1"; exec /bin/sh -c "$1""#;

/// One run of a verifier.
#[derive(Debug, Clone, Copy)]
pub struct VerifierRun<'a> {
    /// The task, including the values from its image.
    pub task: &'a Task,
    /// The files of `tests/`.
    pub test_files: &'a [InputEntry],
    /// Environment variables in addition to the task's: the verifier's own, and those for a proxy.
    pub env: &'a [(String, String)],
    /// Whether the verifier runs in the agent's sandbox, with the agent's processes and files.
    pub is_shared: bool,
    /// Whether the image contains the tests.
    pub has_bundled_tests: bool,
}

/// Runs a task's verifier in a sandbox that contains the agent's result.
///
/// # Errors
/// A grading fault if the verifier writes no reward, does not end, or could not download its tools.
/// A sandbox fault if the sandbox fails.
pub async fn grade_with_verifier(
    handle: &SandboxHandle,
    run: &VerifierRun<'_>,
) -> Result<GradingResult, Fault> {
    let VerifierRun { task, test_files: tests, env, is_shared: shared, has_bundled_tests: bundled } =
        *run;
    let logs = RawPath::from(LOG_DIR).join(&RawPath::from(VERIFIER_FOLDER));
    let laid = async {
        if shared {
            for name in ["reward.txt", "reward.json"] {
                handle.remove(&logs.join(&RawPath::from(name))).await?;
            }
        } else {
            handle.remove(&logs).await?;
        }
        create_log_dirs(handle, &[VERIFIER_FOLDER, "agent", "artifacts"]).await?;
        if bundled {
            return Ok(());
        }
        copy_inputs(handle, TESTS_PATH, tests, TEST_SCRIPT, !shared).await
    };
    laid.await.map_err(|error| error.to_fault("copying the verifier"))?;
    if bundled {
        make_script_executable(handle, task).await?;
    }
    let command = build_command(task, env)?;
    let done = handle.run(command).await.map_err(|error| error.to_fault("running the verifier"))?;
    let mut log = read_output(handle, &logs.join(&RawPath::from(OUTPUT_FILE))).await?;
    append_output(&mut log, &done.stderr);
    let text = String::from_utf8_lossy(&log).into_owned();
    let rewards_and_tests = read_results(handle, run, &logs, &text, done.exit.timed_out).await;
    let (rewards, tests) = rewards_and_tests.map_err(|fault| fault.log(log.clone()))?;
    Ok(GradingResult {
        verdict: build_verdict(task, rewards, tests, shared),
        log,
        raw_results: Vec::new(),
    })
}

/// The rewards and the tests that a verifier reports.
type VerifierResults = (BTreeMap<String, f64>, BTreeMap<String, TestStatus>);

/// Reads what a verifier wrote. `output` is what it printed.
async fn read_results(
    handle: &SandboxHandle,
    run: &VerifierRun<'_>,
    logs_folder: &RawPath,
    output: &str,
    has_timed_out: bool,
) -> Result<VerifierResults, Fault> {
    let task = run.task;
    let rules = Rules::get().map_err(grade_fault)?;
    let download = rules.find_failed_download(output);
    if has_timed_out {
        let seconds = task.timeouts.grade_seconds;
        let what =
            format!("{}: {TESTS_PATH}/{TEST_SCRIPT} did not end within {seconds} s", task.id);
        let hint = "raise `verifier.timeout_sec` in task.toml";
        return Err(Fault::new(FaultLayer::Grade, what).hint(hint).into_permanent());
    }
    let rewards = load_rewards(handle, logs_folder).await.map_err(|why| {
        let last = output.lines().rev().find(|line| !line.trim().is_empty());
        let said = last.map_or("the verifier printed nothing".to_owned(), |last| {
            format!("last line of the verifier's output: {}", last.trim())
        });
        let fault = Fault::new(FaultLayer::Grade, format!("{}: {why}; {said}", task.id));
        match download {
            Some(line) if has_network(task) => unreachable_fault(fault, line),
            // Without a valid reward, the trial is never scored. The message can only improve the
            // hint, so it does not matter who printed it.
            Some(line) => fault.hint(no_network_hint(line)).into_permanent(),
            None => fault
                .hint("make the verifier write 0 or 1 to /logs/verifier/reward.txt")
                .into_permanent(),
        }
    })?;
    let tests = match read_small_file(handle, &logs_folder.join(&RawPath::from("ctrf.json"))).await
    {
        Ok(Some(bytes)) => parse_ctrf(&bytes),
        Ok(None) | Err(_) => BTreeMap::new(),
    };
    // A verifier without network cannot download anything in any trial. Its reward of 0 counts,
    // because the agent's code can print the same message, and would escape every failed verdict.
    // `tasks validate` reports such tasks: the reference solution gets the same reward.
    if let Some(line) = download.filter(|_| has_network(task))
        && tests.is_empty()
        && rewards.values().all(|reward| *reward <= 0.0)
    {
        let what = format!("{}: the verifier could not download its tools: {line}", task.id);
        return Err(unreachable_fault(Fault::new(FaultLayer::Grade, what), line));
    }
    Ok((rewards, tests))
}

/// Whether the task's verifier may use the network.
fn has_network(task: &Task) -> bool {
    let harbor = task.harbor.as_ref();
    harbor.is_none_or(|harbor| harbor.verifier.network != HarborNetwork::NoNetwork)
}

/// Returns the hint for a verifier without network that could not download something.
fn no_network_hint(line: &str) -> String {
    format!(
        "the verifier has no network: install its tools in the image, or set \
         `verifier.network_mode` in task.toml ({line})"
    )
}

/// Returns the reason why a verifier cannot judge any solution, from the output of its run on the
/// reference solution: it could not download its tools, or they are not installed.
///
/// Use this only for the reference solution. The code of an agent can print the same messages.
///
/// # Errors
/// The built-in rules are invalid.
pub fn find_verifier_defect(task: &Task, output: &str) -> Result<Option<String>, String> {
    let rules = Rules::get()?;
    if let Some(line) = rules.find_failed_download(output) {
        return Ok(Some(match has_network(task) {
            true => format!("the verifier could not download its tools ({line})"),
            false => no_network_hint(line),
        }));
    }
    let missing = rules.find_missing_tool(output);
    Ok(missing.map(|line| {
        format!("the verifier's tools are missing: install them in the image ({line})")
    }))
}

/// Makes the script in a verifier's own image executable, as Harbor does.
///
/// # Errors
/// The image does not contain the script.
async fn make_script_executable(handle: &SandboxHandle, task: &Task) -> Result<(), Fault> {
    let script = format!("{TESTS_PATH}/{TEST_SCRIPT}");
    let done = handle.run(Command::new(["chmod", "+x", &script])).await;
    let done = done.map_err(|error| error.to_fault("copying the verifier"))?;
    // If `chmod` fails for another reason, the verifier's output says why it does not start.
    let is_missing =
        !done.success() && matches!(handle.stat(&RawPath::from(script.as_str())).await, Ok(None));
    if is_missing { Err(missing_tests_fault(task)) } else { Ok(()) }
}

fn missing_tests_fault(task: &Task) -> Fault {
    let what = format!("{}: the verifier's image has no {TESTS_PATH}/{TEST_SCRIPT}", task.id);
    Fault::new(FaultLayer::Grade, what).cause(FaultCause::Missing).hint(
        "copy the tests to /tests when you build that image, or remove `docker_image` from \
         `[verifier.environment]`, so that Proctor copies the tests",
    )
}

fn unreachable_fault(fault: Fault, line: &str) -> Fault {
    fault
        .cause(FaultCause::Unreachable)
        .hint(format!("check the task's network policy and this machine's network ({line})"))
}

fn grade_fault(message: String) -> Fault {
    Fault::new(FaultLayer::Grade, message)
}

fn build_command(task: &Task, env: &[(String, String)]) -> Result<Command, Fault> {
    let harbor = task.harbor.as_ref().ok_or_else(|| {
        Fault::new(FaultLayer::Grade, format!("{} is not a Harbor task", task.id))
            .cause(FaultCause::Invalid)
    })?;
    let user = harbor.verifier.user.clone().or_else(|| task.from_image.image_user.clone());
    let as_verifier = Task { user, ..task.clone() };
    let logs = format!("{LOG_DIR}/{VERIFIER_FOLDER}/{OUTPUT_FILE}");
    let line = format!("({TESTS_PATH}/{TEST_SCRIPT}) > {logs} 2>&1");
    let mut command = Command::new(["/bin/sh", "-c", BASH_OR_SH, "sh", &line]).cwd(task.cwd());
    for (name, value) in as_verifier.command_env() {
        command = command.env(&name, value.as_str());
    }
    for (name, value) in env {
        command = command.env(name, value.as_str());
    }
    command.user = as_verifier.user_name().is_some().then(|| as_verifier.user.clone()).flatten();
    command.time_limit = Some(Duration::from_secs_f64(task.timeouts.grade_seconds.max(0.0)));
    // Kill all processes first, so that nothing can change the rewards while they are read.
    command.reap_all = true;
    Ok(command)
}

/// Returns the end of the verifier's output; empty if there is none.
async fn read_output(handle: &SandboxHandle, path: &RawPath) -> Result<Vec<u8>, Fault> {
    let wrong = |error: proctor_sandbox_api::SandboxError| error.to_fault("reading the output");
    let found = handle.stat(path).await.map_err(wrong)?;
    let Some(found) = found.filter(|found| found.kind == EntryKind::File) else {
        return Ok(Vec::new());
    };
    let left_out = found.size.saturating_sub(OUTPUT_LIMIT);
    let kept = handle.read_from_offset(path, left_out, OUTPUT_LIMIT).await.map_err(wrong)?;
    if left_out == 0 {
        return Ok(kept);
    }
    let mut log = format!("[{left_out} bytes omitted]\n").into_bytes();
    log.extend_from_slice(&kept);
    Ok(log)
}

async fn load_rewards(
    handle: &SandboxHandle,
    logs_folder: &RawPath,
) -> Result<BTreeMap<String, f64>, String> {
    let json = read_small_file(handle, &logs_folder.join(&RawPath::from("reward.json"))).await?;
    let txt = read_small_file(handle, &logs_folder.join(&RawPath::from("reward.txt"))).await?;
    read_rewards(json.as_deref(), txt.as_deref()).map_err(|error| error.to_string())
}

/// Returns the content of a small regular file; `None` if it does not exist.
async fn read_small_file(
    handle: &SandboxHandle,
    path: &RawPath,
) -> Result<Option<Vec<u8>>, String> {
    let Some(found) = handle.stat(path).await.map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    if found.kind != EntryKind::File {
        return Err(format!("{path} is not a regular file"));
    }
    if found.size > REWARD_LIMIT {
        return Err(format!("{path} has {} bytes; the limit is {REWARD_LIMIT}", found.size));
    }
    handle.read(path, REWARD_LIMIT).await.map(Some).map_err(|error| error.to_string())
}

/// Returns the tests in a CTRF report. An invalid report has none.
fn parse_ctrf(bytes: &[u8]) -> BTreeMap<String, TestStatus> {
    let report: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let mut tests: BTreeMap<String, TestStatus> = BTreeMap::new();
    for test in report["results"]["tests"].as_array().into_iter().flatten() {
        let Some(name) = test["name"].as_str() else { continue };
        let suite = match &test["suite"] {
            Value::String(suite) => suite.clone(),
            Value::Array(suites) => {
                suites.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" > ")
            }
            _ => String::new(),
        };
        let id = if suite.is_empty() { name.to_owned() } else { format!("{suite} > {name}") };
        let status = match test["status"].as_str() {
            Some("passed") => TestStatus::Passed,
            Some("failed") => TestStatus::Failed,
            Some("skipped" | "pending") => TestStatus::Skipped,
            _ => TestStatus::Error,
        };
        // If two tests share a name, the worse status counts.
        let before = tests.get(&id).copied();
        if before.is_none_or(|before| before == TestStatus::Passed) {
            tests.insert(id, status);
        }
    }
    tests
}

fn build_verdict(
    task: &Task,
    rewards: BTreeMap<String, f64>,
    tests: BTreeMap<String, TestStatus>,
    is_shared: bool,
) -> Verdict {
    let resolved = !rewards.is_empty() && rewards.values().all(|reward| *reward >= 1.0);
    let clipped: f64 = rewards.values().map(|reward| reward.clamp(0.0, 1.0)).sum();
    let passed_rate = if rewards.is_empty() { 0.0 } else { clipped / rewards.len() as f64 };
    let said: Vec<String> =
        rewards.iter().map(|(name, reward)| format!("{name} = {reward}")).collect();
    let why = format!("{}: {}", count_with_noun(rewards.len(), "reward"), said.join(", "));
    let (name, version) =
        HARBOR_RULES_VERSION.split_once('-').unwrap_or((HARBOR_RULES_VERSION, ""));
    let policy = PolicyVerdict {
        name: Some(name.to_owned()),
        version: Some(version.to_owned()),
        resolved,
        why,
    };
    Verdict {
        schema_version: VERDICT_SCHEMA_VERSION,
        task: task.id.clone(),
        resolved,
        counted: Some("strict".to_owned()),
        passed_rate,
        rewards,
        fail_to_pass: TestGroup::default(),
        pass_to_pass: TestGroup::default(),
        tests,
        policies: BTreeMap::from([("strict".to_owned(), policy)]),
        integrity: if is_shared { Integrity::Unverified } else { Integrity::Clean },
        evidence: Vec::new(),
        environment: None,
        noise: BTreeMap::new(),
        exceptions: BTreeMap::new(),
        reason: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(harbor: Value) -> Task {
        serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "o/t", "statement": "", "environment": {"image": "i"}, "workdir": "/app",
            "fail_to_pass": [], "test_command": ["/tests/test.sh"], "harbor": harbor,
        }))
        .unwrap()
    }

    fn verdict_for(rewards: &[(&str, f64)], is_shared: bool) -> Verdict {
        let rewards = rewards.iter().map(|(name, reward)| ((*name).to_owned(), *reward)).collect();
        build_verdict(&task(serde_json::json!({"digest": ""})), rewards, BTreeMap::new(), is_shared)
    }

    #[test]
    fn verdict_requires_all_rewards_to_be_one_and_averages_clipped_rewards() {
        let one = verdict_for(&[("reward", 1.0)], false);
        assert!(one.resolved && one.integrity == Integrity::Clean, "{one:?}");
        assert_eq!(
            (one.passed_rate, one.policies["strict"].version.as_deref()),
            (1.0, Some("0.26"))
        );
        let part = verdict_for(&[("a", 2.0), ("b", 0.5)], false);
        assert!(!part.resolved);
        assert_eq!(part.passed_rate, 0.75, "2 is clipped to 1");
        let negative = verdict_for(&[("a", -4.0), ("b", 1.0)], true);
        assert_eq!((negative.passed_rate, negative.integrity), (0.5, Integrity::Unverified));
    }

    #[test]
    fn defects_of_a_verifier_are_found_in_its_run_on_the_reference_solution() {
        let closed = task(serde_json::json!({"digest": "", "verifier": {"network": "no-network"}}));
        let open = task(serde_json::json!({"digest": ""}));
        let download =
            "Temporary failure resolving 'deb.debian.org'\n/tests/test.sh: uv: not found\n";
        let defect = |task: &Task, output: &str| find_verifier_defect(task, output).unwrap();
        let found = defect(&closed, download).unwrap();
        assert!(found.contains("has no network") && found.contains("deb.debian.org"), "{found}");
        let found = defect(&open, download).unwrap();
        assert!(found.contains("could not download") && !found.contains("no network"), "{found}");
        let found = defect(&closed, "/tests/test.sh: 2: pytest: not found\n").unwrap();
        assert!(found.contains("tools are missing"), "{found}");
        for output in ["", "hello.txt is wrong\n", "pytest: not found\n=== 1 failed in 0.1s ===\n"]
        {
            assert_eq!(defect(&closed, output), None, "{output}");
        }
        let fault = missing_tests_fault(&closed);
        assert_eq!(fault.cause, FaultCause::Missing);
        assert!(fault.what.contains("has no /tests/test.sh") && fault.hint.is_some(), "{fault}");
    }

    #[test]
    fn verifier_runs_as_its_own_user_or_the_image_user() {
        let mut task = task(serde_json::json!({"digest": ""}));
        task.user = Some("agent".into());
        assert_eq!(build_command(&task, &[]).unwrap().user, None, "not as the agent's user");
        task.from_image.image_user = Some("app".into());
        assert_eq!(build_command(&task, &[]).unwrap().user.as_deref(), Some("app"));
        if let Some(harbor) = &mut task.harbor {
            harbor.verifier.user = Some("root".into());
        }
        let as_root = build_command(&task, &[("K".into(), "v".into())]).unwrap();
        assert_eq!((as_root.user.as_deref(), as_root.cwd), (None, RawPath::from("/app")));
        assert_eq!(as_root.env["K"], RawPath::from("v"));
        assert!(as_root.reap_all);
    }

    #[test]
    fn parse_ctrf_returns_test_names_and_statuses() {
        let report = serde_json::json!({"results": {"tests": [
            {"name": "a", "status": "passed"},
            {"name": "b", "suite": ["x", "y"], "status": "failed"},
            {"name": "a", "status": "failed"},
            {"name": "c", "suite": "s", "status": "pending"},
            {"status": "passed"},
        ]}});
        let found = parse_ctrf(report.to_string().as_bytes());
        let expected = [
            ("a", TestStatus::Failed),
            ("s > c", TestStatus::Skipped),
            ("x > y > b", TestStatus::Failed),
        ];
        let expected = expected.map(|(id, status)| (id.to_owned(), status));
        assert_eq!(found, BTreeMap::from(expected));
        assert!(parse_ctrf(b"{").is_empty());
    }
}
