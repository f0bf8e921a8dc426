//! Computes the line spans of new components in the same way as FEA-Bench's own script.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{
    AnyNodeRef,
    visitor::source_order::{SourceOrderVisitor, TraversalSignal, walk_body},
};
use ruff_text_size::Ranged;

/// A function or class and its lines, counted from 1.
///
/// As in the benchmark's script, `async def` is not counted, and an async function is not part of
/// the dotted names inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionSpan {
    pub is_class: bool,
    /// Dotted name.
    pub name: String,
    /// The line of `def` or `class`, without decorators.
    pub first_line: usize,
    /// The last line on which one of the definition's nodes starts. The rest of a multi-line string
    /// or bracket is not included.
    pub last_line: usize,
}

/// Returns the functions and classes that `after` defines and `before` does not. If the file is
/// new, returns all of them. Returns `None` if the parser does not support the Python code of
/// either version.
pub fn new_spans(before: Option<&str>, after: &str) -> Option<Vec<DefinitionSpan>> {
    let after = find_spans(after)?;
    let Some(before) = before else { return Some(after) };
    let known: BTreeSet<String> = find_spans(before)?.into_iter().map(|span| span.name).collect();
    // Like the benchmark's script, key definitions by name. If a name is defined twice, the last
    // definition counts.
    let by_name: BTreeMap<String, DefinitionSpan> =
        after.into_iter().map(|span| (span.name.clone(), span)).collect();
    Some(by_name.into_values().filter(|span| !known.contains(&span.name)).collect())
}

fn find_spans(text: &str) -> Option<Vec<DefinitionSpan>> {
    let parsed = ruff_python_parser::parse_module(text).ok()?;
    let starts = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let mut walk = SpanVisitor {
        line_starts: starts,
        scope: Vec::new(),
        open_spans: Vec::new(),
        spans: Vec::new(),
    };
    walk_body(&mut walk, &parsed.syntax().body);
    Some(walk.spans)
}

struct SpanVisitor {
    /// Offsets of all lines except the first.
    line_starts: Vec<usize>,
    /// The names that enclose the current node.
    scope: Vec<String>,
    /// The indices in `spans` of the definitions that enclose the current node.
    open_spans: Vec<usize>,
    spans: Vec<DefinitionSpan>,
}

impl SpanVisitor {
    fn line_number(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset) + 1
    }
}

impl<'a> SourceOrderVisitor<'a> for SpanVisitor {
    fn enter_node(&mut self, node: AnyNodeRef<'a>) -> TraversalSignal {
        let line = node_start(node).map(|at| self.line_number(at));
        if let Some(line) = line {
            for index in &self.open_spans {
                if let Some(span) = self.spans.get_mut(*index) {
                    span.last_line = span.last_line.max(line);
                }
            }
        }
        if let (Some((is_class, name)), Some(first)) = (parse_definition(node), line) {
            self.scope.push(name.to_owned());
            self.open_spans.push(self.spans.len());
            let name = self.scope.join(".");
            self.spans.push(DefinitionSpan { is_class, name, first_line: first, last_line: first });
        }
        TraversalSignal::Traverse
    }

    fn leave_node(&mut self, node: AnyNodeRef<'a>) {
        if parse_definition(node).is_some() {
            self.scope.pop();
            self.open_spans.pop();
        }
    }
}

fn parse_definition(node: AnyNodeRef<'_>) -> Option<(bool, &str)> {
    match node {
        AnyNodeRef::StmtFunctionDef(def) if !def.is_async => Some((false, def.name.as_str())),
        AnyNodeRef::StmtClassDef(def) => Some((true, def.name.as_str())),
        _ => None,
    }
}

/// Returns the start of a node according to Python's own syntax tree. Returns `None` for nodes that
/// have no line in that tree, and for nodes that it does not contain, such as the parts of a
/// concatenated string.
fn node_start(node: AnyNodeRef<'_>) -> Option<usize> {
    let at = match node {
        AnyNodeRef::StmtFunctionDef(def) => def.name.start(),
        AnyNodeRef::StmtClassDef(def) => def.name.start(),
        AnyNodeRef::ElifElseClause(clause) if clause.test.is_some() => clause.start(),
        AnyNodeRef::Parameter(_) | AnyNodeRef::Keyword(_) | AnyNodeRef::Alias(_) => node.start(),
        node if node.is_statement()
            || node.is_expression()
            || node.is_pattern()
            || node.is_except_handler() =>
        {
            node.start()
        }
        _ => return None,
    };
    Some(at.to_usize())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected lines are the results of the benchmark's own `compare_namespaces` for these
    /// files.
    #[test]
    fn new_spans_matches_the_benchmarks_script() {
        let before = "def kept():\n    return 1\n";
        let after = r#"import os


def kept():
    return 2


@decorated
def f(
    a,
    b=(
        1,
    ),
):
    """One.

    Two.
    """
    return dict(
        a=a,
        b=[
            b,
        ],
    )


class C(object):
    async def g(self):
        def inner():
            pass
        return inner

    def h(self):
        text = (
            "one"
            "two"
        )
        if text:
            return """
            long
            """
        elif os:
            raise ValueError(
                text
            )


def f():
    '''Again.

    It ends below.
    '''
"#;
        let lines = |before| {
            let spans = new_spans(before, after).unwrap();
            spans.into_iter().map(|it| (it.name, it.first_line, it.last_line)).collect::<Vec<_>>()
        };
        let of = |name: &str, first, last| (name.to_owned(), first, last);
        assert_eq!(
            lines(Some(before)),
            [of("C", 27, 44), of("C.h", 33, 44), of("C.inner", 29, 30), of("f", 48, 49)]
        );
        // If the file is new, both definitions of a name count.
        assert_eq!(
            lines(None),
            [
                of("kept", 4, 5),
                of("f", 9, 22),
                of("C", 27, 44),
                of("C.inner", 29, 30),
                of("C.h", 33, 44),
                of("f", 48, 49)
            ]
        );
        assert_eq!(new_spans(None, "def f(:"), None);
    }
}
