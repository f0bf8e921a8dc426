//! Replaces the bodies of functions with a single `return`.

use ruff_python_ast::{Stmt, StmtFunctionDef};
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

use super::{
    edits::{Edit, StatementAction, apply_edits, collect_edits},
    file::MODULE_SCOPE,
};

/// The return value of a function that does nothing. The body of such a function becomes `pass`.
pub const NONE_VALUE: &str = "None";

/// Placeholder in a return value. It is replaced with the name of the function's first argument.
pub const FIRST_ARGUMENT: &str = "{first}";

/// Replaces the body of each function at or below the given dotted paths with a `return` of
/// `return_value`. Returns the new text, or `None` if the text cannot be parsed.
pub fn replace_bodies(
    text: &str,
    return_value: &str,
    should_replace: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let parsed = parse_module(text).ok()?;
    let edits = collect_edits(text, &parsed.syntax().body, MODULE_SCOPE, &mut |stmt, place| {
        let Stmt::FunctionDef(def) = stmt else { return StatementAction::Keep };
        let path = place.path(&def.name);
        let parents = path.match_indices('.').map(|(at, _)| &path[..at]);
        if place.is_in_function || !parents.chain([path.as_str()]).any(should_replace) {
            return StatementAction::Keep;
        }
        let (Some(first), Some(last)) = (def.body.first(), def.body.last()) else {
            return StatementAction::Keep;
        };
        let (start, end) = (first.start().to_usize(), last.end().to_usize());
        StatementAction::Change(vec![Edit {
            start,
            end,
            replacement: replacement_body(def, return_value),
        }])
    });
    let out = apply_edits(text, edits);
    parse_module(&out).is_ok().then_some(out)
}

fn replacement_body(def: &StmtFunctionDef, return_value: &str) -> String {
    // `__init__` must return `None`.
    if return_value == NONE_VALUE || def.name.as_str() == "__init__" {
        return "pass".to_owned();
    }
    format!("return {}", return_value.replace(FIRST_ARGUMENT, &first_argument(def)))
}

/// Returns the name of the first argument that a caller passes. This argument is never `self` or
/// `cls`.
fn first_argument(def: &StmtFunctionDef) -> String {
    let parameters = def.parameters.posonlyargs.iter().chain(&def.parameters.args);
    let mut names = parameters.map(|it| it.parameter.name.to_string());
    let first = names.next();
    let is_own = matches!(first.as_deref(), Some("self" | "cls"));
    let argument = if is_own { names.next().or(first) } else { first };
    argument.unwrap_or_else(|| NONE_VALUE.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replace_bodies_changes_only_wanted_functions() {
        let text = "\
import x
def f(a): return 1  # one
class A:
    n = 1
    def m(self):
        \"\"\"Doc.\"\"\"
        def inner():
            pass
        return inner
    @property
    async def p(self):
        x = (
            1)
        return x
if x:
    def g(): return 2
def h():
    return 3
";
        let wanted = ["f", "A", "g"];
        let out = replace_bodies(text, NONE_VALUE, &|path| wanted.contains(&path)).unwrap();
        assert_eq!(
            out,
            "\
import x
def f(a): pass  # one
class A:
    n = 1
    def m(self):
        pass
    @property
    async def p(self):
        pass
if x:
    def g(): pass
def h():
    return 3
"
        );
        assert_eq!(replace_bodies(text, NONE_VALUE, &|_| false).unwrap(), text);
        assert!(replace_bodies("def f(:\n", NONE_VALUE, &|_| true).is_none());
    }

    #[test]
    fn replaced_bodies_return_constant_or_first_argument() {
        let text = "class A:\n    def __init__(self, a):\n        self.a = a\n    def m(self, b):\n        \
                    yield b\n    def n(self): return 1\ndef f(c, /, d=1): return d\ndef g(): return 2\n";
        let told = |m: &str, n: &str, f: &str, g: &str| {
            format!(
                "class A:\n    def __init__(self, a):\n        pass\n    def m(self, b):\n        return {m}\n    \
                 def n(self): return {n}\ndef f(c, /, d=1): return {f}\ndef g(): return {g}\n"
            )
        };
        let of = |returns: &str| replace_bodies(text, returns, &|_| true).unwrap();
        assert_eq!(of("True"), told("True", "True", "True", "True"));
        assert_eq!(of(FIRST_ARGUMENT), told("b", "self", "c", "None"));
    }
}
