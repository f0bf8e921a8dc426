//! `--set KEY=VALUE`, and the nearest known key of an error.

use crate::error::UserError;

/// Lays one `KEY=VALUE` over a table. Parts of the key are divided by dots, a part with dots of its
/// own stands in double quotes; a number picks an element of a list.
pub fn lay(table: &mut toml::Table, set: &str) -> Result<(), UserError> {
    let Some((key, text)) = set.split_once('=') else {
        return Err(UserError::new(format!("--set {set:?} has no `=`"))
            .mend("write --set budget.steps=100"));
    };
    let parts = split(key);
    let Some((last, path)) = parts.split_last().filter(|(last, _)| !last.is_empty()) else {
        return Err(UserError::new(format!("--set {set:?} has no key")));
    };
    let value = parse_value(text);
    let mut place = table;
    let mut parts = path.iter();
    while let Some(part) = parts.next() {
        let next =
            place.entry(part.clone()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        place = match next {
            toml::Value::Table(table) => table,
            toml::Value::Array(items) => {
                let index = parts.next().unwrap_or(last);
                let length = items.len();
                index
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get_mut(index))
                    .and_then(toml::Value::as_table_mut)
                    .ok_or_else(|| {
                        UserError::new(format!("--set {key}: `{part}` has no element `{index}`"))
                            .mend(format!("it has {length}, counted from 0"))
                    })?
            }
            _ => return Err(UserError::new(format!("--set {key}: `{part}` is not a table"))),
        };
    }
    place.insert(last.clone(), value);
    Ok(())
}

fn split(key: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for c in key.trim().chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            c => {
                if let Some(part) = parts.last_mut() {
                    part.push(c);
                }
            }
        }
    }
    parts
}

/// TOML where it is TOML; else the text itself, so that `sandbox.kind=docker` needs no quotes.
fn parse_value(text: &str) -> toml::Value {
    toml::from_str::<toml::Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

/// The nearest of the names that serde lists in "unknown field `x`, expected one of `a`, `b`".
pub fn nearest_named_in(message: &str) -> Option<String> {
    let mut names = message.split('`').skip(1).step_by(2);
    if !message.starts_with("unknown ") {
        return None;
    }
    let wrong = names.next()?;
    // The message lists all that are known: a guess that is not near is worse than none.
    names
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.6)
        .map(|(_, name)| name.to_owned())
}
