//! Builds environments as images. An image contains the base, the agent, the source code, and what
//! the set-up lines created.

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
    image::{self, HOST_LAYER, LAYER},
    setup, tarball,
};

/// Increment this when an edit to this code changes the meaning of a layer image. Older layers are
/// then rebuilt.
const FORMAT: u32 = 1;

/// The image comment of layers. It identifies a layer even after its name was given to another
/// image.
pub const COMMENT: &str = "an environment of Proctor";

pub struct LayerPlan {
    pub digest: String,
    repository: &'static str,
    base: ResolvedBase,
}

/// Returns the name of the image to build.
pub async fn plan(engine: &Engine, spec: &LayerSpec) -> Result<LayerPlan, Fault> {
    let base = base::resolve(engine, &spec.base).await?;
    let source = spec.source.as_ref().map(|source| (&source.digest, &source.at));
    let key = serde_json::json!([
        FORMAT,
        base.digest,
        agent_digest(),
        source,
        spec.setup,
        spec.workdir,
        spec.env.iter().map(|(key, value)| [key, value]).collect::<Vec<_>>(),
    ]);
    let repository = if spec.base == Base::Host { HOST_LAYER } else { LAYER };
    Ok(LayerPlan { digest: sha256_hex(key.to_string().as_bytes()), repository, base })
}

/// Returns the environment's image, and builds it if it is missing. Every image contains the agent,
/// so opening a sandbox uploads nothing.
pub async fn prepare(
    engine: &Arc<Engine>,
    spec: &LayerSpec,
    plan: &LayerPlan,
) -> Result<PreparedEnvironment, Fault> {
    let tag = &plan.digest[..32];
    let handle = format!("{}:{tag}", plan.repository);
    let mut prepared = PreparedEnvironment {
        digest: plan.digest.clone(),
        base: plan.base.digest.clone(),
        image: plan.base.registry_digest.clone(),
        handle,
        built: false,
        absent: HiddenPaths::default(),
    };
    if image::id(engine, &prepared.handle).await?.is_some() {
        return Ok(prepared);
    }
    // Create the container from an image name that shows whether it has a host base.
    let image = match spec.base {
        Base::Host => setup::alias(engine, &plan.base.image, HOST_LAYER).await?,
        _ => plan.base.image.clone(),
    };
    let guard =
        create::create_setup_container(engine, &image, setup::wheel_mounts(engine, spec)).await?;
    let kept = build(engine, spec, plan, &guard).await;
    // Remove the container now, even after a failure, because removing it in the background may
    // come too late. The committed image does not depend on the container.
    if let Err(fault) = guard.remove().await {
        tracing::warn!(%fault, "cannot remove a set-up container; the next sweep removes it");
    }
    kept?;
    prepared.built = true;
    Ok(prepared)
}

/// Copies the source code into the container, runs the set-up lines, and commits the container as
/// an image.
async fn build(
    engine: &Arc<Engine>,
    spec: &LayerSpec,
    plan: &LayerPlan,
    guard: &ContainerGuard,
) -> Result<(), Fault> {
    let doing = "cannot copy the sandbox agent";
    let agent = tarball::agent_archive().map_err(|error| setup::setup_fault(doing, &error))?;
    upload(engine, guard.id(), agent, doing).await?;
    if let Some(source) = &spec.source {
        let at = String::from_utf8_lossy(source.at.as_bytes()).into_owned();
        let at = PathBuf::from(at.trim_matches('/'));
        let body = tarball::stream_folder(source.folder.clone(), at, false);
        upload(engine, guard.id(), body, "cannot copy the source").await?;
    }
    if !spec.setup.is_empty() {
        let handle = create::start(engine, guard).await?;
        let ran = setup::run(&handle, spec).await;
        let _ = handle.shutdown().await;
        ran?;
    }
    let options = CommitContainerOptionsBuilder::new()
        .container(guard.id())
        .repo(plan.repository)
        .tag(&plan.digest[..32])
        .comment(COMMENT)
        .build();
    let committed = engine.slow.commit_container(options, ContainerConfig::default()).await;
    let keeping =
        |error| fault::environment_fault("cannot store the environment as an image", &error);
    committed.map(drop).map_err(keeping)
}

async fn upload(engine: &Engine, id: &str, body: tarball::Body, doing: &str) -> Result<(), Fault> {
    let body = body_try_stream(body);
    let uploaded = engine.slow.upload_to_container(id, Some(tarball::upload_options()), body).await;
    uploaded.map_err(|error| fault::environment_fault(doing, &error))
}
