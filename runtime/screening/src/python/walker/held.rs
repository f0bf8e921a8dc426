//! Checks the uses of `inspect.stack()` and its rows. A row contains a frame and source lines.
//! Therefore, code may only read the other parts of a row, or pass a whole stack to a log.
//! Screening cannot track other uses.

use ruff_python_ast::{Arguments, Expr, ExprCall, Number};
use ruff_text_size::{Ranged, TextRange};

use super::Walker;

/// Attributes of a row, and of the function that returns rows. Other rules check `frame` and
/// `code_context`.
const READABLE_ATTRIBUTES: [&str; 8] =
    ["function", "filename", "lineno", "positions", "frame", "code_context", "__name__", "__doc__"];

/// Methods that write a log entry.
const LOG_METHODS: [&str; 8] =
    ["debug", "info", "warning", "warn", "error", "exception", "critical", "log"];

/// Number of parts of a row.
const ROW_PARTS: u64 = 6;

/// Maximum number of source lines in each row.
const MAX_CONTEXT_LINES: u64 = 5;

impl Walker<'_> {
    /// Records a violation for a value whose uses are restricted, unless this use was allowed
    /// before.
    pub(super) fn check_restricted_use(&mut self, range: TextRange, path: &str) {
        if self.allowed_ranges.contains(&range) {
            return;
        }
        for (rule, held) in self.rules.rules_restricting(path) {
            self.record_hit_as(rule, range, held.to_owned());
        }
    }

    /// Allows the use of a value in this expression.
    pub(super) fn allow_use(&mut self, expr: &Expr) {
        self.allowed_ranges.insert(expr.range());
    }

    /// Allows an assignment to names, because the names are then tracked like the value itself.
    pub(super) fn allow_assignment(&mut self, target: &Expr, value: &Expr) {
        let is_followed = |target: &Expr| match target {
            Expr::Name(name) => self.names.keeps_meaning(name.id.as_str()),
            _ => false,
        };
        // A target after a starred target is indexed from the end, so it may receive any part of a
        // row.
        let are_followed = |targets: &[Expr]| match targets.split_last() {
            Some((Expr::Starred(rest), others)) => {
                is_followed(&rest.value) && others.iter().all(is_followed)
            }
            _ => targets.iter().all(is_followed),
        };
        let allows = match target {
            Expr::Tuple(tuple) => are_followed(&tuple.elts),
            Expr::List(list) => are_followed(&list.elts),
            target => is_followed(target),
        };
        if allows {
            self.allow_use(value);
        }
        // A class that gets another name is also tracked.
        if allows && matches!(target, Expr::Name(_)) {
            self.compared_ranges.insert(value.range());
        }
    }

    /// Allows a loop over a stack.
    pub(super) fn allow_stack_loop(&mut self, target: &Expr, iter: &Expr) {
        if self.names.dotted_path(iter).is_some_and(|path| path.ends_with(')')) {
            self.allow_assignment(target, iter);
        }
    }

    /// Allows an attribute of a row.
    pub(super) fn allow_row_attribute(&mut self, base: &Expr, path: &str, name: &str) {
        if !path.ends_with(')') && READABLE_ATTRIBUTES.contains(&name) {
            self.allow_use(base);
        }
    }

    /// Allows a row of a stack, and a part of a row. Other rules check the frame and the source
    /// lines.
    pub(super) fn allow_stack_entry(&mut self, table: &Expr, path: &str, key: &Expr) {
        let is_part = |key: &Expr| constant_number(key).is_some_and(|key| key < ROW_PARTS);
        let allows = if path.ends_with(')') {
            true
        } else if let Expr::Slice(slice) = key {
            let bound = |bound: &Option<Box<Expr>>| bound.as_deref().and_then(constant_number);
            let (lower, upper) = (bound(&slice.lower), bound(&slice.upper));
            lower.is_some_and(|lower| lower >= 1)
                && upper.is_some_and(|upper| upper <= 4)
                && slice.step.is_none()
        } else {
            is_part(key)
        };
        if allows {
            self.allow_use(table);
        }
    }

    /// Checks a call whose result is a stack. If the function only logs or counts, its arguments
    /// are allowed.
    pub(super) fn check_stack_call(&mut self, range: TextRange, call: &ExprCall, function: &str) {
        let Arguments { args, keywords, .. } = &call.arguments;
        if self.rules.is_restricted(function) && !function.ends_with([')', ']']) {
            self.allow_use(&call.func);
            let mut values = args.iter().chain(keywords.iter().map(|keyword| &keyword.value));
            let is_short =
                |lines: &Expr| constant_number(lines).is_some_and(|n| n <= MAX_CONTEXT_LINES);
            if !values.all(is_short) {
                for (rule, held) in self.rules.rules_restricting(function) {
                    self.record_hit_as(rule, range, format!("{held}(context)"));
                }
            }
        }
        let last = function.rsplit('.').next().unwrap_or(function);
        let logs = function.starts_with("logging.") && LOG_METHODS.contains(&last);
        if logs || function == "builtins.len" {
            args.iter().for_each(|value| self.allow_use(value));
        }
    }
}

/// Returns an expression's value if it is a non-negative integer literal.
fn constant_number(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::NumberLiteral(literal) => match &literal.value {
            Number::Int(number) => number.as_u64(),
            _ => None,
        },
        _ => None,
    }
}
