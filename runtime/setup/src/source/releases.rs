//! Finds releases on a package index.

use proctor_packages::{IndexFile, Pypi};
use proctor_types::{Fault, FaultCause, Source, sha256_hex};

use super::{Sources, faults::source_fault};

impl Sources {
    /// Returns a release as a source. The checksum belongs to the sdist that the index currently
    /// offers.
    ///
    /// # Errors
    /// Returns an environment fault if the index is unreachable. If the index responds, but has no
    /// such project or no sdist of that version, the fault's cause is [`FaultCause::Missing`] and its
    /// hint suggests an alternative.
    pub async fn find_release(&self, name: &str, version: &str) -> Result<Source, Fault> {
        let index = Pypi::from_env()?;
        let (files, broken) = index.list_files(name).await;
        let Some(offer) = files.iter().find(|offer| offer.is_sdist_of(name, version)) else {
            return Err(broken.unwrap_or_else(|| missing_release_fault(&files, name, version)));
        };
        let sha256 = match &offer.sha256 {
            Some(sha256) => sha256.to_lowercase(),
            // If the index provides no checksum, compute it from the current file.
            None => sha256_hex(&index.download(offer).await?),
        };
        Ok(Source::Pypi { pypi: name.to_owned(), version: version.to_owned(), sha256 })
    }

    /// Returns the upload time of a release. `None` if the index does not provide it or is
    /// unreachable.
    pub async fn upload_time(&self, name: &str, version: &str) -> Option<String> {
        let (files, _) = Pypi::from_env().ok()?.list_files(name).await;
        files.into_iter().find(|offer| offer.is_sdist_of(name, version))?.upload_time
    }

    /// Returns the version of the newest sdist on the index, ignoring prereleases.
    ///
    /// # Errors
    /// Returns an environment fault if the index is unreachable. Its cause is [`FaultCause::Missing`] if
    /// the project has no sdist.
    pub async fn newest_version(&self, name: &str) -> Result<String, Fault> {
        let (files, broken) = Pypi::from_env()?.list_files(name).await;
        let newest = releases(&files, name).pop().map(|(_, version)| version.to_owned());
        newest.ok_or_else(|| broken.unwrap_or_else(|| missing_release_fault(&files, name, "")))
    }
}

/// Returns the fault for a missing release, with a suggestion. `version` is empty if no particular
/// version was requested.
fn missing_release_fault(files: &[IndexFile], name: &str, version: &str) -> Fault {
    let missing =
        |what: String, hint: String| source_fault(what).cause(FaultCause::Missing).hint(hint);
    if files.is_empty() {
        return missing(
            format!("the package index has no project {name}"),
            "fix the name (the index is the one in pip's settings), or use a folder or git+URL@COMMIT".into(),
        );
    }
    let from_git = "use a commit that has the sources: git+URL@COMMIT";
    let releases = releases(files, name);
    let Some((_, newest)) = releases.last() else {
        return missing(format!("the package index has no sdist of {name}"), from_git.into());
    };
    if files.iter().any(|file| file.is_wheel_of(name, version)) {
        let what =
            format!("the package index has {name} {version} only as a wheel, without an sdist");
        return missing(what, from_git.into());
    }
    let wanted = parse_version(version).unwrap_or_default();
    let hint = match nearest_release(&releases, &wanted) {
        Some(near) if near != *newest => {
            format!("did you mean {name}=={near}? The newest is {name}=={newest}")
        }
        _ => format!("the newest is {name}=={newest}"),
    };
    missing(format!("the package index has no release {version} of {name}"), hint)
}

/// Returns the final releases that have an sdist, oldest first.
fn releases<'a>(files: &'a [IndexFile], name: &str) -> Vec<(Vec<u64>, &'a str)> {
    let of = |file: &'a IndexFile| {
        let version = file.sdist_version(name)?;
        Some((parse_version(version)?, version))
    };
    let mut out: Vec<_> = files.iter().filter_map(of).collect();
    out.sort();
    out
}

/// Returns the newest of the releases that have the most leading numbers in common with
/// `requested`. Returns `None` if no release has any in common.
fn nearest_release<'a>(releases: &[(Vec<u64>, &'a str)], requested: &[u64]) -> Option<&'a str> {
    let common =
        |numbers: &[u64]| numbers.iter().zip(requested).take_while(|(a, b)| a == b).count();
    let same = |numbers: &[u64]| numbers == requested;
    let found = releases.iter().max_by_key(|(numbers, _)| (same(numbers), common(numbers)));
    found.filter(|(numbers, _)| common(numbers) > 0).map(|(_, version)| *version)
}

/// Parses the numbers of a final release: `1.10.2`, `2024.1.post1`.
fn parse_version(version: &str) -> Option<Vec<u64>> {
    let (release, post) = match version.split_once(".post") {
        Some((release, post)) => (release, post.parse().ok()?),
        None => (version, 0),
    };
    let mut out: Vec<u64> = release.split('.').map(|it| it.parse().ok()).collect::<Option<_>>()?;
    while out.last() == Some(&0) {
        out.pop();
    }
    // Append the post-release number, so that a post-release sorts before a version with one more
    // number.
    out.extend([0, post].into_iter().filter(|_| post > 0));
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_release_fault_suggests_the_nearest_release() {
        let offer = |name: &str| IndexFile {
            name: name.to_owned(),
            url: "https://index.test/x".parse().unwrap(),
            sha256: None,
            upload_time: None,
        };
        let files = [
            "a_b-24.1.0.tar.gz",
            "a_b-25.0.0.tar.gz",
            "a_b-24.2.0.tar.gz",
            "a_b-26.0rc1.tar.gz",
            "a_b-25.1-py3-none-any.whl",
        ]
        .map(offer);
        let told = |files: &[IndexFile], version: &str| {
            let fault = missing_release_fault(files, "a-b", version);
            assert_eq!(fault.cause, FaultCause::Missing);
            format!("{}: {}", fault.what, fault.hint.unwrap())
        };
        for (version, hint) in [
            ("99", "no release 99 of a-b: the newest is a-b==25.0.0"),
            ("25", "the newest is a-b==25.0.0"),
            ("24.1", "did you mean a-b==24.1.0? The newest is a-b==25.0.0"),
            ("24.7.3", "did you mean a-b==24.2.0?"),
            ("x", "the newest is a-b==25.0.0"),
            ("25.1", "only as a wheel, without an sdist: use a commit"),
        ] {
            let told = told(&files, version);
            assert!(told.contains(hint), "{version}: {told}");
        }
        assert!(told(&files[4..], "1").contains("no sdist of a-b"));
        assert!(told(&[], "1").contains("no project a-b: fix the name"));
    }
}
