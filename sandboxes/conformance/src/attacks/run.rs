//! Runs the attacks against any back end.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use proctor_sandbox_api::{
    Backend, Command, PreparedEnvironment, Sandbox, SandboxHandle, SandboxRequest,
};
use proctor_types::SandboxSpec;

use super::{attack::Attack, list::attacks};
use crate::{
    CheckError, CheckResult, Fixture,
    fixture::{Outcome, check_failed, ensure},
};

/// How long one attack may take before the sandbox counts as hung.
const ATTACK_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a command in the other sandbox may take during an attack. On an idle machine it takes a
/// millisecond. In a starved sandbox it would not finish at all.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the back end may take to release a sandbox's resources.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(15);

/// Lists what the back end's sandboxes currently use on the machine: processes, cgroups,
/// mounts, containers.
pub type ResourceLister<'a> = &'a (dyn Fn() -> Vec<String> + Sync);

/// Runs all attacks, each in its own sandbox, while another sandbox keeps working.
pub async fn run_attacks(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    list_resources: ResourceLister<'_>,
) -> Vec<CheckResult> {
    let mut results = Vec::new();
    let bystander = Bystander::open(backend, environment).await;
    for attack in attacks() {
        let started = Instant::now();
        let outcome = match &bystander {
            Ok(bystander) => {
                run_with_bystander(backend, environment, &attack, list_resources, bystander).await
            }
            Err(failed) => Err(check_failed(format!("cannot open the other sandbox: {failed}"))),
        };
        results.push(check_result(&attack, outcome, started.elapsed()));
    }
    if let Ok(bystander) = bystander
        && let Err(fault) = bystander.sandbox.into_inner().close().await
        && let Some(last) = results.last_mut()
    {
        last.has_passed = false;
        last.failure_reason = Some(format!("cannot close the other sandbox: {fault}"));
    }
    results
}

/// Runs an attack that is expected to succeed in this back end's sandboxes. Returns the output.
///
/// # Errors
/// Fails if the attack did not succeed or was skipped.
pub async fn run_expecting_success(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    attack: &Attack,
) -> Result<String, String> {
    match run_in_own_sandbox(backend, environment, attack).await {
        Err(CheckError::Failed(why)) => Ok(why),
        Err(CheckError::Skipped(why)) => Err(format!("{} was skipped: {why}", attack.name)),
        Ok(()) => Err(format!("{} fails even without {:?}", attack.name, attack.prevented_by)),
    }
}

async fn run_with_bystander(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    attack: &Attack,
    list_resources: ResourceLister<'_>,
    bystander: &Bystander,
) -> Outcome {
    let before: BTreeSet<String> = list_resources().into_iter().collect();
    let watch = bystander.watch();
    let outcome = run_in_own_sandbox(backend, environment, attack).await;
    let disturbed = watch.end().await;
    let returned = wait_for_release(&before, list_resources).await;
    outcome?;
    disturbed?;
    returned
}

/// Runs an attack in its own sandbox and closes the sandbox.
async fn run_in_own_sandbox(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    attack: &Attack,
) -> Outcome {
    let mut sandbox =
        backend.open(&sandbox_request(environment, (attack.limits)(), attack.name)).await?;
    let (handle, enforcement) = (Arc::clone(sandbox.handle()), sandbox.enforcement().clone());
    let fixture = Fixture { backend, environment, handle, enforcement };
    let outcome = tokio::time::timeout(ATTACK_TIMEOUT, (attack.body)(&fixture)).await;
    let outcome = outcome.unwrap_or_else(|_| {
        Err(check_failed(format!("the sandbox hung for {} s", ATTACK_TIMEOUT.as_secs())))
    });
    let closed = sandbox.close().await;
    outcome?;
    Ok(closed?)
}

fn sandbox_request(
    environment: &PreparedEnvironment,
    limits: SandboxSpec,
    purpose: &str,
) -> SandboxRequest {
    SandboxRequest {
        environment: environment.clone(),
        limits,
        mounts: Vec::new(),
        purpose: format!("attack {purpose}"),
    }
}

async fn wait_for_release(
    initial_resources: &BTreeSet<String>,
    list_resources: ResourceLister<'_>,
) -> Outcome {
    let begun = Instant::now();
    loop {
        let left: Vec<_> =
            list_resources().into_iter().filter(|name| !initial_resources.contains(name)).collect();
        if left.is_empty() {
            return Ok(());
        }
        ensure!(begun.elapsed() < RELEASE_TIMEOUT, "left behind: {}", left.join(", "));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn check_result(attack: &Attack, outcome: Outcome, duration: Duration) -> CheckResult {
    let (passed, skipped_reason, why) = match outcome {
        Ok(()) => (true, None, None),
        Err(CheckError::Skipped(reason)) => (false, Some(reason), None),
        Err(CheckError::Failed(why)) => (false, None, Some(why)),
    };
    CheckResult {
        name: attack.name,
        has_passed: passed,
        skip_reason: skipped_reason,
        duration,
        failure_reason: why,
    }
}

/// A sandbox that is not attacked.
struct Bystander {
    sandbox: tokio::sync::Mutex<Box<dyn Sandbox>>,
    handle: Arc<SandboxHandle>,
}

impl Bystander {
    async fn open(
        backend: &dyn Backend,
        environment: &PreparedEnvironment,
    ) -> Result<Self, CheckError> {
        let spec = sandbox_request(environment, SandboxSpec::default(), "another sandbox");
        let sandbox = backend.open(&spec).await?;
        let handle = Arc::clone(sandbox.handle());
        Ok(Self { sandbox: tokio::sync::Mutex::new(sandbox), handle })
    }

    /// Runs commands in the sandbox, one after another, until the returned watch ends.
    fn watch(&self) -> Watch {
        let handle = Arc::clone(&self.handle);
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let work = tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            loop {
                let begun = Instant::now();
                let command = Command::shell("echo $$ > /tmp/own && echo well");
                let done = tokio::time::timeout(COMMAND_TIMEOUT, handle.run(command)).await;
                slowest = slowest.max(begun.elapsed());
                match done {
                    Ok(Ok(done)) if done.success() && done.stdout.head == b"well\n" => {}
                    other => {
                        return Err(check_failed(format!(
                            "the other sandbox is affected: {other:?}"
                        )));
                    }
                }
                if until.load(Ordering::Relaxed) {
                    return Ok(slowest);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Watch { is_over: over, command_loop: work }
    }
}

struct Watch {
    is_over: Arc<AtomicBool>,
    command_loop: tokio::task::JoinHandle<Result<Duration, CheckError>>,
}

impl Watch {
    async fn end(self) -> Outcome {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.command_loop.await;
        let slowest = ended.map_err(|error| {
            check_failed(format!("cannot run commands in the other sandbox: {error}"))
        })??;
        tracing::debug!(?slowest, "the other sandbox");
        Ok(())
    }
}
