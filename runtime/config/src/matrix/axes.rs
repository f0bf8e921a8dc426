//! Reads the keys of a matrix: the factor that each key refers to, and the values to cross.

use proctor_types::ModelSpec;
use toml::{Table, Value};

use crate::{
    keys::TOP_LEVEL_KEYS,
    kind::{ConfigKey, KeyError, ValueKind, describe_type, display_value},
    source::ConfigSource,
    walk::{KeyProblem, unknown_key_error},
};

/// The keys of `[matrix]` that are not factors.
const RESERVED_KEYS: [&str; 2] = ["include", "exclude"];

/// The factor that a matrix key refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FactorKey {
    /// A path below the arm.
    Arm(Vec<String>),
    /// A key of the arm's model, either of any model (`model.temperature`) or of a specific one
    /// (`models.NAME.temperature`).
    Model { model: Option<String>, key: String },
}

impl FactorKey {
    pub(super) fn is_arm(&self, keys: &[&str]) -> bool {
        matches!(self, Self::Arm(path) if path.iter().eq(keys))
    }
}

/// A factor and the values to cross.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) factor: FactorKey,
    pub(super) path: Vec<String>,
    pub(super) values: Vec<Value>,
}

/// One value of an axis, or one key of an `include`.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) factor: FactorKey,
    pub(super) value: Value,
    /// The parts of the key as written, starting with `matrix`.
    pub(super) path: Vec<String>,
    pub(super) label: Option<String>,
}

/// Returns the axes of a matrix in the order in which they are written. Axes that exist only in
/// `--set` come last.
pub(super) fn parse_axes(matrix: &Table, source: &ConfigSource) -> Result<Vec<Axis>, KeyProblem> {
    let mut axes = Vec::new();
    for (name, value) in matrix.iter().filter(|(name, _)| !RESERVED_KEYS.contains(&name.as_str())) {
        collect_axes(vec!["matrix".into(), name.clone()], value, &mut axes)?;
    }
    axes.sort_by_key(|axis| source.sort_key(&axis.path).unwrap_or((usize::MAX, usize::MAX)));
    let twice = axes
        .iter()
        .enumerate()
        .find(|(index, axis)| axes.iter().take(*index).any(|before| before.factor == axis.factor));
    if let Some((_, axis)) = twice {
        let wrong = KeyError::new("crossed twice", "use the key once, with all of its values");
        return Err(KeyProblem { path: axis.path.clone(), error: wrong });
    }
    Ok(axes)
}

/// Collects the axes below a key. `budget.steps = [...]` is a nested table and `"budget.steps" =
/// [...]` a single key; both mean the same.
fn collect_axes(
    key_path: Vec<String>,
    value: &Value,
    axes: &mut Vec<Axis>,
) -> Result<(), KeyProblem> {
    match value {
        Value::Table(table) if !table.is_empty() => {
            for (name, value) in table {
                collect_axes([key_path.clone(), vec![name.clone()]].concat(), value, axes)?;
            }
            Ok(())
        }
        Value::Array(values) => {
            let problem = |wrong| KeyProblem { path: key_path.clone(), error: wrong };
            let place = parse_factor_key(&key_path[1..]).map_err(problem)?;
            if values.is_empty() {
                let wrong = KeyError::new("no values", "add at least one value, or remove the key");
                return Err(KeyProblem { path: key_path, error: wrong });
            }
            for (index, value) in values.iter().enumerate() {
                if values[..index].iter().any(|before| values_equal(before, value)) {
                    let what = format!("duplicate value `{}`", display_value(value));
                    let hint = "remove one of the values; use `attempts` to repeat an arm";
                    return Err(KeyProblem { path: key_path, error: KeyError::new(what, hint) });
                }
            }
            axes.push(Axis { factor: place, path: key_path, values: values.clone() });
            Ok(())
        }
        other => {
            let place = parse_factor_key(&key_path[1..]);
            let wrong = match place {
                Err(wrong) => wrong,
                Ok(_) => KeyError::new(
                    format!("expected a list of values, found {}", describe_type(other)),
                    format!("put the values between brackets, as in [{other}]"),
                ),
            };
            Err(KeyProblem { path: key_path, error: wrong })
        }
    }
}

/// Returns the factor that a key refers to. A part that contains dots is equivalent to nested
/// tables.
pub(super) fn parse_factor_key(key_parts: &[String]) -> Result<FactorKey, KeyError> {
    // A quoted model name may contain dots.
    if let [models, name, key] = key_parts
        && models == "models"
    {
        return model_factor(Some(name.clone()), key);
    }
    let path: Vec<String> =
        key_parts.iter().flat_map(|part| part.split('.')).map(str::to_owned).collect();
    match &path[..] {
        [first, name @ .., key] if first == "models" && !name.is_empty() => {
            model_factor(Some(name.join(".")), key)
        }
        [first, key] if first == "model" => model_factor(None, key),
        _ => {
            check_arm_path(&path, arm_keys())?;
            Ok(FactorKey::Arm(path))
        }
    }
}

fn model_factor(model: Option<String>, key: &str) -> Result<FactorKey, KeyError> {
    let keys = table_keys("models");
    if !keys.iter().any(|known| known.name == *key) {
        return Err(unknown_key_error(key, keys));
    }
    if ModelSpec::NON_FACTOR_KEYS.contains(&key) {
        let hint = "give each model its own table, and cross `model`";
        return Err(KeyError::new("not a factor, so it cannot distinguish two arms", hint));
    }
    Ok(FactorKey::Model { model, key: key.to_owned() })
}

/// Rejects keys that arms do not have, and suggests the nearest key.
fn check_arm_path(path: &[String], keys: &[ConfigKey]) -> Result<(), KeyError> {
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    let key = match keys.iter().find(|key| key.name == *first) {
        Some(key) if key.name == "name" => {
            let hint = "arm names are generated from the values that differ; set `name` in [[matrix.include]]";
            return Err(KeyError::new("not a factor of an arm", hint));
        }
        Some(key) => key,
        None if TOP_LEVEL_KEYS.iter().any(|key| key.name == *first) => {
            let hint =
                "a matrix crosses keys of [[arms]], such as scaffold, model, \"budget.steps\"";
            return Err(KeyError::new("not a factor of an arm", hint));
        }
        None if table_keys("models").iter().any(|key| key.name == *first) => {
            let hint = format!("did you mean \"model.{first}\"?");
            return Err(KeyError::new("not a key of an arm", hint));
        }
        None => return Err(unknown_arm_key(first, keys)),
    };
    match &key.kind {
        _ if rest.is_empty() => Ok(()),
        ValueKind::Table(keys) => check_arm_path(rest, keys),
        ValueKind::AnyTable => Ok(()),
        _ => Err(KeyError::new(format!("`{first}` is not a table"), key.usage_hint())),
    }
}

/// Returns the error for an unknown arm key. If the key belongs to one of an arm's tables,
/// suggests that table.
fn unknown_arm_key(name: &str, keys: &[ConfigKey]) -> KeyError {
    let home = keys.iter().find_map(|key| match &key.kind {
        ValueKind::Table(inner) if inner.iter().any(|one| one.name == name) => Some(&key.name),
        _ => None,
    });
    match home {
        Some(home) => {
            KeyError::new("not a key of an arm", format!("did you mean \"{home}.{name}\"?"))
        }
        None => unknown_key_error(name, keys),
    }
}

fn arm_keys() -> &'static [ConfigKey] {
    table_keys("arms")
}

/// Returns the keys of a top-level list of tables or of top-level named tables.
fn table_keys(name: &str) -> &'static [ConfigKey] {
    match TOP_LEVEL_KEYS.iter().find(|key| key.name == name).map(|key| &key.kind) {
        Some(ValueKind::TableList(keys) | ValueKind::NamedTables(keys)) => keys,
        _ => &[],
    }
}

/// Returns every value of a table that is not a table itself, with its path. Nested tables are
/// searched, too.
pub(super) fn flatten_table(table: &Table) -> Vec<(Vec<String>, Value)> {
    let mut out = Vec::new();
    for (name, value) in table {
        match value {
            Value::Table(inner) if !inner.is_empty() => {
                let below = flatten_table(inner).into_iter();
                out.extend(below.map(|(path, value)| ([vec![name.clone()], path].concat(), value)));
            }
            value => out.push((vec![name.clone()], value.clone())),
        }
    }
    out
}

/// Merges a value into a table. Tables merge key by key; any other value is replaced.
pub(super) fn merge_value(table: &mut Table, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    match (rest.is_empty(), value) {
        (true, Value::Table(value)) if table.get(first).is_some_and(Value::is_table) => {
            for (key, value) in value {
                if let Some(Value::Table(inner)) = table.get_mut(first) {
                    merge_value(inner, &[key], value);
                }
            }
        }
        (true, value) => drop(table.insert(first.clone(), value)),
        (false, value) => {
            let inner = table.entry(first.clone()).or_insert_with(|| Table::new().into());
            if !inner.is_table() {
                *inner = Table::new().into();
            }
            if let Value::Table(inner) = inner {
                merge_value(inner, rest, value);
            }
        }
    }
}

/// Whether two values are equal, treating 1 and 1.0 as equal.
pub(super) fn values_equal(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// Lists values in a sentence.
pub(super) fn list_values(values: &[Value]) -> String {
    values.iter().map(|value| format!("`{}`", display_value(value))).collect::<Vec<_>>().join(", ")
}
