//! What a file defines that can be carved.

use std::collections::BTreeSet;

use ruff_python_ast::{
    Expr, ExprContext, Stmt,
    visitor::{self, Visitor},
};
use ruff_text_size::Ranged;
use serde::{Deserialize, Serialize};

use super::{
    CarveError, Kind,
    edits::{Verdict, walk},
    file::{TOP, parse},
    scope,
};

/// One definition. Overloads, a property's getter and setter, and the branches of an `if` are several
/// definitions of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    /// Dotted path in the file.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// The line of its first decorator, or of its `def`: where its code begins for the interpreter.
    pub(crate) first: usize,
    /// The line of the `def` or `class` itself.
    pub(crate) line: usize,
    pub(crate) last: usize,
    /// Names that a function's body hands on, as opposed to those that it only calls: they are looked up
    /// whenever it runs, though no call of them is seen.
    pub(crate) values: BTreeSet<String>,
}

impl Definition {
    /// Lines, decorators and documentation included.
    pub(crate) fn lines(&self) -> usize {
        self.last + 1 - self.first
    }

    /// The last part of its path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }
}

/// The definitions of a file, in its order, without those inside functions: these go with theirs.
pub(crate) fn definitions(file: &str, text: &str) -> Result<Vec<Definition>, CarveError> {
    let parsed = parse(file, text)?;
    let body = &parsed.syntax().body;
    let mut out = Vec::new();
    let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let line = |at: usize| starts.partition_point(|start| *start <= at) + 1;
    walk(text, body, TOP, &mut |stmt, place| {
        if place.in_function {
            return Verdict::Keep;
        }
        let mut values = Values::default();
        let (name, kind) = match stmt {
            Stmt::FunctionDef(def) => {
                def.body.iter().for_each(|stmt| values.visit_stmt(stmt));
                (&def.name, Kind::Function)
            }
            Stmt::ClassDef(def) => (&def.name, Kind::Class),
            _ => return Verdict::Keep,
        };
        let in_class =
            !place.prefix.is_empty() && !scope::class_bodies(body, place.prefix).is_empty();
        let kind = if kind == Kind::Function && in_class { Kind::Method } else { kind };
        let (first, last) = (line(stmt.start().to_usize()), line(stmt.end().to_usize()));
        let path = place.path(name);
        let (line, values) = (line(name.start().to_usize()), values.0);
        out.push(Definition { path, kind, first, line, last, values });
        Verdict::Keep
    });
    Ok(out)
}

/// The names of a body that are loaded other than to be called.
#[derive(Default)]
struct Values(BTreeSet<String>);

impl<'a> Visitor<'a> for Values {
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
    fn what_a_body_hands_on_is_told_from_what_it_calls() {
        let text = "def f(x):\n    g(h, key=k)\n    y = m.n(z)\n    return [p for q in r()]\n";
        let found = definitions("m.py", text).unwrap();
        let values: Vec<&str> = found[0].values.iter().map(String::as_str).collect();
        assert_eq!(values, ["h", "k", "m", "p", "z"]);
    }

    #[test]
    fn lines_are_those_of_the_interpreter() {
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
