//! From a task's environment to what a back end builds.

use std::{path::Path, time::Duration};

use proctor_sandbox_api::{Base, LayerSpec, wire::RawPath};
use proctor_types::{Cause, Fault, Layer, Source, Task};

use crate::Sources;

/// All set-up lines of one layer together may take this long.
const SETUP_LIMIT: Duration = Duration::from_secs(1800);

/// Resolves a task's environment: fetches its source, makes its paths absolute. Relative ones start
/// at `base_dir`.
///
/// # Errors
/// A fault of the environment layer, which names the path or the package.
pub async fn layer_spec(
    task: &Task,
    sources: &Sources,
    base_dir: &Path,
) -> Result<LayerSpec, Fault> {
    let base = base_of(task, base_dir)?;
    let workdir = RawPath::from(task.workdir.as_str());
    let source = match &task.source {
        None => None,
        Some(source) => {
            let mut tree = sources
                .fetch(source, base_dir)
                .await
                .map_err(|fault| fault.context(format!("source of {}", task.id)))?;
            tree.at = workdir.clone();
            Some(tree)
        }
    };
    Ok(LayerSpec {
        base,
        source,
        setup: task.environment.setup.clone(),
        workdir,
        env: task.env.clone().into_iter().collect(),
        time_limit: SETUP_LIMIT,
    })
}

/// Whether the local files that a task's source names are there. Nothing is read: a plan is checked by it.
///
/// # Errors
/// A fault of the environment layer that names what is missing.
pub fn check_source(task: &Task, base_dir: &Path) -> Result<(), Fault> {
    let (path, is_there, what): (_, fn(&Path) -> bool, _) = match &task.source {
        Some(Source::Path { path }) => (path, Path::is_dir, "folder"),
        Some(Source::Archive { archive, .. }) => (archive, Path::is_file, "file"),
        Some(Source::Pypi { .. } | Source::Git { .. }) | None => return Ok(()),
    };
    let path = base_dir.join(path);
    if is_there(&path) {
        return Ok(());
    }
    let what = format!("source {} is not a {what}", path.display());
    Err(Fault::new(Layer::Environment, what)
        .cause(Cause::Invalid)
        .hint("a relative path starts at the folder of the task's file")
        .context(&task.id))
}

/// What a task's sandboxes start from. Nothing is fetched or built: a plan is checked by it.
///
/// # Errors
/// A fault of the environment layer where an archive or a folder is not there.
pub fn base_of(task: &Task, base_dir: &Path) -> Result<Base, Fault> {
    let fault =
        |what: String| Fault::new(Layer::Environment, what).cause(Cause::Invalid).context(&task.id);
    match (&task.environment.image, &task.environment.base) {
        (Some(image), None) => {
            // A mistyped path would be taken for an image name, and the error would come from a registry.
            let file = base_dir.join(image);
            if file.is_file() {
                return std::fs::canonicalize(&file)
                    .map(Base::Archive)
                    .map_err(|error| fault(format!("image {}: {error}", file.display())));
            }
            if image.starts_with(['/', '.']) || image.ends_with(".tar") {
                return Err(fault(format!("there is no image archive {}", file.display())));
            }
            Ok(Base::Image(image.clone()))
        }
        (None, Some(base)) if base == "host" => Ok(Base::Host),
        (None, Some(base)) => {
            let folder = base_dir.join(base);
            match std::fs::canonicalize(&folder) {
                Ok(folder) if folder.is_dir() => Ok(Base::Folder(folder)),
                _ => Err(fault(format!("base {} is not a folder", folder.display()))
                    .hint("`base` is \"host\" or the folder of a root file system")),
            }
        }
        _ => Err(fault("the environment needs exactly one of `image` and `base`".into())),
    }
}
