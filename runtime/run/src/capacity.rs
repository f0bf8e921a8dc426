//! The CPU and memory that a run's gradings share.

use std::sync::Arc;

use proctor_sandbox_api::Machine;
use proctor_types::{Fault, Layer, SandboxSpec};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// CPUs are counted in thousandths.
const WHOLE_CPU: f64 = 1000.0;

/// The CPUs and memory of this machine that grading sandboxes may use. Each open sandbox reserves
/// a share equal to its limits.
///
/// `jobs` is a poor measure here. A running trial mostly waits for its model, so many trials fit
/// on few CPUs. A grading computes all the time, and each grading beyond the number of CPUs pushes
/// the others towards their time limits. A sandbox that requests more than the machine has
/// reserves all of it and runs alone.
#[derive(Debug)]
pub struct Capacity {
    cpus: (u32, Arc<Semaphore>),
    memory: (u32, Arc<Semaphore>),
}

/// A share of the machine. It is released on drop.
#[derive(Debug)]
pub struct Share {
    _cpus: OwnedSemaphorePermit,
    _memory: OwnedSemaphorePermit,
}

impl Capacity {
    pub fn of(machine: &Machine) -> Self {
        let pool = |size: f64| {
            let size = whole(size).min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
            (size, Arc::new(Semaphore::new(size as usize)))
        };
        Self { cpus: pool(machine.cpus * WHOLE_CPU), memory: pool(machine.memory_mb as f64) }
    }

    /// Returns how many sandboxes with these limits fit at once; at least one.
    pub fn sandboxes(&self, limits: &SandboxSpec) -> usize {
        let (cpus, memory) = self.wanted(limits);
        (self.cpus.0 / cpus).min(self.memory.0 / memory) as usize
    }

    /// Waits for a share. A task that already owns one must use [`Self::try_take`] instead,
    /// because two such tasks could deadlock.
    ///
    /// # Errors
    ///
    /// None in practice: nothing closes the semaphores, but acquiring a permit returns a `Result`.
    pub async fn take(&self, limits: &SandboxSpec) -> Result<Share, Fault> {
        let (cpus, memory) = self.wanted(limits);
        let gone =
            |_| Fault::new(Layer::Grade, "internal error: the CPU or memory semaphore was closed");
        // Always acquire CPUs first. A task that waits for memory then waits only for tasks that
        // have both.
        let cpus = Arc::clone(&self.cpus.1).acquire_many_owned(cpus).await.map_err(gone)?;
        let memory = Arc::clone(&self.memory.1).acquire_many_owned(memory).await.map_err(gone)?;
        Ok(Share { _cpus: cpus, _memory: memory })
    }

    /// Returns a share if one is free and no task is waiting for it.
    pub fn try_take(&self, limits: &SandboxSpec) -> Option<Share> {
        let (cpus, memory) = self.wanted(limits);
        let cpus = Arc::clone(&self.cpus.1).try_acquire_many_owned(cpus).ok()?;
        let memory = Arc::clone(&self.memory.1).try_acquire_many_owned(memory).ok()?;
        Some(Share { _cpus: cpus, _memory: memory })
    }

    fn wanted(&self, limits: &SandboxSpec) -> (u32, u32) {
        (
            whole(limits.cpus * WHOLE_CPU).min(self.cpus.0),
            whole(limits.memory_mb as f64).min(self.memory.0),
        )
    }
}

/// Rounds to whole units, with a minimum of one so that every sandbox counts.
fn whole(size: f64) -> u32 {
    size.clamp(1.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(cpus: f64, memory_mb: u64) -> SandboxSpec {
        SandboxSpec { cpus, memory_mb, ..SandboxSpec::default() }
    }

    #[test]
    fn capacity_waits_for_either_pool_and_frees_dropped_shares() {
        let capacity = Capacity::of(&Machine { cpus: 2.0, memory_mb: 3000 });
        let first = capacity.try_take(&handle(0.5, 2000)).unwrap();
        assert!(capacity.try_take(&handle(0.5, 2000)).is_none(), "memory is full");
        // The failed attempt released its CPUs.
        let second = capacity.try_take(&handle(1.5, 500)).unwrap();
        assert!(capacity.try_take(&handle(0.1, 100)).is_none(), "the CPUs are full");
        drop((first, second));
        assert!(capacity.try_take(&handle(2.0, 3000)).is_some());
    }

    #[tokio::test]
    async fn request_larger_than_the_machine_runs_alone() {
        let capacity = Capacity::of(&Machine { cpus: 2.0, memory_mb: 1000 });
        assert_eq!(capacity.sandboxes(&handle(64.0, 1 << 20)), 1);
        assert_eq!(capacity.sandboxes(&handle(0.5, 300)), 3, "memory for three, CPUs for four");
        let all = capacity.take(&handle(64.0, 1 << 20)).await.unwrap();
        assert!(capacity.try_take(&handle(0.1, 1)).is_none());
        drop(all);
        assert!(capacity.try_take(&handle(0.1, 1)).is_some());
    }

    #[tokio::test]
    async fn waiting_requests_are_served_first() {
        let capacity = Arc::new(Capacity::of(&Machine { cpus: 2.0, memory_mb: 1000 }));
        let half = capacity.take(&handle(1.0, 1)).await.unwrap();
        let (waits, whole) = (Arc::clone(&capacity), handle(2.0, 1));
        let waiting = tokio::spawn(async move { waits.take(&whole).await });
        tokio::task::yield_now().await;
        assert!(capacity.try_take(&handle(1.0, 1)).is_none(), "reserved for the waiting task");
        drop(half);
        waiting.await.unwrap().unwrap();
    }
}
