//! Runs an environment's setup commands with the machine's own settings for registries and
//! certificates.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use bollard::query_parameters::TagImageOptionsBuilder;
use proctor_host::{host_base, setup_lines};
use proctor_sandbox_api::{
    Base, LayerSpec, SandboxError, SandboxHandle,
    wire::{RawPath, RefusalKind},
};
use proctor_types::{Fault, FaultLayer};

use crate::{engine::Engine, fault};

/// Maximum size, in bytes, of a file whose original content is saved during the setup.
const MAX_SAVED_BYTES: u64 = 64 << 20;

pub fn setup_fault(operation: &str, error: &dyn fmt::Display) -> Fault {
    Fault::new(FaultLayer::Environment, format!("{operation}: {error}"))
}

/// Gives an image a second name in another repository.
pub async fn add_alias(engine: &Engine, image: &str, repository: &str) -> Result<String, Fault> {
    let tag = image.rsplit(':').next().unwrap_or("latest");
    let tag = format!("base-{tag}");
    let options = TagImageOptionsBuilder::new().repo(repository).tag(&tag).build();
    let tagged = engine.client.tag_image(image, Some(options)).await;
    tagged.map_err(|error| fault::environment_fault("cannot tag a base image", &error))?;
    Ok(format!("{repository}:{tag}"))
}

/// Returns a bind mount, for the setup only, of the wheel directory that this machine's pip uses.
/// Returns no mount if a host base already contains the directory, or if the engine is on another
/// machine and cannot access it.
pub fn wheel_mounts(engine: &Engine, spec: &LayerSpec) -> Vec<String> {
    if !engine.is_local || spec.base == Base::Host {
        return Vec::new();
    }
    let wheels = std::env::var("PIP_FIND_LINKS").map(PathBuf::from);
    match wheels {
        Ok(path) if path.is_absolute() && path.is_dir() => {
            vec![format!("{0}:{0}:ro", path.display())]
        }
        _ => Vec::new(),
    }
}

/// Runs the setup commands in order and stops at the first that fails. The commands can use the
/// machine's registry settings and certificates, which replace the environment's own files.
/// Afterwards, the original files are restored.
pub async fn run(handle: &SandboxHandle, spec: &LayerSpec) -> Result<(), Fault> {
    let broken = |error: SandboxError| setup_fault("cannot prepare the setup environment", &error);
    let mut aside = Vec::new();
    for (path, bytes) in host_base::setup_files() {
        // Don't replace these files, because the engine provides them for each container.
        if [Path::new("/etc/resolv.conf"), Path::new("/etc/hosts")].contains(&&*path) {
            continue;
        }
        let raw = RawPath::from(path.to_string_lossy().into_owned());
        let before = match handle.read(&raw, MAX_SAVED_BYTES).await {
            Ok(bytes) => Some(bytes),
            Err(error) if error.refusal_kind() == Some(RefusalKind::NotFound) => None,
            Err(error) => return Err(broken(error)),
        };
        handle.write(&raw, &bytes, None).await.map_err(broken)?;
        aside.push((raw, before));
    }
    make_workdir(handle, &spec.workdir).await.map_err(broken)?;
    setup_lines::run(handle, spec).await?;
    for (path, before) in aside {
        match before {
            Some(bytes) => handle.write(&path, &bytes, None).await.map_err(broken)?,
            None => handle.remove(&path).await.map_err(broken)?,
        }
    }
    Ok(())
}

/// Creates the work directory, because the setup commands may expect it to exist. Works in any
/// image, because writing a file creates its parent directories.
async fn make_workdir(handle: &SandboxHandle, workdir: &RawPath) -> Result<(), SandboxError> {
    if workdir.as_bytes().is_empty() || handle.stat(workdir).await?.is_some() {
        return Ok(());
    }
    let marker = RawPath::new([workdir.as_bytes(), b"/.proctor-made"].concat());
    handle.write(&marker, b"", None).await?;
    handle.remove(&marker).await
}
