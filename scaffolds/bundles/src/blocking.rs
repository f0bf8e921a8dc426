//! Runs file operations from async code.

use crate::BundleError;

/// Runs file operations on a thread for blocking work.
pub(crate) async fn run_blocking<T: Send + 'static>(
    operation: impl FnOnce() -> Result<T, BundleError> + Send + 'static,
) -> Result<T, BundleError> {
    tokio::task::spawn_blocking(operation)
        .await
        .unwrap_or_else(|error| Err(BundleError::new(format!("a background task failed: {error}"))))
}
