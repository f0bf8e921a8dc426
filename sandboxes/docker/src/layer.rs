//! Builds environments as images. An image contains the base, the agent, the source code, and what
//! the setup commands created.

use std::{path::PathBuf, sync::Arc};

use bollard::{
    body_try_stream, models::ContainerConfig, query_parameters::CommitContainerOptionsBuilder,
};
use proctor_embedded_agent::agent_digest;
use proctor_sandbox_api::{Base, LayerSpec, PreparedEnvironment, wire::HiddenPaths};
use proctor_types::{Fault, sha256_hex};

use crate::{
    base::{self, ResolvedBase},
    container::ContainerGuard,
    create,
    engine::Engine,
    fault,
    image::{self, HOST_LAYER_REPOSITORY, LAYER_REPOSITORY},
    setup, tarball,
};

/// Increment this when an edit to this code changes the meaning of a layer image. Older layers are
/// then rebuilt.
const FORMAT: u32 = 1;

/// The image comment of layers. It identifies a layer even after its name was given to another
/// image.
pub const COMMENT: &str = "an environment of Proctor";

pub struct LayerTarget {
    pub digest: String,
    repository: &'static str,
    base: ResolvedBase,
}

/// Returns the name of the image to build.
pub async fn resolve_layer(engine: &Engine, spec: &LayerSpec) -> Result<LayerTarget, Fault> {
    let base = base::resolve(engine, &spec.base).await?;
    let source = spec.source.as_ref().map(|source| (&source.digest, &source.destination));
    let key = serde_json::json!([
        FORMAT,
        base.digest,
        agent_digest(),
        source,
        spec.setup,
        spec.workdir,
        spec.env.iter().map(|(key, value)| [key, value]).collect::<Vec<_>>(),
    ]);
    let repository = if spec.base == Base::Host { HOST_LAYER_REPOSITORY } else { LAYER_REPOSITORY };
    Ok(LayerTarget { digest: sha256_hex(key.to_string().as_bytes()), repository, base })
}

/// Returns the environment's image, and builds it if it is missing. Every image contains the agent,
/// so opening a sandbox uploads nothing.
pub async fn prepare(
    engine: &Arc<Engine>,
    spec: &LayerSpec,
    target: &LayerTarget,
) -> Result<PreparedEnvironment, Fault> {
    let tag = &target.digest[..32];
    let handle = format!("{}:{tag}", target.repository);
    let mut prepared = PreparedEnvironment {
        digest: target.digest.clone(),
        base: target.base.digest.clone(),
        image: target.base.registry_digest.clone(),
        backend_id: handle,
        was_built: false,
        hidden_paths: HiddenPaths::default(),
    };
    if image::find_id(engine, &prepared.backend_id).await?.is_some() {
        return Ok(prepared);
    }
    // Create the container from an image name that shows whether it has a host base.
    let image = match spec.base {
        Base::Host => setup::add_alias(engine, &target.base.image, HOST_LAYER_REPOSITORY).await?,
        _ => target.base.image.clone(),
    };
    let guard =
        create::create_setup_container(engine, &image, setup::wheel_mounts(engine, spec)).await?;
    let kept = build(engine, spec, target, &guard).await;
    // Remove the container now, even after a failure, because removing it in the background may
    // come too late. The committed image does not depend on the container.
    if let Err(fault) = guard.remove().await {
        tracing::warn!(%fault, "cannot remove a setup container; the next sweep removes it");
    }
    kept?;
    prepared.was_built = true;
    Ok(prepared)
}

/// Copies the source code into the container, runs the setup commands, and commits the container as
/// an image.
async fn build(
    engine: &Arc<Engine>,
    spec: &LayerSpec,
    target: &LayerTarget,
    guard: &ContainerGuard,
) -> Result<(), Fault> {
    let doing = "cannot copy the sandbox agent";
    let agent = tarball::agent_archive().map_err(|error| setup::setup_fault(doing, &error))?;
    upload(engine, guard.id(), agent, doing).await?;
    if let Some(source) = &spec.source {
        let at = String::from_utf8_lossy(source.destination.as_bytes()).into_owned();
        let at = PathBuf::from(at.trim_matches('/'));
        let body = tarball::stream_folder(source.folder.clone(), at, false);
        upload(engine, guard.id(), body, "cannot copy the source").await?;
    }
    if !spec.setup.is_empty() {
        let handle = create::start_container(engine, guard).await?;
        let ran = setup::run(&handle, spec).await;
        let _ = handle.shutdown().await;
        ran?;
    }
    let options = CommitContainerOptionsBuilder::new()
        .container(guard.id())
        .repo(target.repository)
        .tag(&target.digest[..32])
        .comment(COMMENT)
        .build();
    let committed = engine.slow_client.commit_container(options, ContainerConfig::default()).await;
    let keeping =
        |error| fault::environment_fault("cannot store the environment as an image", &error);
    committed.map(drop).map_err(keeping)
}

async fn upload(
    engine: &Engine,
    id: &str,
    body: tarball::Body,
    operation: &str,
) -> Result<(), Fault> {
    let body = body_try_stream(body);
    let uploaded =
        engine.slow_client.upload_to_container(id, Some(tarball::upload_options()), body).await;
    uploaded.map_err(|error| fault::environment_fault(operation, &error))
}
