//! Dotted module names of files and imports, and top-level names in modules.

use ruff_python_ast::StmtImportFrom;

/// A name at the top level of a module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::collect) struct TopLevelName {
    /// Dotted module name.
    pub(in crate::collect) module: String,
    pub(in crate::collect) name: String,
}

/// Returns the dotted module name of a file: `package.module` for `src/package/module.py`.
pub(in crate::collect) fn module_name(file: &str, root: &str) -> String {
    let below = file.strip_prefix(&format!("{root}/")).unwrap_or(file);
    let stem = below.strip_suffix(".py").unwrap_or(below);
    stem.strip_suffix("/__init__").unwrap_or(stem).replace('/', ".")
}

/// Returns the dotted name of the module from which an import statement in `module` imports.
pub(in crate::collect) fn imported_module(
    import: &StmtImportFrom,
    module: &str,
    is_package: bool,
) -> String {
    let named = import.module.as_ref().map(|named| named.as_str());
    if import.level == 0 {
        return named.unwrap_or_default().to_owned();
    }
    // One dot refers to the package that contains the module. In a package's `__init__.py`, one dot
    // refers to that package itself.
    let up = import.level as usize - usize::from(is_package);
    let mut parts: Vec<&str> = module.split('.').collect();
    parts.truncate(parts.len().saturating_sub(up));
    parts.extend(named);
    parts.join(".")
}
