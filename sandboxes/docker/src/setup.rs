//! The set-up lines of an environment, and what the machine lends them.

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
use proctor_types::{Fault, Layer};

use crate::{docker::Engine, fault};

/// The largest file that is set aside for the set-up, in bytes.
const ASIDE: u64 = 64 << 20;

pub fn wrong(doing: &str, error: &dyn fmt::Display) -> Fault {
    Fault::new(Layer::Environment, format!("{doing}: {error}"))
}

/// Gives an image a second name in another repository.
pub async fn alias(engine: &Engine, image: &str, repository: &str) -> Result<String, Fault> {
    let tag = image.rsplit(':').next().unwrap_or("latest");
    let tag = format!("base-{tag}");
    let options = TagImageOptionsBuilder::new().repo(repository).tag(&tag).build();
    let tagged = engine.client.tag_image(image, Some(options)).await;
    tagged.map_err(|error| fault::environment("tag a base image", &error))?;
    Ok(format!("{repository}:{tag}"))
}

/// A directory of wheels that this machine's pip uses, for the set-up only. A host base shows it if
/// it shows its parent, and an engine elsewhere does not see this machine's directories.
pub fn wheels(engine: &Engine, spec: &LayerSpec) -> Vec<String> {
    if !engine.local || spec.base == Base::Host {
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

/// Runs the lines in order and stops at the first failure. The machine's registry settings and
/// certificates are lent meanwhile, and the original files are restored.
pub async fn run(handle: &SandboxHandle, spec: &LayerSpec) -> Result<(), Fault> {
    let broken = |error: SandboxError| wrong("prepare the set-up environment", &error);
    let mut aside = Vec::new();
    for (path, bytes) in host_base::setup_files() {
        // The engine gives a container its own names and resolver.
        if [Path::new("/etc/resolv.conf"), Path::new("/etc/hosts")].contains(&&*path) {
            continue;
        }
        let raw = RawPath::from(path.to_string_lossy().into_owned());
        let before = match handle.read(&raw, ASIDE).await {
            Ok(bytes) => Some(bytes),
            Err(error) if error.refusal() == Some(RefusalKind::NotFound) => None,
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

/// Lines may expect the directory before anything is placed there. Writing a file creates its
/// parents, in any image.
async fn make_workdir(handle: &SandboxHandle, workdir: &RawPath) -> Result<(), SandboxError> {
    if workdir.as_bytes().is_empty() || handle.stat(workdir).await?.is_some() {
        return Ok(());
    }
    let marker = RawPath::new([workdir.as_bytes(), b"/.proctor-made"].concat());
    handle.write(&marker, b"", None).await?;
    handle.remove(&marker).await
}
