//! Content that a translation could not preserve.

use proctor_types::{Loss, LossKind};
use serde_json::{Map, Value};

/// The losses of one request or response, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses(Vec<Loss>);

impl Losses {
    pub fn dropped(&mut self, field: impl Into<String>) {
        self.add(LossKind::Dropped, field.into());
    }

    pub fn approximated(&mut self, field: impl Into<String>) {
        self.add(LossKind::Approximated, field.into());
    }

    pub fn withheld(&mut self, field: impl Into<String>) {
        self.add(LossKind::Withheld, field.into());
    }

    fn add(&mut self, kind: LossKind, field: String) {
        let loss = Loss { kind, field };
        if !self.0.contains(&loss) {
            self.0.push(loss);
        }
    }

    /// Reports every non-null field of `map` that is not `known` as dropped.
    pub fn unknown(&mut self, place: &str, map: &Map<String, Value>, known: &[&str]) {
        for (key, value) in map {
            if !known.contains(&key.as_str()) && !value.is_null() {
                self.dropped(format!("{place}{key}"));
            }
        }
    }

    pub fn into_vec(self) -> Vec<Loss> {
        self.0
    }
}
