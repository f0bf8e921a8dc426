//! Checks code that asks whether a name belongs to a test, such as the name of a function on the
//! stack.

use ruff_python_ast::{CmpOp, Expr, ExprCall, ExprCompare};
use ruff_text_size::{Ranged, TextRange};

use super::Walker;
use crate::python::constant::constant_string;

/// Methods and functions that compare a part of a string with one of their arguments.
const PREFIX_FUNCTIONS: [&str; 8] = [
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "fnmatch",
    "fnmatchcase",
    "match",
    "fullmatch",
];

impl Walker<'_> {
    /// Checks a call such as `name.startswith("test_")`.
    pub(super) fn check_name_test(&mut self, range: TextRange, call: &ExprCall) {
        let function = match &*call.func {
            Expr::Attribute(function) => function.attr.as_str(),
            Expr::Name(function) => function.id.as_str(),
            _ => return,
        };
        if !PREFIX_FUNCTIONS.contains(&function) {
            return;
        }
        for argument in &call.arguments.args {
            let texts = match argument {
                Expr::Tuple(tuple) => &*tuple.elts,
                argument => std::slice::from_ref(argument),
            };
            for text in texts.iter().filter_map(constant_string) {
                self.record_name_test(range, &text);
            }
        }
    }

    /// Checks a comparison such as `"test_" in name` or `name[:5] == "test_"`.
    pub(super) fn check_name_comparison(&mut self, compare: &ExprCompare) {
        let is_partial = |op: &CmpOp| matches!(op, CmpOp::In | CmpOp::NotIn);
        let parts = compare.ops.iter().any(is_partial)
            || std::iter::once(&*compare.left)
                .chain(compare.comparators.iter())
                .any(|value| matches!(value, Expr::Subscript(it) if it.slice.is_slice_expr()));
        if !parts {
            return;
        }
        for text in std::iter::once(&*compare.left).chain(compare.comparators.iter()) {
            // `"test" in names` asks for an element.
            if let Some(text) = constant_string(text).filter(|text| text.contains(['_', '.'])) {
                self.record_name_test(compare.range(), &text);
            }
        }
    }

    fn record_name_test(&mut self, range: TextRange, text: &str) {
        for rule in self.rules.rules_violated_by_name_test(text) {
            self.record_hit_as(rule, range, format!("{text}?"));
        }
    }
}
