//! Edits one file: removes definitions and aliases, and updates `__all__`.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{Expr, ModModule, Stmt};
use ruff_python_parser::{Parsed, parse_module};
use ruff_text_size::Ranged;

use super::{
    CarveError, Kind, Object,
    describe::{StubOptions, render_stub},
    edits::{Edit, EnclosingScope, StatementAction, apply_edits, collect_edits},
    lists::{ListItem, comma_after, removal_edits},
    scope,
};

pub(super) const MODULE_SCOPE: EnclosingScope<'static> =
    EnclosingScope { prefix: "", is_in_function: false };

pub(super) fn parse_python(file: &str, text: &str) -> Result<Parsed<ModModule>, CarveError> {
    parse_module(text)
        .map_err(|error| CarveError::Syntax { file: file.to_owned(), why: error.to_string() })
}

/// The result of removing definitions from one file.
pub(super) struct EditedFile {
    pub(super) text: String,
    pub(super) objects: Vec<Object>,
    /// Dotted paths that the file no longer binds.
    pub(super) lost_paths: BTreeSet<String>,
}

/// Returns the stub and the code of the definition at a dotted path. Returns `None` if the text
/// cannot be parsed or does not contain that definition.
pub fn stub_and_code(text: &str, path: &str, options: StubOptions<'_>) -> Option<(String, String)> {
    let parsed = parse_module(text).ok()?;
    let (mut stubs, mut code) = (Vec::new(), String::new());
    collect_edits(text, &parsed.syntax().body, MODULE_SCOPE, &mut |stmt, place| {
        let name = match stmt {
            Stmt::FunctionDef(def) => &def.name,
            Stmt::ClassDef(def) => &def.name,
            _ => return StatementAction::Keep,
        };
        if !place.is_in_function && place.path(name) == path {
            stubs.extend(render_stub(text, stmt, path, options));
            code.push_str(&text[stmt.start().to_usize()..stmt.end().to_usize()]);
            code.push('\n');
        }
        StatementAction::Keep
    });
    (!stubs.is_empty()).then(|| (stubs.join("\n"), code))
}

/// Removes the definitions at the dotted paths in `target_paths`, and their aliases, from a file.
pub(super) fn remove_definitions(
    file: &str,
    text: &str,
    target_paths: &[String],
) -> Result<EditedFile, CarveError> {
    let parsed = parse_python(file, text)?;
    let body = &parsed.syntax().body;
    let targets: BTreeSet<String> = target_paths.iter().cloned().collect();
    let (aliases, known) = find_aliases(text, body, &targets);
    let mut objects: BTreeMap<String, Object> = BTreeMap::new();
    let mut judge = |stmt: &Stmt, place: EnclosingScope<'_>| {
        let (name, kind) = match stmt {
            Stmt::FunctionDef(def) => (def.name.as_str(), Kind::Function),
            Stmt::ClassDef(def) => (def.name.as_str(), Kind::Class),
            _ => {
                let alias = parse_alias(stmt, place).is_some_and(|(names, value)| {
                    (targets.contains(&value) || aliases.contains_key(&value))
                        && names.iter().all(|name| aliases.contains_key(name))
                });
                return if alias { StatementAction::Remove } else { StatementAction::Keep };
            }
        };
        let path = place.path(name);
        if !targets.contains(&path) {
            return StatementAction::Keep;
        }
        let kind = match kind {
            Kind::Function if is_class(body, place.prefix) => Kind::Method,
            kind => kind,
        };
        let object = objects.entry(path.clone()).or_insert_with(|| Object {
            file: file.to_owned(),
            path: path.clone(),
            kind,
            aliases: aliases
                .iter()
                .filter(|(_, value)| alias_root(&aliases, value) == path)
                .map(|(name, _)| name.clone())
                .collect(),
            stub: String::new(),
        });
        if let Some(stub) = render_stub(text, stmt, &path, StubOptions::PLAIN) {
            if !object.stub.is_empty() {
                object.stub.push('\n');
            }
            object.stub.push_str(&stub);
        }
        StatementAction::Remove
    };
    let edits = collect_edits(text, body, MODULE_SCOPE, &mut judge);
    if let Some(path) = target_paths.iter().find(|path| !objects.contains_key(*path)) {
        // Skip a path inside another wanted path, because removing the outer path removes both.
        let inside = target_paths.iter().any(|outer| path.starts_with(&format!("{outer}.")));
        if !(inside && known.contains(path)) {
            let near = nearest_path(path, &known);
            return Err(CarveError::NotFound { file: file.to_owned(), path: path.clone(), near });
        }
    }
    let text = check_syntax(file, apply_edits(text, edits))?;
    let gone = unbound_paths(file, &text, targets.iter().chain(aliases.keys()))?;
    let text = remove_exports(file, &text, &gone)?;
    Ok(EditedFile { text, objects: objects.into_values().collect(), lost_paths: gone })
}

/// Returns the targets' aliases, and all defined paths. The map contains each alias's path and the
/// path to which the alias refers.
fn find_aliases(
    text: &str,
    body: &[Stmt],
    targets: &BTreeSet<String>,
) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let (mut all, mut known) = (Vec::new(), BTreeSet::new());
    collect_edits(text, body, MODULE_SCOPE, &mut |stmt, place| {
        match stmt {
            Stmt::FunctionDef(def) => drop(known.insert(place.path(&def.name))),
            Stmt::ClassDef(def) => drop(known.insert(place.path(&def.name))),
            _ => all.extend(parse_alias(stmt, place)),
        }
        StatementAction::Keep
    });
    let mut aliases: BTreeMap<String, String> = BTreeMap::new();
    // An alias of an alias may appear earlier in the text, in another branch, so repeat until no
    // more aliases are found.
    loop {
        let before = aliases.len();
        for (names, value) in &all {
            if targets.contains(value) || aliases.contains_key(value) {
                for name in names {
                    aliases.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        if aliases.len() == before {
            return (aliases, known);
        }
    }
}

fn alias_root(aliases: &BTreeMap<String, String>, value: &str) -> String {
    let mut at = value;
    for _ in 0..aliases.len() {
        match aliases.get(at) {
            Some(next) => at = next,
            None => break,
        }
    }
    at.to_owned()
}

/// For an assignment such as `a = b = name`, returns the paths of the new names (`a`, `b`) and the
/// name to which they refer.
fn parse_alias(stmt: &Stmt, scope: EnclosingScope<'_>) -> Option<(Vec<String>, String)> {
    let (targets, value): (Vec<&Expr>, &Expr) = match stmt {
        Stmt::Assign(stmt) => (stmt.targets.iter().collect(), &stmt.value),
        Stmt::AnnAssign(stmt) => (vec![&stmt.target], stmt.value.as_deref()?),
        _ => return None,
    };
    // A variable inside a function is part of that function and not an alias.
    let Expr::Name(value) = value else { return None };
    if scope.is_in_function {
        return None;
    }
    let names = targets
        .into_iter()
        .map(|target| match target {
            Expr::Name(name) => Some(scope.path(&name.id)),
            _ => None,
        })
        .collect::<Option<Vec<_>>>()?;
    Some((names, scope.path(&value.id)))
}

fn is_class(body: &[Stmt], path: &str) -> bool {
    !path.is_empty() && !scope::class_bodies(body, path).is_empty()
}

/// Returns the paths that the text does not bind.
pub(super) fn unbound_paths<'a>(
    file: &str,
    text: &str,
    paths: impl Iterator<Item = &'a String>,
) -> Result<BTreeSet<String>, CarveError> {
    let parsed = parse_python(file, text)?;
    let body = &parsed.syntax().body;
    let is_still_bound = |path: &str| match path.rsplit_once('.') {
        None => scope::bound_names(body).contains(path),
        Some((class, name)) => {
            let bodies = scope::class_bodies(body, class);
            bodies.iter().any(|body| scope::bound_names(body).contains(name))
        }
    };
    Ok(paths.filter(|path| !is_still_bound(path)).cloned().collect())
}

/// Removes names from `__all__`, regardless of whether `__all__` is assigned, or changed with `+=`,
/// `append` or `extend`.
pub(super) fn remove_exports(
    file: &str,
    text: &str,
    lost_paths: &BTreeSet<String>,
) -> Result<String, CarveError> {
    let parsed = parse_python(file, text)?;
    let edits = collect_edits(text, &parsed.syntax().body, MODULE_SCOPE, &mut |stmt, place| {
        if !place.prefix.is_empty() {
            return StatementAction::Keep;
        }
        match stmt {
            Stmt::Assign(stmt) if stmt.targets.iter().any(is_dunder_all) => {
                change_or_keep(remove_entries(text, &stmt.value, lost_paths))
            }
            Stmt::AnnAssign(stmt) if is_dunder_all(&stmt.target) => change_or_keep(
                stmt.value
                    .iter()
                    .flat_map(|value| remove_entries(text, value, lost_paths))
                    .collect(),
            ),
            Stmt::AugAssign(stmt) if is_dunder_all(&stmt.target) => {
                change_or_keep(remove_entries(text, &stmt.value, lost_paths))
            }
            Stmt::Expr(stmt) => edit_export_call(text, &stmt.value, lost_paths),
            _ => StatementAction::Keep,
        }
    });
    check_syntax(file, apply_edits(text, edits))
}

fn change_or_keep(edits: Vec<Edit>) -> StatementAction {
    if edits.is_empty() { StatementAction::Keep } else { StatementAction::Change(edits) }
}

/// Removes the whole call `__all__.append("name")`, or entries from the list in
/// `__all__.extend([...])`.
fn edit_export_call(text: &str, expr: &Expr, lost_paths: &BTreeSet<String>) -> StatementAction {
    let Expr::Call(call) = expr else { return StatementAction::Keep };
    let Expr::Attribute(method) = &*call.func else { return StatementAction::Keep };
    let Some(argument) = call.arguments.args.first().filter(|_| is_dunder_all(&method.value))
    else {
        return StatementAction::Keep;
    };
    match (method.attr.as_str(), argument) {
        ("append", Expr::StringLiteral(name)) if lost_paths.contains(name.value.to_str()) => {
            StatementAction::Remove
        }
        ("extend", list) => change_or_keep(remove_entries(text, list, lost_paths)),
        _ => StatementAction::Keep,
    }
}

fn is_dunder_all(expr: &Expr) -> bool {
    matches!(expr, Expr::Name(name) if name.id.as_str() == "__all__")
}

/// Returns the edits that remove entries from a literal list or tuple, or from both sides of a sum.
fn remove_entries(text: &str, expr: &Expr, lost_paths: &BTreeSet<String>) -> Vec<Edit> {
    let (elements, tuple) = match expr {
        Expr::List(list) => (&list.elts, false),
        Expr::Tuple(tuple) => (&tuple.elts, true),
        Expr::BinOp(sum) => {
            let mut out = remove_entries(text, &sum.left, lost_paths);
            out.extend(remove_entries(text, &sum.right, lost_paths));
            return out;
        }
        _ => return Vec::new(),
    };
    let goes = |element: &Expr| matches!(element, Expr::StringLiteral(name) if lost_paths.contains(name.value.to_str()));
    let items: Vec<ListItem> = elements
        .iter()
        .map(|element| ListItem {
            start: element.start().to_usize(),
            end: element.end().to_usize(),
            is_removed: goes(element),
        })
        .collect();
    let mut out = removal_edits(text, &items);
    let remaining_items: Vec<&ListItem> = items.iter().filter(|item| !item.is_removed).collect();
    if out.is_empty() {
        return out;
    }
    match remaining_items[..] {
        // No entries remain. Replace the whole literal, so that no lone comma is left behind.
        [] => {
            let empty = if tuple { "()" } else { "[]" };
            let (start, end) = (expr.start().to_usize(), expr.end().to_usize());
            out = vec![Edit { start, end, replacement: empty.into() }];
        }
        // A tuple with a single entry needs a comma, because `("a")` is not a tuple.
        [only] if tuple => {
            let last = items.last().map_or(only.end, |last| last.end);
            let tail = comma_after(text, last).map_or(last, |comma| comma + 1);
            if comma_after(text, only.end).is_none() || only.end < last {
                out.retain(|edit| edit.end <= only.start);
                out.push(Edit { start: only.end, end: tail, replacement: ",".into() });
            }
        }
        _ => {}
    }
    out
}

/// Returns the text, or an error if it can no longer be parsed.
pub(super) fn check_syntax(file: &str, text: String) -> Result<String, CarveError> {
    match parse_module(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(CarveError::Broken { file: file.to_owned(), why: error.to_string() }),
    }
}

fn nearest_path(path: &str, known_paths: &BTreeSet<String>) -> Option<String> {
    known_paths
        .iter()
        .map(|candidate| (strsim::jaro_winkler(path, candidate), candidate))
        .filter(|(score, _)| *score >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stub_and_code_shows_attributes_and_notes_but_no_bodies() {
        let text = "\
class A(B):
    'Doc.'
    kind = other = 'x'
    _hidden = 1
    n: int = 2
    table = {
        1: 2,
        3: 4,
        5: 6,
    }
    @overload
    def m(self, a: int): ...
    def m(self, a):
        self.size, self._used, self._idle, self.n = 1, 2, 3, 4
        self.__class__ = self.__dict__ = None
        return secret(a)
    def _refuse(self): pass
    def _hide(self): pass
    __ior__ = _refuse
    class C:
        def k(self):
            pass
if x:
    def f(a): return 1
else:
    def f(a, b): return 2
";
        let notes = |path: &str| vec![format!("note of {path}")];
        let named = BTreeSet::from(["_used".to_owned()]);
        let view = StubOptions { notes: &notes, used_names: Some(&named) };
        let (stub, code) = stub_and_code(text, "A", view).unwrap();
        assert_eq!(
            stub,
            "\
class A(B):
    'Doc.'
    # Instances have: _used, size.
    kind = other = 'x'
    n: int = 2
    table = ...

    @overload
    def m(self, a: int):
        ...

    def m(self, a):
        # note of A.m
        ...

    def _refuse(self):
        # note of A._refuse
        ...
    __ior__ = _refuse

    class C:

        def k(self):
            # note of A.C.k
            ...
"
        );
        assert!(code.contains("secret(a)") && !code.contains("if x"));
        let (stub, _) = stub_and_code(text, "f", StubOptions::PLAIN).unwrap();
        assert_eq!(stub, "def f(a):\n    ...\n\ndef f(a, b):\n    ...\n");
        let (stub, _) = stub_and_code(text, "A.C.k", StubOptions::PLAIN).unwrap();
        assert_eq!(stub, "def k(self):\n    ...\n");
        assert!(stub_and_code(text, "none", view).is_none());
    }
}
