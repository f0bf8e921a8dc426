//! Inspects images in the engine.

use std::collections::BTreeMap;

use bollard::models::ImageInspect;
use proctor_types::Fault;

use crate::{engine::Engine, fault};

/// The repository of layers. Layers with a host base have a separate repository.
pub const LAYER_REPOSITORY: &str = "proctor-layer";
pub const HOST_LAYER_REPOSITORY: &str = "proctor-layer-host";

/// Returns an image's id; `None` if the engine does not have the image.
pub async fn find_id(engine: &Engine, name: &str) -> Result<Option<String>, Fault> {
    Ok(inspect(engine, name).await?.and_then(|found| found.id))
}

/// Returns the environment variables that an image sets for its containers.
pub async fn read_env(engine: &Engine, name: &str) -> Result<BTreeMap<String, String>, Fault> {
    let found = inspect(engine, name).await?;
    let lines = found.and_then(|found| found.config?.env).unwrap_or_default();
    let pairs = lines.iter().filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Returns the comment of an image.
pub async fn read_comment(engine: &Engine, name: &str) -> Result<Option<String>, Fault> {
    Ok(inspect(engine, name).await?.and_then(|found| found.comment))
}

/// Returns the engine's description of an image; `None` if the engine does not have the image.
pub async fn inspect(engine: &Engine, name: &str) -> Result<Option<ImageInspect>, Fault> {
    match engine.client.inspect_image(name).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if fault::is_missing(&error) => Ok(None),
        Err(error) => {
            Err(fault::environment_fault(&format!("cannot inspect image {name}"), &error))
        }
    }
}

/// Returns whether sandboxes that use this image see the host's programs.
pub fn has_host_base(image: &str) -> bool {
    image.split(':').next() == Some(HOST_LAYER_REPOSITORY)
}
