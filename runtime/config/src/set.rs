//! Parses and applies `--set KEY=VALUE`, and formats keys the way `--set` expects them.

use proctor_types::count_with_noun;

use crate::UserError;

/// Applies one `KEY=VALUE` to a table and returns the parts of the key. Parts are separated by
/// dots. A part that contains dots must be in double quotes. A number selects an element of a
/// list.
pub fn apply_assignment(
    table: &mut toml::Table,
    assignment: &str,
) -> Result<Vec<String>, UserError> {
    let Some((key, text)) = assignment.split_once('=') else {
        return Err(UserError::new(format!("--set {assignment:?} has no `=`"))
            .hint("use --set KEY=VALUE, for example --set budget.steps=100"));
    };
    let key_parts = split_key(key);
    let Some((last, path)) = key_parts.split_last().filter(|(last, _)| !last.is_empty()) else {
        return Err(UserError::new(format!("--set {assignment:?} has no key"))
            .hint("use --set KEY=VALUE, for example --set budget.steps=100"));
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
                            .hint(format!(
                                "the list has {}; indices start at 0",
                                count_with_noun(length, "element")
                            ))
                    })?
            }
            _ => {
                return Err(UserError::new(format!("--set {key}: `{part}` is not a table"))
                    .hint(format!("set `{part}` itself, or fix it in the file")));
            }
        };
    }
    place.insert(last.clone(), value);
    Ok(key_parts)
}

fn split_key(key: &str) -> Vec<String> {
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

/// Parses the value as TOML. If that fails, the value is a string, so that `sandbox.kind=docker`
/// needs no quotes. Dates also become strings, because no key accepts a TOML date.
fn parse_value(text: &str) -> toml::Value {
    toml::from_str::<toml::Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .filter(|value| !value.is_datetime())
        .unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

/// Joins a path in the form used after `--set`. Parts with special characters are quoted.
pub(crate) fn join_key(path: &[&str]) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let part = |part: &&str| match part.chars().all(bare) && !part.is_empty() {
        true => (*part).to_owned(),
        false => format!("{part:?}"),
    };
    path.iter().map(part).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_assignment_reads_a_date_with_or_without_quotes_as_text() {
        for set in ["models.m.cutoff=2025-01-31", "models.m.cutoff=\"2025-01-31\""] {
            let mut table = toml::Table::new();
            apply_assignment(&mut table, set).unwrap();
            assert_eq!(table["models"]["m"]["cutoff"].as_str(), Some("2025-01-31"), "{set}");
        }
    }
}
