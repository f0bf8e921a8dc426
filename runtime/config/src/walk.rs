//! Checks a configuration against the table of keys, before any defaults are filled in.

use toml::{Table, Value};

use crate::{
    keys::TOP_LEVEL_KEYS,
    kind::{ConfigKey, KeyError, ValueKind, closest_name},
};

/// The first error, and the path of the key that has the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyProblem {
    pub path: Vec<String>,
    pub error: KeyError,
}

/// Whether required keys must be present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckExtent {
    Complete,
    /// Required keys may be missing, as in `resume --set`.
    Partial,
}

/// Checks every key and value, in the order of the tables in the file.
pub fn check_keys(table: &Table, extent: CheckExtent) -> Result<(), KeyProblem> {
    check_table(table, &TOP_LEVEL_KEYS, &mut Vec::new(), extent)
}

fn check_table(
    table: &Table,
    keys: &[ConfigKey],
    path: &mut Vec<String>,
    extent: CheckExtent,
) -> Result<(), KeyProblem> {
    for (name, value) in table {
        path.push(name.clone());
        let Some(key) = keys.iter().find(|key| key.name == *name) else {
            return Err(KeyProblem { error: unknown_key_error(name, keys), path: path.clone() });
        };
        key.kind
            .check_value(key, value)
            .map_err(|wrong| KeyProblem { path: path.clone(), error: wrong })?;
        check_content(&key.kind, value, path, extent)?;
        path.pop();
    }
    if extent == CheckExtent::Partial {
        return Ok(());
    }
    match keys.iter().find(|key| key.is_required && !table.contains_key(&key.name)) {
        Some(missing) => {
            path.push(missing.name.clone());
            let wrong = KeyError::new("is missing", missing.usage_hint());
            Err(KeyProblem { path: path.clone(), error: wrong })
        }
        None => Ok(()),
    }
}

fn check_content(
    kind: &ValueKind,
    value: &Value,
    path: &mut Vec<String>,
    extent: CheckExtent,
) -> Result<(), KeyProblem> {
    match (kind, value) {
        (ValueKind::Table(keys), Value::Table(table)) => check_table(table, keys, path, extent),
        (ValueKind::NamedTables(keys), Value::Table(tables)) => {
            for (name, value) in tables {
                path.push(name.clone());
                let Value::Table(table) = value else {
                    let wrong = KeyError::new(
                        "not a table",
                        format!("use [{}] with its keys below it", path.join(".")),
                    );
                    return Err(KeyProblem { path: path.clone(), error: wrong });
                };
                check_table(table, keys, path, extent)?;
                path.pop();
            }
            Ok(())
        }
        (ValueKind::TableList(keys), Value::Array(items)) => {
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
const RENAMED_KEYS: [(&str, &str); 1] = [("seal", "leak_check")];

/// Returns the error for an unknown key. If the key was renamed or belongs to another table, the
/// error says so. Otherwise, the error suggests the closest key of this table.
pub(crate) fn unknown_key_error(name: &str, keys: &[ConfigKey]) -> KeyError {
    let what = "unknown key";
    let names = || keys.iter().map(|key| key.name.as_str());
    if let Some((_, now)) =
        RENAMED_KEYS.iter().find(|(old, now)| *old == name && names().any(|key| key == *now))
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
    fn collect_tables(
        name: &str,
        keys: &[ConfigKey],
        table_path: &str,
        table_paths: &mut Vec<String>,
    ) {
        if !table_path.is_empty() && keys.iter().any(|key| key.name == name) {
            table_paths.push(format!("[{table_path}]"));
        }
        for key in keys {
            let dot = if table_path.is_empty() { "" } else { "." };
            match &key.kind {
                ValueKind::Table(keys) => collect_tables(
                    name,
                    keys,
                    &format!("{table_path}{dot}{}", key.name),
                    table_paths,
                ),
                ValueKind::NamedTables(keys) => {
                    collect_tables(
                        name,
                        keys,
                        &format!("{table_path}{dot}{}.NAME", key.name),
                        table_paths,
                    );
                }
                // Skip arms, whose tables are inherited from the top.
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    collect_tables(name, &TOP_LEVEL_KEYS, "", &mut found);
    found
}
