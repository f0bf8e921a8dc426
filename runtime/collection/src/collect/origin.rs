//! Parses the source of a collection, as given on the command line.

use std::path::Path;

use proctor_setup::Sources;
use proctor_types::{Fault, Source};
use serde::{Deserialize, Serialize};

/// A repository at a fixed version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// `NAME==VERSION`: a release's source distribution (sdist).
    Release { name: String, version: String },
    /// `git+URL@COMMIT`, or a plain URL followed by `@COMMIT`.
    Commit { url: String, commit: String },
    /// A directory on this machine.
    Folder(String),
}

impl Origin {
    /// Parses a source.
    ///
    /// # Errors
    /// Returns a message for the user that lists the supported forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((name, version)) = text.split_once("==") {
            let plain = |part: &str| {
                !part.is_empty()
                    && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+!".contains(c))
            };
            let (name, version) = (name.trim(), version.trim());
            if !plain(name) || !plain(version) {
                return Err(format!("{text:?} is not NAME==VERSION"));
            }
            return Ok(Self::Release { name: name.to_owned(), version: version.to_owned() });
        }
        let address = text.strip_prefix("git+");
        let looks_remote = text.contains("://") || text.starts_with("git@");
        if address.is_some() || looks_remote {
            let address = address.unwrap_or(text);
            let Some((url, commit)) = address.rsplit_once('@') else {
                return Err(format!("{text:?} has no commit; use git+URL@COMMIT"));
            };
            if commit.len() != 40 || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(format!(
                    "{commit:?} is not a full commit hash (40 hex digits); branches and tags may move"
                ));
            }
            return Ok(Self::Commit { url: url.to_owned(), commit: commit.to_lowercase() });
        }
        match Path::new(text).is_dir() {
            true => Ok(Self::Folder(text.to_owned())),
            false => Err(format!("{text:?} is not a folder, NAME==VERSION or git+URL@COMMIT")),
        }
    }

    /// Returns the source that the tasks refer to. For a release, the source includes its checksum.
    ///
    /// # Errors
    /// Fails with an environment fault if the package index does not have the release.
    pub(super) async fn resolve_source(&self, sources: &Sources) -> Result<Source, Fault> {
        match self {
            Self::Release { name, version } => sources.find_release(name, version).await,
            Self::Commit { url, commit } => {
                Ok(Source::Git { git: url.clone(), commit: commit.clone() })
            }
            Self::Folder(path) => {
                // Make the path absolute, because the dataset may be in another directory.
                let path = std::fs::canonicalize(path)
                    .map_or_else(|_| path.clone(), |path| path.display().to_string());
                Ok(Source::Path { path })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_three_forms_and_rejects_branches() {
        let release = Origin::parse("boltons==25.0.0").unwrap();
        assert_eq!(release, Origin::Release { name: "boltons".into(), version: "25.0.0".into() });
        let hash = "a".repeat(40);
        for text in [format!("git+https://h.test/o/n@{hash}"), format!("https://h.test/o/n@{hash}")]
        {
            let Origin::Commit { url, commit } = Origin::parse(&text).unwrap() else {
                panic!("{text}")
            };
            assert_eq!((url.as_str(), commit), ("https://h.test/o/n", hash.clone()));
        }
        assert!(matches!(Origin::parse("/"), Ok(Origin::Folder(_))));
        for (text, part) in [
            ("git+https://h.test/o/n@main", "may move"),
            ("https://h.test/o/n", "has no commit"),
            ("no-such-folder-here", "is not a folder"),
            ("a b==1", "NAME==VERSION"),
            ("a==", "NAME==VERSION"),
        ] {
            let said = Origin::parse(text).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
