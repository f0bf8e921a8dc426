//! Asks the engine which paths a container wrote and why it ended.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bollard::{models::ChangeType, query_parameters::InspectContainerOptionsBuilder};
use proctor_sandbox_api::{
    FailureDiagnostics, WrittenPathLister,
    wire::{ContainerDiff, RawPath},
};
use tokio::time::timeout;

use crate::fault;

/// Time limit for one listing of written paths.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Asks the engine how a container ended and which paths it wrote.
pub struct EngineDiagnostics {
    pub client: bollard::Docker,
    pub id: String,
    /// The disk limit in MiB; `None` if the engine itself enforces it.
    pub disk_mb: Option<u64>,
    /// Count and duration of the engine's listings of written paths.
    pub listings: Mutex<ListingBudget>,
}

/// Limits how often the engine lists the paths that a container wrote.
#[derive(Debug, Default)]
pub struct ListingBudget {
    listing_count: u32,
    last_listing: Option<(Instant, Duration)>,
}

impl ListingBudget {
    /// Number of listings without a minimum interval: enough for the agent's start, a restored
    /// state, and a few steps of a short trial.
    const UNLIMITED_LISTINGS: u32 = 12;
    /// The minimum interval between two listings, as a multiple of the last listing's duration. For
    /// each listing, the engine walks the whole layer, which takes 0.1 s or more.
    const MIN_INTERVAL_FACTOR: u32 = 20;

    /// If it is too early for another listing, returns the reason. A trial that is interrupted at a
    /// step without a listing restarts from the beginning.
    fn refusal_reason(&self) -> Option<String> {
        let (ended, took) = self.last_listing?;
        let early = self.listing_count >= Self::UNLIMITED_LISTINGS
            && ended.elapsed() < took * Self::MIN_INTERVAL_FACTOR;
        early.then(|| {
            format!(
                "the engine takes {:.2} s to list changes, too long to do so after each step",
                took.as_secs_f64()
            )
        })
    }

    fn record(&mut self, duration: Duration) {
        self.listing_count += 1;
        self.last_listing = Some((Instant::now(), duration));
    }
}

#[async_trait]
impl WrittenPathLister for EngineDiagnostics {
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
        let listed = timeout(LIST_TIMEOUT, self.client.container_changes(&self.id)).await;
        listings().record(begun.elapsed());
        let listed = match listed {
            Err(_) => {
                let limit = LIST_TIMEOUT.as_secs();
                return Err(format!("the engine needs more than {limit} s to list changes"));
            }
            Ok(Err(error)) => {
                return Err(format!(
                    "the engine cannot list changes: {}",
                    fault::engine_message(&error)
                ));
            }
            Ok(Ok(listed)) => listed.unwrap_or_default(),
        };
        let mut written = ContainerDiff::default();
        for change in listed {
            // The engine's list is text, so a path that is not UTF-8 contains replacement
            // characters.
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
    async fn kill_reason(&self) -> Option<String> {
        // The engine notices that a container has ended a moment after its channel has closed.
        for _ in 0..20 {
            let found = self.client.inspect_container(&self.id, None).await.ok()?;
            let state = found.state?;
            if state.running != Some(true) {
                let killed = state.oom_killed == Some(true);
                return killed
                    .then(|| "the kernel killed the sandbox at its memory limit".to_owned());
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
