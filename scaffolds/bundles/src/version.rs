//! Creates a recipe for a version of an agent that is not the version pinned in the manifest.
//! Versions and checksums come from the registry.

use std::collections::{BTreeMap, BTreeSet};

use proctor_packages::{IndexFile, Npm, Pypi};
use proctor_types::normalize_package_name;

use crate::{
    BundleError, BundleKind, BundleRecipe, BundleStore,
    downloads::{Checksum, DownloadCache},
    recipe::matches_version,
    requirements::{Requirement, is_same_version, parse_requirements},
    wheel,
};

/// The registry's tag for the newest recommended version.
pub const LATEST: &str = "latest";

/// The recipe for another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedRecipe {
    pub recipe: BundleRecipe,
    /// The exact version, even if [`LATEST`] was requested.
    pub version: String,
    /// One message for each dependency of that version that the recipe does not contain.
    pub missing_dependencies: Vec<String>,
}

impl BundleStore {
    /// Returns the recipe with `requested_version` of its main packages, which are those with the
    /// version `pinned_version`. If the new version pins a dependency exactly, that dependency is
    /// updated too. Other dependencies keep their versions.
    ///
    /// # Errors
    /// Fails if the registry is unreachable or does not have the version, or if no package in the
    /// recipe has the version `pinned_version`.
    pub async fn recipe_at_version(
        &self,
        recipe: &BundleRecipe,
        pinned_version: &str,
        requested_version: &str,
    ) -> Result<VersionedRecipe, BundleError> {
        match recipe.kind {
            BundleKind::Npm if recipe.lock.is_none() => {
                update_npm_recipe(recipe, pinned_version, requested_version).await
            }
            BundleKind::Pypi => {
                let downloads = DownloadCache { folder: self.cache.join("downloads") };
                update_pypi_recipe(recipe, (pinned_version, requested_version), &downloads).await
            }
            _ => Err(BundleError::new("the manifest does not list the packages")
                .hint("write your own manifest for the version you want")),
        }
    }
}

fn missing_main_package_error(pinned_version: &str) -> BundleError {
    BundleError::new(format!("no package in the bundle has version {pinned_version}"))
        .hint("write your own manifest for the version you want")
}

async fn update_npm_recipe(
    recipe: &BundleRecipe,
    pinned_version: &str,
    requested_version: &str,
) -> Result<VersionedRecipe, BundleError> {
    let npm = Npm::from_env()?;
    let mut recipe = recipe.clone();
    let main =
        recipe.packages.iter().find(|package| matches_version(&package.version, pinned_version));
    let main = main.ok_or_else(|| missing_main_package_error(pinned_version))?.name.clone();
    let version = match requested_version {
        LATEST => npm.fetch_release(&main, LATEST).await?.version,
        exact => exact.to_owned(),
    };
    let (mut needs, mut uses) = (BTreeMap::new(), BTreeMap::new());
    let mut others = Vec::new();
    for package in &mut recipe.packages {
        if !matches_version(&package.version, pinned_version) {
            others.push(package);
            continue;
        }
        let of_package = package.version.replacen(pinned_version, &version, 1);
        let release = npm.fetch_release(&package.name, &of_package).await?;
        (package.version, package.integrity) = (release.version, release.integrity);
        needs.extend(release.dependencies);
        uses.extend(release.optional_dependencies);
    }
    for package in others {
        let range = needs.get(&package.name).or_else(|| uses.get(&package.name));
        let Some(exact) = range.filter(|range| is_exact(range)) else { continue };
        if *exact != package.version {
            let release = npm.fetch_release(&package.name, exact).await?;
            (package.version, package.integrity) = (release.version, release.integrity);
        }
    }
    let has = |name: &String| recipe.packages.iter().any(|package| package.name == *name);
    let missing = needs.iter().filter(|(name, _)| !has(name));
    let missing =
        missing.map(|(name, range)| missing_dependency_message(&version, name, range)).collect();
    Ok(VersionedRecipe { recipe, version, missing_dependencies: missing })
}

fn missing_dependency_message(version: &str, name: &str, range: &str) -> String {
    format!("{version} depends on {name} {range}, which is not in the bundle")
}

/// Returns whether a version range in npm's syntax is a single version.
fn is_exact(range: &str) -> bool {
    range.starts_with(|c: char| c.is_ascii_digit())
        && range.chars().all(|c| c.is_ascii_alphanumeric() || ".-+".contains(c))
        && !range.contains(".x")
        && range.split('.').count() >= 3
}

async fn update_pypi_recipe(
    recipe: &BundleRecipe,
    (pinned, wanted): (&str, &str),
    downloads: &DownloadCache,
) -> Result<VersionedRecipe, BundleError> {
    let pypi = Pypi::from_env()?;
    let mut lines = parse_requirements(&recipe.requirements)?;
    // Prefer the agent's own package, which `bin` refers to, to other packages that happen to have
    // the same version.
    let mains: Vec<&Requirement> =
        lines.iter().filter(|line| matches_version(&line.version, pinned)).collect();
    let named = |line: &&&Requirement| {
        let plain = line.name.replace('-', "");
        recipe.bin.values().any(|target| target.replace('_', "").starts_with(&plain))
    };
    let main = mains
        .iter()
        .find(named)
        .or_else(|| mains.first())
        .ok_or_else(|| missing_main_package_error(pinned))?;
    let main = main.name.clone();
    let version = match wanted {
        LATEST => {
            let (offers, broken) = pypi.list_files(&main).await;
            match (newest_version(&offers, &main), broken) {
                (Some(version), _) => version,
                (None, Some(fault)) => return Err(fault.into()),
                (None, None) => return Err(BundleError::new(format!("PyPI has no {main}"))),
            }
        }
        exact => exact.to_owned(),
    };
    let mut missing = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![(main, version.clone())];
    while let Some((name, version)) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let (line, offer) = look_up_release(&pypi, &name, &version).await?;
        let what = format!("{name}=={version}");
        let sha256 = offer.sha256.clone().unwrap_or_default().to_lowercase();
        let bytes = downloads
            .get_or_download(&what, &Checksum::Sha256(sha256), pypi.download(&offer))
            .await?;
        let text = wheel::read_metadata(&bytes).map_err(|error| error.context(&what))?;
        for dependency in
            wheel::metadata_fields(&text, "Requires-Dist").filter_map(Dependency::parse)
        {
            let known = lines.iter().find(|line| line.name == dependency.name);
            match (known, dependency.exact_version) {
                (Some(known), Some(exact)) if is_same_version(&known.version, &exact) => {}
                (_, Some(exact)) => open.push((dependency.name, exact)),
                (None, None) => missing.push(missing_dependency_message(
                    &what,
                    &dependency.name,
                    &dependency.range,
                )),
                (Some(_), None) => {}
            }
        }
        lines.retain(|line| line.name != name);
        lines.push(line);
    }
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    let mut recipe = recipe.clone();
    recipe.requirements = lines.iter().map(format_requirement).collect();
    Ok(VersionedRecipe { recipe, version, missing_dependencies: missing })
}

/// Formats a requirement in pip's format.
fn format_requirement(requirement: &Requirement) -> String {
    let hashes = requirement.sha256.iter().map(|hash| format!(" --hash=sha256:{hash}"));
    format!("{}=={}{}\n", requirement.name, requirement.version, hashes.collect::<String>())
}

/// Looks up a release. Returns the checksums of all its files, and the file to use.
async fn look_up_release(
    pypi: &Pypi,
    name: &str,
    version: &str,
) -> Result<(Requirement, IndexFile), BundleError> {
    let (offers, broken) = pypi.list_files(name).await;
    let of_release: Vec<IndexFile> = offers
        .into_iter()
        .filter(|offer| {
            offer_version(offer, name).is_some_and(|found| is_same_version(found, version))
        })
        .collect();
    if of_release.is_empty() {
        return Err(broken.map_or_else(
            || {
                BundleError::new(format!("PyPI has no {name} {version}"))
                    .hint(format!("list the published versions with `pip index versions {name}`"))
            },
            BundleError::from,
        ));
    }
    let sha256 = of_release.iter().filter_map(|offer| offer.sha256.as_ref());
    let sha256 = sha256.map(|hash| hash.to_lowercase()).collect();
    let line =
        Requirement { name: normalize_package_name(name), version: version.to_owned(), sha256 };
    let offer = line.choose_file(&of_release).map_err(|why| {
        BundleError::new(format!("{name} {version}: {why}"))
            .hint("write your own manifest for the version you want")
    })?;
    Ok((line, offer))
}

/// Returns the version in the name of a file in the index.
fn offer_version<'a>(offer: &'a IndexFile, name: &str) -> Option<&'a str> {
    let wheel = offer.name.strip_suffix(".whl").and_then(|stem| {
        let mut parts = stem.split('-');
        let project = parts.next()?;
        (normalize_package_name(project) == normalize_package_name(name))
            .then(|| parts.next())
            .flatten()
    });
    wheel.or_else(|| offer.sdist_version(name))
}

/// Returns the highest version, ignoring pre-releases.
fn newest_version(offers: &[IndexFile], name: &str) -> Option<String> {
    let numbers = |version: &str| {
        let parts = version.split('.').map(|part| part.parse::<u64>().ok());
        parts.collect::<Option<Vec<u64>>>()
    };
    let versions = offers.iter().filter_map(|offer| offer_version(offer, name));
    let versions = versions.filter_map(|version| Some((numbers(version)?, version)));
    versions.max().map(|(_, version)| version.to_owned())
}

/// An entry of `Requires-Dist` that applies if no extras are requested.
#[derive(Debug, PartialEq, Eq)]
struct Dependency {
    name: String,
    /// The version range as the package specifies it.
    range: String,
    /// The version, if the range allows exactly one.
    exact_version: Option<String>,
}

impl Dependency {
    /// Parses an entry. Returns `None` if only some platforms or extras need the dependency.
    fn parse(text: &str) -> Option<Self> {
        if text.contains(';') {
            return None;
        }
        let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
        let (name, rest) = text.split_at(end.unwrap_or(text.len()));
        let rest = rest.trim();
        let rest = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((_, behind)) => behind,
            None => rest,
        };
        let range = rest.trim().trim_start_matches('(').trim_end_matches(')').trim().to_owned();
        let exact = range.strip_prefix("==").map(str::trim);
        let exact = exact.filter(|version| !version.contains([',', '*', '=']));
        let exact = exact.map(str::to_owned);
        (!name.is_empty()).then(|| Self {
            name: normalize_package_name(name),
            range,
            exact_version: exact,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(name: &str) -> IndexFile {
        let url = format!("https://h/{name}").parse().unwrap();
        IndexFile { name: name.to_owned(), url, sha256: Some("AA".into()), upload_time: None }
    }

    #[test]
    fn dependencies_are_parsed_as_published() {
        let read = |text: &str| {
            let found = Dependency::parse(text)?;
            Some((found.name, found.exact_version))
        };
        let exact = |name: &str, version: &str| Some((name.to_owned(), Some(version.to_owned())));
        assert_eq!(read("OpenHands_SDK==1.22.0"), exact("openhands-sdk", "1.22.0"));
        assert_eq!(read("a.b (== 2.0)"), exact("a-b", "2.0"));
        assert_eq!(read("a[x,y]==2"), exact("a", "2"));
        assert_eq!(read("a>=1,==1.*"), Some(("a".into(), None)));
        assert_eq!(read("a==1.*"), Some(("a".into(), None)));
        assert_eq!(read("a"), Some(("a".into(), None)));
        assert_eq!(read("a==1; extra == 'dev'"), None);
        assert_eq!(read("a==1 ; sys_platform == 'win32'"), None);
    }

    #[test]
    fn newest_release_is_not_a_prerelease() {
        let files = [
            "a_b-1.9.0-py3-none-any.whl",
            "a-b-1.10.0.tar.gz",
            "a_b-2.0rc1-py3-none-any.whl",
            "c-9-py3-none-any.whl",
        ];
        let offers: Vec<_> = files.iter().map(|name| offer(name)).collect();
        assert_eq!(newest_version(&offers, "a-b").as_deref(), Some("1.10.0"));
        assert_eq!(newest_version(&offers, "none"), None);
    }

    #[test]
    fn is_exact_accepts_only_single_versions() {
        for (range, exact) in [
            ("1.2.3", true),
            ("1.2.0-beta.10", true),
            ("^1.2.3", false),
            ("~1.2.3", false),
            ("1.2.x", false),
            ("1.2", false),
            ("1.2.3 - 2.0.0", false),
            (">=1.2.3", false),
            ("*", false),
            ("latest", false),
        ] {
            assert_eq!(is_exact(range), exact, "{range}");
        }
    }

    #[test]
    fn matches_version_ignores_a_platform_suffix() {
        assert!(matches_version("0.169.0-linux-x64", "0.169.0") && matches_version("1.0", "1.0.0"));
        assert!(!matches_version("0.169.10", "0.169.1") && !matches_version("1.1.5", "1.1"));
    }
}
