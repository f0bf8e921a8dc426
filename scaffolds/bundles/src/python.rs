//! Adds Python and Python packages to a bundle.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use futures_util::{StreamExt as _, stream};
use proctor_packages::Pypi;

use crate::{
    BundleError, BundleRecipe, MOUNT,
    blocking::run_blocking,
    downloads::{Checksum, DownloadCache},
    elf::{LIBRARY_FOLDER, LOADER_NAME},
    requirements::Requirement,
    wheel,
};

/// The path of the interpreter. It is not in `bin`, where it would take precedence over the image's
/// Python. Python finds its standard library relative to this path.
pub(crate) const INTERPRETER_PATH: &str = "libexec/python3.13";
/// The directory of the packages, which is in the search path of Debian's Python.
pub(crate) const PACKAGES_FOLDER: &str = "lib/python3/dist-packages";

/// Maximum number of concurrent downloads.
const MAX_CONCURRENT_DOWNLOADS: usize = 6;

/// Downloads and installs a recipe's packages.
pub(crate) async fn install_packages(
    recipe: &BundleRecipe,
    requirements: &[Requirement],
    downloads: &DownloadCache,
    tree: &Path,
) -> Result<(), BundleError> {
    let pypi = Pypi::from_env()?;
    // Collect the futures first, because the closure cannot be kept across an await.
    let fetches: Vec<_> = requirements
        .iter()
        .map(|requirement| fetch_package(&pypi, downloads, requirement))
        .collect();
    let mut fetched = stream::iter(fetches).buffered(MAX_CONCURRENT_DOWNLOADS);
    let mut at = requirements.iter();
    let site = tree.join(PACKAGES_FOLDER);
    while let (Some(bytes), Some(requirement)) = (fetched.next().await, at.next()) {
        let (bytes, site) = (bytes?, site.clone());
        let folders = recipe.sdists.iter().find_map(|(name, folders)| {
            (proctor_types::normalize_package_name(name) == requirement.name)
                .then(|| folders.clone())
        });
        let wanted = requirement.clone();
        let (bytes, checked) = run_blocking(move || {
            let checked = wheel::verify_metadata(&bytes, &wanted);
            Ok((bytes, checked))
        })
        .await?;
        let name = format!("{}=={}", requirement.name, requirement.version);
        checked.map_err(|error| error.context(&name))?;
        let is_wheel = bytes.starts_with(b"PK");
        let laid = match (is_wheel, folders) {
            (true, _) => run_blocking(move || wheel::install_wheel(bytes, &site)).await,
            (false, Some(folders)) => {
                run_blocking(move || wheel::install_sdist(&bytes, &folders, &site)).await
            }
            (false, None) => Err(BundleError::new("this release is only an sdist")
                .hint("list its importable folders in bundle.sdists (sdists are not built)")),
        };
        laid.map_err(|error| error.context(name))?;
    }
    Ok(())
}

async fn fetch_package(
    pypi: &Pypi,
    downloads: &DownloadCache,
    requirement: &Requirement,
) -> Result<Vec<u8>, BundleError> {
    let what = format!("{}=={}", requirement.name, requirement.version);
    // If a file is in the cache, it need not be looked up in the index.
    for sha256 in &requirement.sha256 {
        let wanted = Checksum::Sha256(sha256.clone());
        if let Some(bytes) = downloads.find_cached(&wanted) {
            return Ok(bytes);
        }
    }
    let offer =
        pypi.select_file(&requirement.name, &|offers| requirement.choose_file(offers)).await?;
    let sha256 = offer.sha256.clone().unwrap_or_default().to_lowercase();
    downloads.get_or_download(&what, &Checksum::Sha256(sha256), pypi.download(&offer)).await
}

/// Compiles every module. A bundle is mounted read-only, so Python cannot store compiled code.
/// Without this step, Python would compile a large agent on each start, which takes seconds.
///
/// Uses hash-based `.pyc` files, which contain no timestamps, so builds are reproducible.
pub(crate) fn compile_modules(tree: &Path) -> Result<(), BundleError> {
    let program = tree.join(INTERPRETER_PATH);
    let libraries = tree.join(LIBRARY_FOLDER);
    // Start Python through the loader with explicit library paths, because the bundle's mount point
    // does not exist on this machine.
    let ran = Command::new(libraries.join(LOADER_NAME))
        .arg("--library-path")
        .arg(&libraries)
        .arg("--argv0")
        .arg(&program)
        .arg(&program)
        // Use a single process: Python would start further processes without the loader.
        .args(["-s", "-P", "-S", "-m", "compileall", "-q", "-j", "1"])
        .args(["--invalidation-mode", "unchecked-hash", "-s"])
        .arg(tree)
        .args(["-p", MOUNT])
        .arg(tree.join("lib"))
        .env_clear()
        .env("PYTHONHASHSEED", "0")
        .output()
        .map_err(|error| BundleError::io(&program, &error))?;
    // Ignore the exit status. Some packages contain files that are not valid in this version of
    // Python, such as templates or a parser's test data. These cannot be compiled, which pip does
    // not report either.
    let compiled = tree.join("lib/python3.13/__pycache__/os.cpython-313.pyc");
    if !compiled.is_file() {
        let said = String::from_utf8_lossy(&ran.stderr);
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        return Err(BundleError::new(format!(
            "the bundled Python cannot compile: {}",
            last.join(" | ")
        )));
    }
    Ok(())
}

/// Returns the top-level names that can be imported from the bundle's packages. The package under
/// test must not be one of them.
pub(crate) fn importable_names(tree: &Path) -> Result<Vec<String>, BundleError> {
    let site: PathBuf = tree.join(PACKAGES_FOLDER);
    let mut out = BTreeSet::new();
    let entries = match fs::read_dir(&site) {
        Ok(entries) => entries,
        Err(_) => return Ok(Vec::new()),
    };
    for entry in entries {
        let entry = entry.map_err(|error| BundleError::io(&site, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let module = match (is_dir, name.split_once('.')) {
            (true, None) => Some(name.as_str()),
            (false, Some((stem, end))) if end == "py" || end.ends_with("so") => Some(stem),
            _ => None,
        };
        if let Some(module) = module.filter(|module| *module != "__pycache__") {
            out.insert(module.to_owned());
        }
    }
    Ok(out.into_iter().collect())
}
