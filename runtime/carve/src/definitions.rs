//! Finds the definitions that can be carved out of a file.

use std::collections::BTreeSet;

use ruff_python_ast::{
    Expr, ExprContext, Stmt, StmtFunctionDef,
    visitor::{self, Visitor},
};
use ruff_text_size::Ranged;
use serde::{Deserialize, Serialize};

use super::{
    CarveError, Kind,
    edits::{StatementAction, collect_edits},
    file::{MODULE_SCOPE, parse_python},
    scope,
};

/// A definition of a function or class. A path has several definitions if it is overloaded, has a
/// getter and a setter, or is defined in several branches of an `if`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Dotted path within the file.
    pub path: String,
    pub kind: Kind,
    /// The line on which the code object starts: the line of the first decorator or, without
    /// decorators, of the `def`.
    pub first: usize,
    /// The line of the `def` or `class` itself.
    pub line: usize,
    pub last: usize,
    /// Names that a function's body uses without calling them. A trace shows no call to these
    /// names, but the function needs them whenever it runs.
    pub values: BTreeSet<String>,
    pub traits: Traits,
}

/// Properties of a function that its signature does not show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traits {
    /// Names of the exception classes in `raise` statements.
    pub raises: BTreeSet<String>,
    /// Whether the function is a generator.
    pub yields: bool,
    /// The parameters without an annotation, in order. An empty name is added at the end if the
    /// return type is not annotated.
    pub untyped: Vec<String>,
}

impl Definition {
    /// Returns the number of lines, including decorators and docstring.
    pub fn line_count(&self) -> usize {
        self.last + 1 - self.first
    }

    /// Returns the last component of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }
}

/// Returns the definitions in a file, in order. A definition inside a function is part of that
/// function, so it is not listed separately.
pub fn definitions(file: &str, text: &str) -> Result<Vec<Definition>, CarveError> {
    let parsed = parse_python(file, text)?;
    let body = &parsed.syntax().body;
    let mut out = Vec::new();
    let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let line = |at: usize| starts.partition_point(|start| *start <= at) + 1;
    collect_edits(text, body, MODULE_SCOPE, &mut |stmt, place| {
        if place.is_in_function {
            return StatementAction::Keep;
        }
        let mut values = ValueNameCollector::default();
        let mut traits = Traits::default();
        let (name, kind) = match stmt {
            Stmt::FunctionDef(def) => {
                def.body.iter().for_each(|stmt| values.visit_stmt(stmt));
                traits = Traits::from_function(def);
                (&def.name, Kind::Function)
            }
            Stmt::ClassDef(def) => (&def.name, Kind::Class),
            _ => return StatementAction::Keep,
        };
        let in_class =
            !place.prefix.is_empty() && !scope::class_bodies(body, place.prefix).is_empty();
        let kind = if kind == Kind::Function && in_class { Kind::Method } else { kind };
        let (first, last) = (line(stmt.start().to_usize()), line(stmt.end().to_usize()));
        let path = place.path(name);
        let (line, values) = (line(name.start().to_usize()), values.0);
        out.push(Definition { path, kind, first, line, last, values, traits });
        StatementAction::Keep
    });
    Ok(out)
}

impl Traits {
    fn from_function(def: &StmtFunctionDef) -> Self {
        let mut body = BodyVisitor::default();
        def.body.iter().for_each(|stmt| body.visit_stmt(stmt));
        let parameters = def.parameters.iter_non_variadic_params();
        let untyped = parameters.filter(|it| it.parameter.annotation.is_none());
        let mut untyped: Vec<String> = untyped.map(|it| it.parameter.name.to_string()).collect();
        untyped.retain(|name| !["self", "cls"].contains(&name.as_str()));
        if def.returns.is_none() {
            untyped.push(String::new());
        }
        Self { raises: body.raised_exceptions, yields: body.has_yield, untyped }
    }
}

/// Collects the exceptions that a function and its nested functions raise, and whether the function
/// yields.
#[derive(Default)]
struct BodyVisitor {
    raised_exceptions: BTreeSet<String>,
    has_yield: bool,
    inside: usize,
}

impl<'a> Visitor<'a> for BodyVisitor {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Raise(raise) => {
                let raised = raise.exc.as_deref().map(|it| match it {
                    Expr::Call(call) => &*call.func,
                    other => other,
                });
                self.raised_exceptions.extend(raised.and_then(exception_name));
            }
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {
                self.inside += 1;
                visitor::walk_stmt(self, stmt);
                self.inside -= 1;
                return;
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Yield(_) | Expr::YieldFrom(_) if self.inside == 0 => self.has_yield = true,
            // Ignore `yield` inside a lambda.
            Expr::Lambda(_) => return,
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

/// Returns the name of an exception class. Returns `None` for other expressions, such as variables.
fn exception_name(expr: &Expr) -> Option<String> {
    let (name, whole) = match expr {
        Expr::Name(name) => (name.id.as_str(), name.id.to_string()),
        Expr::Attribute(attribute) => {
            let Expr::Name(module) = &*attribute.value else { return None };
            (attribute.attr.as_str(), format!("{}.{}", module.id, attribute.attr))
        }
        _ => return None,
    };
    let is_class = name.chars().find(|c| *c != '_').is_some_and(char::is_uppercase)
        && name.chars().any(char::is_lowercase);
    (is_class && !whole.starts_with("self.") && !whole.starts_with("cls.")).then_some(whole)
}

/// Collects the names that a body uses without calling them.
#[derive(Default)]
struct ValueNameCollector(BTreeSet<String>);

impl<'a> Visitor<'a> for ValueNameCollector {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) if call.func.is_name_expr() => self.visit_arguments(&call.arguments),
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                self.0.insert(name.id.to_string());
            }
            _ => visitor::walk_expr(self, expr),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_exclude_called_functions() {
        let text = "def f(x):\n    g(h, key=k)\n    y = m.n(z)\n    return [p for q in r()]\n";
        let listed = definitions("m.py", text).unwrap();
        let values: Vec<&str> = listed[0].values.iter().map(String::as_str).collect();
        assert_eq!(values, ["h", "k", "m", "p", "z"]);
    }

    #[test]
    fn traits_contain_exceptions_generators_and_missing_annotations() {
        let text = "\
class A:
    def f(self, a, b: int = 1, *rest, c=2) -> None:
        def inner():
            yield 1
            raise TypeError
        try:
            raise m.Wrong('x') from None
        except ValueError as error:
            raise error
        raise self.Wrong(NAME)
    def g(cls, x):
        raise
        return (yield)
";
        let found = definitions("m.py", text).unwrap();
        let of = |path: &str| &found.iter().find(|it| it.path == path).unwrap().traits;
        let f = of("A.f");
        assert_eq!(f.raises.iter().collect::<Vec<_>>(), ["TypeError", "m.Wrong"]);
        assert_eq!((f.yields, &f.untyped[..]), (false, &["a".to_owned(), "c".to_owned()][..]));
        let g = of("A.g");
        assert!(g.raises.is_empty() && g.yields);
        assert_eq!(g.untyped, ["x", ""]);
    }

    #[test]
    fn first_line_matches_code_object() {
        let text = "\
import abc

@abc.x
@abc.y(
    1)
def f(a,
      b):
    def inner(): pass
    return inner

class A:
    @property
    def x(self): return 1
    @x.setter
    def x(self, value):
        pass

    class B:
        async def m(self): pass

if abc:
    def g(): return 1
else:
    def g(): return 2
";
        let found = definitions("m.py", text).unwrap();
        let said: Vec<String> = found
            .iter()
            .map(|it| format!("{} {:?} {}-{}-{}", it.path, it.kind, it.first, it.line, it.last))
            .collect();
        assert_eq!(
            said,
            [
                "f Function 3-6-9",
                "A Class 11-11-19",
                "A.x Method 12-13-13",
                "A.x Method 14-15-16",
                "A.B Class 18-18-19",
                "A.B.m Method 19-19-19",
                "g Function 22-22-22",
                "g Function 24-24-24",
            ]
        );
    }
}
