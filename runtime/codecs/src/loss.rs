//! Content that a translation could not preserve.

use proctor_types::{FieldLoss, FieldLossKind};
use serde_json::{Map, Value};

/// The losses of one request or response, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses(Vec<FieldLoss>);

impl Losses {
    pub fn add_dropped(&mut self, field: impl Into<String>) {
        self.add(FieldLossKind::Dropped, field.into());
    }

    pub fn add_approximated(&mut self, field: impl Into<String>) {
        self.add(FieldLossKind::Approximated, field.into());
    }

    pub fn add_withheld(&mut self, field: impl Into<String>) {
        self.add(FieldLossKind::Withheld, field.into());
    }

    fn add(&mut self, kind: FieldLossKind, field: String) {
        let loss = FieldLoss { kind, field };
        if !self.0.contains(&loss) {
            self.0.push(loss);
        }
    }

    /// Reports every non-null field of `map` that is not `known_fields` as dropped.
    pub fn add_unknown_fields(
        &mut self,
        location: &str,
        map: &Map<String, Value>,
        known_fields: &[&str],
    ) {
        for (key, value) in map {
            if !known_fields.contains(&key.as_str()) && !value.is_null() {
                self.add_dropped(format!("{location}{key}"));
            }
        }
    }

    pub fn into_vec(self) -> Vec<FieldLoss> {
        self.0
    }
}
