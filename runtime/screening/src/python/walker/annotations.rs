//! Checks annotations. Python evaluates them in place or, if they are strings, when code resolves the types.

use ruff_python_ast::{
    Expr,
    visitor::{self, Visitor},
};
use ruff_text_size::{Ranged, TextRange};

use super::Walker;
use crate::python::{
    constant::constant_string,
    parser::{nests_too_deeply, parse},
    shapes::BoundedVisitor,
};

/// Characters that indicate code. A string without any of them only names a type.
const CODE_CHARS: [char; 4] = ['(', '[', '.', ':'];

impl Walker<'_> {
    /// Checks the strings in an annotation as code. Ignores strings that are not valid code.
    pub(super) fn check_annotation_texts(&mut self, annotation: &Expr) {
        let mut texts = StringCollector { depth: self.max_depth(), strings: Vec::new() };
        texts.visit_expr(annotation);
        for (range, text) in texts.strings {
            let text = text.trim();
            if self.depth > self.max_depth() || nests_too_deeply(text, &self.rules.table.limits) {
                self.is_too_deep = true;
                continue;
            }
            let parsed = parse(text);
            if parsed.has_valid_syntax() {
                self.check_inner_code(range, text, &parsed.syntax().body);
            }
        }
    }
}

/// Collects the strings in an expression.
struct StringCollector {
    depth: usize,
    strings: Vec<(TextRange, String)>,
}

impl<'b> BoundedVisitor<'b> for StringCollector {
    fn depth(&mut self) -> &mut usize {
        &mut self.depth
    }
}

impl<'b> Visitor<'b> for StringCollector {
    fn visit_expr(&mut self, expr: &'b Expr) {
        if matches!(expr, Expr::StringLiteral(_))
            && let Some(text) = constant_string(expr)
            && text.contains(CODE_CHARS)
        {
            self.strings.push((expr.range(), text));
        }
        self.descend(|own| visitor::walk_expr(own, expr));
    }
}
