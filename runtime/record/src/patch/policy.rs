//! The policy that determines which changes a patch leaves out (`configs/tables/patch-policy.toml`).

use std::{path::Path, sync::LazyLock};

use globset::{Glob, GlobSet, GlobSetBuilder};
use proctor_types::from_toml;
use serde::{Deserialize, Serialize};

use crate::RecordError;

/// The text of the built-in policy.
const SHIPPED_POLICY: &str = include_str!("../../../../configs/tables/patch-policy.toml");
/// The policy's path in the repository.
const POLICY_PATH: &str = "configs/tables/patch-policy.toml";

static POLICY: LazyLock<Result<PatchPolicy, String>> =
    LazyLock::new(|| PatchPolicy::from_toml(SHIPPED_POLICY));

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchPolicy {
    /// Whether to keep binary files.
    pub binary: bool,
    /// Maximum size of a file in bytes, before or after the change. Larger files are left out.
    pub file_limit_bytes: u64,
    /// Maximum number of changed paths.
    pub files_limit: u64,
    /// Maximum size of the whole patch in bytes.
    pub bytes_limit: u64,
    /// Maximum total size of all compared files in bytes, counting both sides.
    pub content_limit_bytes: u64,
    /// Maximum length of a path in bytes.
    pub path_limit_bytes: usize,
    /// Maximum total size of all ignore files in bytes.
    pub ignore_limit_bytes: u64,
    /// Maximum number of paths in the list of paths left out.
    pub left_out_limit: usize,
    /// Globs that are matched against single path components. Matching paths are never part of a
    /// patch.
    pub never: Vec<String>,
    /// Globs that are matched against single path components. Matching paths are left out if they
    /// are new.
    pub new: Vec<String>,
}

impl PatchPolicy {
    /// The built-in policy.
    ///
    /// # Errors
    /// Fails if the policy is invalid. There is no fallback to an empty policy, because patches
    /// would then contain caches and bytecode, which affect grading.
    pub fn shipped() -> Result<&'static Self, RecordError> {
        POLICY.as_ref().map_err(|why| policy_error(why.clone()))
    }

    /// Reads a policy. The error names the invalid key or glob.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        let policy: Self = from_toml(text)?;
        for glob in policy.never.iter().chain(&policy.new) {
            Glob::new(glob).map_err(|error| error.to_string())?;
        }
        Ok(policy)
    }
}

fn policy_error(reason: String) -> RecordError {
    RecordError::Misuse { path: Path::new(POLICY_PATH).to_owned(), why: reason }
}

/// The compiled globs of a policy.
pub(super) struct ExcludeGlobs {
    always_excluded: GlobSet,
    excluded_if_new: GlobSet,
}

impl ExcludeGlobs {
    /// # Errors
    /// Fails if a glob is invalid. If an invalid glob silently matched nothing, patches would
    /// contain files that should be excluded.
    pub(super) fn compile(policy: &PatchPolicy) -> Result<Self, RecordError> {
        let set = |globs: &[String]| {
            let mut builder = GlobSetBuilder::new();
            for glob in globs {
                builder.add(Glob::new(glob)?);
            }
            builder.build()
        };
        let set =
            |globs| set(globs).map_err(|error: globset::Error| policy_error(error.to_string()));
        Ok(Self { always_excluded: set(&policy.never)?, excluded_if_new: set(&policy.new)? })
    }

    /// Returns the length of the path's prefix that a glob excludes, and the reason.
    pub(super) fn excluded_prefix(
        &self,
        path: &[u8],
        is_new: bool,
    ) -> Option<(usize, &'static str)> {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
        let mut start = 0;
        for component in path.split(|byte| *byte == b'/') {
            let end = start + component.len();
            let name = OsStr::from_bytes(component);
            if self.always_excluded.is_match(name) {
                return Some((end, "cache or internal data of a tool, excluded by policy"));
            }
            if is_new && self.excluded_if_new.is_match(name) {
                return Some((end, "new and created by a tool, excluded by policy"));
            }
            start = end + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_patch_policy_is_valid() {
        let policy = PatchPolicy::from_toml(SHIPPED_POLICY).unwrap();
        assert_eq!(&policy, PatchPolicy::shipped().unwrap());
        let excluded = ExcludeGlobs::compile(&policy).unwrap();
        let cut = |path: &str, is_new| {
            excluded.excluded_prefix(path.as_bytes(), is_new).map(|(end, _)| end)
        };
        assert_eq!(cut("a/__pycache__/x.py", false), Some(13));
        assert_eq!(cut("a/x.pyc", false), Some(7));
        assert_eq!(cut("lib.egg-info/PKG-INFO", true), Some(12));
        assert_eq!(cut("lib.egg-info/PKG-INFO", false), None);
        assert_eq!(cut("src/git/x.py", true), None);
    }

    #[test]
    fn invalid_patch_policy_is_an_error() {
        assert!(PatchPolicy::from_toml("binary = true\nnever = []\nnew = []").is_err());
        let text = SHIPPED_POLICY.replace("never = [", "never = [\"[\",");
        assert!(PatchPolicy::from_toml(&text).unwrap_err().contains('['));
    }

    /// A policy may be created without validation, so its globs can still be invalid when a patch
    /// is computed.
    #[test]
    fn invalid_globs_are_errors() {
        for (never, new) in [(vec!["[".to_owned()], vec![]), (vec![], vec!["a{b".to_owned()])] {
            let policy = PatchPolicy { never, new, ..PatchPolicy::shipped().unwrap().clone() };
            let error = ExcludeGlobs::compile(&policy).err().unwrap().to_string();
            assert!(error.starts_with("configs/tables/patch-policy.toml: "), "{error}");
        }
    }
}
