//! Writes the model's work to a separate folder next to the source.

use std::collections::BTreeSet;

use proctor_sandbox_api::{SandboxHandle, wire::RawPath};
use proctor_setup::{AppliedPatch, ApplyError, apply_graded_patch};
use proctor_types::FromScratch;

/// Files that define how to install the submission. Without one, nothing can be installed.
const PROJECT_FILES: [&str; 3] = ["setup.py", "pyproject.toml", "setup.cfg"];

/// A submission in the sandbox. Its own setup script never runs: the script could change the
/// interpreter before the tests run, and the task prescribes `packages=find_packages()` anyway.
#[derive(Debug)]
pub(crate) struct Submission {
    /// The folder that contains its files.
    pub folder: String,
    /// The folder to import from; `None` if the submission cannot be installed.
    pub import_root: Option<String>,
    /// Parts of the patch that were not applied.
    pub skipped_parts: Vec<String>,
}

impl Submission {
    /// Writes the task's starting files to `root`, a new folder outside the work directory, and
    /// applies the patch there.
    pub(crate) async fn write(
        handle: &SandboxHandle,
        root: RawPath,
        from_scratch: &FromScratch,
        patch: &[u8],
    ) -> Result<Self, ApplyError> {
        for (path, text) in &from_scratch.files {
            let full = RawPath::from(format!("{root}/{path}"));
            handle.write(&full, text.as_bytes(), Some(0o644)).await.map_err(ApplyError::Sandbox)?;
        }
        let applied = match patch.trim_ascii().is_empty() {
            true => AppliedPatch::default(),
            false => apply_graded_patch(handle, &root, patch, None).await?,
        };
        let paths: BTreeSet<String> =
            applied.changed_paths.iter().map(RawPath::to_escaped).collect();
        let folder = root.to_string();
        let import_root = import_root(&paths).map(|below| match below {
            "" => folder.clone(),
            below => format!("{folder}/{below}"),
        });
        Ok(Self { folder, import_root, skipped_parts: applied.deviations })
    }
}

/// The folder that contains the packages: the top folder or `src`.
fn import_root(paths: &BTreeSet<String>) -> Option<&'static str> {
    if !PROJECT_FILES.iter().any(|file| paths.contains(*file)) {
        return None;
    }
    let has = |root: &str| {
        let below = paths.iter().filter_map(|path| path.strip_prefix(root));
        below.into_iter().any(|path| match path.split_once('/') {
            Some((_, rest)) => rest == "__init__.py",
            None => path.ends_with(".py") && !PROJECT_FILES.contains(&path),
        })
    };
    Some(if !has("") && has("src/") { "src" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_root_is_the_top_folder_or_src() {
        let root = |paths: &[&str]| {
            import_root(&paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<_>>())
        };
        assert_eq!(root(&["agent_code/__init__.py"]), None, "nothing to install");
        assert_eq!(root(&["setup.py", "agent_code/__init__.py"]), Some(""));
        assert_eq!(root(&["setup.py", "agent_code.py"]), Some(""));
        assert_eq!(root(&["pyproject.toml", "src/agent_code/__init__.py"]), Some("src"));
        assert_eq!(root(&["setup.py"]), Some(""));
    }
}
