//! Requirements in pip's format: the releases of Python packages, with the checksums of their
//! files.

use proctor_packages::IndexFile;
use proctor_types::normalize_package_name;

use crate::BundleError;

/// One requirement: a release and the checksums of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) sha256: Vec<String>,
}

/// Parses requirements in pip's format: `name==version --hash=sha256:...`. Supports continuation
/// lines (`\`) and comments, and ignores markers.
pub(crate) fn parse_requirements(text: &str) -> Result<Vec<Requirement>, BundleError> {
    let mut out = Vec::new();
    let joined = text.replace("\\\n", " ");
    for line in joined.lines() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| {
            BundleError::new(format!("bundle.requirements: `{line}` {why}"))
                .hint("write one package per line: `name==version --hash=sha256:...`")
        };
        let mut words = line.split_whitespace();
        let pin = words.next().unwrap_or_default();
        let (name, version) =
            pin.split_once("==").ok_or_else(|| wrong("does not pin an exact version"))?;
        let name = name.split('[').next().unwrap_or(name);
        let mut sha256 = Vec::new();
        for word in words {
            let hash =
                word.strip_prefix("--hash=sha256:").ok_or_else(|| wrong("is not supported"))?;
            sha256.push(hash.to_lowercase());
        }
        if sha256.is_empty() {
            return Err(wrong("has no --hash=sha256:..."));
        }
        out.push(Requirement {
            name: normalize_package_name(name),
            version: version.to_owned(),
            sha256,
        });
    }
    Ok(out)
}

impl Requirement {
    /// Chooses the file to install from those with a listed checksum: the best wheel, or the sdist
    /// if no wheel fits.
    pub(crate) fn choose_file(&self, offers: &[IndexFile]) -> Result<IndexFile, String> {
        let listed = |offer: &&IndexFile| {
            let sha256 = offer.sha256.as_ref().map(|hash| hash.to_lowercase());
            sha256.is_some_and(|hash| self.sha256.contains(&hash))
        };
        let of_list: Vec<&IndexFile> = offers.iter().filter(listed).collect();
        if of_list.is_empty() {
            return Err(format!(
                "the index has no file with the manifest's checksum ({})",
                self.version
            ));
        }
        let wheels = of_list.iter().filter_map(|offer| Some((wheel_rank(&offer.name)?, *offer)));
        let best = wheels.max_by_key(|(rank, _)| *rank).map(|(_, offer)| offer);
        let sdist = || of_list.iter().copied().find(|offer| offer.name.ends_with(".tar.gz"));
        best.or_else(sdist).cloned().ok_or_else(|| {
            let names: Vec<&str> = of_list.iter().map(|offer| offer.name.as_str()).collect();
            format!("{} is not for CPython 3.13 on Linux x86-64", names.join(", "))
        })
    }
}

/// Returns how well a wheel fits the bundled Python. A higher number is better; `None` means that
/// the wheel does not fit.
fn wheel_rank(name: &str) -> Option<u8> {
    let mut tags = name.strip_suffix(".whl")?.rsplitn(4, '-');
    let (platform, abi, python) = (tags.next()?, tags.next()?, tags.next()?);
    let platform = platform.split('.').any(|tag| {
        tag == "any"
            || (tag.starts_with("manylinux") || tag.starts_with("linux"))
                && tag.ends_with("_x86_64")
    });
    let exact = python.split('.').any(|tag| tag == "cp313");
    let older = |tag: &str| {
        tag.strip_prefix("cp3").and_then(|n| n.parse::<u8>().ok()).is_some_and(|n| n <= 13)
    };
    let stable = python.split('.').any(older) && abi.split('.').any(|tag| tag == "abi3");
    let pure = python.split('.').any(|tag| matches!(tag, "py3" | "py313")) && abi == "none";
    match platform {
        true if exact && abi == "cp313" => Some(3),
        true if stable => Some(2),
        true if pure || exact && abi == "none" => Some(1),
        _ => None,
    }
}

/// Returns whether two versions are the same. `1.0` is the same as `1.0.0`, and leading zeros don't
/// matter.
pub(crate) fn is_same_version(first: &str, second: &str) -> bool {
    let plain = |version: &str| {
        let version = version.trim().trim_start_matches(['v', 'V']).to_lowercase();
        let parts = version.split('.').map(|part| match part.parse::<u64>() {
            Ok(number) => number.to_string(),
            Err(_) => part.to_owned(),
        });
        let mut parts: Vec<String> = parts.collect();
        while parts.len() > 1 && parts.last().is_some_and(|last| last == "0") {
            parts.pop();
        }
        parts.join(".")
    };
    plain(first) == plain(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_parsed_like_pip() {
        let text = "# all\na.B[x]==1.0 --hash=sha256:AA # note\nc==2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n";
        let read = parse_requirements(text).unwrap();
        let one = |name: &str, version: &str, hashes: &[&str]| Requirement {
            name: name.to_owned(),
            version: version.to_owned(),
            sha256: hashes.iter().map(|hash| (*hash).to_owned()).collect(),
        };
        assert_eq!(read, [one("a-b", "1.0", &["aa"]), one("c", "2", &["bb", "cc"])]);
        for text in ["a>=1 --hash=sha256:aa", "a==1", "a==1 --hash=md5:aa", "-r other.txt"] {
            assert!(parse_requirements(text).is_err(), "{text}");
        }
    }

    #[test]
    fn versions_are_compared_like_pip() {
        for (one, other, same) in [
            ("1.0", "1.0.0", true),
            ("2026.1.2", "2026.01.02", true),
            ("v1.2", "1.2", true),
            ("1.2RC1", "1.2rc1", true),
            ("1.10", "1.1", false),
            ("10", "1", false),
            ("1.2", "1.2rc1", false),
        ] {
            assert_eq!(is_same_version(one, other), same, "{one} {other}");
        }
    }

    #[test]
    fn choose_prefers_the_best_wheel() {
        assert_eq!(wheel_rank("p-1-py3-none-any.whl"), Some(1));
        assert_eq!(
            wheel_rank("p-1-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"),
            Some(2)
        );
        assert_eq!(wheel_rank("p-1-cp313-cp313-manylinux_2_28_x86_64.whl"), Some(3));
        for no in [
            "p-1-cp312-cp312-manylinux_2_28_x86_64.whl",
            "p-1-cp313-cp313t-manylinux_2_28_x86_64.whl",
            "p-1-cp313-cp313-musllinux_1_2_x86_64.whl",
            "p-1-cp313-cp313-manylinux_2_28_aarch64.whl",
            "p-1-cp314-abi3-manylinux_2_28_x86_64.whl",
            "p-1-py2-none-any.whl",
            "p-1.tar.gz",
        ] {
            assert_eq!(wheel_rank(no), None, "{no}");
        }
    }
}
