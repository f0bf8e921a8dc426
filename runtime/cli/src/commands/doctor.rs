//! `proctor doctor`: checks which features this machine supports, and explains how to enable the
//! missing ones.

use std::{path::Path, process::ExitCode, time::Duration};

use proctor_grade::find_leaks;
use proctor_sandbox_api::{
    Backend, Base, Command, LayerSpec, PreparedEnvironment, SandboxRequest, find_hint,
    wire::RawPath,
};
use proctor_setup::{
    Preparation, Purpose, ReadySandbox, Sources, prepare_for_agent, resolve_layer_spec,
};
use proctor_types::{Fault, FaultLayer, OnFinding, SandboxKind, SandboxSpec, Task};

use crate::{assemble, cache_dir, error::CommandError, print::print_result};

/// A task that needs only a shell. It has a setup command, so the back end must build a layer.
const MINIMAL_TASK: &str = r#"{
    "schema_version": 1, "id": "doctor", "statement": "",
    "environment": { "base": "host", "setup": ["true"] },
    "workdir": "/testbed", "fail_to_pass": [], "test_command": ["true"]
}"#;

/// Runs the conformance kit and a minimal trial on every back end that starts. A back end that does
/// not start is reported with its hint. The exit status is 0 if at least one back end starts and
/// all that start pass.
pub async fn check_back_ends(is_full: bool) -> Result<ExitCode, CommandError> {
    let cache = cache_dir::default_cache_dir()?;
    let (mut works, mut fails) = (false, false);
    for kind in [SandboxKind::Native, SandboxKind::Docker] {
        let name = kind.to_string();
        let backend = match assemble::start_backend(kind, &cache).await {
            Ok(backend) => backend,
            Err(error) => {
                print_result(&format!("{name}: not available\n  {error}\n\n"))?;
                continue;
            }
        };
        let spec = LayerSpec {
            base: Base::Host,
            source: None,
            setup: Vec::new(),
            workdir: RawPath::from("/testbed"),
            env: Vec::new(),
            time_limit: Duration::from_secs(60),
        };
        let prepared = match backend.prepare(&spec).await {
            Ok(prepared) => prepared,
            Err(fault) => {
                print_result(&format!(
                    "{name}: failed to build an environment with this machine as its base\n  {fault}\n\n"
                ))?;
                continue;
            }
        };
        let results = proctor_conformance::run_kit(backend.as_ref(), &prepared, !is_full).await;
        print_result(&format!("{name}:\n{}\n", proctor_conformance::render_results(&results)))?;
        print_result(&describe_unenforced_limits(backend.as_ref(), &prepared).await)?;
        // A skipped test means that this machine lacks a feature. It does not count as a failure.
        let mut well =
            results.iter().all(|result| result.has_passed || result.skip_reason.is_some());
        match run_minimal_trial(backend.as_ref(), &cache).await {
            Ok(()) => print_result("trial: ok\n\n")?,
            Err((step, fault)) => {
                print_result(&format!("trial: FAILED to {step}\n  {fault}\n\n"))?;
                well = false;
            }
        }
        works |= well;
        fails |= !well;
    }
    Ok(if works && !fails { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Opens a sandbox exactly as a trial does, and runs `true` in the sandbox. The kit opens sandboxes
/// without a task, so it cannot detect failures in the other steps of a trial.
///
/// # Errors
/// Returns the step that failed, and the fault.
async fn run_minimal_trial(
    backend: &dyn Backend,
    cache: &Path,
) -> Result<(), (&'static str, Fault)> {
    let during = |step: &'static str| move |fault: Fault| (step, fault);
    let task: Task = serde_json::from_str(MINIMAL_TASK)
        .map_err(|error| ("read the task", Fault::new(FaultLayer::Setup, error.to_string())))?;
    let limits = SandboxSpec::default();
    let sources = Sources::new(cache.join("sources"));
    let spec = resolve_layer_spec(&task, &sources, Path::new("/")).await;
    let spec = spec.map_err(during("describe the environment"))?;
    let environment = backend.prepare(&spec).await.map_err(during("build the environment"))?;
    let findings = find_leaks(backend, &environment, &task, &limits).await;
    let findings = findings.map_err(during("check the environment for leaks"))?;
    let preparation = Preparation {
        backend,
        environment: &environment,
        task: &task,
        findings: &findings,
        limits: &limits,
        mounts: &[],
        label: "doctor".to_owned(),
    };
    let on_finding = OnFinding::default();
    let ready = preparation.open(Purpose::Driving(on_finding)).await;
    let ReadySandbox { mut sandbox, hidden_copies: hidden } =
        ready.map_err(during("open the sandbox"))?;
    let ran = async {
        prepare_for_agent(sandbox.handle(), &task, &findings, &hidden, on_finding)
            .await
            .map_err(during("prepare the work directory"))?;
        let command = Command::new(["true"]).cwd(task.workdir.as_str());
        let done = sandbox.handle().run(command).await;
        let done = done.map_err(|error| ("run `true`", error.to_fault("running `true`")))?;
        match done.success() {
            true => Ok(()),
            false => {
                let what = format!("{:?}: {}", done.exit, done.stderr.text());
                Err(("run `true`", Fault::new(FaultLayer::Sandbox, what)))
            }
        }
    };
    let ran = ran.await;
    let closed = sandbox.close().await.map_err(during("close the sandbox"));
    ran.and(closed)
}

/// Lists the limits that sandboxes on this machine do not enforce, with hints on how to enforce
/// them.
async fn describe_unenforced_limits(
    backend: &dyn Backend,
    prepared_environment: &PreparedEnvironment,
) -> String {
    let (environment, limits) = (prepared_environment.clone(), SandboxSpec::default());
    let spec =
        SandboxRequest { environment, limits, mounts: Vec::new(), purpose: "doctor".to_owned() };
    let mut sandbox = match backend.open(&spec).await {
        Ok(sandbox) => sandbox,
        Err(fault) => return format!("failed to open a sandbox: {fault}\n\n"),
    };
    let mut text = String::new();
    for entry in &sandbox.enforcement().not_enforced {
        text.push_str(&format!("not enforced: {entry}\n"));
        if let Some(hint) = find_hint(entry) {
            text.push_str(&format!("        hint: {hint}\n"));
        }
    }
    if text.is_empty() {
        text.push_str("all requested limits are enforced\n");
    }
    if let Err(fault) = sandbox.close().await {
        text.push_str(&format!("failed to close the sandbox: {fault}\n"));
    }
    text.push('\n');
    text
}
