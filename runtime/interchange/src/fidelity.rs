//! Counts and reports the data that a format cannot represent.

use proctor_types::{Envelope, ShippedTable};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Format;

static OMISSION_TABLE: ShippedTable<OmissionTable> = ShippedTable::new(
    "tables/left-out.toml",
    include_str!("../../../configs/tables/left-out.toml"),
);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OmissionTable {
    left_out: Vec<OmissionRule>,
}

/// A kind of event that a format cannot represent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OmissionRule {
    formats: Vec<String>,
    event: String,
    /// If set, an event counts as left out only if it has this field.
    #[serde(default)]
    with: Option<String>,
    what: String,
}

/// The content of `fidelity.json`: what an export or import contains, and what was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fidelity {
    /// The format.
    pub format: &'static str,
    /// Number of trials that were written.
    pub trials: u64,
    /// Data from the exported trials that the format cannot represent, so that no file contains it.
    pub left_out: Vec<Omission>,
    /// Data that is missing from the imported files, although records should contain it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_in_source: Vec<Omission>,
    /// Trials that were not written, each with the reason.
    pub not_written: Vec<String>,
}

/// One kind of omitted data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Omission {
    /// A description of the data.
    pub what: String,
    /// How many times the data was omitted.
    pub count: u64,
}

impl Fidelity {
    pub fn new(format: Format) -> Self {
        Self {
            format: format.name(),
            trials: 0,
            left_out: Vec::new(),
            not_in_source: Vec::new(),
            not_written: Vec::new(),
        }
    }

    /// Counts the data that is left out of a trial.
    ///
    /// # Errors
    /// Returns an error if the built-in table cannot be read.
    pub fn record_trial(&mut self, events: &[Envelope]) -> Result<(), String> {
        self.trials += 1;
        for event in events {
            let fields = serde_json::to_value(event).map_err(|error| error.to_string())?;
            for row in OMISSION_TABLE
                .get()?
                .left_out
                .iter()
                .filter(|row| row.matches(self.format, &fields))
            {
                self.record_omission(&row.what, 1);
            }
        }
        Ok(())
    }

    /// Counts data that the format changed or left out.
    pub fn record_omission(&mut self, data: &str, count: u64) {
        add_omission(&mut self.left_out, data, count);
    }

    /// Counts data that is missing from an imported file.
    pub fn record_missing(&mut self, data: &str, count: u64) {
        add_omission(&mut self.not_in_source, data, count);
    }
}

fn add_omission(omissions: &mut Vec<Omission>, data: &str, count: u64) {
    match omissions.iter_mut().find(|one| one.what == data) {
        _ if count == 0 => {}
        Some(one) => one.count += count,
        None => omissions.push(Omission { what: data.to_owned(), count }),
    }
}

impl OmissionRule {
    fn matches(&self, format: &str, event: &Value) -> bool {
        let has = |field: &String| !event[field.as_str()].is_null();
        self.formats.iter().any(|one| one == format)
            && event["kind"] == self.event.as_str()
            && self.with.as_ref().is_none_or(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_out_table_names_existing_formats_and_events() {
        let kinds = include_str!("../../types/src/event.rs");
        for row in &OMISSION_TABLE.get().unwrap().left_out {
            for format in &row.formats {
                assert!(Format::ALL.iter().any(|one| one.name() == format), "{row:?}");
            }
            let kind: String =
                row.event.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
            assert!(kinds.contains(&format!("\n    {kind}")), "no event is named {}", row.event);
        }
    }
}
