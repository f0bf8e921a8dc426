//! A configuration's keys, their allowed values, and the errors for invalid ones.

use proctor_egress::{AddressException, Pattern};
pub(crate) use proctor_types::closest_name;
use toml::Value;

/// A key of a table.
#[derive(Debug, Clone)]
pub struct ConfigKey {
    pub name: String,
    pub kind: ValueKind,
    pub is_required: bool,
    /// The key's meaning, on one line.
    pub description: String,
    /// The default, as TOML.
    pub default: Option<String>,
    /// An example value, as TOML.
    pub(crate) example: Option<String>,
}

impl ConfigKey {
    /// Returns a hint that shows how to write the key.
    pub fn usage_hint(&self) -> String {
        let name = &self.name;
        match &self.kind {
            ValueKind::Table(keys) => {
                let inner = keys.iter().find_map(|key| Some((&key.name, key.example.as_ref()?)));
                let inner =
                    inner.map_or(String::new(), |(key, example)| format!(" {key} = {example} "));
                format!("use a table, as in {name} = {{{inner}}}")
            }
            ValueKind::AnyTable => {
                let example = self.example.as_deref().unwrap_or("{}");
                format!("use a table, as in {name} = {example}")
            }
            ValueKind::NamedTables(keys) => {
                let keys = list_required(keys);
                format!("use one table for each, as in [{name}.NAME] with {keys} below it")
            }
            ValueKind::TableList(keys) => {
                format!("use [[{name}]] for each, with {} below it", list_required(keys))
            }
            ValueKind::Flag => format!("write `{name} = true` or `{name} = false`"),
            _ => match &self.example {
                Some(example) => format!("write `{name} = {example}`"),
                None => format!("write `{name} = ...`"),
            },
        }
    }
}

/// Lists the required keys.
fn list_required(keys: &[ConfigKey]) -> String {
    let names = keys.iter().filter(|key| key.is_required).map(|key| format!("`{}`", key.name));
    names.collect::<Vec<_>>().join(" and ")
}

/// The kind of a key's value.
#[derive(Debug, Clone)]
pub enum ValueKind {
    /// Any non-empty text.
    Text,
    /// The URL of an endpoint. The URL should not contain a secret. Errors do not show the value,
    /// in case it contains one anyway.
    Url,
    /// The name of an environment variable. An invalid name may be an API key, so errors never
    /// show it.
    EnvironmentVariable,
    Flag,
    Choice(Vec<String>),
    /// A whole number with a lower and an upper bound, both inclusive.
    Count(i64, i64),
    /// A number with a lower and an upper bound, both inclusive.
    Number(f64, f64),
    /// A number above 0, up to this bound.
    PositiveNumber(f64),
    /// A list of strings, each with this syntax.
    TextList(TextSyntax),
    Table(Vec<ConfigKey>),
    /// Tables under names that the user chooses.
    NamedTables(Vec<ConfigKey>),
    /// A list of tables: `[[KEY]]`.
    TableList(Vec<ConfigKey>),
    /// A table with arbitrary keys, such as a vendor's own fields.
    AnyTable,
}

/// The syntax of a list's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextSyntax {
    Any,
    /// A pattern for URLs that are allowed.
    AllowedUrl,
    /// A pattern for URLs that are denied.
    DeniedUrl,
    /// A private address that the proxy may connect to.
    PrivateAddress,
}

impl TextSyntax {
    fn check_text(self, text: &str) -> Result<(), String> {
        let checked = match self {
            Self::Any => return Ok(()),
            Self::AllowedUrl => {
                Pattern::parse_allow(text).map(drop).map_err(|error| error.to_string())
            }
            Self::DeniedUrl => {
                Pattern::parse_deny(text).map(drop).map_err(|error| error.to_string())
            }
            Self::PrivateAddress => {
                AddressException::parse(text).map(drop).map_err(|error| error.to_string())
            }
        };
        checked.map_err(|error| format!("{error} (docs/reference/egress.md)"))
    }
}

/// An error about a value, with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyError {
    pub message: String,
    pub hint: String,
}

impl KeyError {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

impl ValueKind {
    /// Checks the value itself. `walk.rs` checks the content of a table.
    pub fn check_value(&self, key: &ConfigKey, value: &Value) -> Result<(), KeyError> {
        match (self, value) {
            (Self::Text, Value::String(text)) if text.trim().is_empty() => {
                Err(KeyError::new("is empty", key.usage_hint()))
            }
            (Self::Url, Value::String(text)) => check_url(text),
            (Self::EnvironmentVariable, Value::String(text)) => check_variable_name(text),
            (Self::Choice(known), Value::String(text)) => check_choice(known, text),
            (Self::Count(least, most), Value::Integer(number)) => {
                if (least..=most).contains(&number) {
                    return Ok(());
                }
                let hint =
                    format!("must be a whole number from {least} to {most}; {}", key.usage_hint());
                Err(KeyError::new(format!("{number} is out of range"), hint))
            }
            (Self::Number(..) | Self::PositiveNumber(_), Value::Integer(number)) => {
                self.check_bounds(key, *number as f64)
            }
            (Self::Number(..) | Self::PositiveNumber(_), Value::Float(number)) => {
                self.check_bounds(key, *number)
            }
            (Self::TextList(form), Value::Array(items)) => {
                for item in items {
                    let Value::String(text) = item else {
                        let what = format!("contains {}, not text", describe_type(item));
                        return Err(KeyError::new(what, key.usage_hint()));
                    };
                    form.check_text(text).map_err(|why| KeyError::new(why, key.usage_hint()))?;
                }
                Ok(())
            }
            (Self::TableList(_), Value::Array(items)) => {
                match items.iter().find(|item| !item.is_table()) {
                    Some(item) => {
                        let what = format!("contains {}, not tables", describe_type(item));
                        Err(KeyError::new(what, key.usage_hint()))
                    }
                    None => Ok(()),
                }
            }
            (Self::Text, Value::String(_))
            | (Self::Flag, Value::Boolean(_))
            | (Self::Table(_) | Self::NamedTables(_) | Self::AnyTable, Value::Table(_)) => Ok(()),
            _ => {
                let what = format!("expected {}, found {}", self.type_name(), describe_type(value));
                Err(KeyError::new(what, self.hint(key)))
            }
        }
    }

    fn check_bounds(&self, key: &ConfigKey, number: f64) -> Result<(), KeyError> {
        let (fits, range) = match self {
            Self::Number(least, most) => {
                ((*least..=*most).contains(&number), format!("from {least} to {most}"))
            }
            Self::PositiveNumber(most) => {
                (number > 0.0 && number <= *most, format!("above 0, up to {most}"))
            }
            _ => (true, String::new()),
        };
        let what = match number.is_finite() {
            _ if fits => return Ok(()),
            true => format!("{number} is out of range"),
            false => format!("{number} is not a finite number"),
        };
        Err(KeyError::new(what, format!("must be a number {range}; {}", key.usage_hint())))
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Text | Self::Url | Self::EnvironmentVariable | Self::Choice(_) => "text",
            Self::Flag => "true or false",
            Self::Count(..) => "a whole number",
            Self::Number(..) | Self::PositiveNumber(_) => "a number",
            Self::TextList(_) => "a list of text",
            Self::Table(_) | Self::NamedTables(_) | Self::AnyTable => "a table",
            Self::TableList(_) => "a list of tables",
        }
    }

    fn hint(&self, key: &ConfigKey) -> String {
        match self {
            Self::Choice(known) => format!("use {}", list_choices(known)),
            _ => key.usage_hint(),
        }
    }
}

/// Describes a value in TOML's terms.
pub(crate) fn describe_type(value: &Value) -> &'static str {
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

/// Returns a value as the user wrote it, without quotes.
pub(crate) fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(display_value).collect::<Vec<_>>().join("+"),
        Value::Table(table) => {
            let pairs = table.iter().map(|(key, value)| format!("{key}={}", display_value(value)));
            pairs.collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

fn list_choices(choices: &[String]) -> String {
    format!("one of `{}`", choices.join("`, `"))
}

fn check_choice(choices: &[String], text: &str) -> Result<(), KeyError> {
    if choices.iter().any(|one| one == text) {
        return Ok(());
    }
    let hint = match closest_name(text, choices.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? Use {}", list_choices(choices)),
        None => format!("use {}", list_choices(choices)),
    };
    let shown: String = text.chars().take(40).collect();
    Err(KeyError::new(format!("invalid value `{shown}`"), hint))
}

fn check_url(text: &str) -> Result<(), KeyError> {
    const URL_HINT: &str = "use https://HOST/v1, or script:FILE for a scripted model";
    let text = text.trim();
    if let Some(file) = text.strip_prefix("script:") {
        let empty = KeyError::new("the script is missing", URL_HINT);
        return if file.is_empty() { Err(empty) } else { Ok(()) };
    }
    let authority = text.split_once("//").map_or(text, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') || text.contains(['?', '#']) {
        let hint = "put the key in an environment variable, set `key_env` to its name, and use a \
                    URL such as https://HOST/v1";
        return Err(KeyError::new(
            "contains a username, a password or a query (not shown here)",
            hint,
        ));
    }
    match url::Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(()),
        _ => Err(KeyError::new("not an http(s) URL", URL_HINT)),
    }
}

fn check_variable_name(text: &str) -> Result<(), KeyError> {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let named = text.starts_with(first) && text.chars().all(|c| first(c) || c.is_ascii_digit());
    if named {
        return Ok(());
    }
    let hint = "set it to the variable's name, as in `key_env = \"MY_KEY\"`, and put the key in \
                the environment: export MY_KEY=...";
    Err(KeyError::new("not a variable name (not shown here: it may be a key)", hint))
}
