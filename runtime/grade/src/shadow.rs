//! Modules that a patch puts in the place of pytest's or the standard library's.

use std::collections::BTreeSet;

use proctor_sandbox_api::{SandboxHandle, wire::EntryKind};
use proctor_types::{Evidence, Fault};

use crate::{
    evidence::{self, note},
    paths::below,
    policy::Policy,
    pristine::Pristine,
    probe::Probe,
    restore::remove,
};

/// Endings of files that can be imported.
const IMPORTABLE: [&str; 3] = [".py", ".so", ".pyd"];

/// Removes what shadows a guarded module at an import root and was not there before.
pub(crate) async fn remove_shadows(
    handle: &SandboxHandle,
    workdir: &str,
    pristine: &Pristine,
    probe: &Probe,
    changed: &BTreeSet<String>,
) -> Result<Vec<Evidence>, Fault> {
    let policy = Policy::get()?;
    let mut found = Vec::new();
    for path in shadows(workdir, pristine, probe, policy, changed) {
        remove(handle, workdir, &path).await?;
        found.push(note(evidence::SHADOWING_REMOVED, format!("{path}: removed")));
    }
    Ok(found)
}

fn shadows(
    workdir: &str,
    pristine: &Pristine,
    probe: &Probe,
    policy: &Policy,
    changed: &BTreeSet<String>,
) -> BTreeSet<String> {
    let roots = import_roots(workdir, pristine, probe, policy);
    let plugins =
        probe.plugins.iter().map(|(_, module)| module.split('.').next().unwrap_or(module));
    let guarded: BTreeSet<&str> = policy
        .guarded_modules
        .iter()
        .chain(&probe.standard_library)
        .map(String::as_str)
        .chain(plugins)
        // The standard library's own tests; every second project has a folder of that name.
        .filter(|name| *name != "test")
        .collect();
    let mut found = BTreeSet::new();
    for path in changed {
        for root in &roots {
            let rest = if root.is_empty() {
                Some(path.as_str())
            } else {
                path.strip_prefix(root.as_str()).and_then(|rest| rest.strip_prefix('/'))
            };
            let Some(top) = rest.and_then(|rest| rest.split('/').next()) else { continue };
            let module = top.split('.').next().unwrap_or(top);
            let importable = IMPORTABLE.iter().any(|ending| path.ends_with(ending))
                // A link may lead to a module.
                || !path.rsplit('/').next().unwrap_or(path).contains('.');
            let own = pristine.names.iter().any(|(name, kind)| {
                let full = |ending: &str| join(root, &format!("{module}{ending}"));
                (*kind == EntryKind::Dir && *name == full(""))
                    || IMPORTABLE.iter().any(|ending| *name == full(ending))
            });
            if importable && guarded.contains(module) && !own {
                found.insert(join(root, top));
            }
        }
    }
    found
}

/// The folders below the work directory that modules are imported from.
pub(crate) fn import_roots(
    workdir: &str,
    pristine: &Pristine,
    probe: &Probe,
    policy: &Policy,
) -> BTreeSet<String> {
    // A root that is itself a package is none.
    let is_root = |root: &String| {
        root.is_empty() || !pristine.names.contains_key(&format!("{root}/__init__.py"))
    };
    let further = probe.path.iter().filter_map(|entry| below(workdir, entry));
    policy.import_roots.iter().cloned().chain(further).filter(is_root).collect()
}

fn join(root: &str, name: &str) -> String {
    if root.is_empty() { name.to_owned() } else { format!("{root}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_modules_at_import_roots_shadow() {
        let mut pristine = Pristine::default();
        for (name, kind) in [
            ("lib", EntryKind::Dir),
            ("lib/__init__.py", EntryKind::File),
            ("packaging", EntryKind::Dir),
        ] {
            pristine.names.insert(name.into(), kind);
        }
        let probe = Probe {
            path: vec!["/testbed/python".into()],
            standard_library: vec!["json".into(), "types".into(), "test".into()],
            plugins: vec![("cov".into(), "pytest_cov.plugin".into())],
            ..Probe::default()
        };
        let changed: BTreeSet<String> = [
            "pytest.py",
            "_pytest/runner.py",
            "src/json/__init__.py",
            "python/pytest_cov/plugin.py",
            "pluggy.cpython-311-x86_64-linux-gnu.so",
            "lib/types.py",
            "pkg/types.py",
            "packaging/new.py",
            "test/new.py",
            "json.md",
        ]
        .map(str::to_owned)
        .into();
        let policy = Policy::get().unwrap();
        let found: Vec<String> =
            shadows("/testbed", &pristine, &probe, policy, &changed).into_iter().collect();
        assert_eq!(
            found,
            [
                "_pytest",
                "pluggy.cpython-311-x86_64-linux-gnu.so",
                "pytest.py",
                "python/pytest_cov",
                "src/json",
            ]
        );
    }
}
