//! The library that a submission rewrites: finds its modules and removes its source.

use std::collections::BTreeSet;

use proctor_patch::CurrentFile;
use proctor_sandbox_api::{SandboxHandle, wire::EntryKind};
use proctor_types::{Fault, Task};

use crate::{
    path_rules::{GuardReason, PathRules},
    paths::{escape_task_path, file_from_test_id},
    policy::Policy,
    pristine::{PristineTree, read_entry},
    probe::Probe,
    restore::remove_entry,
    shadow::import_roots,
};

/// The top-level modules that can be imported from the original.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OriginalLibrary {
    pub modules: BTreeSet<String>,
}

impl OriginalLibrary {
    /// Finds the top-level modules below the pristine work directory. Leaves out tests,
    /// configuration and names of the standard library.
    pub(crate) fn find(
        workdir: &str,
        pristine: &PristineTree,
        probe: &Probe,
        policy: &Policy,
    ) -> Self {
        let mut modules = BTreeSet::new();
        for root in import_roots(workdir, pristine, probe, policy) {
            let prefix = if root.is_empty() { String::new() } else { format!("{root}/") };
            for (path, kind) in &pristine.entries {
                let Some(rest) = path.strip_prefix(&prefix) else { continue };
                let name = match (kind, rest.split_once('/')) {
                    // A folder without `__init__.py` is rarely a package at the top level, but
                    // usually is below `src`.
                    (_, Some((top, "__init__.py"))) => top,
                    (_, Some((top, rest))) if !root.is_empty() && is_source(policy, rest) => top,
                    (EntryKind::File | EntryKind::Link, None) if is_source(policy, rest) => {
                        rest.split('.').next().unwrap_or(rest)
                    }
                    _ => continue,
                };
                modules.insert(name.to_owned());
            }
        }
        let is_excluded = |name: &String| {
            policy.names.test_folders.contains(name)
                || policy.not_original.contains(name)
                || probe.standard_library.contains(name)
                || name.is_empty()
        };
        modules.retain(|name| !is_excluded(name));
        Self { modules }
    }

    /// Removes the source if the tests don't need it, so that nothing can import, read or run it.
    /// If the tests need the source, it stays, and `origin.py` guards it inside the interpreter.
    pub(crate) async fn remove(
        &self,
        handle: &SandboxHandle,
        task: &Task,
        pristine: &PristineTree,
        paths: &PathRules<'_>,
    ) -> Result<bool, Fault> {
        if self.is_needed(handle, task, pristine).await? {
            return Ok(false);
        }
        let policy = Policy::get()?;
        let sources = pristine.entries.iter().filter(|(path, kind)| {
            matches!(kind, EntryKind::File | EntryKind::Link)
                && is_source(policy, path)
                && !matches!(
                    paths.guard_reason(path),
                    Some(GuardReason::Test | GuardReason::Config)
                )
                && !paths.is_interpreter(path)
        });
        for (path, _) in sources {
            remove_entry(handle, &task.workdir, path).await?;
        }
        Ok(true)
    }

    /// Whether the tests, their conftests or the pytest configuration mention the library, even in
    /// a comment. When in doubt, the library stays. This is safe, because `origin.py` guards the
    /// library, whereas removing it may break honest code.
    async fn is_needed(
        &self,
        handle: &SandboxHandle,
        task: &Task,
        pristine: &PristineTree,
    ) -> Result<bool, Fault> {
        let policy = Policy::get()?;
        let tests: BTreeSet<String> =
            task.fail_to_pass.iter().map(|id| escape_task_path(file_from_test_id(id))).collect();
        let mut near: BTreeSet<String> = tests.clone();
        for test in &tests {
            let mut folder = test.as_str();
            while let Some((above, _)) = folder.rsplit_once('/') {
                // Importing a test also imports the packages that contain it, which may be part of
                // the library.
                if pristine.entries.contains_key(&format!("{above}/__init__.py")) {
                    let top = above.split('/').next().unwrap_or(above);
                    if self.modules.contains(top) {
                        return Ok(true);
                    }
                    near.insert(format!("{above}/__init__.py"));
                }
                near.insert(format!("{above}/conftest.py"));
                folder = above;
            }
        }
        near.insert("conftest.py".into());
        for path in &near {
            let text = match pristine.files.get(path) {
                Some(current) => Some(current.clone()),
                None => read_entry(handle, &task.workdir, path).await?,
            };
            if let Some(CurrentFile::File { bytes, .. }) = text
                && self.is_mentioned_in(&String::from_utf8_lossy(&bytes), policy)
            {
                return Ok(true);
            }
        }
        for path in policy.names.config_files.iter().filter(|path| !path.ends_with(".py")) {
            let Some(CurrentFile::File { bytes, .. }) =
                read_entry(handle, &task.workdir, path).await?
            else {
                continue;
            };
            let text = String::from_utf8_lossy(&bytes);
            let loads = |line: &&str| line.contains("::") || line.contains("-p ");
            let lines: Vec<&str> = text.lines().filter(loads).collect();
            if self.is_mentioned_in(&lines.join("\n"), policy) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_mentioned_in(&self, text: &str, policy: &Policy) -> bool {
        let imports_near = text.lines().map(str::trim_start).any(|line| {
            line.starts_with("from .")
                || policy.names.test_folders.iter().any(|folder| {
                    ["from", "import"].iter().any(|word| {
                        line.strip_prefix(&format!("{word} {folder}"))
                            .is_some_and(|rest| !rest.starts_with(is_word))
                    })
                })
        });
        imports_near || text.split(|c| !is_word(c)).any(|word| self.modules.contains(word))
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_source(policy: &Policy, path: &str) -> bool {
    policy.source_suffixes.iter().any(|suffix| path.ends_with(suffix.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pristine_tree(names: &[&str]) -> PristineTree {
        let mut pristine = PristineTree::default();
        for name in names {
            pristine.entries.insert((*name).to_owned(), EntryKind::File);
        }
        pristine
    }

    #[test]
    fn find_returns_importable_top_level_modules() {
        let tree = pristine_tree(&[
            "lib_a/__init__.py",
            "lib_a/core.py",
            "single.py",
            "fast.cpython-311-x86_64-linux-gnu.so",
            "docs/conf.py",
            "tests/__init__.py",
            "json/__init__.py",
            "setup.py",
            "conftest.py",
            "src/spaced/inner/a.py",
            "README.md",
        ]);
        let probe = Probe { standard_library: vec!["json".into()], ..Probe::default() };
        let policy = Policy::get().unwrap();
        let found = OriginalLibrary::find("/testbed", &tree, &probe, policy);
        let names: Vec<&str> = found.modules.iter().map(String::as_str).collect();
        assert_eq!(names, ["fast", "lib_a", "single", "spaced"]);
    }

    #[test]
    fn is_mentioned_in_detects_imports_and_mentions() {
        let original = OriginalLibrary { modules: BTreeSet::from(["roman".to_owned()]) };
        let policy = Policy::get().unwrap();
        for text in
            ["import roman.core", "x = 'roman.core'", "from . import a", "from tests.x import y"]
        {
            assert!(original.is_mentioned_in(text, policy), "{text}");
        }
        for text in ["import agent_code", "romantic = 1", "from testsuite import x"] {
            assert!(!original.is_mentioned_in(text, policy), "{text}");
        }
    }
}
