//! Checks attributes, by their dotted names and by their names alone.

use ruff_python_ast::{Expr, ExprAttribute};
use ruff_text_size::TextRange;

use super::{Walker, assignments::is_self};
use crate::rules::Rule;

/// Maximum length of an attribute chain that is searched for the bases of a class.
const MAX_ATTRIBUTE_CHAIN: usize = 8;

impl Walker<'_> {
    /// Checks an attribute that code reads, assigns or deletes.
    pub(super) fn check_attribute(
        &mut self,
        range: TextRange,
        attribute: &ExprAttribute,
        path: Option<String>,
    ) {
        let name = attribute.attr.as_str();
        if let Some(path) = path.as_deref() {
            let of = self.names.dotted_path(&attribute.value);
            self.check_reference(range, path, of.as_deref());
            self.check_restricted_use(range, path);
            if let Some(of) = of {
                self.allow_row_attribute(&attribute.value, &of, name);
                self.check_foreign_attribute(range, &of, name);
            }
        }
        self.record_hits_where(range, |rule| {
            rule.climbed_attributes.iter().any(|it| it == name) && reaches_bases(&attribute.value)
        });
        if name == "__class__" && is_code(&attribute.value) {
            self.record_hits_where(range, |rule| !rule.type_checks.is_empty());
        }
        self.check_attribute_name(range, name);
        if name == "__dict__" && self.is_owner(&attribute.value) {
            self.record_hits_where(range, |rule| !rule.member_tables.is_empty());
        }
        if !is_self(&attribute.value) {
            self.check_unique_name(range, name, path.as_deref());
        }
    }

    /// Checks an attribute that must not be used on other packages.
    pub(super) fn check_foreign_attribute(&mut self, range: TextRange, base: &str, name: &str) {
        if self.names.is_foreign(base) {
            let is_it = |rule: &Rule| rule.foreign_attributes.iter().any(|it| it == name);
            self.record_hits_as(range, &format!("{base}.{name}"), is_it);
        }
    }

    /// Checks a name that identifies a function in the rules, whatever object the name is read
    /// from. Skips violations that were already recorded for the dotted name.
    pub(super) fn check_unique_name(&mut self, range: TextRange, name: &str, path: Option<&str>) {
        let rules = self.rules.rules_violated_by_name(name);
        if rules.is_empty() {
            return;
        }
        let known = path.map(|path| self.rules.rules_violated_by_reference(path, None));
        let known = known.unwrap_or_default();
        for (rule, reference) in rules.iter().copied() {
            if known.iter().all(|(violated, _)| *violated != rule) {
                self.record_hit_as(rule, range, reference.to_owned());
            }
        }
    }

    /// Checks a name that no attribute of any object may have.
    pub(super) fn check_attribute_name(&mut self, range: TextRange, name: &str) {
        let has = |rule: &Rule| rule.attributes.iter().any(|it| it == name);
        self.record_hits_where(range, |rule| has(rule) && !rule.excused_by_name);
        self.record_hits_as(range, name, |rule| has(rule) && rule.excused_by_name);
        for (rule, group, reference) in self.rules.groups_of_attribute(name).iter().copied() {
            self.record_grouped_hit((rule, group), range, reference);
        }
    }

    /// Checks for a name with non-ASCII letters that Python normalizes to ASCII.
    pub(super) fn check_look_alike(&mut self, range: TextRange, name: &str) {
        let slice = self.text.get(range.start().to_usize()..range.end().to_usize());
        if name.is_ascii() && slice.is_some_and(|slice| !slice.is_ascii()) {
            self.record_hits_where(range, |rule| rule.joined_names);
        }
    }
}

/// Whether an expression is the code object of a function, as in `go.__code__`.
pub(super) fn is_code(expr: &Expr) -> bool {
    let names = ["__code__", "f_code", "gi_code", "cr_code", "ag_code"];
    matches!(expr, Expr::Attribute(attribute) if names.contains(&attribute.attr.as_str()))
}

/// Whether an expression reaches the bases of a class, as in `().__class__.__base__`.
fn reaches_bases(expr: &Expr) -> bool {
    let mut at = expr;
    for _ in 0..MAX_ATTRIBUTE_CHAIN {
        at = match at {
            Expr::Attribute(attribute) => match attribute.attr.as_str() {
                "__base__" | "__bases__" | "__mro__" | "mro" => return true,
                _ => &*attribute.value,
            },
            Expr::Subscript(subscript) => &*subscript.value,
            Expr::Call(call) => &*call.func,
            _ => return false,
        };
    }
    false
}
