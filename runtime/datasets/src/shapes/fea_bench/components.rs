//! Finds new components: the functions and classes that a patch adds.

use std::collections::BTreeSet;

use ruff_python_ast::{ExceptHandler, Expr, Stmt};
use ruff_text_size::Ranged;
use serde_json::Value;

use crate::errors::RowError;

pub(super) use proctor_types::NewComponent as Component;

/// Reads the components in a row: an object by file, or a list of `{file, components}`.
///
/// The components are used as given. The benchmark's own script misses some, but the row's prompt
/// is based on the script's result.
pub(super) fn parse_components(value: Value) -> Result<Vec<Component>, RowError> {
    let wrong = |what: &str| RowError::invalid_field("new_components", what);
    let files: Vec<(String, Value)> = match value {
        Value::Object(map) => map.into_iter().collect(),
        Value::Array(list) => list
            .into_iter()
            .map(|mut entry| {
                let file = entry.get("file").and_then(Value::as_str).map(str::to_owned);
                let components = entry.get_mut("components").map(Value::take);
                file.zip(components)
            })
            .collect::<Option<_>>()
            .ok_or_else(|| wrong("has an element without `file` and `components`"))?,
        Value::String(text) => {
            return match serde_json::from_str(&text) {
                Ok(inner @ (Value::Object(_) | Value::Array(_))) => parse_components(inner),
                _ => Err(wrong("is text that does not contain components")),
            };
        }
        _ => return Err(wrong("is not an object or a list")),
    };
    let mut out = Vec::new();
    for (file, components) in files {
        for component in components.as_array().into_iter().flatten() {
            let text = |name: &str| {
                component.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            out.push(Component {
                file: file.clone(),
                kind: text("type"),
                name: text("name"),
                signature: text("signature"),
                doc: text("doc"),
            });
        }
    }
    Ok(out)
}

/// A new component with its line numbers, including decorators, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedComponent {
    pub component: Component,
    pub first_line: usize,
    pub last_line: usize,
}

/// Returns the components that `after` defines and `before` does not. `None` if the parser does not
/// support the Python code of either.
pub fn added_components(file: &str, before: &str, after: &str) -> Option<Vec<AddedComponent>> {
    let name = |added: AddedComponent| added.component.name;
    let known: BTreeSet<String> = definitions(file, before)?.into_iter().map(name).collect();
    let mut seen = BTreeSet::new();
    let mut new = definitions(file, after)?;
    new.retain(|AddedComponent { component: Component { name, .. }, .. }| {
        !known.contains(name) && seen.insert(name.clone())
    });
    Some(new)
}

/// Returns all functions and classes in the text, in order. `None` if the parser does not support
/// the Python code.
pub(crate) fn definitions(file: &str, text: &str) -> Option<Vec<AddedComponent>> {
    let parsed = ruff_python_parser::parse_module(text).ok()?;
    let mut out = Vec::new();
    collect_definitions(file, text, &parsed.syntax().body, "", &mut out);
    let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let line = |at: usize| starts.partition_point(|start| *start <= at) + 1;
    let spans = out.into_iter().map(|(component, first, end)| AddedComponent {
        component,
        first_line: line(first),
        // The end is the offset after the last character.
        last_line: line(end.saturating_sub(1)),
    });
    Some(spans.collect())
}

fn collect_definitions(
    file: &str,
    text: &str,
    body: &[Stmt],
    prefix: &str,
    components: &mut Vec<(Component, usize, usize)>,
) {
    let dotted = |name: &str| match prefix {
        "" => name.to_owned(),
        outer => format!("{outer}.{name}"),
    };
    for stmt in body {
        let (kind, name, header, inner) = match stmt {
            Stmt::FunctionDef(def) => {
                let end =
                    def.returns.as_ref().map_or(def.parameters.end(), |returns| returns.end());
                ("function", &def.name, (def.name.start(), end), &def.body)
            }
            Stmt::ClassDef(def) => {
                let end =
                    def.arguments.as_ref().map_or(def.name.end(), |arguments| arguments.end());
                ("class", &def.name, (def.name.start(), end), &def.body)
            }
            // Definitions inside an `if` count, too.
            Stmt::If(stmt) => {
                collect_definitions(file, text, &stmt.body, prefix, components);
                for clause in &stmt.elif_else_clauses {
                    collect_definitions(file, text, &clause.body, prefix, components);
                }
                continue;
            }
            Stmt::Try(stmt) => {
                collect_definitions(file, text, &stmt.body, prefix, components);
                for ExceptHandler::ExceptHandler(handler) in &stmt.handlers {
                    collect_definitions(file, text, &handler.body, prefix, components);
                }
                for body in [&stmt.orelse, &stmt.finalbody] {
                    collect_definitions(file, text, body, prefix, components);
                }
                continue;
            }
            Stmt::For(stmt) => {
                collect_definitions(file, text, &stmt.body, prefix, components);
                collect_definitions(file, text, &stmt.orelse, prefix, components);
                continue;
            }
            Stmt::While(stmt) => {
                collect_definitions(file, text, &stmt.body, prefix, components);
                collect_definitions(file, text, &stmt.orelse, prefix, components);
                continue;
            }
            Stmt::Match(stmt) => {
                for case in &stmt.cases {
                    collect_definitions(file, text, &case.body, prefix, components);
                }
                continue;
            }
            Stmt::With(stmt) => {
                collect_definitions(file, text, &stmt.body, prefix, components);
                continue;
            }
            _ => continue,
        };
        let name = dotted(name.as_str());
        let component = Component {
            file: file.to_owned(),
            kind: kind.to_owned(),
            name: name.clone(),
            signature: signature(text, header.0.to_usize(), header.1.to_usize()),
            doc: docstring(inner),
        };
        components.push((component, stmt.start().to_usize(), stmt.end().to_usize()));
        collect_definitions(file, text, inner, &name, components);
    }
}

/// Returns the header from `def` or `class` to the colon, on one line and without comments.
fn signature(text: &str, name: usize, end: usize) -> String {
    let begin = text[..name].rfind('\n').map_or(0, |at| at + 1);
    let colon = text[end..].find(':').map_or(text.len(), |at| end + at + 1);
    let lines = text[begin..colon].lines().map(|line| {
        // Like the benchmark's script, this also cuts the text at a `#` inside a string, which is
        // rare in a header.
        line.split('#').next().unwrap_or(line).trim()
    });
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the docstring as formatted by Python's `inspect.cleandoc`.
fn docstring(body: &[Stmt]) -> String {
    let Some(Stmt::Expr(first)) = body.first() else { return String::new() };
    let Expr::StringLiteral(literal) = first.value.as_ref() else { return String::new() };
    let text = literal.value.to_str().replace('\t', "        ");
    let margin = text
        .lines()
        .skip(1)
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    let mut lines: Vec<&str> = text
        .lines()
        .enumerate()
        .map(
            |(index, line)| {
                if index == 0 { line.trim_start() } else { line.get(margin..).unwrap_or("") }
            },
        )
        .collect();
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    let empty = lines.iter().take_while(|line| line.trim().is_empty()).count();
    lines[empty..].join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn added_components_have_full_signatures_and_docstrings() {
        let before = "def kept():\n    pass\n";
        let after = "def kept():\n    pass\n\n@cache\nasync def f(\n    a,  # first\n    *, b: int = 1,\n) -> dict:\n    '''One.\n\n      Two.\n    '''\n    def inner(): return 1\n\nclass C(Base):\n    def m(self): ...\nif X:\n    def g(): pass\ntry:\n    import x\nexcept ImportError:\n    def h(): pass\n";
        let new = added_components("p/a.py", before, after).unwrap();
        let lines: Vec<(usize, usize)> =
            new.iter().map(|it| (it.first_line, it.last_line)).collect();
        assert_eq!(lines, [(4, 13), (13, 13), (15, 16), (16, 16), (18, 18), (22, 22)]);
        let new: Vec<Component> = new.into_iter().map(|it| it.component).collect();
        let said: Vec<_> =
            new.iter().map(|c| (c.kind.as_str(), c.name.as_str(), c.signature.as_str())).collect();
        assert_eq!(
            said,
            [
                ("function", "f", "async def f( a, *, b: int = 1, ) -> dict:"),
                ("function", "f.inner", "def inner():"),
                ("class", "C", "class C(Base):"),
                ("function", "C.m", "def m(self):"),
                ("function", "g", "def g():"),
                ("function", "h", "def h():"),
            ]
        );
        assert_eq!(new[0].doc, "One.\n\nTwo.");
        assert!(added_components("p/a.py", "", "def f(:").is_none());
    }

    #[test]
    fn parse_components_reads_both_forms() {
        let entry = json!([{"type": "class", "name": "C", "lines": [1, 2], "signature": "class C:", "doc": ""}]);
        let map = parse_components(json!({"a.py": entry})).unwrap();
        let list = parse_components(json!([{"file": "a.py", "components": entry}])).unwrap();
        assert_eq!(map, list);
        assert_eq!(map[0].name, "C");
        assert!(parse_components(json!([{"file": "a.py"}])).is_err());
    }
}
