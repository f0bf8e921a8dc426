//! Finds imports between a package's modules.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{Alias, Stmt, StmtImportFrom};
use ruff_text_size::Ranged;

use super::{
    edits::{Edit, EnclosingScope, StatementAction, collect_edits},
    file::MODULE_SCOPE,
    lists::{ListItem, removal_edits},
    references,
};

/// Removed paths, by dotted module name.
pub(super) type RemovedPaths = BTreeMap<String, BTreeSet<String>>;

#[derive(Debug, Clone)]
pub(super) struct Module {
    /// The module's dotted name.
    pub(super) name: String,
    /// Whether the file is an `__init__.py`.
    pub(super) is_package: bool,
}

impl Module {
    /// Returns the absolute name of the module in a `from ... import` statement.
    fn absolute_module_name(&self, import: &StmtImportFrom) -> String {
        let module_name = import.module.as_deref().unwrap_or_default();
        if import.level == 0 {
            return module_name.to_owned();
        }
        let mut parts: Vec<&str> = self.name.split('.').collect();
        let up = import.level as usize - usize::from(self.is_package);
        parts.truncate(parts.len().saturating_sub(up));
        parts.extend(Some(module_name).filter(|named| !named.is_empty()));
        parts.join(".")
    }
}

/// An import of a removed name that runs when the module is imported.
pub(super) struct LostImport {
    pub(super) offset: usize,
    pub(super) name: String,
    /// The name that the import binds in the importing module.
    pub(super) local_name: String,
}

/// How removed names affect a module's imports.
#[derive(Default)]
pub(super) struct ImportFindings {
    pub(super) lost_imports: Vec<LostImport>,
    /// The edits that remove the missing names from import statements.
    pub(super) edits: Vec<Edit>,
    /// Names that `import *` no longer provides.
    pub(super) lost_star_names: BTreeSet<String>,
    /// Paths removed from imported modules, by the dotted name that the import gives the module.
    pub(super) modules: BTreeMap<String, BTreeSet<String>>,
}

/// Reads a module's import statements. Three kinds of imports are left unchanged: imports inside
/// functions run later, imports in a `try` with handlers may fail, and imports under
/// `TYPE_CHECKING` never run.
pub(super) fn find_lost_imports(
    text: &str,
    body: &[Stmt],
    module: &Module,
    removed_paths: &RemovedPaths,
) -> ImportFindings {
    let mut findings = ImportFindings::default();
    // Code ranges whose imports are left unchanged.
    let mut sheltered: Vec<(usize, usize)> = Vec::new();
    let edits = collect_edits(text, body, MODULE_SCOPE, &mut |stmt, place: EnclosingScope<'_>| {
        let at = stmt.start().to_usize();
        if place.is_in_function || sheltered.iter().any(|(from, to)| (*from..*to).contains(&at)) {
            return StatementAction::Keep;
        }
        match stmt {
            Stmt::Try(stmt) if !stmt.handlers.is_empty() => {
                if let (Some(first), Some(last)) = (stmt.body.first(), stmt.body.last()) {
                    sheltered.push((first.start().to_usize(), last.end().to_usize()));
                }
                StatementAction::Keep
            }
            Stmt::If(stmt) if references::is_type_checking(stmt) => {
                if let (Some(first), Some(last)) = (stmt.body.first(), stmt.body.last()) {
                    sheltered.push((first.start().to_usize(), last.end().to_usize()));
                }
                StatementAction::Keep
            }
            Stmt::Import(stmt) => {
                for alias in &stmt.names {
                    if let Some(lost) = removed_paths.get(alias.name.as_str()) {
                        let local = alias.asname.as_ref().unwrap_or(&alias.name);
                        findings.modules.insert(local.to_string(), lost.clone());
                    }
                }
                StatementAction::Keep
            }
            Stmt::ImportFrom(stmt) => {
                edit_import_from(text, stmt, module, removed_paths, &mut findings)
            }
            _ => StatementAction::Keep,
        }
    });
    findings.edits = edits;
    findings
}

fn edit_import_from(
    text: &str,
    stmt: &StmtImportFrom,
    module: &Module,
    removed_paths: &RemovedPaths,
    findings: &mut ImportFindings,
) -> StatementAction {
    let target = module.absolute_module_name(stmt);
    let lost = removed_paths.get(&target);
    let goes = |alias: &Alias| lost.is_some_and(|lost| lost.contains(alias.name.as_str()));
    let mut items = Vec::new();
    for alias in &stmt.names {
        let local = alias.asname.as_ref().unwrap_or(&alias.name).to_string();
        let (start, end) = (alias.start().to_usize(), alias.end().to_usize());
        items.push(ListItem { start, end, is_removed: goes(alias) });
        if alias.name.as_str() == "*" {
            let public = lost.into_iter().flatten().filter(|name| !name.contains('.'));
            findings.lost_star_names.extend(public.cloned());
        } else if goes(alias) {
            let name = alias.name.to_string();
            findings.lost_imports.push(LostImport { offset: start, name, local_name: local });
        } else if let Some(inner) = removed_paths.get(&format!("{target}.{}", alias.name)) {
            findings.modules.insert(local, inner.clone());
        }
    }
    match items.iter().filter(|item| item.is_removed).count() {
        0 => StatementAction::Keep,
        count if count == items.len() => StatementAction::Remove,
        _ => StatementAction::Change(removal_edits(text, &items)),
    }
}
