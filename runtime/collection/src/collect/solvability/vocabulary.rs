//! Extracts names and strings from code, and looks for them in text that a solver can read.

use std::collections::BTreeSet;

use ruff_python_ast::{
    Expr, ExprContext, InterpolatedStringElement, Stmt,
    visitor::{self, Visitor},
};
use ruff_python_parser::parse_module;

/// The names and strings that occur in code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CodeVocabulary {
    /// Names of functions, classes, parameters, attributes and variables, and strings that could be
    /// names.
    pub(super) names: BTreeSet<String>,
    /// Fixed parts of strings, without placeholders. Docstrings are excluded.
    pub(super) texts: BTreeSet<String>,
    /// Strings with which the code compares values, including prefixes and suffixes.
    pub(super) compared: BTreeSet<String>,
}

impl CodeVocabulary {
    /// Extracts names and strings from code. The result is empty if the code cannot be parsed.
    pub(super) fn from_code(code: &str) -> Self {
        let mut reader = VocabularyReader::default();
        if let Ok(parsed) = parse_module(code) {
            parsed.syntax().body.iter().for_each(|stmt| reader.visit_stmt(stmt));
        }
        reader.0
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.names.extend(other.names);
        self.texts.extend(other.texts);
        self.compared.extend(other.compared);
    }

    /// Removes the names and strings that also occur in `excluded`.
    pub(super) fn difference(mut self, excluded: &Self) -> Self {
        self.names.retain(|name| !excluded.names.contains(name));
        self.texts.retain(|text| !excluded.texts.contains(text));
        self.compared.retain(|text| !excluded.compared.contains(text));
        self
    }
}

#[derive(Default)]
struct VocabularyReader(CodeVocabulary);

impl VocabularyReader {
    fn add_text(&mut self, text: &str) {
        let is_name = |text: &str| {
            text.chars().all(|c| c.is_alphanumeric() || c == '_')
                && text.chars().next().is_some_and(|c| !c.is_numeric())
        };
        if is_name(text) {
            self.0.names.insert(text.to_owned());
        }
        self.0.texts.extend(fixed_parts(text));
    }

    /// Adds the strings in one side of a comparison, which may be a collection of strings.
    fn add_compared(&mut self, expr: &Expr) {
        match expr {
            Expr::StringLiteral(literal) => {
                self.0.compared.insert(literal.value.to_str().to_owned());
            }
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|it| self.add_compared(it)),
            Expr::List(list) => list.elts.iter().for_each(|it| self.add_compared(it)),
            Expr::Set(set) => set.elts.iter().for_each(|it| self.add_compared(it)),
            _ => {}
        }
    }
}

impl<'a> Visitor<'a> for VocabularyReader {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Expr(expr) if expr.value.is_string_literal_expr() => return,
            Stmt::FunctionDef(def) => {
                self.0.names.insert(def.name.to_string());
                for parameter in def.parameters.iter_non_variadic_params() {
                    self.0.names.insert(parameter.parameter.name.to_string());
                }
            }
            Stmt::ClassDef(def) => drop(self.0.names.insert(def.name.to_string())),
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx == ExprContext::Store => {
                self.0.names.insert(name.id.to_string());
            }
            Expr::Attribute(attribute) if attribute.ctx == ExprContext::Store => {
                self.0.names.insert(attribute.attr.to_string());
            }
            Expr::StringLiteral(literal) => self.add_text(literal.value.to_str()),
            Expr::Compare(compare) => {
                self.add_compared(&compare.left);
                compare.comparators.iter().for_each(|it| self.add_compared(it));
            }
            Expr::Call(call) => {
                let method = call.func.as_attribute_expr().map(|it| it.attr.as_str());
                if matches!(method, Some("startswith" | "endswith")) {
                    call.arguments.args.iter().for_each(|it| self.add_compared(it));
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }

    fn visit_interpolated_string_element(&mut self, element: &'a InterpolatedStringElement) {
        if let InterpolatedStringElement::Literal(literal) = element {
            self.add_text(&literal.value);
        }
        visitor::walk_interpolated_string_element(self, element);
    }
}

/// Splits a string at line ends and at the placeholders of the `%` operator and the `format`
/// method.
fn fixed_parts(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines() {
        let (mut part, mut rest) = (String::new(), line);
        while let Some(c) = rest.chars().next() {
            match placeholder_length(rest) {
                Some(length) => {
                    out.push(std::mem::take(&mut part));
                    rest = &rest[length..];
                }
                None => {
                    part.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        out.push(part);
    }
    out.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// If a string starts with a placeholder, returns the placeholder's length.
fn placeholder_length(text: &str) -> Option<usize> {
    if let Some(inner) = text.strip_prefix('{') {
        let end = inner.find('}')?;
        let is_field =
            inner[..end].chars().all(|c| c.is_alphanumeric() || "_.!:[]<>=+-,".contains(c));
        return is_field.then_some(end + 2);
    }
    let inner = text.strip_prefix('%')?;
    let name = match inner.strip_prefix('(') {
        Some(name) => name.find(')')? + 2,
        None => 0,
    };
    let flags = inner[name..].chars().take_while(|c| "#0-+.*123456789".contains(*c)).count();
    let kind = inner[name + flags..].chars().next()?;
    "diouxXeEfFgGcrsa".contains(kind).then_some(1 + name + flags + 1)
}

/// Text that a solver can read.
#[derive(Debug, Clone, Default)]
pub(super) struct VisibleText {
    text: String,
    words: BTreeSet<String>,
}

impl VisibleText {
    pub(super) fn new(text: String) -> Self {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let words = words.filter(|it| !it.is_empty()).map(str::to_owned).collect();
        Self { text, words }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether the text occurs in quotes. Unlike [`Self::has_text`], this also works for short
    /// texts, which may be a part of any word.
    pub(super) fn has_quoted(&self, text: &str) -> bool {
        ['"', '\'', '`'].iter().any(|quote| self.text.contains(&format!("{quote}{text}{quote}")))
    }

    pub(super) fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Returns the definitions of the functions and classes with a name, without the code that
    /// follows them.
    pub(super) fn definitions(&self, name: &str) -> Vec<&str> {
        let mut out = Vec::new();
        let mut at = 0;
        for line in self.text.split_inclusive('\n') {
            let start = at;
            at += line.len();
            if defined_name(line) != Some(name) {
                continue;
            }
            let indent = indentation(line);
            let rest = self.text[at..].split_inclusive('\n');
            let body = rest.take_while(|line| {
                // A closing parenthesis ends the parameters, not the definition.
                line.trim().is_empty()
                    || (indentation(line) > indent || line.trim().starts_with(')'))
                        && !line.trim().starts_with("```")
            });
            let end = at + body.map(str::len).sum::<usize>();
            out.push(&self.text[start..end]);
        }
        out
    }

    /// Whether the text occurs, either as it is or with the escapes of a Python string.
    pub(super) fn has_text(&self, text: &str) -> bool {
        self.text.contains(text)
            || self.text.contains(&text.replace('\\', "\\\\"))
            || self.text.contains(&text.replace('\'', "\\'"))
            || self.text.contains(&text.replace('"', "\\\""))
    }
}

/// Returns the name that a line of Python code defines.
fn defined_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("async ").unwrap_or(line);
    let rest = line.strip_prefix("def ").or_else(|| line.strip_prefix("class "))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vocabulary_excludes_placeholders_and_docstrings() {
        let words = CodeVocabulary::from_code(
            "class A:\n    '''Says a lot.'''\n    def f(self, depth, *rest, **options):\n        \
             self._seen = options.get('max_depth')\n        total = 1\n        \
             raise E('no {name!r} in %s (at %(line)d)\\nsecond line', f'left {depth} right')\n",
        );
        let texts: Vec<&str> = words.texts.iter().map(String::as_str).collect();
        assert_eq!(texts, ["(at", ")", "in", "left", "max_depth", "no", "right", "second line"]);
        let bound: Vec<&str> = words.names.iter().map(String::as_str).collect();
        assert_eq!(bound, ["A", "_seen", "depth", "f", "max_depth", "self", "total"]);
        assert_eq!(
            CodeVocabulary::from_code("x = 'a text'\n")
                .difference(&CodeVocabulary::from_code("y = 'a text'\n"))
                .texts
                .len(),
            0
        );
        assert_eq!(CodeVocabulary::from_code("def f(:"), CodeVocabulary::default());
        let words = CodeVocabulary::from_code(
            "if x == 'a' or x in ('b', 'c') or x.startswith('en') or f('d'):\n    pass\n",
        );
        let compared: Vec<&str> = words.compared.iter().map(String::as_str).collect();
        assert_eq!(compared, ["a", "b", "c", "en"]);
    }

    #[test]
    fn fixed_parts_keep_braces_and_percents_outside_placeholders() {
        assert_eq!(fixed_parts("100% of {it is} 5%"), ["100% of {it is} 5%"]);
        assert_eq!(fixed_parts("{}: %-5.2f%%"), [":", "%%"]);
    }

    #[test]
    fn has_text_finds_escaped_text() {
        let visible = VisibleText::new("raise E('can\\'t do it', \"a \\\\d+ b\")".to_owned());
        assert!(visible.has_text("can't do it") && visible.has_text("a \\d+ b"));
        assert!(visible.has_word("raise") && !visible.has_word("rais"));
        let visible = VisibleText::new("Returns `a` or \"it's\".".to_owned());
        assert!(visible.has_quoted("a") && visible.has_quoted("it's") && !visible.has_quoted("R"));
    }

    #[test]
    fn definitions_end_before_the_next_definition_of_the_same_level() {
        let visible = VisibleText::new(
            "```python\nclass A:\n    def get(\n        self,\n    ):\n        # First\n\n    def put(self):\n        \
             # Second\n```\nThird\nasync def get(key):\n    # Fourth\ndef getter(): ...\n"
                .to_owned(),
        );
        let has = |name: &str| -> Vec<Vec<&str>> {
            let words = ["First", "Second", "Third", "Fourth"];
            let of = |it: &str| words.into_iter().filter(|word| it.contains(*word)).collect();
            visible.definitions(name).into_iter().map(of).collect()
        };
        assert_eq!(has("get"), [["First"], ["Fourth"]]);
        assert_eq!(has("A"), [["First", "Second"]]);
        assert!(has("missing").is_empty());
    }
}
