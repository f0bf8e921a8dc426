//! One open sandbox. Its container is always removed.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bollard::{
    models::ChangeType,
    query_parameters::{InspectContainerOptionsBuilder, RemoveContainerOptionsBuilder},
};
use proctor_sandbox_api::{
    Enforcement, FailureDiagnostics, Sandbox, SandboxHandle, WrittenPaths,
    wire::{ContainerDiff, RawPath},
};
use proctor_types::{Fault, SandboxCounts};
use tokio::{runtime::Handle, time::timeout};

use crate::{
    counts::{self, ContainerRef},
    create::OpenContainer,
    docker::Engine,
    fault,
};

/// How long a sandbox may take to shut down before its container is removed.
const GRACE: Duration = Duration::from_secs(2);

/// Time limit for one listing.
const LIST_LIMIT: Duration = Duration::from_secs(30);

pub struct DockerSandbox {
    handle: Arc<SandboxHandle>,
    enforcement: Enforcement,
    guard: Option<Guard>,
}

impl DockerSandbox {
    pub fn new(opened: OpenContainer) -> Self {
        let OpenContainer { handle, enforcement, guard } = opened;
        Self { handle, enforcement, guard: Some(guard) }
    }
}

/// The engine's information about a container's end.
pub struct EngineDiagnostics {
    pub client: bollard::Docker,
    pub id: String,
    /// `None` if the engine enforces the disk limit itself.
    pub disk_mb: Option<u64>,
    /// Statistics of the engine's listings of written paths.
    pub listings: Mutex<ListingBudget>,
}

/// Number and duration of the engine's listings of what a container wrote.
#[derive(Debug, Default)]
pub struct ListingBudget {
    count: u32,
    last: Option<(Instant, Duration)>,
}

impl ListingBudget {
    /// Number of unrestricted listings: enough for the agent's start, a restored state, and a few
    /// steps of a short trial.
    const FREE_LISTINGS: u32 = 12;
    /// The engine walks the whole layer for each listing, which takes 0.1 s or more. Listings may
    /// use 1/`SHARE` of a trial's time.
    const MIN_INTERVAL_FACTOR: u32 = 20;

    /// Returns why the engine should not be asked for a listing now. A trial that is interrupted
    /// here restarts from the beginning.
    fn refusal_reason(&self) -> Option<String> {
        let (ended, took) = self.last?;
        let early =
            self.count >= Self::FREE_LISTINGS && ended.elapsed() < took * Self::MIN_INTERVAL_FACTOR;
        early.then(|| {
            format!(
                "the engine takes {:.2} s to list changes, which is too long for each step",
                took.as_secs_f64()
            )
        })
    }

    fn record(&mut self, time: Duration) {
        self.count += 1;
        self.last = Some((Instant::now(), time));
    }
}

#[async_trait]
impl WrittenPaths for EngineDiagnostics {
    async fn list_written(&self) -> Result<ContainerDiff, String> {
        let refused = self.listings.lock().unwrap_or_else(PoisonError::into_inner).refusal_reason();
        match refused {
            Some(why) => Err(why),
            None => self.list_written_without_limit().await,
        }
    }

    async fn list_written_without_limit(&self) -> Result<ContainerDiff, String> {
        let listings = || self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        let listed = timeout(LIST_LIMIT, self.client.container_changes(&self.id)).await;
        listings().record(begun.elapsed());
        let listed = match listed {
            Err(_) => {
                let limit = LIST_LIMIT.as_secs();
                return Err(format!("the engine needs more than {limit} s to list changes"));
            }
            Ok(Err(error)) => {
                return Err(format!("the engine cannot list changes: {}", fault::words(&error)));
            }
            Ok(Ok(listed)) => listed.unwrap_or_default(),
        };
        let mut written = ContainerDiff::default();
        for change in listed {
            // The engine's list is text, so it cannot represent a path that is not UTF-8.
            if change.path.contains(char::REPLACEMENT_CHARACTER) {
                return Err(format!("the name of {} is not UTF-8", change.path));
            }
            let path = RawPath::from(change.path);
            match change.kind {
                ChangeType::_2 => written.gone.push(path),
                ChangeType::_0 | ChangeType::_1 => written.paths.push(path),
            }
        }
        Ok(written)
    }
}

#[async_trait]
impl FailureDiagnostics for EngineDiagnostics {
    async fn killed(&self) -> Option<String> {
        // The engine notices the end of a container a moment after its channel has closed.
        for _ in 0..20 {
            let found = self.client.inspect_container(&self.id, None).await.ok()?;
            let state = found.state?;
            if state.running != Some(true) {
                let killed = state.oom_killed == Some(true);
                return killed.then(|| "the kernel killed it at the memory limit".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        None
    }

    async fn has_filled_disk(&self) -> bool {
        let Some(disk_mb) = self.disk_mb else { return true };
        let options = InspectContainerOptionsBuilder::new().size(true).build();
        let found = self.client.inspect_container(&self.id, Some(options)).await;
        let written = found.ok().and_then(|found| found.size_rw).unwrap_or(0);
        u64::try_from(written).unwrap_or(0) >> 20 >= disk_mb
    }
}

#[async_trait]
impl Sandbox for DockerSandbox {
    fn handle(&self) -> &Arc<SandboxHandle> {
        &self.handle
    }

    fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    async fn counts(&self) -> SandboxCounts {
        let SandboxCounts { commands_timed_out, disk_refused, .. } = self.handle.counts();
        let of_kernel = match &self.guard {
            Some(Guard { engine: Some(engine), id }) => {
                let unified = engine.unified;
                let container = ContainerRef { client: &engine.client, id, unified };
                counts::of(&self.handle, &container).await
            }
            _ => SandboxCounts::default(),
        };
        SandboxCounts { commands_timed_out, disk_refused, ..of_kernel }
    }

    async fn close(&mut self) -> Result<(), Fault> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        // A sandbox that is already gone cannot respond and need not.
        let _ = timeout(GRACE, self.handle.shutdown()).await;
        self.handle.disconnect("closed");
        guard.remove().await
    }
}

impl Drop for DockerSandbox {
    fn drop(&mut self) {
        self.handle.disconnect("dropped");
    }
}

/// A container that is removed in the background when the guard is dropped.
pub struct Guard {
    engine: Option<Arc<Engine>>,
    id: String,
}

impl Guard {
    pub fn new(engine: &Arc<Engine>, id: String) -> Self {
        engine.containers.fetch_add(1, Ordering::AcqRel);
        Self { engine: Some(Arc::clone(engine)), id }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Removes the container now. If that fails, a background task tries once more.
    pub async fn remove(mut self) -> Result<(), Fault> {
        let Some(engine) = &self.engine else { return Ok(()) };
        remove(&engine.client, &self.id).await?;
        engine.containers.fetch_sub(1, Ordering::AcqRel);
        self.engine = None;
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(engine) = self.engine.take() else { return };
        let id = std::mem::take(&mut self.id);
        let removing = async move {
            match remove(&engine.client, &id).await {
                Ok(()) => drop(engine.containers.fetch_sub(1, Ordering::AcqRel)),
                Err(fault) => {
                    tracing::warn!(%fault, id, "cannot remove a container; the next sweep removes it")
                }
            }
        };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(removing);
            return;
        }
        // Dropped outside any async runtime: use a small one.
        std::thread::spawn(move || {
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build()
            {
                runtime.block_on(removing);
            }
        });
    }
}

/// Kills and removes a container with its volumes. Succeeds if it does not exist.
pub async fn remove(client: &bollard::Docker, id: &str) -> Result<(), Fault> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    let mut tries = 0;
    loop {
        match client.remove_container(id, Some(options.clone())).await {
            Ok(()) => return Ok(()),
            Err(error) if fault::is_missing(&error) => return Ok(()),
            // Another removal is in progress, or the engine is still processing the container's
            // end.
            Err(_) if tries < 20 => tokio::time::sleep(Duration::from_millis(250)).await,
            Err(error) => return Err(fault::sandbox_fault("cannot remove a container", &error)),
        }
        tries += 1;
    }
}
