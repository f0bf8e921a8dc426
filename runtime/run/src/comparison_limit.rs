//! Limits how many patches are computed at the same time. Computes them on separate threads, so
//! that they don't block trials.

use std::{num::NonZero, thread::available_parallelism};

use proctor_types::{Fault, FaultLayer};
use tokio::{sync::Semaphore, task::spawn_blocking};

/// Limits concurrent tree comparisons. A comparison uses CPU and keeps the patch in memory, so
/// trials that end at the same time must not all compare at once.
#[derive(Debug)]
pub struct ComparisonLimit(Semaphore);

impl Default for ComparisonLimit {
    /// Allows one comparison per processor.
    fn default() -> Self {
        Self(Semaphore::new(available_parallelism().map_or(1, NonZero::get)))
    }
}

impl ComparisonLimit {
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        compare: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let died = |what: String| {
            Fault::new(FaultLayer::Record, format!("cannot compare file trees: {what}"))
        };
        let _permit = self.0.acquire().await.map_err(|error| died(error.to_string()))?;
        spawn_blocking(compare).await.map_err(|error| died(error.to_string()))
    }
}
