//! Reads `configs/tables/cluster.toml`.

use proctor_types::ShippedTable;
use serde::Deserialize;

use crate::EngineError;

/// Settings for submitting and monitoring workers. `configs/tables/cluster.toml` explains each value.
#[derive(Debug, Deserialize)]
pub struct ClusterSettings {
    pub poll_seconds: u64,
    pub answer_seconds: u64,
    pub drain_seconds: u64,
    pub requeues: u32,
    pub overhead_seconds: u64,
}

#[derive(Debug, Deserialize)]
struct ClusterFile {
    submit: ClusterSettings,
}

/// Returns the built-in settings.
///
/// # Errors
/// Returns an error if the settings cannot be parsed.
pub fn cluster_settings() -> Result<&'static ClusterSettings, EngineError> {
    static TABLE: ShippedTable<ClusterFile> = ShippedTable::new(
        "tables/cluster.toml",
        include_str!("../../../configs/tables/cluster.toml"),
    );
    TABLE.get().map(|whole| &whole.submit).map_err(EngineError::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_interval_is_at_least_fifteen_seconds() {
        assert!(cluster_settings().unwrap().poll_seconds >= 15);
    }
}
