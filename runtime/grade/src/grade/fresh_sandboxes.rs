//! Opens new sandboxes for second runs.

use async_trait::async_trait;
use proctor_sandbox_api::Sandbox;
use proctor_types::Fault;

/// Opens sandboxes in the state that the first sandbox had before anything was applied.
#[async_trait]
pub trait FreshSandboxes: Send + Sync {
    async fn open(&self) -> Result<Box<dyn Sandbox>, Fault>;
}
