//! Runs and grades Harbor tasks.
//!
//! The result of a Harbor task is more than a patch, because the verifier may inspect the whole
//! file system. The verifier runs in a fresh container, and everything that the agent changed is
//! copied there from the trial's record. None of the agent's processes run in that container, and
//! the agent never saw `/tests` or the rewards directory.

mod artifacts;
mod network;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use proctor_egress::Ledger;
use proctor_grade::{
    GradingResult,
    harbor::{VerifierRun, grade_with_verifier},
};
use proctor_harbor::{Folder, InputEntry, Rules, SOLVE_SCRIPT, expand_env};
use proctor_record::{Blobs, Remedy, Tree, TrialDir, read_journal};
use proctor_sandbox_api::{
    SandboxHandle,
    wire::{LayerDiff as SandboxLayer, RawPath},
};
use proctor_setup::{
    ApplyError, Purpose, ReadySandbox, apply_graded_patch, copy_inputs, create_log_dirs,
};
use proctor_types::{
    Arm, Budget, Event, Fault, FaultCause, FaultLayer, Harbor, NetworkPolicy, OutsideState, Task,
    TaskId, TrialId, remove_discarded_events,
};
use serde_json::{Map, Value, json};

use self::{
    artifacts::select_artifacts,
    network::{RequestLog, network_policy},
};
use crate::{
    GradingSandbox, OutsideLimits, PlannedTask, RunContext,
    error::record_fault,
    fault_handling::TrialEnvironment,
    grading_sandbox::{STRICT_POLICY, add_noise, close_and_return},
    network::SandboxNetwork,
    noise::build_noise,
    outside,
    recorder::Recorder,
    restore::restore_workdir,
    task_sandbox::{environment_record, reserved_limits, sandbox_limits},
};

/// Key of the journal note that contains the verifier's result from a run in the agent's own
/// container.
pub const IN_PLACE_NOTE: &str = "verified in place";

/// Path of the reference solution in a sandbox.
const SOLUTION_DIR: &str = "/solution";

fn require_harbor(task: &Task) -> Result<&Harbor, Fault> {
    task.harbor.as_ref().ok_or_else(|| {
        Fault::new(FaultLayer::Grade, format!("{} is not a Harbor task", task.id))
            .cause(FaultCause::Invalid)
    })
}

/// Returns the arm's budget, capped at the task's own limit on the agent's time.
pub(crate) fn agent_budget(arm: &Arm, task: &Task) -> Budget {
    let mut budget = arm.budget.clone();
    if let Some(limit) = task.harbor.as_ref().and_then(|harbor| harbor.agent_seconds) {
        budget.wall_seconds = Some(budget.wall_seconds.map_or(limit, |own| own.min(limit)));
    }
    budget
}

/// If the agent is the reference solution, returns the network that the task declares. Returns
/// `None` for all other agents, because they use their arm's network.
pub(crate) fn agent_network(arm: &Arm, task: &Task) -> Option<NetworkPolicy> {
    let harbor = task.harbor.as_ref().filter(|_| arm.scaffold == "gold")?;
    Some(network_policy(&harbor.agent_network, arm))
}

/// Returns the limits for a Harbor trial's state outside the work directory. The limits are
/// generous, because grading needs all of this state.
pub(crate) fn outside_limits(run_limits: OutsideLimits) -> Result<OutsideLimits, Fault> {
    let rules = Rules::get().map_err(|why| Fault::new(FaultLayer::Setup, why))?;
    let mb = |mb: u64| mb.saturating_mul(1 << 20);
    let needed = OutsideLimits {
        file_bytes: mb(rules.outside.file_mb),
        bytes: mb(rules.outside.mb),
        entries: rules.outside.entries,
    };
    Ok(run_limits.max_of_each(needed))
}

/// Creates the directories that Harbor's containers provide for agents.
pub(crate) async fn prepare_sandbox(handle: &SandboxHandle) -> Result<(), Fault> {
    let made = create_log_dirs(handle, &["agent", "artifacts"]).await;
    made.map_err(|error| error.to_fault("creating the log folders"))
}

/// Returns the environment variables of the reference solution, or `None` if the task has no
/// solution.
pub(crate) fn solution_env(task: &Task) -> Result<Option<Vec<(String, String)>>, Fault> {
    let Some(env) = task.harbor.as_ref().and_then(|harbor| harbor.solution.as_ref()) else {
        return Ok(None);
    };
    resolve_env(task, "solution.env", env).map(Some)
}

fn resolve_env(
    task: &Task,
    key: &str,
    env: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, Fault> {
    let env = expand_env(env, &|name| std::env::var(name).ok()).map_err(|why| {
        Fault::new(FaultLayer::Setup, format!("{}: {key}: {why}", task.id))
            .cause(FaultCause::Invalid)
            .hint("set the variable in Proctor's environment")
    })?;
    Ok(env.into_iter().collect())
}

/// Copies the reference solution into a sandbox.
pub(crate) async fn copy_solution(
    handle: &SandboxHandle,
    task: &Task,
    base_dir: &Path,
) -> Result<(), Fault> {
    let files = read_inputs(task, base_dir, "solution")?;
    let laid = copy_inputs(handle, SOLUTION_DIR, &files, SOLVE_SCRIPT, true).await;
    laid.map_err(|error| error.to_fault("copying the solution"))
}

/// Returns the files in a folder of the task's directory. Fails if the folder has changed since the
/// run was planned.
fn read_inputs(task: &Task, base_dir: &Path, name: &str) -> Result<Vec<InputEntry>, Fault> {
    let wrong = |why: String| {
        let what = format!("{}: {}: {why}", task.id, base_dir.display());
        Fault::new(FaultLayer::Setup, what).cause(FaultCause::Invalid).into_permanent()
    };
    let folder = Folder::open(base_dir).map_err(|error| wrong(error.to_string()))?;
    if folder.digest().map_err(wrong)? != require_harbor(task)?.digest {
        let why = "the folder has changed since the run was planned".to_owned();
        return Err(wrong(why).hint("restore the folder, or start a new run"));
    }
    folder.inputs(name).map_err(wrong)
}

/// Runs the verifier in a sandbox that contains the agent's result. The verifier's network
/// requests are appended to its log.
async fn run_verifier(
    context: &RunContext,
    (arm, task, base_dir): (&Arm, &Task, &Path),
    handle: &Arc<SandboxHandle>,
    is_in_place: bool,
) -> Result<GradingResult, Fault> {
    let harbor = require_harbor(task)?;
    let tests = read_inputs(task, base_dir, "tests")?;
    let bundled = harbor.verifier.separate.as_ref().is_some_and(|separate| separate.bundled);
    let requests = Arc::new(RequestLog::default());
    let ledger = Arc::clone(&requests) as Arc<dyn Ledger>;
    let policy = network_policy(&harbor.verifier.network, arm);
    let network = SandboxNetwork::open_for_verifier(context, &policy, task, handle, ledger).await?;
    let mut env = resolve_env(task, "verifier.env", &harbor.verifier.env)?;
    env.extend(network.sandbox_env()?);
    let verification = VerifierRun {
        task,
        test_files: &tests,
        env: &env,
        is_shared: is_in_place,
        has_bundled_tests: bundled,
    };
    let graded = grade_with_verifier(handle, &verification).await;
    let ended = network.close().await;
    let mut graded = graded.map_err(|fault| with_requests(fault, &requests))?;
    ended?;
    if let Some(url) = requests.unreachable_url()
        && has_no_results(&graded)?
    {
        let what = format!(
            "{}: the verifier could not download its tools: {url} has a private address on this machine",
            task.id
        );
        let hint = "if it is your own mirror, add its address to the arm's `network.private`";
        let fault = Fault::new(FaultLayer::Grade, what).cause(FaultCause::Unreachable).hint(hint);
        return Err(with_requests(fault.log(graded.log), &requests));
    }
    graded.log.extend(requests.log_lines());
    Ok(graded)
}

/// Appends the verifier's network requests to the log of its failed run.
fn with_requests(fault: Fault, requests: &RequestLog) -> Fault {
    let mut log = fault.log.as_ref().map_or(Vec::new(), |log| log.as_bytes().to_vec());
    log.extend(requests.log_lines());
    fault.log(log)
}

/// Whether the verifier wrote no reward and ran no test.
fn has_no_results(grading_result: &GradingResult) -> Result<bool, Fault> {
    let rules = Rules::get().map_err(|why| Fault::new(FaultLayer::Grade, why))?;
    let GradingResult { verdict, log, .. } = grading_result;
    Ok(verdict.tests.is_empty()
        && verdict.rewards.values().all(|reward| *reward <= 0.0)
        && !rules.shows_test_run(&String::from_utf8_lossy(log)))
}

/// Runs the verifier in the agent's container after the last snapshot, and records the verifier's
/// result in a note. Does nothing unless the run requests this, or the reference solution left
/// processes running that the result may depend on.
pub(crate) async fn verify_in_place(
    context: &RunContext,
    (arm, task, base_dir): (&Arm, &Task, &Path),
    handle: &Arc<SandboxHandle>,
    recorder: &Recorder,
) -> Result<(), Fault> {
    // A separate verifier never gets access to the agent's container.
    if task.harbor.as_ref().is_none_or(|harbor| harbor.verifier.separate.is_some()) {
        return Ok(());
    }
    if !(context.verifies_in_place || (arm.scaffold == "gold" && has_processes(handle).await)) {
        return Ok(());
    }
    let found = match run_verifier(context, (arm, task, base_dir), handle, true).await {
        Ok(graded) => {
            json!({ "verdict": graded.verdict, "log": recorder.store_blob(&graded.log)? })
        }
        Err(fault) => {
            let log = fault.log.as_ref().map(|log| recorder.store_blob(log.as_bytes()));
            json!({ "fault": fault, "log": log.transpose()? })
        }
    };
    let note = Map::from_iter([(IN_PLACE_NOTE.to_owned(), found)]);
    recorder.append(Event::Noted { note }).await
}

async fn has_processes(handle: &SandboxHandle) -> bool {
    handle.ping().await.is_ok_and(|(processes, _)| processes > 0)
}

/// The final state of a trial according to its record.
#[derive(Default)]
struct FinalState {
    tree: Option<String>,
    outside_state: Option<OutsideState>,
    /// The hash of the patch.
    patch_hash: Option<String>,
    /// The note with the result of the verifier's run in the agent's own container.
    in_place_note: Option<Value>,
}

impl FinalState {
    fn read(dir: &TrialDir) -> Result<Self, Fault> {
        let reading = read_journal(dir.trajectory_path()).map_err(record_fault)?;
        if let Some(lost) = reading.first_lost_line() {
            let fault = Fault::new(FaultLayer::Record, lost.to_string());
            return Err(fault.hint(Remedy::RestoreFromCopy.hint()).into_permanent());
        }
        let mut found = Self::default();
        for envelope in remove_discarded_events(reading.events) {
            match envelope.event {
                Event::SetupFinished { base_snapshot, .. } => found.tree = Some(base_snapshot),
                Event::TrialForked { snapshot, outside, .. } => {
                    found.tree = Some(snapshot);
                    found.outside_state = outside.map(OutsideState::Kept);
                }
                // Ignore a snapshot that was taken before setup finished.
                Event::SnapshotTaken { snapshot, outside, .. } if found.tree.is_some() => {
                    found.tree = Some(snapshot);
                    found.outside_state = outside;
                }
                Event::PatchCollected { hash, .. } => found.patch_hash = Some(hash),
                Event::Noted { note } => {
                    found.in_place_note = note.get(IN_PLACE_NOTE).cloned().or(found.in_place_note);
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The agent's result, which is copied into a fresh container before the verifier runs.
enum VerifierInput<'a> {
    /// An imported prediction, which consists only of a patch.
    Patch(&'a [u8]),
    FinalState {
        tree: String,
        outside_digest: Option<String>,
    },
}

fn to_verifier_input<'a>(
    task: &Task,
    final_state: FinalState,
    patch: &'a [u8],
) -> Result<VerifierInput<'a>, Fault> {
    let fault = |what: String| {
        // Mark the fault as permanent, because retrying cannot help. Other trials of the task
        // continue.
        Fault::new(FaultLayer::Grade, format!("{}: {what}", task.id)).into_permanent()
    };
    let Some(tree) = final_state.tree else { return Ok(VerifierInput::Patch(patch)) };
    if final_state.patch_hash.as_deref() != Some(Blobs::hash(patch).as_str()) {
        let what = "only the final state of a Harbor trial can be graded, because its result is more than a patch";
        return Err(fault(what.into()).hint("exclude Harbor tasks from curves"));
    }
    match final_state.outside_state {
        None => Ok(VerifierInput::FinalState { tree, outside_digest: None }),
        Some(OutsideState::Kept(digest)) => {
            Ok(VerifierInput::FinalState { tree, outside_digest: Some(digest) })
        }
        Some(OutsideState::Unkept(why)) => {
            let what =
                format!("the agent's changes outside the work directory were not kept: {why}");
            Err(fault(what).hint(
                "raise `resume.outside_mb` and `resume.outside_file_mb`, or set `grading.harbor_shared = true`",
            ))
        }
    }
}

/// Grades the final state of a trial.
pub(crate) async fn grade_final_state(
    context: &RunContext,
    id: &TrialId,
    planned_task: &PlannedTask,
    arm: &Arm,
    patch: &[u8],
) -> Result<GradingResult, Fault> {
    let agents = context.prepare_environment(id, planned_task, arm).await?;
    let backend = context.backend(arm.sandbox.kind)?;
    let verifiers = match verifier_task(&planned_task.task) {
        None => None,
        Some(task) => {
            let base_dir = planned_task.base_dir.clone();
            let planned = PlannedTask { task: Arc::new(task), base_dir };
            Some(context.prepare_environment(id, &planned, arm).await?)
        }
    };
    let agent = Arc::clone(&agents.planned_task.task);
    let TrialEnvironment { planned_task: planned, environment, findings } =
        verifiers.unwrap_or(agents);
    let task = planned.task.as_ref();
    let (limits, reserved) = (sandbox_limits(arm, task), reserved_limits(arm, task));
    let dir = context.run.trial_dir(id);
    let blobs = context.run.trial_blobs(&dir);
    let recorded = FinalState::read(&dir)?;
    if context.verifies_in_place
        && let Some(found) = &recorded.in_place_note
    {
        let mut graded = parse_in_place_note(found, &blobs)?;
        graded.verdict.environment = Some(environment_record(&environment, task, &limits));
        return Ok(graded);
    }
    let state = to_verifier_input(&agent, recorded, patch)?;
    let handle = GradingSandbox {
        backend: backend.as_ref(),
        environment: &environment,
        findings: &findings,
        limits: &limits,
        reservation: &reserved,
        purpose: format!("grading {id}"),
        cancel: &context.cancel,
        capacity: &context.capacity,
    };
    let _share = handle.reserve_capacity().await?;
    let ReadySandbox { sandbox, .. } = handle.open(task, Purpose::Testing).await?;
    let (graded, counts) = {
        let inside = Arc::clone(sandbox.handle());
        let grades = async {
            copy_result(&inside, &agent, &state, &blobs).await?;
            run_verifier(context, (arm, task, &planned.base_dir), &inside, false).await
        };
        handle.measure_grading(sandbox.as_ref(), Box::pin(grades)).await
    };
    let noise = build_noise(counts, None, None)?;
    let graded =
        close_and_return(sandbox, graded.map(|graded| add_noise(graded, STRICT_POLICY, noise)))
            .await?;
    let mut graded = handle.with_environment_record(graded, task);
    graded.verdict.task = agent.id.clone();
    Ok(graded)
}

/// Returns the task that a separate verifier runs, with its own environment and ID. Returns `None`
/// if the verifier shares the agent's environment.
fn verifier_task(task: &Task) -> Option<Task> {
    let harbor = task.harbor.as_ref()?;
    let separate = harbor.verifier.separate.as_ref()?;
    let own = separate.environment.clone();
    let source = if own.is_some() { None } else { task.source.clone() };
    let harbor = Harbor { workdir: separate.workdir.clone(), ..harbor.clone() };
    Some(Task {
        id: TaskId::new(format!("{} (verifier)", task.id)),
        environment: own.unwrap_or_else(|| task.environment.clone()),
        source,
        workdir: String::new(),
        env: separate.env.clone(),
        user: None,
        harbor: Some(harbor),
        ..task.clone()
    })
}

/// Copies the agent's result into a fresh container.
async fn copy_result(
    handle: &Arc<SandboxHandle>,
    task: &Task,
    input: &VerifierInput<'_>,
    blobs: &Blobs,
) -> Result<(), Fault> {
    let (workdir, owner) = (RawPath::from(task.workdir.as_str()), task.user.as_deref());
    if let Some(separate) =
        task.harbor.as_ref().and_then(|harbor| harbor.verifier.separate.as_ref())
    {
        let VerifierInput::FinalState { tree, outside_digest: outside } = input else {
            let what = format!("{}: the task's verifier needs more than a patch", task.id);
            let hint = "run the agent with `proctor run`, which records its files";
            return Err(Fault::new(FaultLayer::Grade, what).hint(hint).into_permanent());
        };
        let tree = Tree::load(blobs, tree).map_err(record_fault)?;
        let layer = match outside {
            Some(digest) => outside::load_layer(blobs, digest).map_err(outside::restore_fault)?,
            None => SandboxLayer::default(),
        };
        let layer = select_artifacts(task, &separate.artifacts, &tree, layer);
        return outside::restore_layer(handle, blobs, &layer).await;
    }
    match input {
        VerifierInput::Patch(patch) if patch.trim_ascii().is_empty() => Ok(()),
        VerifierInput::Patch(patch) => {
            match apply_graded_patch(handle, &workdir, patch, owner).await {
                Ok(_) => Ok(()),
                Err(ApplyError::Sandbox(error)) => Err(error.to_fault("applying the patch")),
                // A patch that does not apply leaves the container unchanged. The verifier still
                // runs.
                Err(ApplyError::Patch(_)) => Ok(()),
            }
        }
        VerifierInput::FinalState { tree, outside_digest: outside } => {
            let tree = Tree::load(blobs, tree).map_err(record_fault)?;
            restore_workdir(handle, &workdir, blobs, &tree, owner).await?;
            let Some(digest) = outside else { return Ok(()) };
            let layer = outside::load_layer(blobs, digest).map_err(outside::restore_fault)?;
            outside::restore_layer(handle, blobs, &layer).await
        }
    }
}

/// Reads the recorded result of the verifier's run in the agent's own container.
fn parse_in_place_note(note: &Value, blobs: &Blobs) -> Result<GradingResult, Fault> {
    let damaged = |why: String| {
        Fault::new(FaultLayer::Record, format!("invalid note about the verifier's run: {why}"))
            .into_permanent()
    };
    if let Some(fault) = note.get("fault") {
        let fault: Fault =
            serde_json::from_value(fault.clone()).map_err(|error| damaged(error.to_string()))?;
        let fault = fault.into_permanent();
        // A lost log must not hide the reason.
        let log = note.get("log").and_then(Value::as_str).and_then(|log| blobs.get(log).ok());
        return Err(match log {
            Some(log) => fault.log(log),
            None => fault,
        });
    }
    let verdict = note.get("verdict").cloned().unwrap_or_default();
    let verdict = serde_json::from_value(verdict).map_err(|error| damaged(error.to_string()))?;
    let log = note.get("log").and_then(Value::as_str).unwrap_or_default();
    let log = blobs.get(log).map_err(record_fault)?;
    Ok(GradingResult { verdict, log, raw_results: Vec::new() })
}

#[cfg(test)]
mod tests {
    use proctor_sandbox_api::wire::{EntryKind, LayerEntry, SnapshotEntry};
    use proctor_types::{HarborNetwork, NetworkMode};

    use super::*;

    fn task(harbor: Value) -> Task {
        serde_json::from_value(json!({
            "schema_version": 1, "id": "o/t", "statement": "", "environment": {"image": "i"}, "workdir": "/app",
            "fail_to_pass": [], "test_command": ["/tests/test.sh"], "harbor": harbor,
        }))
        .unwrap()
    }

    fn arm(scaffold: &str) -> Arm {
        serde_json::from_value(json!({
            "id": "", "name": "a", "scaffold": scaffold, "prompts": null, "budget": {"wall_seconds": 100.0},
            "network": {}, "sandbox": {},
        }))
        .unwrap()
    }

    #[test]
    fn smaller_time_limit_applies_and_only_gold_gets_the_tasks_network() {
        let harbor = json!({"digest": "", "agent_seconds": 30.0, "agent_network": {"allowlist": ["a.b", "*.c.d"]}});
        let task = task(harbor);
        assert_eq!(agent_budget(&arm("tools"), &task).wall_seconds, Some(30.0));
        assert_eq!(agent_network(&arm("tools"), &task), None);
        let network = agent_network(&arm("gold"), &task).unwrap();
        assert_eq!((network.mode, network.allow.len()), (NetworkMode::Allow, 2));
        let policy = proctor_egress::Policy::for_arm(&network);
        assert!(policy.is_ok(), "{:?}", policy.err());
        let mut own = arm("gold");
        own.network.private = vec!["mirror.test=10.0.0.1:443".to_owned()];
        assert_eq!(network_policy(&HarborNetwork::NoNetwork, &own), NetworkPolicy::default());
        let public = network_policy(&HarborNetwork::Public, &own);
        assert_eq!((public.mode, public.private), (NetworkMode::OpenExcept, own.network.private));
    }

    #[test]
    fn separate_verifier_receives_only_declared_artifacts() {
        let separate = json!({"environment": {"image": "v"}, "artifacts": ["out/", "/var/report"], "bundled": true});
        let task = task(json!({"digest": "", "verifier": {"separate": separate}}));
        let verifier = verifier_task(&task).unwrap();
        assert_eq!(
            (verifier.environment.image.as_deref(), verifier.workdir.as_str()),
            (Some("v"), "")
        );
        assert_ne!(verifier.id, task.id, "environments are cached by task ID");
        let entry = |path: &str, link: Option<&str>| SnapshotEntry {
            path: path.into(),
            kind: if link.is_some() { EntryKind::Link } else { EntryKind::File },
            mode: 0o4755,
            size: 1,
            hash: None,
            link: link.map(RawPath::from),
        };
        let mut tree = Tree::default();
        for one in [
            entry("out/a", None),
            entry("out/in", Some("a")),
            entry("out/leads", Some("../../etc/passwd")),
            entry("out/absolute", Some("/app/out/a")),
            entry("outer", None),
            entry("src/b", None),
        ] {
            tree.entries.insert(one.path.clone(), one);
        }
        let outside = |path: &str| LayerEntry { entry: entry(path, None), uid: 5, gid: 5 };
        let layer = SandboxLayer {
            changed: ["etc/x", "logs/artifacts/c", "var/report", "var/reports"].map(outside).into(),
            removed: vec!["etc/y".into()],
        };
        let paths = ["out/".to_owned(), "/var/report".to_owned()];
        let found = select_artifacts(&task, &paths, &tree, layer);
        let names: Vec<String> =
            found.changed.iter().map(|one| one.entry.path.to_string()).collect();
        assert_eq!(
            names,
            ["app/out/a", "app/out/absolute", "app/out/in", "logs/artifacts/c", "var/report"]
        );
        assert!(found.changed.iter().all(|one| (one.uid, one.entry.mode) == (0, 0o755)));
        assert!(found.removed.is_empty());
    }

    #[test]
    fn fault_of_a_verifier_in_place_keeps_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path().join("blobs"));
        let fault = Fault::new(FaultLayer::Grade, "no reward");
        let log = |note: Value| {
            let fault = parse_in_place_note(&note, &blobs).unwrap_err();
            assert_eq!(fault.what, "no reward");
            fault.log.map(|log| log.as_bytes().to_vec())
        };
        let hash = blobs.put(b"output").unwrap();
        assert_eq!(log(json!({"fault": fault, "log": hash})), Some(b"output".to_vec()));
        for note in [
            json!({"fault": fault}),
            json!({"fault": fault, "log": null}),
            json!({"fault": fault, "log": "00"}),
        ] {
            assert_eq!(log(note), None);
        }
        let fault = with_requests(fault.log(&b"output\n"[..]), &RequestLog::default());
        assert_eq!(fault.log.unwrap().as_bytes(), b"output\n");
    }

    #[test]
    fn incompletely_recorded_state_is_a_fault() {
        let task = task(json!({"digest": ""}));
        let recorded = |outside, patch: &[u8]| FinalState {
            tree: Some("t".into()),
            outside_state: outside,
            patch_hash: Some(Blobs::hash(patch)),
            in_place_note: None,
        };
        assert!(matches!(
            to_verifier_input(&task, FinalState::default(), b"p"),
            Ok(VerifierInput::Patch(b"p"))
        ));
        let kept = recorded(Some(OutsideState::Kept("d".into())), b"p");
        assert!(matches!(
            to_verifier_input(&task, kept, b"p"),
            Ok(VerifierInput::FinalState { outside_digest: Some(_), .. })
        ));
        let unkept = recorded(Some(OutsideState::Unkept("too much".into())), b"p");
        let fault = to_verifier_input(&task, unkept, b"p").err().unwrap();
        assert!(fault.what.contains("too much") && fault.hint.is_some(), "{fault}");
        let earlier = to_verifier_input(&task, recorded(None, b"other"), b"p").err().unwrap();
        assert!(earlier.what.contains("only the final state"), "{earlier}");
    }
}
