//! Changes that the gateway made to the requests of a trial.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{FieldLoss, FieldLossKind};

/// Number of changed requests, by change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestChanges {
    /// Repairs of requests whose format the endpoint rejected, by their names in
    /// `configs/tables/repairs.toml`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repairs: BTreeMap<String, u64>,
    /// Fields that were lost because the endpoint's format does not have them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub losses: BTreeMap<String, u64>,
}

impl RequestChanges {
    /// Whether there were no changes.
    pub fn is_empty(&self) -> bool {
        self.repairs.is_empty() && self.losses.is_empty()
    }

    /// Counts the repairs of one request.
    pub fn add_repairs(&mut self, repairs: &[String]) {
        for repair in repairs {
            *self.repairs.entry(repair.clone()).or_default() += 1;
        }
    }

    /// Counts the losses of one request. A field that was withheld on purpose is not a loss.
    pub fn add_losses(&mut self, losses: &[FieldLoss]) {
        for loss in losses.iter().filter(|loss| loss.kind != FieldLossKind::Withheld) {
            *self.losses.entry(loss.field.clone()).or_default() += 1;
        }
    }

    /// Adds the counts of another trial, or of the same one before it was interrupted.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.repairs {
            *self.repairs.entry(name.clone()).or_default() += count;
        }
        for (name, count) in &other.losses {
            *self.losses.entry(name.clone()).or_default() += count;
        }
    }
}
