//! Calls in tests that say which exception or warning must come: of pytest, and of unittest.

use ruff_python_ast::{Expr, ExprCall};

/// What a call expects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Expectation {
    pub(super) is_warning: bool,
    /// Last parts of the names of classes.
    pub(super) types: Vec<String>,
    /// The text that must be in it; `true`: as a regular expression.
    pub(super) text: Option<(String, bool)>,
    /// The function that the call itself is given to call.
    pub(super) called: Option<String>,
}

impl Expectation {
    /// `None`: the call expects nothing.
    pub(super) fn of(call: &ExprCall) -> Option<Self> {
        let name = tail(&call.func)?;
        let args = &call.arguments.args;
        let keyword = |name: &str| {
            let found = call.arguments.find_keyword(name);
            found.map(|it| &it.value)
        };
        let first = |name: &str| args.first().or_else(|| keyword(name));
        // The place of the text among the arguments, and of the function.
        let (is_warning, types, text, called) = match name.as_str() {
            "raises" => (false, first("expected_exception"), keyword("match"), args.get(1)),
            "warns" => (true, first("expected_warning"), keyword("match"), args.get(1)),
            "deprecated_call" => (true, None, keyword("match"), args.first()),
            "assertRaises" => (false, first("expected_exception"), None, args.get(1)),
            "assertWarns" => (true, first("expected_warning"), None, args.get(1)),
            "assertRaisesRegex" | "assertRaisesRegexp" | "assertRaisesMessage" => {
                (false, args.first(), args.get(1), args.get(2))
            }
            "assertWarnsRegex" | "assertWarnsMessage" => {
                (true, args.first(), args.get(1), args.get(2))
            }
            _ => return None,
        };
        let types = match (types, name.as_str()) {
            (Some(types), _) => classes(types),
            (None, "deprecated_call") => vec!["DeprecationWarning".to_owned()],
            (None, _) => Vec::new(),
        };
        let text = text.and_then(Expr::as_string_literal_expr);
        let is_pattern = !name.ends_with("Message");
        Some(Self {
            is_warning,
            types,
            text: text.map(|literal| (literal.value.to_str().to_owned(), is_pattern)),
            called: called.and_then(tail),
        })
    }
}

/// Whoever expects these expects nothing that must be known.
const ANY: [&str; 3] = ["Exception", "BaseException", "Warning"];

/// The classes that an expression names; a variable may hold any.
fn classes(expr: &Expr) -> Vec<String> {
    match expr {
        Expr::Tuple(tuple) => tuple.elts.iter().flat_map(classes).collect(),
        _ => tail(expr)
            .filter(|name| is_class(name) && !ANY.contains(&&**name))
            .into_iter()
            .collect(),
    }
}

fn is_class(name: &str) -> bool {
    name.chars().find(|c| *c != '_').is_some_and(char::is_uppercase)
        && name.chars().any(char::is_lowercase)
}

/// The last part of a name.
pub(super) fn tail(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Name(name) => Some(name.id.to_string()),
        Expr::Attribute(attribute) => Some(attribute.attr.to_string()),
        _ => None,
    }
}

/// Names that tests give to what holds an exception or a warning.
const HOLDERS: [&str; 9] =
    ["e", "err", "error", "ex", "exc", "exc_info", "excinfo", "exception", "warning"];

/// Whether an expression is the text of an exception or a warning: `str(e.value)`, `e.exception.args[0]`.
pub(super) fn is_message(expr: &Expr) -> bool {
    match expr {
        Expr::Call(call) => match &*call.func {
            Expr::Name(name) if matches!(name.id.as_str(), "str" | "repr") => {
                call.arguments.args.first().is_some_and(names_exception)
            }
            Expr::Attribute(method) => is_message(&method.value),
            _ => false,
        },
        Expr::Subscript(subscript) => is_message(&subscript.value),
        Expr::Attribute(attribute) => {
            matches!(attribute.attr.as_str(), "args" | "msg" | "message")
                && names_exception(&attribute.value)
        }
        _ => false,
    }
}

/// Whether an expression is an exception or a warning that was caught.
pub(super) fn names_exception(expr: &Expr) -> bool {
    match expr {
        Expr::Name(name) => HOLDERS.contains(&name.id.as_str()),
        Expr::Attribute(attribute) => {
            matches!(attribute.attr.as_str(), "value" | "exception" | "message")
        }
        Expr::Subscript(subscript) => names_exception(&subscript.value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use ruff_python_parser::parse_expression;

    use super::*;

    fn of(text: &str) -> Option<Expectation> {
        let parsed = parse_expression(text).unwrap();
        Expectation::of(parsed.syntax().body.as_call_expr().unwrap())
    }

    #[test]
    fn each_runner_has_its_own_order_of_arguments() {
        let found = of("self.assertRaisesRegex(pkg.Bad, 'no (\\w+)', pkg.run, 1)").unwrap();
        assert_eq!(found.types, ["Bad"]);
        assert_eq!(found.text, Some(("no (\\w+)".to_owned(), true)));
        assert_eq!((found.called.as_deref(), found.is_warning), (Some("run"), false));
        let found = of("self.assertWarnsMessage(UserWarning, 'old', f)").unwrap();
        assert_eq!((found.text, found.is_warning), (Some(("old".to_owned(), false)), true));
        let found = of("pytest.raises(expected_exception=E, match=pattern)").unwrap();
        // One upper-case letter may be a variable of any class.
        assert_eq!((found.types.len(), found.text), (0, None));
        assert_eq!(of("deprecated_call()").unwrap().types, ["DeprecationWarning"]);
        assert_eq!(of("parse(ValueError)"), None);
    }

    #[test]
    fn the_text_of_an_exception_is_told_from_other_values() {
        let is = |text: &str| is_message(&parse_expression(text).unwrap().syntax().body);
        for text in [
            "str(e.value)",
            "str(excinfo.value).lower()",
            "cm.exception.args[0]",
            "str(w[0].message)",
        ] {
            assert!(is(text), "{text}");
        }
        for text in ["token.value", "str(token)", "message", "str(3)"] {
            assert!(!is(text), "{text}");
        }
    }
}
