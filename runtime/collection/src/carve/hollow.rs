//! Functions that do nothing, in the place of those that do something.

use ruff_python_ast::Stmt;
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

use super::{
    edits::{Edit, Treatment, apply, walk},
    file::TOP,
};

/// The text in which the functions at some dotted paths, and those below these paths, return None at once; `None`
/// where it cannot be parsed.
pub(crate) fn hollow(text: &str, is_wanted: &dyn Fn(&str) -> bool) -> Option<String> {
    let parsed = parse_module(text).ok()?;
    let edits = walk(text, &parsed.syntax().body, TOP, &mut |stmt, place| {
        let Stmt::FunctionDef(def) = stmt else { return Treatment::Keep };
        let path = place.path(&def.name);
        let parents = path.match_indices('.').map(|(at, _)| &path[..at]);
        if place.in_function || !parents.chain([path.as_str()]).any(is_wanted) {
            return Treatment::Keep;
        }
        let (Some(first), Some(last)) = (def.body.first(), def.body.last()) else {
            return Treatment::Keep;
        };
        let (start, end) = (first.start().to_usize(), last.end().to_usize());
        Treatment::Change(vec![Edit { start, end, with: "pass".into() }])
    });
    let out = apply(text, edits);
    parse_module(&out).is_ok().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wanted_does_nothing_and_the_rest_stays_to_the_byte() {
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
        let out = hollow(text, &|path| wanted.contains(&path)).unwrap();
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
        assert_eq!(hollow(text, &|_| false).unwrap(), text);
        assert!(hollow("def f(:\n", &|_| true).is_none());
    }
}
