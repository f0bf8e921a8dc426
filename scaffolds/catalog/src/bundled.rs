//! Finds agents that run in the sandbox, and what is needed to build their bundles.

use std::path::{Path, PathBuf};

use proctor_bundles::BundleRecipe;
use proctor_external::{LoadedManifest, Manifest, ManifestError};
use proctor_types::UserError;

/// An agent that runs in the sandbox.
pub struct BundledAgent {
    /// The agent's name as requested.
    pub requested_name: String,
    pub name: String,
    pub version: String,
    /// Whether Proctor's tests have never run this version.
    pub is_untested: bool,
    /// How to build the bundle; `None` if the task's image is expected to contain the program.
    pub recipe: Option<BundleRecipe>,
    /// The text of the manifest.
    pub manifest_text: String,
    /// The directory with the files that the manifest refers to.
    pub folder: PathBuf,
}

/// Returns the directory for bundles in the cache.
pub fn bundles_folder(cache: &Path) -> PathBuf {
    cache.join("bundles")
}

/// Returns the directory for manifests that `proctor scaffold add NAME@VERSION` writes.
fn added_manifests_folder(cache: &Path) -> PathBuf {
    bundles_folder(cache).join("manifests")
}

/// If another version of a built-in agent was added, returns the path of its manifest.
pub fn find_added_manifest(cache: &Path, requested_name: &str) -> Option<PathBuf> {
    if !requested_name.contains('@') || requested_name.contains('/') {
        return None;
    }
    let file = added_manifests_folder(cache).join(format!("{requested_name}.toml"));
    file.is_file().then_some(file)
}

/// Writes the manifest of another version. Returns the name that configurations use for it.
pub fn add_manifest(
    cache: &Path,
    name: &str,
    loaded_manifest: &LoadedManifest,
) -> Result<String, UserError> {
    let asked = format!("{name}@{}", loaded_manifest.manifest.version);
    let folder = added_manifests_folder(cache);
    let file = folder.join(format!("{asked}.toml"));
    let failed = |error: std::io::Error| UserError::new(format!("{}: {error}", file.display()));
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let fresh = tempfile::NamedTempFile::new_in(&folder).map_err(failed)?;
    std::fs::write(fresh.path(), &loaded_manifest.text).map_err(failed)?;
    fresh.persist(&file).map_err(|error| failed(error.error))?;
    Ok(asked)
}

/// Returns all versions that were added, except those whose manifest cannot be loaded anymore.
pub fn added_agents(cache: &Path) -> Vec<BundledAgent> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(added_manifests_folder(cache))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    files.sort();
    files.iter().filter_map(|file| load_agent(file).ok()).collect()
}

fn load_agent(path: &Path) -> Result<BundledAgent, UserError> {
    let asked = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let loaded = proctor_external::load(path).map_err(to_user_error)?;
    Ok(agent_from_manifest(&asked, loaded, PathBuf::new()))
}

/// Returns all built-in agents.
pub fn shipped_agents() -> Result<Vec<BundledAgent>, UserError> {
    let found = proctor_external::names().iter().map(|name| shipped_agent(name));
    Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn shipped_agent(name: &str) -> Result<Option<BundledAgent>, UserError> {
    let found = proctor_external::shipped_manifest(name).map_err(to_user_error)?;
    Ok(found.map(|loaded| agent_from_manifest(name, loaded, PathBuf::new())))
}

/// Finds an agent by name or manifest path. If the name ends with `@VERSION`, the version must be
/// the one in the manifest or one that was added.
pub fn find_agent(cache: &Path, requested_name: &str) -> Result<BundledAgent, UserError> {
    if let Some(file) = find_added_manifest(cache, requested_name) {
        return load_agent(&file);
    }
    let path = Path::new(requested_name);
    if path.is_file() {
        let loaded = proctor_external::load(path).map_err(to_user_error)?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        return Ok(agent_from_manifest(requested_name, loaded, folder));
    }
    shipped_agent(requested_name)?.ok_or_else(|| {
        let known = proctor_external::names().join(", ");
        UserError::new(format!("no agent or file is named `{requested_name}`")).hint(format!(
            "use one of {known}, or the path to a manifest (docs/reference/external.md)"
        ))
    })
}

/// Converts a manifest error to a user error.
pub fn to_user_error(error: ManifestError) -> UserError {
    UserError::new(error.to_string().trim_end().replace('\n', " ")).hint(error.hint)
}

fn agent_from_manifest(
    requested_name: &str,
    loaded_manifest: LoadedManifest,
    folder: PathBuf,
) -> BundledAgent {
    let LoadedManifest { manifest, text } = loaded_manifest;
    let Manifest { name, version, untested, bundle: recipe, .. } = manifest;
    BundledAgent {
        requested_name: requested_name.to_owned(),
        name,
        version,
        is_untested: untested,
        recipe,
        manifest_text: text,
        folder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_manifests_have_valid_recipes() {
        for found in shipped_agents().unwrap() {
            assert_eq!(found.requested_name, found.name);
            let recipe = found.recipe.unwrap();
            // If a checksum cannot be parsed, it can never be verified.
            assert!(
                !recipe.requirements.is_empty() || !recipe.packages.is_empty(),
                "{}",
                found.name
            );
        }
    }

    #[test]
    fn find_accepts_names_versions_and_paths() {
        let cache = tempfile::tempdir().unwrap();
        let find = |asked: &str| find_agent(cache.path(), asked);
        assert_eq!(find("codex").unwrap().name, "codex");
        let pinned = find("codex").unwrap().version;
        assert_eq!(find(&format!("codex@{pinned}")).unwrap().version, pinned);
        let error = find("codex@0.0.1").map(|_| ()).unwrap_err();
        assert!(
            error.message.contains(&format!("pinned at {pinned}, not 0.0.1")),
            "{}",
            error.message
        );
        let error = find("codecs").map(|_| ()).unwrap_err();
        assert!(error.hint.unwrap().contains("claude-code, codex"));

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        let name = file.display().to_string();
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        const NAME_AND_VERSION: &str = "name = 'mine'\nversion = '1'\n";
        const API_AND_COMMAND: &str = "api = 'chat'\ncommand = { argv = ['/bin/x'] }\n";
        write(&format!("{NAME_AND_VERSION}{API_AND_COMMAND}"));
        assert!(find(&name).unwrap().recipe.is_none());
        let bundle = |text: &str| format!("{NAME_AND_VERSION}{API_AND_COMMAND}[bundle]\n{text}");
        for (text, says) in [
            (API_AND_COMMAND.to_owned(), "name"),
            ("name = 'mine\n".to_owned(), "line 1"),
            (bundle("kind = 'apt'\n"), "unknown variant `apt`"),
            (bundle("kind = 'npm'\nbin = {a = 'b'}\n"), "bundle.packages"),
        ] {
            write(&text);
            let error = find(&name).map(|_| ()).unwrap_err();
            assert!(
                error.message.starts_with(&name) && error.message.contains(says),
                "{}",
                error.message
            );
        }
    }
}
