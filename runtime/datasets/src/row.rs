//! Parses one row from JSON to a task. Errors name the field.

use proctor_types::{TASK_SCHEMA_VERSION, Task, rewrite_library_errors};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    errors::{RowError, nearest_key},
    rules,
};

/// The allowed and required keys of each form of `source`. Serde's error for an untagged enum names
/// neither the key nor the variant, so the form is determined with this table first.
const SOURCE_FORMS: [(&str, &[&str], &[&str]); 4] = [
    ("pypi", &["pypi", "version", "sha256"], &["pypi", "version", "sha256"]),
    ("path", &["path"], &["path"]),
    ("archive", &["archive"], &["archive", "sha256"]),
    ("git", &["git", "commit"], &["git", "commit"]),
];

/// Parses one task in Proctor's own format.
///
/// # Errors
/// All errors in the row as `(field, what)`. The field is a dotted path, or `None` if the text is
/// not JSON.
pub fn parse_task(text: &str) -> Result<Task, Vec<(Option<String>, String)>> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| vec![(None, format!("not JSON: {error}"))])?;
    task_from_value(value).map_err(|all| {
        all.into_iter().map(|complaint| (complaint.field, complaint.message)).collect()
    })
}

pub(crate) fn task_from_value(mut value: Value) -> Result<Task, Vec<RowError>> {
    let Some(object) = value.as_object() else {
        return Err(vec![RowError::invalid_row("a task must be a JSON object")]);
    };
    match object.get("schema_version").map(|version| (version, version.as_u64())) {
        Some((_, Some(version))) if version == u64::from(TASK_SCHEMA_VERSION) => {}
        Some((version, _)) => {
            return Err(vec![RowError::invalid_field(
                "schema_version",
                format!("is {version}, but this version of Proctor reads {TASK_SCHEMA_VERSION}"),
            )]);
        }
        None => {
            return Err(vec![RowError::invalid_field(
                "schema_version",
                format!("is missing; add `\"schema_version\": {TASK_SCHEMA_VERSION}`"),
            )]);
        }
    }
    if let Some(source) = object.get("source") {
        check_source(source).map_err(|complaint| vec![complaint])?;
    }
    let stands_on = |key: &str| object.get("environment").is_some_and(|it| it.get(key).is_some());
    if !object.contains_key("workdir") && (stands_on("image") || stands_on("dockerfile")) {
        // An empty path stands for the image's work directory, which is only known once the image
        // is available.
        if let Some(object) = value.as_object_mut() {
            object.insert("workdir".to_owned(), Value::String(String::new()));
        }
    }
    let task: Task = deserialize_value(value).map_err(|complaint| vec![complaint])?;
    let complaints = rules::check_task(&task);
    if complaints.is_empty() { Ok(task) } else { Err(complaints) }
}

/// Deserializes a value. An error contains the path of the field and, for an unknown key, the most
/// similar known key.
pub(crate) fn deserialize_value<T: DeserializeOwned>(value: Value) -> Result<T, RowError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        if let Some(key) = quoted_key(&message, "unknown field `") {
            let known = known_keys(&message);
            return unknown_key_error(&field_path(&path, key), key, &known);
        }
        if let Some(key) = quoted_key(&message, "missing field `") {
            return RowError::invalid_field(field_path(&path, key), "is missing");
        }
        let message = rewrite_library_errors(&message);
        if path == "." {
            RowError::invalid_row(message)
        } else {
            RowError::invalid_field(path, message)
        }
    })
}

fn unknown_key_error(path: &str, key: &str, known_keys: &[&str]) -> RowError {
    let hint = match nearest_key(key, known_keys.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known keys: {}", known_keys.join(", ")),
    };
    RowError::invalid_field(path, format!("is an unknown key; {hint}"))
}

/// Returns the full path of a field. `serde_path_to_error` includes an unknown field in the path,
/// but not a missing one.
fn field_path(path: &str, key: &str) -> String {
    if path == "." || path == key {
        key.to_owned()
    } else if path.ends_with(&format!(".{key}")) {
        path.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn quoted_key<'a>(message: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = message.strip_prefix(prefix)?;
    rest.split_once('`').map(|(key, _)| key)
}

/// Returns the names between backticks after `expected`.
fn known_keys(message: &str) -> Vec<&str> {
    let Some((_, list)) = message.split_once("expected ") else { return Vec::new() };
    list.split('`').skip(1).step_by(2).collect()
}

fn check_source(source: &Value) -> Result<(), RowError> {
    let Some(object) = source.as_object() else {
        return Err(RowError::invalid_field(
            "source",
            "must be an object: {\"path\": ...}, {\"pypi\": ...}, ...",
        ));
    };
    let mut forms = SOURCE_FORMS.iter().filter(|(name, ..)| object.contains_key(*name));
    let (form, needed, known) = match (forms.next(), forms.next()) {
        (Some(form), None) => form,
        (Some((one, ..)), Some((two, ..))) => {
            return Err(RowError::invalid_field(
                "source",
                format!("has both `{one}` and `{two}`; keep one"),
            ));
        }
        (None, _) => {
            let hint = object
                .keys()
                .find_map(|key| {
                    nearest_key(key, SOURCE_FORMS.iter().map(|(name, ..)| *name))
                        .map(|near| format!("did you mean `{near}` instead of `{key}`?"))
                })
                .unwrap_or_else(|| "use one of `path`, `archive`, `pypi`, `git`".to_owned());
            return Err(RowError::invalid_field("source", format!("is not a source type; {hint}")));
        }
    };
    for (key, value) in object {
        if !known.contains(&key.as_str()) {
            return Err(unknown_key_error(&format!("source.{key}"), key, known));
        }
        if !value.is_string() {
            return Err(RowError::invalid_field(format!("source.{key}"), "must be text"));
        }
    }
    match needed.iter().find(|key| !object.contains_key(**key)) {
        Some(key) => Err(RowError::invalid_field(
            format!("source.{key}"),
            format!("is required with `{form}`"),
        )),
        None => Ok(()),
    }
}
