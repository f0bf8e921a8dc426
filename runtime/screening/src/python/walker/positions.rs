//! Checks attributes whose names code selects by their position in `dir(it)`. Such a name appears
//! nowhere in the code.

use ruff_python_ast::{
    Expr, ExprCall,
    visitor::{self, Visitor},
};
use ruff_text_size::TextRange;

use super::Walker;
use crate::python::{
    constant::constant_string,
    shapes::{BoundedVisitor, is_named},
};

/// Functions that return one element of an iterable.
const ELEMENT_FUNCTIONS: [&str; 3] = ["max", "min", "next"];

/// Methods that return one element of a list.
const ELEMENT_METHODS: [&str; 2] = ["pop", "__getitem__"];

impl Walker<'_> {
    /// Remembers names of lists of attributes, and names that come from such a list.
    pub(super) fn remember_listing(&mut self, target: &Expr, value: &Expr) {
        match target {
            Expr::Name(name) => {
                let name = name.id.as_str().to_owned();
                if self.is_selected(value) {
                    self.selected_names.insert(name);
                } else if self.lists_attributes(value) {
                    self.listed_names.insert(name);
                }
            }
            Expr::Tuple(tuple) if self.lists_attributes(value) => {
                for target in &tuple.elts {
                    match target {
                        Expr::Name(name) => {
                            self.selected_names.insert(name.id.as_str().to_owned());
                        }
                        Expr::Starred(rest) => {
                            if let Expr::Name(name) = &*rest.value {
                                self.listed_names.insert(name.id.as_str().to_owned());
                            }
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Checks a call such as `getattr(it, dir(it)[3])`.
    pub(super) fn check_attribute_position(
        &mut self,
        range: TextRange,
        call: &ExprCall,
        function: &str,
    ) {
        let name = match function {
            "builtins.getattr" => call.arguments.args.get(1),
            "operator.attrgetter" => call.arguments.args.first(),
            _ => None,
        };
        if name.is_some_and(|name| self.is_selected(name)) {
            self.record_hits_as(range, &format!("{function}(position)"), |rule| {
                rule.attributes_by_position
            });
        }
    }

    /// Whether an expression is one name of a list of attributes, selected by its position.
    fn is_selected(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Name(name) => self.selected_names.contains(name.id.as_str()),
            Expr::Subscript(subscript) => {
                // A string is the key of a table, not a position.
                let is_position =
                    !subscript.slice.is_slice_expr() && constant_string(&subscript.slice).is_none();
                is_position && self.lists_attributes(&subscript.value)
            }
            Expr::Call(call) => match &*call.func {
                Expr::Name(function) => {
                    ELEMENT_FUNCTIONS.contains(&function.id.as_str())
                        && call.arguments.args.first().is_some_and(|of| self.lists_attributes(of))
                }
                Expr::Attribute(function) => {
                    ELEMENT_METHODS.contains(&function.attr.as_str())
                        && self.lists_attributes(&function.value)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether an expression is made of a list of all attributes of an object.
    fn lists_attributes(&self, expr: &Expr) -> bool {
        let mut finder = ListingFinder {
            depth: self.max_depth(),
            is_listed: &|name: &str| self.listed_names.contains(name),
            has_match: false,
        };
        finder.visit_expr(expr);
        finder.has_match
    }
}

struct ListingFinder<'f> {
    depth: usize,
    /// Whether a name refers to a list of attribute names, such as `dir(it)`.
    is_listed: &'f dyn Fn(&str) -> bool,
    has_match: bool,
}

impl<'b> BoundedVisitor<'b> for ListingFinder<'_> {
    fn depth(&mut self) -> &mut usize {
        &mut self.depth
    }
}

impl<'b> Visitor<'b> for ListingFinder<'_> {
    fn visit_expr(&mut self, expr: &'b Expr) {
        self.has_match |= match expr {
            Expr::Name(name) => (self.is_listed)(name.id.as_str()),
            Expr::Call(call) => match &*call.func {
                Expr::Attribute(function) => function.attr.as_str() == "__dir__",
                function => is_named(function, "dir") && !call.arguments.args.is_empty(),
            },
            _ => false,
        };
        if !self.has_match {
            self.descend(|own| visitor::walk_expr(own, expr));
        }
    }
}
