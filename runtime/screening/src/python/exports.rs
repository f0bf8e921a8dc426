//! Tracks the names in patched modules that refer to other packages. Other modules of the
//! repository may import these names.

use std::collections::{BTreeMap, BTreeSet};

use super::{names::Names, parser::parse};
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
        owned: &BTreeSet<String>,
        (path, text): (&str, &str),
    ) {
        let none = Self::default();
        let parsed = parse(text);
        let mut names = Names::new(rules, owned, &none);
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

    /// Returns what `name`, in the repository's module `of`, refers to in another package. The dots
    /// of relative imports are ignored: the end of the path identifies the module.
    pub(super) fn find(
        &self,
        of: &str,
        name: &str,
        is_owned: &dyn Fn(&str) -> bool,
    ) -> Option<Export> {
        let mut found = self.export(of, name)?;
        for _ in 0..MAX_STEPS {
            if !is_owned(&found.path) {
                return Some(found.clone());
            }
            let (of, name) = found.path.rsplit_once('.')?;
            found = self.export(of, name)?;
        }
        None
    }

    /// Returns the names that `from module import *` imports from other packages.
    pub(super) fn find_all(
        &self,
        of: &str,
        is_owned: &dyn Fn(&str) -> bool,
    ) -> Vec<(String, Export)> {
        let names = self.modules_at(of).flat_map(|module| module.exports.keys());
        let names = names.filter(|name| !name.starts_with('_'));
        names.filter_map(|name| Some((name.clone(), self.find(of, name, is_owned)?))).collect()
    }

    fn export(&self, of: &str, name: &str) -> Option<&Export> {
        self.modules_at(of).find_map(|module| module.exports.get(name))
    }

    fn modules_at<'e, 'o>(
        &'e self,
        of: &'o str,
    ) -> impl Iterator<Item = &'e ExportingModule> + use<'e, 'o> {
        let of = of.trim_start_matches('.');
        self.modules.iter().filter(move |module| match of {
            "" => module.is_package,
            of => module
                .name
                .strip_suffix(of)
                .is_some_and(|head| head.is_empty() || head.ends_with('.')),
        })
    }
}
