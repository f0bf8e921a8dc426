//! Detects modules in a patch that shadow a module of pytest, of the standard library, or of
//! another package that can be imported from outside the work directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use proctor_patch::CurrentFile;
use proctor_sandbox_api::{SandboxHandle, wire::EntryKind};
use proctor_types::{Evidence, Fault};

use crate::{
    evidence::{self, new_evidence},
    launch::Launch,
    path_rules::{GuardReason, PathRules},
    paths::{normalize_path, relative_to},
    policy::Policy,
    pristine::PristineTree,
    probe::Probe,
    restore::remove_entry,
};

/// Removes new files at an import root if they shadow a guarded module.
pub(crate) async fn remove_shadows(
    handle: &SandboxHandle,
    workdir: &str,
    pristine: &PristineTree,
    roots: &ImportRoots,
    changed_paths: &BTreeSet<String>,
) -> Result<Vec<Evidence>, Fault> {
    let mut found = Vec::new();
    for path in roots.find_shadows(pristine, changed_paths) {
        remove_entry(handle, workdir, &path).await?;
        found.push(new_evidence(evidence::SHADOWING_REMOVED, format!("{path}: removed")));
    }
    Ok(found)
}

/// The import roots below the work directory, and the module names that a patch must not use there.
#[derive(Debug, Default)]
pub(crate) struct ImportRoots {
    /// Folders on the interpreter's import path. These are always import roots.
    searched_folders: BTreeSet<String>,
    /// Folders that are import roots according to pytest, the configuration or convention. Such a
    /// folder counts only if it is not itself a package.
    likely_folders: BTreeSet<String>,
    /// Like `likely_folders`, but only the last components of the path are known. They come from a
    /// conftest that changes `sys.path`, or from a `pythonpath` setting.
    path_suffixes: BTreeSet<String>,
    guarded_modules: BTreeSet<String>,
}

impl ImportRoots {
    pub(crate) fn find(
        workdir: &str,
        pristine: &PristineTree,
        probe: &Probe,
        policy: &Policy,
        paths: &PathRules<'_>,
        launch: &Launch,
    ) -> Self {
        let searched = probe.graded.iter().filter_map(|entry| relative_to(&probe.root, entry));
        let searched =
            searched.chain(probe.path.iter().filter_map(|entry| relative_to(workdir, entry)));
        let mut roots = Self { searched_folders: searched.collect(), ..Self::default() };
        roots.likely_folders.extend(policy.names.import_roots.iter().cloned());
        for (path, file) in &pristine.files {
            let CurrentFile::File { bytes, .. } = file else { continue };
            let text = String::from_utf8_lossy(bytes);
            let is_python = path.ends_with(".py");
            if is_python && (paths.is_task_path(path) || path.ends_with("conftest.py")) {
                roots.likely_folders.insert(pytest_basedir(path, pristine));
                if text.contains("sys.path") || text.contains("addsitedir") {
                    roots.likely_folders.extend(ancestors(path));
                    roots.path_suffixes.extend(string_literals(&text).filter_map(path_suffix));
                }
            } else if !is_python && text.contains("pythonpath") {
                roots.path_suffixes.extend(words(&text).filter_map(path_suffix));
            }
        }
        for argument in launch.arguments.iter().filter(|word| word.contains("pythonpath")) {
            roots.path_suffixes.extend(words(argument).filter_map(path_suffix));
        }
        let plugins =
            probe.plugins.iter().map(|(_, module)| module.split('.').next().unwrap_or(module));
        let guarded = policy.guarded_modules.iter().chain(&probe.standard_library);
        let guarded = guarded.chain(&probe.provided).map(String::as_str).chain(plugins);
        let is_guarded = |name: &&str| !policy.unguarded_modules.iter().any(|other| other == name);
        roots.guarded_modules = guarded.filter(is_guarded).map(str::to_owned).collect();
        roots
    }

    /// Returns the folders that are certainly import roots: `searched_folders`, and the folders in
    /// `path`, the import path that the tests used. The entries of `path` are absolute.
    pub(crate) fn with_import_path(&self, workdir: &str, probe: &Probe, path: &[String]) -> Self {
        let inside = path.iter().filter_map(|entry| {
            let entry = normalize_path(entry);
            relative_to(workdir, &entry).or_else(|| relative_to(&probe.root, &entry))
        });
        let searched = self.searched_folders.iter().cloned().chain(inside).collect();
        Self {
            searched_folders: searched,
            guarded_modules: self.guarded_modules.clone(),
            ..Self::default()
        }
    }

    /// Returns the names that a new module in the work directory must not have. Names of modules
    /// that already existed there are not included.
    pub(crate) fn reserved_names(&self, pristine: &PristineTree) -> BTreeSet<String> {
        let roots = self.searched_folders.iter().chain(&self.likely_folders);
        let roots: BTreeSet<&String> = roots.collect();
        let is_own = |name: &String| roots.iter().any(|root| has_module(pristine, root, name));
        self.guarded_modules.iter().filter(|name| !is_own(name)).cloned().collect()
    }

    /// Returns the names that tests may use to import modules in test folders: every suffix of each
    /// module's path, except the names of modules at an import root of the work directory.
    pub(crate) fn helper_module_names(
        &self,
        pristine: &PristineTree,
        paths: &PathRules<'_>,
    ) -> BTreeSet<String> {
        let roots: BTreeSet<&String> =
            self.searched_folders.iter().chain(&self.likely_folders).collect();
        let files = pristine.entries.keys().chain(pristine.files.keys());
        let modules = files.filter(|path| {
            path.ends_with(".py")
                && paths.guard_reason(path) == Some(GuardReason::Test)
                && paths.is_in_test_folder(path)
        });
        let mut names = BTreeSet::new();
        for path in modules {
            let stem = path.trim_end_matches(".py").trim_end_matches("/__init__");
            let starts = std::iter::once(0).chain(stem.match_indices('/').map(|(at, _)| at + 1));
            names.extend(starts.map(|start| stem[start..].replace('/', ".")));
        }
        let is_own = |name: &String| {
            let path = name.replace('.', "/");
            let exists_at = |root: &&String| {
                let file = join_path(root, &format!("{path}.py"));
                let package = join_path(root, &format!("{path}/__init__.py"));
                [file, package].iter().any(|file| {
                    pristine.entries.contains_key(file)
                        && paths.guard_reason(file) != Some(GuardReason::Test)
                })
            };
            roots.iter().any(exists_at)
        };
        names.retain(|name| !is_own(name));
        names
    }

    /// Returns the changed paths that shadow a guarded module.
    pub(crate) fn find_shadows(
        &self,
        pristine: &PristineTree,
        changed_paths: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        let mut known: BTreeMap<String, bool> = BTreeMap::new();
        let mut found = BTreeSet::new();
        for path in changed_paths.iter().filter(|path| is_importable(path)) {
            let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
            for start in starts {
                let root = path[..start].trim_end_matches('/');
                let top = path[start..].split('/').next().unwrap_or_default();
                let module = top.split('.').next().unwrap_or(top);
                if !self.guarded_modules.contains(module) || !self.is_import_root(root, pristine) {
                    continue;
                }
                let whole = join_path(root, top);
                let is_new = known
                    .entry(join_path(root, module))
                    .or_insert_with(|| !has_module(pristine, root, module));
                if *is_new {
                    found.insert(whole);
                }
            }
        }
        found
    }

    fn is_import_root(&self, folder: &str, pristine: &PristineTree) -> bool {
        let is_named = || {
            self.path_suffixes.iter().any(|end| {
                folder
                    .strip_suffix(end.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
            })
        };
        self.searched_folders.contains(folder)
            || ((self.likely_folders.contains(folder) || is_named())
                && !is_package(pristine, folder))
    }
}

/// Returns the folders below the work directory from which modules are imported.
pub(crate) fn import_roots(
    workdir: &str,
    pristine: &PristineTree,
    probe: &Probe,
    policy: &Policy,
) -> BTreeSet<String> {
    let further = probe.path.iter().filter_map(|entry| relative_to(workdir, entry));
    let all = policy.names.import_roots.iter().cloned().chain(further);
    all.filter(|root| !is_package(pristine, root)).collect()
}

fn is_package(pristine: &PristineTree, folder: &str) -> bool {
    !folder.is_empty() && pristine.entries.contains_key(&format!("{folder}/__init__.py"))
}

/// Whether a folder had an importable module of that name before the patch. A folder without
/// importable files (such as `packaging/` with distribution recipes) is not a module.
fn has_module(pristine: &PristineTree, root: &str, module: &str) -> bool {
    let stem = join_path(root, module);
    let from = (Bound::Included(stem.clone()), Bound::Unbounded);
    pristine
        .entries
        .range(from)
        .take_while(|(path, _)| path.starts_with(&stem))
        .filter(|(path, kind)| match kind {
            EntryKind::Link => is_importable(path),
            EntryKind::File => has_module_suffix(path),
            EntryKind::Dir | EntryKind::Other => false,
        })
        .any(|(path, _)| matches!(path.as_bytes().get(stem.len()), Some(b'/' | b'.')))
}

/// Whether Python may be able to import a path. A name without a suffix may be a link to a module.
fn is_importable(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    has_module_suffix(path) || !name.contains('.')
}

fn has_module_suffix(path: &str) -> bool {
    [".py", ".so", ".pyd"].iter().any(|ending| path.ends_with(ending))
}

/// Returns the folder that pytest adds to the import path for a test or a conftest: the nearest
/// parent folder that is not a package.
fn pytest_basedir(path: &str, pristine: &PristineTree) -> String {
    let folders: BTreeSet<String> = ancestors(path).collect();
    let nearest = folders.into_iter().rev().find(|folder| !is_package(pristine, folder));
    nearest.unwrap_or_default()
}

/// All parent folders of a path, including the work directory.
fn ancestors(path: &str) -> impl Iterator<Item = String> {
    let ends = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
    std::iter::once(String::new()).chain(ends)
}

/// Returns the approximate contents of the single-line string literals in a source text.
fn string_literals(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split(['"', '\'']).skip(1))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "\"',=[]:;".contains(c))
}

/// Returns a path without `.` and `..` components; `None` if it does not look like a path.
fn path_suffix(path: &str) -> Option<String> {
    let is_name = |part: &&str| !part.is_empty() && *part != "." && *part != "..";
    let parts: Vec<&str> = path.split('/').filter(is_name).collect();
    let plain = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    (!parts.is_empty() && path.len() < 200 && path.chars().all(plain)).then(|| parts.join("/"))
}

fn join_path(root: &str, name: &str) -> String {
    if root.is_empty() { name.to_owned() } else { format!("{root}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pristine_tree(names: &[&str]) -> PristineTree {
        let mut pristine = PristineTree::default();
        for name in names {
            pristine.entries.insert((*name).into(), EntryKind::File);
            for folder in ancestors(name).skip(1) {
                pristine.entries.insert(folder, EntryKind::Dir);
            }
        }
        pristine
    }

    fn roots(pristine: &PristineTree, probe: &Probe) -> ImportRoots {
        let task = serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": ["tests/test_a.py::test_x"], "test_command": []
        }))
        .unwrap();
        let policy = Policy::get().unwrap();
        let nothing = BTreeSet::new();
        let paths =
            PathRules::new(policy, &task, probe, nothing.clone(), &nothing, &pristine.entries);
        let launch = Launch { interpreter: vec![], cwd_on_path: true, arguments: vec![] };
        ImportRoots::find("/testbed", pristine, probe, policy, &paths, &launch)
    }

    fn shadows(pristine: &PristineTree, probe: &Probe, changed_paths: &[&str]) -> Vec<String> {
        let changed = changed_paths.iter().map(|path| (*path).to_owned()).collect();
        roots(pristine, probe).find_shadows(pristine, &changed).into_iter().collect()
    }

    #[test]
    fn find_shadows_returns_only_new_modules_at_import_roots() {
        let pristine = pristine_tree(&["lib/__init__.py", "packaging/version.py", "pluggy/README"]);
        let probe = Probe {
            path: vec!["/testbed/python".into()],
            standard_library: vec!["json".into(), "types".into(), "test".into()],
            plugins: vec![("cov".into(), "pytest_cov.plugin".into())],
            ..Probe::default()
        };
        let changed = [
            "pytest.py",
            "_pytest/runner.py",
            "src/json/__init__.py",
            "python/pytest_cov/plugin.py",
            "pluggy/new.py",
            "lib/types.py",
            "pkg/types.py",
            "packaging/new.py",
            "test/new.py",
            "json.md",
            "iniconfig.cpython-311-x86_64-linux-gnu.so",
        ];
        assert_eq!(
            shadows(&pristine, &probe, &changed),
            [
                "_pytest",
                "iniconfig.cpython-311-x86_64-linux-gnu.so",
                "pluggy",
                "pytest.py",
                "python/pytest_cov",
                "src/json",
            ]
        );
    }

    #[test]
    fn find_shadows_covers_provided_modules_on_the_import_path() {
        let mut pristine =
            pristine_tree(&["tests/test_a.py", "tools/x.py", "numpy_ext/__init__.py"]);
        let conftest = "import sys\nsys.path.append(os.path.join(HERE, '..', 'tools'))\n";
        let file = CurrentFile::File { bytes: conftest.into(), mode: 0o644 };
        pristine.files.insert("tests/conftest.py".into(), file);
        let config = "[tool.pytest.ini_options]\npythonpath = [\"vendored/python\", 'more']\n";
        let file = CurrentFile::File { bytes: config.into(), mode: 0o644 };
        pristine.files.insert("pyproject.toml".into(), file);
        let probe = Probe {
            root: "/real".into(),
            graded: vec!["/real/plugins".into()],
            provided: vec!["hypothesis".into(), "numpy_ext".into(), "docs".into()],
            ..Probe::default()
        };
        let changed = [
            "plugins/hypothesis.py",
            "tools/hypothesis/__init__.py",
            "vendored/python/hypothesis.py",
            "more/hypothesis.py",
            "elsewhere/hypothesis.py",
            "numpy_ext/new.py",
            "docs/conf.py",
        ];
        assert_eq!(
            shadows(&pristine, &probe, &changed),
            [
                "more/hypothesis.py",
                "plugins/hypothesis.py",
                "tools/hypothesis",
                "vendored/python/hypothesis.py"
            ]
        );
        let foreign = roots(&pristine, &probe).reserved_names(&pristine);
        assert!(foreign.contains("hypothesis") && !foreign.contains("numpy_ext"));
        let seen = roots(&pristine, &probe);
        let seen =
            seen.with_import_path("/testbed", &probe, &["/testbed/tests/../elsewhere".to_owned()]);
        let late: BTreeSet<String> = BTreeSet::from(["elsewhere/hypothesis.py".to_owned()]);
        assert_eq!(seen.find_shadows(&pristine, &late), late);
    }
}
