//! Resolves bases to images in the engine.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use bollard::{
    body_try_stream,
    query_parameters::{
        CreateImageOptionsBuilder, ImportImageOptionsBuilder, TagImageOptionsBuilder,
    },
};
use futures_util::{Stream, StreamExt, TryStreamExt};
use proctor_host::host_base;
use proctor_sandbox_api::{Base, ImageLocation};
use proctor_types::{Fault, FaultCause, FaultLayer, ImageSettings, hex, sha256_hex};
use tokio::task::spawn_blocking;

use crate::{
    build,
    engine::Engine,
    fault, image,
    tarball::{self, Body},
};

/// The repository of imported bases. The tag is the digest of the base's content.
pub const REPOSITORY: &str = "proctor-base";

/// The image comment of imported bases. It identifies a base even after its name was given to
/// another image.
pub const COMMENT: &str = "a base of Proctor";

/// A base that is available as an image in the engine.
pub struct ResolvedBase {
    pub image: String,
    /// Identifies the base's content.
    pub digest: String,
    /// The image as `repository@sha256:...`, if it comes from a registry.
    pub registry_digest: Option<String>,
}

pub async fn resolve(engine: &Engine, base: &Base) -> Result<ResolvedBase, Fault> {
    match base {
        Base::Image(name) => resolve_image(engine, name).await,
        Base::Dockerfile(folder) => {
            let id = build::ensure_image(engine, folder).await?;
            Ok(ResolvedBase { image: id.clone(), digest: id, registry_digest: None })
        }
        Base::Host => resolve_host(engine).await,
        Base::Folder(path) => {
            let walked = path.clone();
            let digest = run_blocking(path, move || folder_digest(&walked)).await?;
            if let Some(base) = find_imported(engine, &digest).await? {
                return Ok(base);
            }
            let body = tarball::stream_folder(path.clone(), ".".into(), true);
            import(engine, &digest, body, path).await
        }
        Base::Archive(path) => {
            let read = path.clone();
            let digest = run_blocking(path, move || file_digest(&read)).await?;
            if let Some(base) = find_imported(engine, &digest).await? {
                return Ok(base);
            }
            let read = path.clone();
            if run_blocking(path, move || contains_image(&read)).await? {
                load(engine, &digest, path).await
            } else {
                import(engine, &digest, tarball::stream_file(path.clone()), path).await
            }
        }
    }
}

/// Finds an image by name and pulls it if the engine does not have it.
async fn resolve_image(engine: &Engine, name: &str) -> Result<ResolvedBase, Fault> {
    if let Some(base) = find_by_name(engine, name).await? {
        return Ok(base);
    }
    let options = CreateImageOptionsBuilder::new().from_image(&with_tag(name)).build();
    let pulled = drain(engine.slow_client.create_image(Some(options), None, None)).await;
    pulled.map_err(|error| fault_from_pull_error(name, &error))?;
    find_by_name(engine, name).await?.ok_or_else(|| {
        Fault::new(
            FaultLayer::Environment,
            format!("image {name} was pulled, but the engine does not have it"),
        )
    })
}

/// Returns whether the engine or a registry has an image. Requests only the manifest from the
/// registry.
pub(crate) async fn image_location(engine: &Engine, name: &str) -> Result<ImageLocation, Fault> {
    if image::inspect(engine, name).await?.is_some() {
        return Ok(ImageLocation::BackEnd);
    }
    let found = engine.client.inspect_registry_image(&with_tag(name), None).await;
    found.map(|_| ImageLocation::Registry).map_err(|error| fault_from_pull_error(name, &error))
}

/// Adds the tag `latest` if the name has no tag. Without a tag, an engine would pull all tags.
fn with_tag(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") }
}

fn fault_from_pull_error(name: &str, error: &bollard::errors::Error) -> Fault {
    let fault = fault::environment_fault(
        &format!("image {name} is not available and cannot be pulled"),
        error,
    );
    let cause = match fault.cause {
        FaultCause::Other if fault::is_no_such_image(error) => FaultCause::Missing,
        FaultCause::Other => FaultCause::Unreachable,
        known => known,
    };
    fault.cause(cause).hint("load it into the engine, or use an archive of it")
}

/// Finds an image in the engine. Returns its id, which identifies it from here on, so that the
/// run's base does not change if the tag is moved during the run.
async fn find_by_name(engine: &Engine, name: &str) -> Result<Option<ResolvedBase>, Fault> {
    let Some(found) = image::inspect(engine, name).await? else { return Ok(None) };
    let Some(id) = found.id else { return Ok(None) };
    let registered = repository_digest(name, &found.repo_digests.unwrap_or_default());
    Ok(Some(ResolvedBase { image: id.clone(), digest: id, registry_digest: registered }))
}

/// Returns the repository digest for the requested name. An image may have digests from several
/// repositories.
fn repository_digest(name: &str, digests: &[String]) -> Option<String> {
    let untagged = |name: &str| {
        let name = name.split('@').next().unwrap_or(name);
        match name.rsplit_once(':') {
            // If a slash follows the colon, the colon belongs to the registry's port.
            Some((repository, tag)) if !tag.contains('/') => repository.to_owned(),
            _ => name.to_owned(),
        }
    };
    let asked = digests.iter().find(|digest| untagged(digest) == untagged(name));
    asked.or(digests.first()).cloned()
}

/// Imports the skeleton of the host base as an image. The host's programs are bind-mounted when a
/// container is created.
async fn resolve_host(engine: &Engine) -> Result<ResolvedBase, Fault> {
    if !engine.is_local {
        let what = "a host base needs an engine on this machine, but DOCKER_HOST refers to another machine";
        return Err(Fault::new(FaultLayer::Environment, what)
            .cause(FaultCause::Invalid)
            .hint("use an image, or unset DOCKER_HOST"));
    }
    host_base::host_python()?;
    let skeleton = spawn_blocking(tarball::skeleton_archive).await;
    let skeleton = skeleton.map_err(io::Error::other).and_then(|made| made);
    let skeleton = skeleton.map_err(|error| {
        Fault::new(
            FaultLayer::Environment,
            format!("cannot collect the host's base files: {error}"),
        )
    })?;
    let content = sha256_hex(&skeleton);
    let base = match find_imported(engine, &content).await? {
        Some(base) => base,
        None => {
            let body = tarball::body_from_bytes(skeleton);
            import(engine, &content, body, Path::new("the host's base files")).await?
        }
    };
    let digest = sha256_hex(format!("{content} {}", host_base::host_digest()).as_bytes());
    Ok(ResolvedBase { digest, ..base })
}

async fn find_imported(engine: &Engine, digest: &str) -> Result<Option<ResolvedBase>, Fault> {
    let image = tag(digest);
    let found = image::find_id(engine, &image).await?;
    Ok(found.map(|_| ResolvedBase { image, digest: digest.to_owned(), registry_digest: None }))
}

/// Returns the settings of a base's image. Pulls or builds the image if it is missing.
pub(crate) async fn image_settings(engine: &Engine, base: &Base) -> Result<ImageSettings, Fault> {
    match base {
        // Imported file trees have no settings.
        Base::Host | Base::Folder(_) => return Ok(ImageSettings::default()),
        Base::Image(_) | Base::Archive(_) | Base::Dockerfile(_) => {}
    }
    let resolved = resolve(engine, base).await?;
    let Some(config) =
        image::inspect(engine, &resolved.image).await?.and_then(|found| found.config)
    else {
        return Ok(ImageSettings::default());
    };
    let lines = config.env.unwrap_or_default();
    let pairs = lines.iter().filter_map(|line| line.split_once('='));
    Ok(ImageSettings {
        env: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        workdir: config.working_dir.filter(|path| !matches!(path.as_str(), "" | "/")),
        user: config.user.filter(|user| !user.is_empty()),
        entrypoint: config.entrypoint.unwrap_or_default(),
        cmd: config.cmd.unwrap_or_default(),
    })
}

/// Imports a root file system from a tar stream, as an image with one layer.
async fn import(
    engine: &Engine,
    digest: &str,
    body: Body,
    source: &Path,
) -> Result<ResolvedBase, Fault> {
    let options = CreateImageOptionsBuilder::new()
        .from_src("-")
        .repo(REPOSITORY)
        .tag(&digest[..32])
        .message(COMMENT)
        .build();
    let imported =
        drain(engine.slow_client.create_image(Some(options), Some(body_try_stream(body)), None))
            .await;
    imported.map_err(|error| {
        fault::environment_fault(&format!("cannot import {}", source.display()), &error)
    })?;
    Ok(ResolvedBase { image: tag(digest), digest: digest.to_owned(), registry_digest: None })
}

/// Loads an archive created by `docker save`.
async fn load(engine: &Engine, digest: &str, path: &Path) -> Result<ResolvedBase, Fault> {
    let doing = format!("cannot load {}", path.display());
    let options = ImportImageOptionsBuilder::new().build();
    let body = tarball::stream_file(path.to_owned());
    let said: Vec<_> = engine
        .slow_client
        .import_image(options, body_try_stream(body), None)
        .try_collect()
        .await
        .map_err(|error| fault::environment_fault(&doing, &error))?;
    let text: String = said.into_iter().filter_map(|info| info.stream).collect();
    let name = text
        .lines()
        .rev()
        .find_map(|line| {
            line.strip_prefix("Loaded image: ").or(line.strip_prefix("Loaded image ID: "))
        })
        .ok_or_else(|| {
            Fault::new(FaultLayer::Environment, format!("{doing}: the archive contains no image"))
                .hint("create it with `docker save`; engines before version 25 cannot read a plain OCI layout")
        })?;
    let options = TagImageOptionsBuilder::new().repo(REPOSITORY).tag(&digest[..32]).build();
    let tagged = engine.client.tag_image(name.trim(), Some(options)).await;
    tagged.map_err(|error| fault::environment_fault(&doing, &error))?;
    Ok(ResolvedBase { image: tag(digest), digest: digest.to_owned(), registry_digest: None })
}

fn tag(digest: &str) -> String {
    format!("{REPOSITORY}:{}", &digest[..32])
}

async fn drain<T>(
    progress: impl Stream<Item = Result<T, bollard::errors::Error>>,
) -> Result<(), bollard::errors::Error> {
    let mut steps = std::pin::pin!(progress);
    while let Some(step) = steps.next().await {
        step?;
    }
    Ok(())
}

async fn run_blocking<T: Send + 'static>(
    path: &Path,
    operation: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Fault> {
    let done = spawn_blocking(operation).await.map_err(io::Error::other).and_then(|done| done);
    done.map_err(|error| {
        Fault::new(FaultLayer::Environment, format!("{}: {error}", path.display()))
            .cause(FaultCause::from_io_error(&error))
    })
}

/// Returns a digest of a directory's metadata. Doesn't read the files' contents, because a root
/// file system has gigabytes. A changed file has a different size or time.
fn folder_digest(root: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        let mut entries: Vec<_> = std::fs::read_dir(&folder)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let meta = entry.metadata()?;
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap_or(&path);
            let (mode, time) = (meta.permissions().mode(), (meta.mtime(), meta.mtime_nsec()));
            text.push_str(&format!("{name:?} {mode:o} {} {time:?}\n", meta.size()));
            if meta.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(sha256_hex(text.as_bytes()))
}

fn file_digest(path: &Path) -> io::Result<String> {
    use sha2::{Digest, Sha256};
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => hasher.update(&piece[..read]),
        }
    }
    Ok(hex(&hasher.finalize()))
}

/// Returns whether an archive contains an image. An image archive has a manifest at its top level;
/// an archive of a root file system has none.
fn contains_image(path: &Path) -> io::Result<bool> {
    let mut head = [0; 2];
    let read = File::open(path)?.read(&mut head)?;
    let file = File::open(path)?;
    let reader: Box<dyn Read> = match read == 2 && head == [0x1f, 0x8b] {
        true => Box::new(flate2::read::GzDecoder::new(file)),
        false => Box::new(file),
    };
    for entry in tar::Archive::new(reader).entries()? {
        let path = entry?.path()?.into_owned();
        let name = path.strip_prefix(".").unwrap_or(&path);
        if name == Path::new("manifest.json") || name == Path::new("oci-layout") {
            return Ok(true);
        }
        if name == Path::new("bin") || name.starts_with("usr") || name.starts_with("etc") {
            return Ok(false);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_with_several_names_is_recorded_by_the_requested_name() {
        let digests = ["mirror:5000/a/b@sha256:1", "a/b@sha256:1"].map(str::to_owned);
        let of = |name: &str| repository_digest(name, &digests).unwrap();
        assert_eq!(of("a/b"), digests[1]);
        assert_eq!(of("a/b:latest"), digests[1]);
        assert_eq!(of("mirror:5000/a/b:v1"), digests[0]);
        assert_eq!(of("mirror:5000/a/b"), digests[0]);
        assert_eq!(of("a/b@sha256:1"), digests[1]);
        assert_eq!(of("of/another:name"), digests[0]);
        assert_eq!(repository_digest("made/here:1", &[]), None);
    }
}
