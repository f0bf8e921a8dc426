//! Shares the results of work that many trials need. The first trial does the work.

use std::{collections::BTreeMap, sync::Arc};

use proctor_types::Fault;
use tokio::sync::Mutex;

type MemoCell<V> = Arc<Mutex<Option<Result<V, Fault>>>>;

/// Results by key. The first caller computes a result, and the others wait for it.
///
/// A permanent fault is cached, because every later caller would get the same one. A transient
/// fault is not cached, so the next caller tries again.
#[derive(Debug)]
pub struct Memo<K, V>(Mutex<BTreeMap<K, MemoCell<V>>>);

impl<K: Ord, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<K: Ord, V: Clone> Memo<K, V> {
    /// Returns the cached value of `key`, or computes the value with `compute`.
    /// `is_transient` returns whether a fault is transient, so that the next caller should try
    /// again.
    pub async fn get_or_compute(
        &self,
        key: K,
        is_transient: impl Fn(&Fault) -> bool,
        compute: impl AsyncFnOnce() -> Result<V, Fault>,
    ) -> Result<V, Fault> {
        let cell = Arc::clone(self.0.lock().await.entry(key).or_default());
        let mut kept = cell.lock().await;
        if let Some(kept) = kept.as_ref() {
            return kept.clone();
        }
        let done = compute().await;
        if !done.as_ref().is_err_and(is_transient) {
            *kept = Some(done.clone());
        }
        done
    }

    /// Returns the value if it exists. Waits for work in progress.
    pub async fn get_cached(&self, key: &K) -> Option<V> {
        let cell = self.0.lock().await.get(key).cloned()?;
        let kept = cell.lock().await;
        kept.as_ref().and_then(|kept| kept.as_ref().ok()).cloned()
    }

    /// Whether there is a value for this key.
    pub async fn contains(&self, key: &K) -> bool {
        self.get_cached(key).await.is_some()
    }

    /// Removes the value of a key. Call this if the object to which the value refers no longer
    /// exists.
    pub async fn forget(&self, key: &K) {
        self.0.lock().await.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use proctor_types::{FaultCause, FaultLayer};

    use super::*;

    #[tokio::test]
    async fn get_or_compute_runs_once_and_does_not_cache_transient_faults() {
        let memo = Memo::<&str, u32>::default();
        let done = AtomicU32::new(0);
        let is_transient = |fault: &Fault| fault.cause == FaultCause::Unreachable;
        let work = async |result: Result<u32, Fault>| {
            let work = async || {
                done.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                result
            };
            memo.get_or_compute("k", is_transient, work).await
        };
        let passing = Fault::new(FaultLayer::Environment, "away").cause(FaultCause::Unreachable);
        assert_eq!(work(Err(passing.clone())).await, Err(passing));
        assert!(!memo.contains(&"k").await);
        let (first, second) = tokio::join!(work(Ok(1)), work(Ok(2)));
        assert_eq!((first, second), (Ok(1), Ok(1)));
        assert_eq!(done.load(Ordering::Relaxed), 2);
        assert!(memo.contains(&"k").await);

        memo.forget(&"k").await;
        let lasting = Fault::new(FaultLayer::Environment, "not there").cause(FaultCause::Missing);
        assert_eq!(work(Err(lasting.clone())).await, Err(lasting.clone()));
        assert_eq!(work(Ok(3)).await, Err(lasting));
        assert!(!memo.contains(&"k").await);
    }
}
