//! Where patches are made: few at once, and off the threads that drive trials.

use std::{num::NonZero, thread::available_parallelism};

use proctor_types::{Fault, Layer};
use tokio::{sync::Semaphore, task::spawn_blocking};

/// Comparing two trees computes and holds the patch in memory. However many trials end at the same moment,
/// the memory is that of a few.
#[derive(Debug)]
pub struct Comparing(Semaphore);

impl Default for Comparing {
    /// As many at once as there are processors.
    fn default() -> Self {
        Self(Semaphore::new(available_parallelism().map_or(1, NonZero::get)))
    }
}

impl Comparing {
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let died = |what: String| Fault::new(Layer::Record, format!("compare the trees: {what}"));
        let _permit = self.0.acquire().await.map_err(|error| died(error.to_string()))?;
        spawn_blocking(work).await.map_err(|error| died(error.to_string()))
    }
}
