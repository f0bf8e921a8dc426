//! Limits the CPUs and memory that all grading sandboxes of a run use together.

use std::sync::Arc;

use proctor_sandbox_api::Machine;
use proctor_types::{Fault, FaultLayer, SandboxSpec};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Semaphore permits per CPU. CPUs are counted in thousandths.
const PERMITS_PER_CPU: f64 = 1000.0;

/// The CPUs and memory that grading sandboxes on this machine may use. Each open sandbox reserves
/// as much as its own limits allow it to use.
///
/// `jobs` cannot replace this limit. A running trial mostly waits for its model, so many trials fit
/// on few CPUs. Grading keeps its CPU busy, so if more sandboxes grade than there are CPUs, they
/// slow each other down and may exceed their time limits. A sandbox that requests more than the
/// machine has reserves all of it and runs alone.
#[derive(Debug)]
pub struct Capacity {
    cpus: (u32, Arc<Semaphore>),
    memory: (u32, Arc<Semaphore>),
}

/// Reserved CPUs and memory. Dropping the permit releases them.
#[derive(Debug)]
pub struct CapacityPermit {
    _cpus: OwnedSemaphorePermit,
    _memory: OwnedSemaphorePermit,
}

impl Capacity {
    pub fn new(machine: &Machine) -> Self {
        let pool = |size: f64| {
            let size =
                to_permits(size).min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
            (size, Arc::new(Semaphore::new(size as usize)))
        };
        Self { cpus: pool(machine.cpus * PERMITS_PER_CPU), memory: pool(machine.memory_mb as f64) }
    }

    /// Returns how many sandboxes with the given limits can be open at the same time. The result is
    /// at least one.
    pub fn max_sandboxes(&self, limits: &SandboxSpec) -> usize {
        let (cpus, memory) = self.required_permits(limits);
        (self.cpus.0 / cpus).min(self.memory.0 / memory) as usize
    }

    /// Waits until the CPUs and memory for a sandbox are free, and reserves them. A task that
    /// already holds a permit must use [`Self::try_reserve`] instead, because two such tasks could
    /// deadlock.
    ///
    /// # Errors
    ///
    /// Never fails in practice, because nothing closes the semaphores.
    pub async fn reserve(&self, limits: &SandboxSpec) -> Result<CapacityPermit, Fault> {
        let (cpus, memory) = self.required_permits(limits);
        let gone = |_| {
            Fault::new(FaultLayer::Grade, "internal error: the CPU or memory semaphore was closed")
        };
        // Always acquire CPUs first, to prevent deadlocks. A task that waits for memory then waits
        // only for tasks that already have both CPUs and memory.
        let cpus = Arc::clone(&self.cpus.1).acquire_many_owned(cpus).await.map_err(gone)?;
        let memory = Arc::clone(&self.memory.1).acquire_many_owned(memory).await.map_err(gone)?;
        Ok(CapacityPermit { _cpus: cpus, _memory: memory })
    }

    /// Reserves the CPUs and memory for a sandbox if they are free and no other task is waiting.
    pub fn try_reserve(&self, limits: &SandboxSpec) -> Option<CapacityPermit> {
        let (cpus, memory) = self.required_permits(limits);
        let cpus = Arc::clone(&self.cpus.1).try_acquire_many_owned(cpus).ok()?;
        let memory = Arc::clone(&self.memory.1).try_acquire_many_owned(memory).ok()?;
        Some(CapacityPermit { _cpus: cpus, _memory: memory })
    }

    fn required_permits(&self, limits: &SandboxSpec) -> (u32, u32) {
        (
            to_permits(limits.cpus * PERMITS_PER_CPU).min(self.cpus.0),
            to_permits(limits.memory_mb as f64).min(self.memory.0),
        )
    }
}

/// Converts an amount to a whole number of permits. Returns at least one, so that every sandbox
/// reserves something.
fn to_permits(size: f64) -> u32 {
    size.clamp(1.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox_spec(cpus: f64, memory_mb: u64) -> SandboxSpec {
        SandboxSpec { cpus, memory_mb, ..SandboxSpec::default() }
    }

    #[test]
    fn capacity_waits_for_both_pools_and_frees_dropped_permits() {
        let capacity = Capacity::new(&Machine { cpus: 2.0, memory_mb: 3000 });
        let first = capacity.try_reserve(&sandbox_spec(0.5, 2000)).unwrap();
        assert!(capacity.try_reserve(&sandbox_spec(0.5, 2000)).is_none(), "memory is full");
        // The failed attempt released its CPUs.
        let second = capacity.try_reserve(&sandbox_spec(1.5, 500)).unwrap();
        assert!(capacity.try_reserve(&sandbox_spec(0.1, 100)).is_none(), "the CPUs are full");
        drop((first, second));
        assert!(capacity.try_reserve(&sandbox_spec(2.0, 3000)).is_some());
    }

    #[tokio::test]
    async fn request_larger_than_the_machine_runs_alone() {
        let capacity = Capacity::new(&Machine { cpus: 2.0, memory_mb: 1000 });
        assert_eq!(capacity.max_sandboxes(&sandbox_spec(64.0, 1 << 20)), 1);
        assert_eq!(
            capacity.max_sandboxes(&sandbox_spec(0.5, 300)),
            3,
            "there is memory for three sandboxes and CPUs for four"
        );
        let all = capacity.reserve(&sandbox_spec(64.0, 1 << 20)).await.unwrap();
        assert!(capacity.try_reserve(&sandbox_spec(0.1, 1)).is_none());
        drop(all);
        assert!(capacity.try_reserve(&sandbox_spec(0.1, 1)).is_some());
    }

    #[tokio::test]
    async fn waiting_requests_are_served_first() {
        let capacity = Arc::new(Capacity::new(&Machine { cpus: 2.0, memory_mb: 1000 }));
        let half = capacity.reserve(&sandbox_spec(1.0, 1)).await.unwrap();
        let (waits, whole) = (Arc::clone(&capacity), sandbox_spec(2.0, 1));
        let waiting = tokio::spawn(async move { waits.reserve(&whole).await });
        tokio::task::yield_now().await;
        assert!(
            capacity.try_reserve(&sandbox_spec(1.0, 1)).is_none(),
            "reserved for the waiting task"
        );
        drop(half);
        waiting.await.unwrap().unwrap();
    }
}
