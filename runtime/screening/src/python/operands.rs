//! Finds out how a method uses its operand, the value that the object is compared with or added to.

use ruff_python_ast::{
    CmpOp, Expr, ExprCall, ExprCompare, Stmt,
    visitor::{self, Visitor},
};

use super::shapes::BoundedVisitor;

/// Methods that add a value to a collection.
pub(super) const STORING_METHODS: [&str; 8] =
    ["add", "append", "appendleft", "insert", "put", "put_nowait", "setdefault", "update"];

/// How a method uses its operand.
#[derive(Debug, Default)]
pub(super) struct OperandUse {
    /// Number of uses of the operand's value.
    pub values: usize,
    /// Number of checks whether the operand has one of the repository's own classes.
    pub own_class_checks: usize,
    /// Number of other checks of the operand's class.
    pub class_checks: usize,
    /// Number of checks whether the operand is `None`.
    pub none_checks: usize,
    /// Number of uses of the object itself.
    pub object_uses: usize,
    /// Whether the method stores the operand outside its local variables.
    pub is_stored: bool,
    /// Whether the method looks the operand up in a collection.
    pub is_looked_up: bool,
}

impl OperandUse {
    /// Whether the code uses nothing of the operand but its class, which is not the
    /// repository's own.
    pub(super) fn is_only_class(&self) -> bool {
        self.class_checks > 0 && self.values == 0 && self.own_class_checks == 0
    }
}

/// Names that refer to the object or its class without the first parameter.
const OBJECT_NAMES: [&str; 2] = ["super", "__class__"];

/// Searches a method for uses of its operand.
pub(super) struct OperandFinder<'n> {
    object: &'n str,
    operand: &'n str,
    /// Whether an expression is a class of the repository itself.
    is_own_class: &'n dyn Fn(&Expr) -> bool,
    depth: usize,
    pub found: OperandUse,
}

impl<'n> OperandFinder<'n> {
    pub(super) fn new(
        (object, operand): (&'n str, &'n str),
        is_own_class: &'n dyn Fn(&Expr) -> bool,
        depth: usize,
    ) -> Self {
        Self { object, operand, is_own_class, depth, found: OperandUse::default() }
    }

    fn is_operand(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Name(name) if name.id.as_str() == self.operand)
    }

    /// Whether an expression is the operand, or the result of a function called with the operand.
    fn is_made_of_operand(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Call(call) => call.arguments.args.iter().any(|value| self.is_operand(value)),
            expr => self.is_operand(expr),
        }
    }

    /// Whether an expression is the operand's class: `type(other)` or `other.__class__`.
    fn is_class_of_operand(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Call(call) => {
                let is_type = matches!(&*call.func, Expr::Name(name) if name.id.as_str() == "type");
                is_type && matches!(&*call.arguments.args, [only] if self.is_operand(only))
            }
            Expr::Attribute(attribute) => {
                attribute.attr.as_str() == "__class__" && self.is_operand(&attribute.value)
            }
            _ => false,
        }
    }

    fn record_class_check(&mut self, classes: &[Expr]) {
        match classes.iter().all(|class| (self.is_own_class)(class)) {
            true => self.found.own_class_checks += 1,
            false => self.found.class_checks += 1,
        }
    }

    /// Records a call that only checks the operand's class. Returns whether it is one.
    fn record_class_call(&mut self, call: &ExprCall) -> bool {
        let Expr::Name(function) = &*call.func else { return false };
        let args = &call.arguments.args;
        let Some(first) = args.first() else { return false };
        match function.id.as_str() {
            "isinstance" if self.is_operand(first) => {}
            "issubclass" if self.is_class_of_operand(first) => {}
            "callable" | "hasattr" if self.is_operand(first) => {
                self.found.class_checks += 1;
                return true;
            }
            _ => return false,
        }
        match args.get(1) {
            Some(Expr::Tuple(classes)) => self.record_class_check(&classes.elts),
            Some(class) => self.record_class_check(std::slice::from_ref(class)),
            None => return false,
        }
        true
    }

    /// Records a comparison that only checks the operand's class, or whether it is `None`. Returns
    /// whether it is one.
    fn record_class_comparison(&mut self, compare: &ExprCompare) -> bool {
        let ([op], [right]) = (&*compare.ops, &*compare.comparators) else { return false };
        let left = &*compare.left;
        if !matches!(op, CmpOp::Is | CmpOp::IsNot | CmpOp::Eq | CmpOp::NotEq) {
            return false;
        }
        for (one, other) in [(left, right), (right, left)] {
            if self.is_class_of_operand(one) {
                self.record_class_check(std::slice::from_ref(other));
                return true;
            }
            if self.is_operand(one) && matches!(other, Expr::NoneLiteral(_)) {
                self.found.none_checks += 1;
                return true;
            }
        }
        false
    }

    /// Whether a comparison looks the operand up in a collection whose elements are not written
    /// out.
    fn looks_up(&self, compare: &ExprCompare) -> bool {
        let ([CmpOp::In], [table]) = (&*compare.ops, &*compare.comparators) else { return false };
        let is_open = match table {
            Expr::Name(name) => name.id.as_str() != "self",
            Expr::Attribute(_) | Expr::Call(_) | Expr::Subscript(_) => true,
            _ => false,
        };
        is_open && self.is_made_of_operand(&compare.left)
    }
}

impl<'b> BoundedVisitor<'b> for OperandFinder<'_> {
    fn depth(&mut self) -> &mut usize {
        &mut self.depth
    }
}

impl<'b> Visitor<'b> for OperandFinder<'_> {
    fn visit_stmt(&mut self, stmt: &'b Stmt) {
        if let Stmt::Assign(assign) = stmt {
            let is_outside =
                |target: &Expr| matches!(target, Expr::Attribute(_) | Expr::Subscript(_));
            self.found.is_stored |=
                assign.targets.iter().any(is_outside) && self.is_made_of_operand(&assign.value);
        }
        self.descend(|own| visitor::walk_stmt(own, stmt));
    }

    fn visit_expr(&mut self, expr: &'b Expr) {
        match expr {
            Expr::Name(_) if self.is_operand(expr) => self.found.values += 1,
            Expr::Name(name)
                if name.id.as_str() == self.object || OBJECT_NAMES.contains(&name.id.as_str()) =>
            {
                self.found.object_uses += 1;
            }
            Expr::Call(call) => {
                if self.record_class_call(call) {
                    return;
                }
                if let Expr::Attribute(function) = &*call.func {
                    self.found.is_stored |= STORING_METHODS.contains(&function.attr.as_str())
                        && call.arguments.args.iter().any(|value| self.is_operand(value));
                }
            }
            Expr::Compare(compare) => {
                if self.record_class_comparison(compare) {
                    return;
                }
                self.found.is_looked_up |= self.looks_up(compare);
            }
            _ => {}
        }
        self.descend(|own| visitor::walk_expr(own, expr));
    }
}
