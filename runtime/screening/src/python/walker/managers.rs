//! Checks for context managers that suppress exceptions of a `with` statement.

use ruff_python_ast::{ExceptHandler, Expr, Parameters, Stmt, StmtFunctionDef};
use ruff_text_size::Ranged;

use super::Walker;
use crate::{
    python::shapes::{
        StatementKind, bodies, collect_statements, constant_truth, contains_statement,
        is_presence_check,
    },
    rules::Rule,
};

impl Walker<'_> {
    /// Whether the exit method of a context manager suppresses all exceptions, including failed
    /// assertions.
    pub(super) fn exit_suppresses(
        &self,
        rule: &Rule,
        body: &[Stmt],
        parameters: &Parameters,
        depth: usize,
    ) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        body.iter().any(|stmt| match stmt {
            Stmt::Return(returned) => returned.value.as_deref().is_some_and(|value| {
                constant_truth(value) == Some(true)
                    || is_presence_check(value, parameters)
                    || self.checks_broad_class(rule, value)
            }),
            Stmt::If(branch) => {
                is_presence_check(&branch.test, parameters)
                    && self.exit_suppresses(rule, &branch.body, parameters, depth)
            }
            Stmt::With(_) => bodies(stmt)
                .into_iter()
                .any(|body| self.exit_suppresses(rule, body, parameters, depth)),
            Stmt::Try(tried) => [&tried.body[..], &tried.orelse[..], &tried.finalbody[..]]
                .into_iter()
                .any(|body| self.exit_suppresses(rule, body, parameters, depth)),
            _ => false,
        })
    }

    /// Whether an expression checks for a broad exception class, as in `isinstance(error, Exception)`.
    pub(super) fn checks_broad_class(&self, rule: &Rule, expr: &Expr) -> bool {
        let Expr::Call(call) = expr else { return false };
        let Expr::Name(name) = &*call.func else { return false };
        let is_asked = matches!(name.id.as_str(), "isinstance" | "issubclass");
        is_asked
            && call.arguments.args.get(1).is_some_and(|of| self.catches_assertions(rule, Some(of)))
    }

    /// Whether an `except` clause catches failed assertions.
    pub(super) fn catches_assertions(&self, rule: &Rule, exception_class: Option<&Expr>) -> bool {
        match exception_class {
            None => true,
            Some(Expr::Tuple(tuple)) => {
                tuple.elts.iter().any(|caught| self.catches_assertions(rule, Some(caught)))
            }
            Some(caught) => self.names.dotted_path(caught).is_some_and(|path| {
                let name = path.strip_prefix("builtins.");
                name.is_some_and(|name| rule.caught.iter().any(|it| it == name))
            }),
        }
    }

    /// Checks for a generator-based context manager that suppresses the exception of its `with`
    /// statement.
    pub(super) fn check_manager(&mut self, def: &StmtFunctionDef) {
        let decorators: Vec<String> = def
            .decorator_list
            .iter()
            .filter_map(|decorator| self.names.dotted_path(&decorator.expression))
            .collect();
        let manages = |rule: &Rule| rule.managers.iter().any(|it| decorators.contains(it));
        let broken = self.rules.find_rules(manages);
        if broken.is_empty() {
            return;
        }
        let most = self.max_depth();
        let mut all = Vec::new();
        collect_statements(&def.body, most, &mut all);
        for number in broken {
            let Some(rule) = self.rules.table.rules.get(number) else { continue };
            let keeps = all.iter().any(|stmt| match stmt {
                Stmt::Try(tried) if contains_statement(&tried.body, StatementKind::Yield, most) => {
                    tried.handlers.iter().any(|handler| {
                        let ExceptHandler::ExceptHandler(handler) = handler;
                        self.catches_assertions(rule, handler.type_.as_deref())
                            && !contains_statement(&handler.body, StatementKind::Raise, most)
                    })
                }
                Stmt::With(with) if contains_statement(&with.body, StatementKind::Yield, most) => {
                    with.items.iter().any(|item| self.suppresses(rule, &item.context_expr))
                }
                _ => false,
            });
            if keeps {
                self.record_hit_as(number, def.name.range(), format!("def {}", def.name.as_str()));
            }
        }
    }

    pub(super) fn suppresses(&self, rule: &Rule, expr: &Expr) -> bool {
        let Expr::Call(call) = expr else { return false };
        let path = self.names.dotted_path(&call.func);
        path.is_some_and(|path| rule.suppressors.contains(&path))
            && call.arguments.args.iter().any(|caught| self.catches_assertions(rule, Some(caught)))
    }
}
