//! Checks classes that replace the methods of their subclasses, which may be classes of a test.

use ruff_python_ast::{Expr, Stmt, StmtClassDef};
use ruff_text_size::{Ranged, TextRange};

use super::Walker;
use crate::python::shapes::{
    collect_statements, first_parameter, is_named, used_names_and_attributes,
};

/// The method that Python calls for each new subclass.
const SUBCLASS_HOOK: &str = "__init_subclass__";

impl Walker<'_> {
    /// Checks for an `__init_subclass__` that assigns a method which the class itself defines. A
    /// replacement that uses the subclass's method only wraps it.
    pub(super) fn check_subclass_hook(&mut self, class: &StmtClassDef) {
        let methods = || {
            class.body.iter().filter_map(|stmt| match stmt {
                Stmt::FunctionDef(def) => Some(def),
                _ => None,
            })
        };
        let Some(hook) = methods().find(|def| def.name.as_str() == SUBCLASS_HOOK) else { return };
        let subclass = first_parameter(&hook.parameters).unwrap_or_default();
        let most = self.max_depth();
        let mut all = Vec::new();
        collect_statements(&hook.body, most, &mut all);
        let mut replaced: Vec<(TextRange, &str)> = Vec::new();
        for stmt in all {
            let Stmt::Assign(assign) = stmt else { continue };
            for target in &assign.targets {
                let Expr::Attribute(target) = target else { continue };
                let name = target.attr.as_str();
                let is_method = methods().any(|def| def.name.as_str() == name);
                let wraps = used_names_and_attributes(&assign.value, most).contains(name);
                if is_named(&target.value, subclass) && is_method && !wraps {
                    replaced.push((stmt.range(), name));
                }
            }
        }
        for (range, name) in replaced {
            self.record_hits_as(range, &format!("{SUBCLASS_HOOK} {name} ="), |rule| {
                rule.replaced_methods
            });
        }
    }

    /// Checks an assignment to a comparison method of a class that the module does not define.
    pub(super) fn check_comparison_assignment(
        &mut self,
        range: TextRange,
        base: &Expr,
        name: &str,
    ) {
        let is_own = match base {
            Expr::Name(class) => {
                class.id.as_str() == "self" || self.defined_classes.contains(class.id.as_str())
            }
            _ => false,
        };
        if !is_own {
            self.record_hits_where(range, |rule| {
                rule.replaced_comparisons.iter().any(|it| it == name)
            });
        }
    }
}
