//! Reads `configs/cluster.toml`.

use proctor_types::ShippedTable;
use serde::Deserialize;

use crate::EngineError;

/// How workers are submitted and watched. The file explains each value.
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

/// The built-in table.
///
/// # Errors
/// It can't be read.
pub fn table() -> Result<&'static Table, EngineError> {
    static TABLE: ShippedTable<Whole> =
        ShippedTable::new("cluster.toml", include_str!("../../../configs/cluster.toml"));
    TABLE.get().map(|whole| &whole.submit).map_err(EngineError::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_is_asked_at_most_every_fifteen_seconds() {
        assert!(table().unwrap().poll_seconds >= 15);
    }
}
