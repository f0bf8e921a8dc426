//! Removes containers, either immediately or in the background.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bollard::query_parameters::RemoveContainerOptionsBuilder;
use proctor_types::Fault;
use tokio::runtime::Handle;

use crate::{engine::Engine, fault};

/// Owns a container. Dropping the guard removes the container in the background.
pub struct ContainerGuard {
    engine: Option<Arc<Engine>>,
    id: String,
}

impl ContainerGuard {
    pub fn new(engine: &Arc<Engine>, id: String) -> Self {
        engine.containers.fetch_add(1, Ordering::AcqRel);
        Self { engine: Some(Arc::clone(engine)), id }
    }

    /// Returns the container's engine; `None` if the container was removed.
    pub fn engine(&self) -> Option<&Engine> {
        self.engine.as_deref()
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Removes the container now. If that fails, a background task tries it once more.
    pub async fn remove(mut self) -> Result<(), Fault> {
        let Some(engine) = &self.engine else { return Ok(()) };
        remove(&engine.client, &self.id).await?;
        engine.containers.fetch_sub(1, Ordering::AcqRel);
        self.engine = None;
        Ok(())
    }
}

impl Drop for ContainerGuard {
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
        // The guard was dropped outside any async runtime, so start a small one.
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
            // Another removal is in progress, or the engine is still handling the container's exit.
            Err(_) if tries < 20 => tokio::time::sleep(Duration::from_millis(250)).await,
            Err(error) => return Err(fault::sandbox_fault("cannot remove a container", &error)),
        }
        tries += 1;
    }
}
