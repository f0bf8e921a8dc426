//! Checks changes to the tables of modules that tests use to compute their expectations, such as
//! `html.entities.html5.clear()`.

use ruff_python_ast::ExprCall;
use ruff_text_size::TextRange;

use super::{Walker, assignments::is_self};
use crate::python::constant::constant_string;

impl Walker<'_> {
    /// Checks a call that changes an object of such a module.
    pub(super) fn check_table_change(&mut self, range: TextRange, call: &ExprCall, function: &str) {
        let first = call.arguments.args.first();
        for number in self.rules.find_rules(|rule| rule.reserved_arguments.contains_key(function)) {
            let Some(rule) = self.rules.table.rules.get(number) else { continue };
            let reserved = rule.reserved_arguments.get(function);
            // A name that is not constant may be reserved.
            let is_new = first
                .and_then(constant_string)
                .is_some_and(|name| reserved.is_some_and(|reserved| !reserved.contains(&name)));
            if !is_new {
                self.record_hit_as(number, range, format!("{function}()"));
            }
        }
        let Some((table, method)) = function.rsplit_once('.') else { return };
        // `OrderedDict.clear(self)` calls a method of a base class.
        if first.is_some_and(is_self) {
            return;
        }
        for number in self.rules.find_rules(|rule| rule.table_changes.iter().any(|it| it == method))
        {
            let Some(rule) = self.rules.table.rules.get(number) else { continue };
            let may_grow = matches!(method, "update" | "__setitem__")
                && rule.extensible_tables.iter().any(|it| it == table);
            if self.rules.is_reference_object(rule, table) && !may_grow {
                self.record_hit_as(number, range, function.to_owned());
            }
        }
    }

    /// Checks a table in which code assigns or deletes an entry.
    pub(super) fn check_table_entry(&mut self, range: TextRange, table: &str, is_deletion: bool) {
        for number in self.rules.find_rules(|rule| !rule.table_changes.is_empty()) {
            let Some(rule) = self.rules.table.rules.get(number) else { continue };
            let may_grow = !is_deletion && rule.extensible_tables.iter().any(|it| it == table);
            if self.rules.is_reference_object(rule, table) && !may_grow {
                self.record_hit_as(number, range, format!("{table}[]"));
            }
        }
    }
}
