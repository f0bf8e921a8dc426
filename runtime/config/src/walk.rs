//! Checks a configuration against the table of keys, before any defaults are filled in.

use toml::{Table, Value};

use crate::{
    keys::TOP_LEVEL_KEYS,
    kind::{Key, KeyError, Kind, closest_name},
};

/// The first error, and the path of the key that has the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub path: Vec<String>,
    pub wrong: KeyError,
}

/// Whether required keys must be present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// Required keys may be missing, as in `resume --set`.
    Part,
}

/// Checks every key and value, in the order of the tables in the file.
pub fn check_keys(table: &Table, extent: Extent) -> Result<(), Problem> {
    check_table(table, &TOP_LEVEL_KEYS, &mut Vec::new(), extent)
}

fn check_table(
    table: &Table,
    keys: &[Key],
    path: &mut Vec<String>,
    extent: Extent,
) -> Result<(), Problem> {
    for (name, value) in table {
        path.push(name.clone());
        let Some(key) = keys.iter().find(|key| key.name == *name) else {
            return Err(Problem { wrong: unknown_key_error(name, keys), path: path.clone() });
        };
        key.kind.check(key, value).map_err(|wrong| Problem { path: path.clone(), wrong })?;
        check_content(&key.kind, value, path, extent)?;
        path.pop();
    }
    if extent == Extent::Part {
        return Ok(());
    }
    match keys.iter().find(|key| key.required && !table.contains_key(&key.name)) {
        Some(missing) => {
            path.push(missing.name.clone());
            let wrong = KeyError::new("is missing", missing.usage_hint());
            Err(Problem { path: path.clone(), wrong })
        }
        None => Ok(()),
    }
}

fn check_content(
    kind: &Kind,
    value: &Value,
    path: &mut Vec<String>,
    extent: Extent,
) -> Result<(), Problem> {
    match (kind, value) {
        (Kind::Table(keys), Value::Table(table)) => check_table(table, keys, path, extent),
        (Kind::Named(keys), Value::Table(tables)) => {
            for (name, value) in tables {
                path.push(name.clone());
                let Value::Table(table) = value else {
                    let wrong = KeyError::new(
                        "not a table",
                        format!("use [{}] with its keys below it", path.join(".")),
                    );
                    return Err(Problem { path: path.clone(), wrong });
                };
                check_table(table, keys, path, extent)?;
                path.pop();
            }
            Ok(())
        }
        (Kind::Rows(keys), Value::Array(items)) => {
            for (index, table) in items.iter().filter_map(Value::as_table).enumerate() {
                path.push(index.to_string());
                check_table(table, keys, path, extent)?;
                path.pop();
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Renamed keys and their new names.
const RENAMED: [(&str, &str); 1] = [("seal", "leak_check")];

/// Returns the error for an unknown key. If the key was renamed or belongs to another table, the
/// error says so. Otherwise, the error suggests the closest key of this table.
pub(crate) fn unknown_key_error(name: &str, keys: &[Key]) -> KeyError {
    let what = "unknown key";
    let names = || keys.iter().map(|key| key.name.as_str());
    if let Some((_, now)) =
        RENAMED.iter().find(|(old, now)| *old == name && names().any(|key| key == *now))
    {
        return KeyError::new(
            format!("renamed to `{now}`"),
            format!("use `{now}` instead; its keys have not changed"),
        );
    }
    let known: Vec<_> = names().collect();
    let known = format!("known keys: {}", known.join(", "));
    let homes = tables_with_key(name);
    if !homes.is_empty() {
        return KeyError::new(what, format!("it belongs to {}; {known}", homes.join(" or ")));
    }
    match closest_name(name, names()) {
        Some(near) => KeyError::new(what, format!("did you mean `{near}`? {known}")),
        None => KeyError::new(what, known),
    }
}

/// Returns the tables that have a key with this name.
fn tables_with_key(name: &str) -> Vec<String> {
    fn find(name: &str, keys: &[Key], place: &str, found: &mut Vec<String>) {
        if !place.is_empty() && keys.iter().any(|key| key.name == name) {
            found.push(format!("[{place}]"));
        }
        for key in keys {
            let dot = if place.is_empty() { "" } else { "." };
            match &key.kind {
                Kind::Table(keys) => find(name, keys, &format!("{place}{dot}{}", key.name), found),
                Kind::Named(keys) => {
                    find(name, keys, &format!("{place}{dot}{}.NAME", key.name), found);
                }
                // Skip arms, whose tables are inherited from the top.
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    find(name, &TOP_LEVEL_KEYS, "", &mut found);
    found
}
