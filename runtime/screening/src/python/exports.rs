//! Tracks the names in patched modules that refer to other packages. Other modules of the
//! repository may import these names.

use std::collections::{BTreeMap, BTreeSet};

use super::{names::NameTable, parser::parse};
use crate::rules::Rules;

/// Maximum number of modules through which a name is followed.
const MAX_STEPS: usize = 8;

/// A name in a module that refers to something in another module.
#[derive(Debug, Clone)]
pub(super) struct Export {
    /// The dotted name that this name refers to.
    pub path: String,
    /// Whether this name refers to a module.
    pub is_module: bool,
}

/// The names of one module.
#[derive(Debug)]
struct ExportingModule {
    /// Dotted path of the file in the repository.
    name: String,
    is_package: bool,
    exports: BTreeMap<String, Export>,
}

/// The names of the modules that a patch adds or changes.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    modules: Vec<ExportingModule>,
}

impl Exports {
    /// Adds a module that screening can read.
    pub(super) fn add(
        &mut self,
        rules: &'static Rules,
        owned_modules: &BTreeSet<String>,
        (path, text): (&str, &str),
    ) {
        let none = Self::default();
        let parsed = parse(text);
        let mut names = NameTable::new(rules, owned_modules, &none);
        let exports = names.module_aliases(&parsed.syntax().body);
        if exports.is_empty() {
            return;
        }
        let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
        let is_package = stem == "__init__" || stem.ends_with("/__init__");
        let stem = if is_package { stem.trim_end_matches("__init__") } else { stem };
        let name = stem.trim_end_matches('/').replace('/', ".");
        self.modules.push(ExportingModule { name, is_package, exports });
    }

    /// Returns the object in another package to which `name` in the repository's module
    /// `module_path` refers. The dots of relative imports are ignored: the end of the path
    /// identifies the module.
    pub(super) fn find_foreign(
        &self,
        module_path: &str,
        name: &str,
        is_owned: &dyn Fn(&str) -> bool,
    ) -> Option<Export> {
        let mut found = self.find_export(module_path, name)?;
        for _ in 0..MAX_STEPS {
            if !is_owned(&found.path) {
                return Some(found.clone());
            }
            let (of, name) = found.path.rsplit_once('.')?;
            found = self.find_export(of, name)?;
        }
        None
    }

    /// Returns the names that `from module import *` imports from other packages.
    pub(super) fn find_all_foreign(
        &self,
        module_path: &str,
        is_owned: &dyn Fn(&str) -> bool,
    ) -> Vec<(String, Export)> {
        let names = self.matching_modules(module_path).flat_map(|module| module.exports.keys());
        let names = names.filter(|name| !name.starts_with('_'));
        names
            .filter_map(|name| {
                Some((name.clone(), self.find_foreign(module_path, name, is_owned)?))
            })
            .collect()
    }

    fn find_export(&self, module_path: &str, name: &str) -> Option<&Export> {
        self.matching_modules(module_path).find_map(|module| module.exports.get(name))
    }

    fn matching_modules<'e, 'o>(
        &'e self,
        module_path: &'o str,
    ) -> impl Iterator<Item = &'e ExportingModule> + use<'e, 'o> {
        let of = module_path.trim_start_matches('.');
        self.modules.iter().filter(move |module| match of {
            "" => module.is_package,
            of => module
                .name
                .strip_suffix(of)
                .is_some_and(|head| head.is_empty() || head.ends_with('.')),
        })
    }
}
