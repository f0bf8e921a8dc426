//! Takes a row's fields one by one. A field may have several names.

use std::collections::BTreeMap;

use proctor_types::Details;
use serde_json::{Map, Value};

use super::{lists, shape::Shape};
use crate::errors::RowError;

/// A value and its name in the row.
pub(crate) struct NamedValue {
    pub name: String,
    pub value: Value,
}

impl NamedValue {
    pub(crate) fn error(&self, message: impl Into<String>) -> RowError {
        RowError::invalid_field(&self.name, message)
    }
}

/// The fields of a row that have not been taken yet.
pub(crate) struct RowFields<'a> {
    pub shape: &'a Shape,
    row: Map<String, Value>,
    /// Objects that the row contains as JSON text. Their members are accessed by dotted names and
    /// are never removed.
    json_objects: BTreeMap<String, Value>,
    /// The fields that were taken, each with its name in the row.
    pub taken_fields: BTreeMap<String, String>,
}

/// Maximum size of an unknown field that is kept, in bytes of JSON.
const MAX_UNKNOWN_FIELD_BYTES: usize = 2048;

impl<'a> RowFields<'a> {
    pub(crate) fn new(mut row: Map<String, Value>, shape: &'a Shape) -> Result<Self, RowError> {
        let mut inner = BTreeMap::new();
        for name in &shape.expand {
            if let Some(value) = row.remove(name) {
                let object = lists::parse_object(value)
                    .map_err(|what| RowError::invalid_field(name, what))?;
                inner.insert(name.clone(), object);
            }
        }
        Ok(Self { shape, row, json_objects: inner, taken_fields: BTreeMap::new() })
    }

    /// Takes the first of the field's names that exists and is not null.
    pub(crate) fn take_field(&mut self, field: &str) -> Option<NamedValue> {
        let found = self.take_first(self.shape.fields.get(field)?)?;
        self.taken_fields.insert(field.to_owned(), found.name.clone());
        Some(found)
    }

    fn take_first(&mut self, names: &[String]) -> Option<NamedValue> {
        names.iter().find_map(|name| {
            let value = self.take_by_name(name)?;
            Some(NamedValue { name: name.clone(), value })
        })
    }

    /// Takes a field by its name in the row.
    pub(crate) fn take_by_name(&mut self, name: &str) -> Option<Value> {
        let value = match name.split_once('.') {
            // Leave a null value in the row, so that the error about it can name the field.
            None if self.row.get(name).is_none_or(Value::is_null) => return None,
            None => self.row.swap_remove(name)?,
            Some((outer, path)) => {
                let mut value = self.json_objects.get(outer)?;
                for part in path.split('.') {
                    value = value.get(part)?;
                }
                value.clone()
            }
        };
        (!value.is_null()).then_some(value)
    }

    /// Whether the row has a non-empty field with this name.
    pub(crate) fn has_value(&self, name: &str) -> bool {
        self.row.get(name).is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
    }

    /// Returns the field's value without taking it: the first string under one of the field's names.
    pub(crate) fn peek(&self, field: &str) -> Option<String> {
        let names = self.shape.fields.get(field)?;
        names.iter().find_map(|name| Some(self.row.get(name)?.as_str()?.to_owned()))
    }

    /// Sets a field by its name in the row.
    pub(crate) fn set_field(&mut self, name: &str, value: String) {
        self.row.insert(name.to_owned(), Value::String(value));
    }

    /// Returns the name of the field in the row if its value is null.
    pub(crate) fn null_field(&self, field: &str) -> Option<&str> {
        let names = self.shape.fields.get(field)?;
        let is_null = |name: &&String| self.row.get(*name).is_some_and(Value::is_null);
        names.iter().find(is_null).map(String::as_str)
    }

    /// Takes an optional text.
    pub(crate) fn take_text(&mut self, field: &str) -> Result<Option<String>, RowError> {
        match self.take_field(field) {
            None => Ok(None),
            Some(NamedValue { value: Value::String(text), .. }) => Ok(Some(text)),
            Some(found) => {
                let what = format!("is {}, not text", lists::describe_type(&found.value));
                Err(found.error(what))
            }
        }
    }

    /// Removes and returns a required text field. Errors name the field as the row does.
    pub(crate) fn take_required_text(&mut self, field: &str) -> Result<String, RowError> {
        self.take_text(field)?.ok_or_else(|| self.missing_error(field))
    }

    pub(crate) fn missing_error(&self, field: &str) -> RowError {
        if let Some(name) = self.null_field(field) {
            return RowError::invalid_field(name, "is null");
        }
        // The field was taken, so it exists but is blank.
        if let Some(name) = self.taken_fields.get(field) {
            return RowError::invalid_field(name, "is empty");
        }
        let names = self.shape.fields.get(field);
        let name = names.and_then(|names| names.first()).map_or(field, String::as_str);
        RowError::invalid_field(name, "is missing")
    }

    pub(crate) fn take_list(&mut self, field: &str) -> Result<Option<Vec<String>>, RowError> {
        let Some(found) = self.take_field(field) else {
            return match self.null_field(field) {
                Some(name) => Err(RowError::invalid_field(name, "is null; expected a list")),
                None => Ok(None),
            };
        };
        let NamedValue { name, value } = found;
        lists::parse_strings(value).map(Some).map_err(|what| RowError::invalid_field(name, what))
    }

    /// Takes the fields that the shape keeps for grading, under the shape's own names.
    pub(crate) fn take_details(&mut self) -> Details {
        let shape = self.shape;
        let kept = |(name, aliases): (&String, &Vec<String>)| {
            Some((name.clone(), self.take_first(aliases)?.value))
        };
        Details::from(shape.details.iter().filter_map(kept).collect::<BTreeMap<_, _>>())
    }

    /// Returns the unused fields: short ones unchanged, and only the names of long ones.
    pub(crate) fn into_unused_fields(self) -> (Map<String, Value>, Vec<String>) {
        let mut kept = Map::new();
        let mut left_out = Vec::new();
        for (name, value) in self.row {
            if value.is_null() || self.shape.drop.contains(&name) {
                continue;
            }
            if is_short_value(&value) {
                kept.insert(name, value);
            } else {
                left_out.push(name);
            }
        }
        (kept, left_out)
    }
}

fn is_short_value(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= MAX_UNKNOWN_FIELD_BYTES,
        Value::Array(_) | Value::Object(_) => value.to_string().len() <= MAX_UNKNOWN_FIELD_BYTES,
        _ => true,
    }
}
