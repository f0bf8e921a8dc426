//! The allowed values of a configuration's keys, and the errors for invalid ones.

use proctor_egress::{Exception, Pattern};
pub(crate) use proctor_types::nearest;
use toml::Value;

use crate::keys::Key;

/// The kind of a key's value.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Any non-empty text.
    Text,
    /// An endpoint's address. It should not contain a secret, but errors do not show the value, in
    /// case it does.
    Address,
    /// The name of an environment variable. An invalid name may be an API key, so errors never
    /// show it.
    Variable,
    Flag,
    Choice(Vec<String>),
    /// A whole number within these bounds.
    Count(i64, i64),
    /// A number within these bounds.
    Number(f64, f64),
    /// A number above 0, up to this bound.
    Above(f64),
    /// A list of texts, each in this form.
    Texts(Form),
    Table(Vec<Key>),
    /// Tables under names that the user chooses.
    Named(Vec<Key>),
    /// A list of tables: `[[KEY]]`.
    Rows(Vec<Key>),
    /// A table with arbitrary keys, such as a vendor's own fields.
    Free,
}

/// The syntax of a list's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Any,
    /// A pattern for URLs that are allowed.
    Allow,
    /// A pattern for URLs that are denied.
    Deny,
    /// A private address that the proxy may connect to.
    Private,
}

impl Form {
    fn check(self, text: &str) -> Result<(), String> {
        let checked = match self {
            Self::Any => return Ok(()),
            Self::Allow => Pattern::allow(text).map(drop).map_err(|error| error.to_string()),
            Self::Deny => Pattern::deny(text).map(drop).map_err(|error| error.to_string()),
            Self::Private => Exception::parse(text).map(drop).map_err(|error| error.to_string()),
        };
        checked.map_err(|error| format!("{error} (docs/egress.md)"))
    }
}

/// An error about a value, and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub what: String,
    pub hint: String,
}

impl Wrong {
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

impl Kind {
    /// Checks the value itself. The content of a table is checked by the code that walks through
    /// it.
    pub fn check(&self, key: &Key, value: &Value) -> Result<(), Wrong> {
        match (self, value) {
            (Self::Text, Value::String(text)) if text.trim().is_empty() => {
                Err(Wrong::new("is empty", key.write()))
            }
            (Self::Address, Value::String(text)) => address(text),
            (Self::Variable, Value::String(text)) => variable(text),
            (Self::Choice(known), Value::String(text)) => choice(known, text),
            (Self::Count(least, most), Value::Integer(number)) => {
                if (least..=most).contains(&number) {
                    return Ok(());
                }
                let hint =
                    format!("must be a whole number from {least} to {most}; {}", key.write());
                Err(Wrong::new(format!("{number} is out of range"), hint))
            }
            (Self::Number(..) | Self::Above(_), Value::Integer(number)) => {
                self.bounds(key, *number as f64)
            }
            (Self::Number(..) | Self::Above(_), Value::Float(number)) => self.bounds(key, *number),
            (Self::Texts(form), Value::Array(items)) => {
                for item in items {
                    let Value::String(text) = item else {
                        let what = format!("contains {}, not text", shape(item));
                        return Err(Wrong::new(what, key.write()));
                    };
                    form.check(text).map_err(|why| Wrong::new(why, key.write()))?;
                }
                Ok(())
            }
            (Self::Rows(_), Value::Array(items)) => {
                match items.iter().find(|item| !item.is_table()) {
                    Some(item) => {
                        let what = format!("contains {}, not tables", shape(item));
                        Err(Wrong::new(what, key.write()))
                    }
                    None => Ok(()),
                }
            }
            (Self::Text, Value::String(_))
            | (Self::Flag, Value::Boolean(_))
            | (Self::Table(_) | Self::Named(_) | Self::Free, Value::Table(_)) => Ok(()),
            _ => {
                let what = format!("expected {}, found {}", self.shape(), shape(value));
                Err(Wrong::new(what, self.hint(key)))
            }
        }
    }

    fn bounds(&self, key: &Key, number: f64) -> Result<(), Wrong> {
        let (fits, range) = match self {
            Self::Number(least, most) => {
                ((*least..=*most).contains(&number), format!("from {least} to {most}"))
            }
            Self::Above(most) => {
                (number > 0.0 && number <= *most, format!("above 0, up to {most}"))
            }
            _ => (true, String::new()),
        };
        let what = match number.is_finite() {
            _ if fits => return Ok(()),
            true => format!("{number} is out of range"),
            false => format!("{number} is not a finite number"),
        };
        Err(Wrong::new(what, format!("must be a number {range}; {}", key.write())))
    }

    fn shape(&self) -> &'static str {
        match self {
            Self::Text | Self::Address | Self::Variable | Self::Choice(_) => "text",
            Self::Flag => "true or false",
            Self::Count(..) => "a whole number",
            Self::Number(..) | Self::Above(_) => "a number",
            Self::Texts(_) => "a list of text",
            Self::Table(_) | Self::Named(_) | Self::Free => "a table",
            Self::Rows(_) => "a list of tables",
        }
    }

    fn hint(&self, key: &Key) -> String {
        match self {
            Self::Choice(known) => format!("use {}", one_of(known)),
            _ => key.write(),
        }
    }
}

/// Describes a value in TOML's terms.
pub(crate) fn shape(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a decimal number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

fn one_of(known: &[String]) -> String {
    format!("one of `{}`", known.join("`, `"))
}

fn choice(known: &[String], text: &str) -> Result<(), Wrong> {
    if known.iter().any(|one| one == text) {
        return Ok(());
    }
    let hint = match nearest(text, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? Use {}", one_of(known)),
        None => format!("use {}", one_of(known)),
    };
    let shown: String = text.chars().take(40).collect();
    Err(Wrong::new(format!("invalid value `{shown}`"), hint))
}

fn address(text: &str) -> Result<(), Wrong> {
    const FORM: &str = "use https://HOST/v1, or script:FILE for a scripted model";
    let text = text.trim();
    if let Some(file) = text.strip_prefix("script:") {
        let empty = Wrong::new("the script is missing", FORM);
        return if file.is_empty() { Err(empty) } else { Ok(()) };
    }
    let authority = text.split_once("//").map_or(text, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') || text.contains(['?', '#']) {
        let hint = "put the key into an environment variable, set `key_env` to its name, and use \
                    an address such as https://HOST/v1";
        return Err(Wrong::new(
            "contains a user name, a password or a query (not shown here)",
            hint,
        ));
    }
    match url::Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(()),
        _ => Err(Wrong::new("not an http(s) address", FORM)),
    }
}

fn variable(text: &str) -> Result<(), Wrong> {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let named = text.starts_with(first) && text.chars().all(|c| first(c) || c.is_ascii_digit());
    if named {
        return Ok(());
    }
    let hint = "set it to the variable's name, as in `key_env = \"MY_KEY\"`, and put the key into \
                the environment: export MY_KEY=...";
    Err(Wrong::new("not a variable name (not shown here: it may be a key)", hint))
}
