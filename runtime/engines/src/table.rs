//! Reads `configs/cluster.toml`.

use proctor_types::ShippedTable;
use serde::Deserialize;

use crate::EngineError;

/// Settings for submitting and monitoring workers. `configs/cluster.toml` explains each value.
#[derive(Debug, Deserialize)]
pub struct Table {
    pub poll_seconds: u64,
    pub answer_seconds: u64,
    pub drain_seconds: u64,
    pub requeues: u32,
    pub overhead_seconds: u64,
}

#[derive(Debug, Deserialize)]
struct Whole {
    submit: Table,
}

/// Returns the built-in settings.
///
/// # Errors
/// Returns an error if they cannot be parsed.
pub fn table() -> Result<&'static Table, EngineError> {
    static TABLE: ShippedTable<Whole> =
        ShippedTable::new("cluster.toml", include_str!("../../../configs/cluster.toml"));
    TABLE.get().map(|whole| &whole.submit).map_err(EngineError::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_queries_the_scheduler_at_most_every_fifteen_seconds() {
        assert!(table().unwrap().poll_seconds >= 15);
    }
}
