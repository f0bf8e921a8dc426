//! Recognizes pytest and unittest calls that expect an exception or a warning.

use ruff_python_ast::{Expr, ExprCall};

/// The exception or warning that a call expects.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Expectation {
    pub(super) is_warning: bool,
    /// The expected classes. Only the last component of a dotted name is kept.
    pub(super) types: Vec<String>,
    /// The expected text as an expression, and whether the text is a regular expression.
    pub(super) text: Option<(Expr, bool)>,
    /// The function that is passed to the call and should raise the exception or issue the warning.
    pub(super) called_function: Option<String>,
}

impl Expectation {
    /// Reads a call. Returns `None` if the call does not expect an exception or a warning.
    pub(super) fn from_call(call: &ExprCall) -> Option<Self> {
        let name = last_component(&call.func)?;
        let args = &call.arguments.args;
        let keyword = |name: &str| {
            let found = call.arguments.find_keyword(name);
            found.map(|it| &it.value)
        };
        let first = |name: &str| args.first().or_else(|| keyword(name));
        // Each of these functions has its arguments in a different order.
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
            (Some(types), _) => class_names(types),
            (None, "deprecated_call") => vec!["DeprecationWarning".to_owned()],
            (None, _) => Vec::new(),
        };
        let is_pattern = !name.ends_with("Message");
        Some(Self {
            is_warning,
            types,
            text: text.map(|text| (text.clone(), is_pattern)),
            called_function: called.and_then(last_component),
        })
    }
}

/// Types that match almost any exception or warning. A solver doesn't need to know them.
const CATCH_ALL_TYPES: [&str; 3] = ["Exception", "BaseException", "Warning"];

/// Returns the classes that an expression names. Variables are skipped, because their values are
/// unknown.
fn class_names(expr: &Expr) -> Vec<String> {
    match expr {
        Expr::Tuple(tuple) => tuple.elts.iter().flat_map(class_names).collect(),
        _ => last_component(expr)
            .filter(|name| is_class(name) && !CATCH_ALL_TYPES.contains(&&**name))
            .into_iter()
            .collect(),
    }
}

fn is_class(name: &str) -> bool {
    name.chars().find(|c| *c != '_').is_some_and(char::is_uppercase)
        && name.chars().any(char::is_lowercase)
}

/// Returns the last component of a dotted name.
pub(super) fn last_component(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Name(name) => Some(name.id.to_string()),
        Expr::Attribute(attribute) => Some(attribute.attr.to_string()),
        _ => None,
    }
}

/// Names that tests commonly give to a caught exception or warning.
const EXCEPTION_VARIABLES: [&str; 9] =
    ["e", "err", "error", "ex", "exc", "exc_info", "excinfo", "exception", "warning"];

/// Whether an expression evaluates to the text of an exception or a warning. Examples are
/// `str(e.value)` and `e.exception.args[0]`.
pub(super) fn is_message(expr: &Expr) -> bool {
    match expr {
        Expr::Call(call) => match &*call.func {
            Expr::Name(name) if matches!(name.id.as_str(), "str" | "repr") => {
                call.arguments.args.first().is_some_and(looks_like_exception)
            }
            Expr::Attribute(method) => is_message(&method.value),
            _ => false,
        },
        Expr::Subscript(subscript) => is_message(&subscript.value),
        Expr::Attribute(attribute) => {
            matches!(attribute.attr.as_str(), "args" | "msg" | "message")
                && looks_like_exception(&attribute.value)
        }
        _ => false,
    }
}

/// Whether an expression looks like a caught exception or warning.
pub(super) fn looks_like_exception(expr: &Expr) -> bool {
    match expr {
        Expr::Name(name) => EXCEPTION_VARIABLES.contains(&name.id.as_str()),
        Expr::Attribute(attribute) => {
            matches!(attribute.attr.as_str(), "value" | "exception" | "message")
        }
        Expr::Subscript(subscript) => looks_like_exception(&subscript.value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use ruff_python_parser::parse_expression;

    use super::*;

    fn parse_expectation(text: &str) -> Option<Expectation> {
        let parsed = parse_expression(text).unwrap();
        Expectation::from_call(parsed.syntax().body.as_call_expr().unwrap())
    }

    fn literal_text(found: &Expectation) -> Option<(String, bool)> {
        let (text, is_pattern) = found.text.as_ref()?;
        Some((text.as_string_literal_expr()?.value.to_str().to_owned(), *is_pattern))
    }

    #[test]
    fn from_call_reads_the_arguments_of_each_function() {
        let found =
            parse_expectation("self.assertRaisesRegex(pkg.Bad, 'no (\\w+)', pkg.run, 1)").unwrap();
        assert_eq!(found.types, ["Bad"]);
        assert_eq!(literal_text(&found), Some(("no (\\w+)".to_owned(), true)));
        assert_eq!((found.called_function.as_deref(), found.is_warning), (Some("run"), false));
        let found = parse_expectation("self.assertWarnsMessage(UserWarning, 'old', f)").unwrap();
        assert_eq!(literal_text(&found), Some(("old".to_owned(), false)));
        assert!(found.is_warning);
        let found =
            parse_expectation("pytest.raises(expected_exception=E, match=pattern)").unwrap();
        // A single upper-case letter may be a variable.
        assert!(found.types.is_empty(), "{found:?}");
        assert!(found.text.is_some_and(|(text, is_pattern)| text.is_name_expr() && is_pattern));
        assert_eq!(parse_expectation("deprecated_call()").unwrap().types, ["DeprecationWarning"]);
        assert_eq!(parse_expectation("parse(ValueError)"), None);
    }

    #[test]
    fn is_message_recognizes_only_exception_messages() {
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
