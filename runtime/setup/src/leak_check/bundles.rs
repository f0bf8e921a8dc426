//! Finds copies of a package under test in an agent's bundle. The bundle is mounted into the
//! sandbox, where the agent can read it.
//!
//! The search runs on the host before any trial starts. A copy cannot be removed from a bundle,
//! because the agent itself may import the copied package. Hiding the copy from other processes
//! would not help either, because the agent's shell can read all files that the agent can read.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use proctor_sandbox_api::wire::{Finding, FindingKind, RawPath, ScanLimits, ScanRequest};
use proctor_types::{Fault, FaultCause, FaultLayer, Source, Task};

use super::{
    patch_lines::patch_lines_by_file,
    policy::LeakPolicy,
    secrets::{LabeledSecrets, build_secrets, module_names},
};

/// A copy of a task's hidden content, or of the package that the task works on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BundleCopy {
    /// Path relative to the bundle's directory.
    pub path: String,
    /// Description of the copy.
    pub description: String,
}

/// Returns the first copy in the bundle for each task, by task index. A task's package is found by
/// the paths that its patches change, and by the name of its repository or distribution. A task's
/// hidden code is found by content, whatever the file's name.
///
/// # Errors
/// Fails if the bundle or the built-in policy cannot be read.
pub fn find_bundle_copies(
    folder: &Path,
    tasks: &[&Task],
) -> Result<BTreeMap<usize, BundleCopy>, Fault> {
    let policy = LeakPolicy::get()?;
    let reading = |error: io::Error| {
        let what = format!("cannot read the bundle {}: {error}", folder.display());
        Fault::new(FaultLayer::Setup, what).cause(FaultCause::from_io_error(&error))
    };
    let packages = BundlePackages::read(folder, policy).map_err(reading)?;
    let mut found = BTreeMap::new();
    for (at, task) in tasks.iter().enumerate() {
        if let Some(copy) = packages.find_package(task, policy) {
            found.insert(at, copy);
        }
    }
    find_copies_by_content(folder, tasks, policy, &mut found)?;
    Ok(found)
}

/// Searches for all remaining tasks at once. A file is reported only for the task that it matches
/// best. If the file also contains another task's code, the next search finds that copy, because it
/// no longer includes the first task.
fn find_copies_by_content(
    folder: &Path,
    tasks: &[&Task],
    policy: &LeakPolicy,
    copies: &mut BTreeMap<usize, BundleCopy>,
) -> Result<(), Fault> {
    loop {
        let left = (0..tasks.len()).filter(|at| !copies.contains_key(at));
        let mut together = LabeledSecrets::default();
        let mut suffixes: BTreeSet<String> = policy.host.suffixes.iter().cloned().collect();
        suffixes.insert("pyc".into());
        let (mut blocks, mut names) = (Vec::new(), Vec::new());
        for at in left {
            let task = tasks[at];
            // Search for neither hidden files nor the source of a from-scratch task, because both
            // are read from the environment, which does not exist yet.
            let mut one = build_secrets(task, &BTreeMap::new(), &BTreeMap::new(), policy)?;
            suffixes.extend(patched_paths(task).filter_map(|path| file_extension(&path)));
            blocks.extend(one.secrets.blocks.iter().map(|_| at));
            names.extend(one.secrets.names.iter().map(|_| at));
            together.secrets.blocks.append(&mut one.secrets.blocks);
            together.secrets.names.append(&mut one.secrets.names);
            together.blocks.append(&mut one.blocks);
            together.names.append(&mut one.names);
        }
        if together.secrets.blocks.is_empty() && together.secrets.names.is_empty() {
            return Ok(());
        }
        let request = ScanRequest {
            roots: vec![RawPath::new(folder.as_os_str().as_encoded_bytes())],
            skip: Vec::new(),
            suffixes: Some(suffixes.into_iter().collect()),
            limits: ScanLimits { findings: u32::MAX, ..policy.limits },
        };
        let reply = proctor_scan::scan(&request, together.secrets, &|| false)
            .map_err(|refusal| Fault::new(FaultLayer::Setup, refusal.what))?;
        let before = copies.len();
        for finding in &reply.findings {
            let (task, label) = match finding.what {
                FindingKind::Text { block, .. } => {
                    (blocks.get(block as usize), together.blocks.get(block as usize))
                }
                FindingKind::Bytecode { set, .. } => {
                    (names.get(set as usize), together.names.get(set as usize))
                }
                FindingKind::Module { .. } => (None, None),
            };
            let (Some(task), Some(label)) = (task, label) else { continue };
            let copy =
                BundleCopy { path: finding_path(folder, finding), description: label.clone() };
            copies.entry(*task).or_insert(copy);
        }
        if copies.len() == before {
            return Ok(());
        }
    }
}

fn finding_path(folder: &Path, finding: &Finding) -> String {
    let path = finding.path.to_escaped();
    let folder = folder.to_string_lossy();
    let mut place = path.strip_prefix(&*folder).unwrap_or(&path).trim_start_matches('/').to_owned();
    for inner in &finding.inside {
        place.push_str(" > ");
        place.push_str(&inner.to_escaped());
    }
    place
}

/// Returns the paths that a task's own patches change.
fn patched_paths(task: &Task) -> impl Iterator<Item = String> {
    let patches = [&task.mask, &task.gold].into_iter().flatten();
    let paths: BTreeSet<String> =
        patches.flat_map(|patch| patch_lines_by_file(patch).into_keys()).collect();
    paths.into_iter()
}

fn file_extension(path: &str) -> Option<String> {
    Path::new(path).extension().and_then(OsStr::to_str).map(str::to_owned)
}

struct BundlePackages {
    bundle: PathBuf,
    /// Directories that packages are imported from, including vendored packages.
    roots: Vec<PathBuf>,
    /// Distributions by normalized name, each with its metadata directory.
    distributions: BTreeMap<String, PathBuf>,
}

impl BundlePackages {
    fn read(bundle: &Path, policy: &LeakPolicy) -> io::Result<Self> {
        let mut packages =
            Self { bundle: bundle.to_owned(), roots: Vec::new(), distributions: BTreeMap::new() };
        let mut open = vec![bundle.to_owned()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let (path, name) = (entry.path(), entry.file_name());
                let name = name.to_string_lossy();
                if let Some(told) =
                    name.strip_suffix(".dist-info").or(name.strip_suffix(".egg-info"))
                {
                    let of = told.split_once('-').map_or(told, |(name, _)| name);
                    packages.distributions.insert(normalize_name(of), path);
                } else if entry.file_type()?.is_dir() {
                    let mut roots = policy.import_roots.iter().chain(&policy.vendor_folders);
                    if roots.any(|root| *root == name) {
                        packages.roots.push(path.clone());
                    }
                    open.push(path);
                }
            }
        }
        packages.roots.sort();
        Ok(packages)
    }

    fn find_package(&self, task: &Task, policy: &LeakPolicy) -> Option<BundleCopy> {
        let copy = |path: &Path, what: String| {
            let place = path.strip_prefix(&self.bundle).unwrap_or(path);
            Some(BundleCopy { path: place.display().to_string(), description: what })
        };
        for module in module_names(patched_paths(task), policy) {
            let parts: Vec<&str> = module.split('/').collect();
            if let Some(path) = self.roots.iter().find_map(|root| find_importable(root, &parts)) {
                return copy(&path, format!("the package {}, which is under test", parts[0]));
            }
        }
        for name in distribution_names(task) {
            let normal = normalize_name(name);
            let at_root =
                |root: &PathBuf| find_importable(root, &[normal.replace('-', "_").as_str()]);
            let told = self.distributions.get(&normal).cloned();
            if let Some(path) = told.or_else(|| self.roots.iter().find_map(at_root)) {
                return copy(&path, format!("the distribution {name}, which is under test"));
            }
        }
        None
    }
}

/// Returns the names that a task's package may have in an installation.
fn distribution_names(task: &Task) -> impl Iterator<Item = &str> {
    let distribution = match &task.source {
        Some(Source::Pypi { pypi, .. }) => Some(pypi.as_str()),
        _ => None,
    };
    let repo = task.repo.as_deref().and_then(|repo| repo.rsplit('/').next());
    distribution.into_iter().chain(repo).filter(|name| !name.is_empty())
}

/// Normalizes a distribution name as the package index does.
fn normalize_name(name: &str) -> String {
    let mut out = String::new();
    for part in name.split(['-', '_', '.']).filter(|part| !part.is_empty()) {
        if !out.is_empty() {
            out.push('-');
        }
        out.push_str(&part.to_lowercase());
    }
    out
}

/// Finds a module's package below an import root. It is enough that the package exists, because
/// another version of the package may have other modules. A directory without `__init__` proves
/// nothing, because several packages may share it.
fn find_importable(root: &Path, module: &[&str]) -> Option<PathBuf> {
    let mut at = root.to_owned();
    for (depth, part) in module.iter().enumerate() {
        let folder = at.join(part);
        if !folder.is_dir() {
            break;
        }
        if find_module_file(&folder, "__init__").is_some() || depth + 1 == module.len() && depth > 0
        {
            return Some(folder);
        }
        at = folder;
    }
    let below = at.strip_prefix(root).map_or(0, |below| below.components().count());
    if let Some(file) = module.get(below).and_then(|part| find_module_file(&at, part)) {
        return Some(file);
    }
    // The path may start with a repository directory that is not part of the package. If the first
    // parts of the path are dropped, the module itself must exist.
    (1..module.len().saturating_sub(1)).find_map(|from| {
        let (name, folders) = module[from..].split_last()?;
        find_module_file(&root.join(folders.join("/")), name)
    })
}

/// Finds `NAME.py`, or a compiled file or extension module with that name.
fn find_module_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| {
            let file = entry.file_name();
            let file = file.to_string_lossy();
            let (stem, end) = file.split_once('.').unwrap_or((&file, ""));
            let end = end.rsplit('.').next().unwrap_or_default();
            stem == name && matches!(end, "py" | "pyc" | "pyd" | "so")
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns twelve unique lines of code, each with one function call.
    fn unique_code(name: &str) -> Vec<String> {
        (0..12)
            .map(|n| format!("    total_{name}_{n} = weigh_{name}(total, {n}) + {n} * 17"))
            .collect()
    }

    fn task(repo: &str, path: &str, code_name: &str) -> Task {
        let lines: String =
            unique_code(code_name).iter().map(|line| format!("-{line}\n")).collect();
        let mask = format!(
            "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,13 +1,1 @@\n kept\n{lines}"
        );
        serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {}, "repo": repo,
            "fail_to_pass": ["t"], "test_command": [], "mask": mask,
        }))
        .unwrap()
    }

    fn create_bundle(files: &[(&str, String)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    const SITE_PACKAGES: &str = "lib/python3/dist-packages";

    #[test]
    fn find_bundle_copies_finds_the_package_by_module_name_or_content() {
        let text = || "x = 1\n".to_owned();
        let node = "lib/node_modules/npm/node_modules/node-gyp/gyp/pylib";
        let files = [
            (format!("{SITE_PACKAGES}/rollcall/__init__.py"), text()),
            (format!("{SITE_PACKAGES}/space/shared/__init__.py"), text()),
            (format!("{SITE_PACKAGES}/other/_vendor/tally.py"), text()),
            (format!("{SITE_PACKAGES}/Odd_Name-2.0.dist-info/METADATA"), text()),
            (format!("{node}/parcel/version.py"), text()),
            (format!("{node}/parcel/__init__.py"), text()),
            ("share/hidden.txt".into(), unique_code("elsewhere").join("\n")),
            (format!("{SITE_PACKAGES}/helper/inner.py"), unique_code("renamed").join("\n")),
            (format!("{SITE_PACKAGES}/helper/inner2.py"), unique_code("renamed_too").join("\n")),
        ];
        let files: Vec<_> =
            files.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
        let folder = create_bundle(&files);
        let cases = [
            // Another version of the package: the mask's module is missing, but the package
            // exists.
            (task("o/x", "src/rollcall/new.py", "a"), Some("rollcall")),
            (task("o/x", "space/shared/deep/one.py", "b"), Some("space/shared")),
            (task("o/x", "space/alone/one.py", "c"), None),
            (task("o/x", "tally.py", "d"), Some("other/_vendor/tally.py")),
            (task("odd/odd.name", "core/x.py", "e"), Some("Odd_Name-2.0.dist-info")),
            (task("o/x", "parcel/tags.py", "f"), Some("gyp/pylib/parcel")),
            // The same file name, in a directory that is not part of the package.
            (task("o/x", "tools/rollcall/new.py", "g"), None),
            (task("o/x", "python/rollcall/__init__.py", "h"), Some("rollcall/__init__.py")),
            (task("o/x", "mine/one.py", "renamed"), Some("helper/inner.py")),
            (task("o/x", "mine/one.py", "renamed_too"), Some("helper/inner2.py")),
            // Python code cannot be imported from this path.
            (task("o/x", "mine/one.py", "elsewhere"), None),
            (task("o/x", "mine/one.txt", "elsewhere"), Some("share/hidden.txt")),
            (task("numerals", "numerals/roman.py", "i"), None),
        ];
        let tasks: Vec<&Task> = cases.iter().map(|(task, _)| task).collect();
        let found = find_bundle_copies(folder.path(), &tasks[..10]).unwrap();
        for (at, (_, wanted)) in cases.iter().enumerate().take(10) {
            let place = found.get(&at).map(|copy| copy.path.as_str());
            match wanted {
                Some(wanted) => {
                    assert!(place.is_some_and(|p| p.ends_with(wanted)), "{at}: {place:?}")
                }
                None => assert_eq!(place, None, "{at}"),
            }
        }
        // Search for one task at a time, because other tasks may add file suffixes to the search.
        for (at, (task, wanted)) in cases.iter().enumerate() {
            let found = find_bundle_copies(folder.path(), &[task]).unwrap();
            let place = found.get(&0).map(|copy| copy.path.as_str());
            assert_eq!(place.is_some(), wanted.is_some(), "{at}: {place:?}");
        }
    }

    #[test]
    fn find_bundle_copies_finds_a_file_for_both_tasks_that_it_copies() {
        let both = unique_code("first")
            .into_iter()
            .chain(unique_code("second"))
            .collect::<Vec<_>>()
            .join("\n");
        let folder = create_bundle(&[("lib/python3/dist-packages/far/away.py", both)]);
        let (first, second) = (task("o/a", "a/a.py", "first"), task("o/b", "b/b.py", "second"));
        let found = find_bundle_copies(folder.path(), &[&first, &second]).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[&1].description.contains("masked code of b/b.py"), "{found:?}");
    }
}
