//! Reads the thresholds in `configs/tables/content-match.toml`.

use proctor_types::{Fault, FaultLayer, ShippedTable};
use proctor_wire::ScanLimits;
use serde::Deserialize;

/// The content of `configs/tables/content-match.toml`. Comments in that file explain the keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub rare_lines: usize,
    pub line_bytes: usize,
    pub interface: Vec<String>,
    pub least_runs: usize,
    pub share: f64,
    pub few_runs: usize,
    pub enough_runs: usize,
    pub limits: Limits,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    pub answer_bytes: usize,
    pub answers_bytes: usize,
    pub answers_kept: usize,
    pub expanded_bytes: u64,
    pub depth: u32,
    pub file_bytes: u64,
    pub shown: usize,
}

static SETTINGS: ShippedTable<Settings> = ShippedTable::new(
    "tables/content-match.toml",
    include_str!("../../../../configs/tables/content-match.toml"),
);

impl Settings {
    pub(super) fn get() -> Result<&'static Self, Fault> {
        SETTINGS.get().map_err(|error| Fault::new(FaultLayer::Grade, error))
    }

    /// Returns how many distinct runs must be found for a match if the solution has `run_count`
    /// runs.
    pub(super) fn required_runs(&self, run_count: usize) -> usize {
        let share = (run_count as f64 * self.share).ceil() as usize;
        share.max(self.few_runs).min(self.enough_runs).min(run_count)
    }

    pub(super) fn scan_limits(&self) -> ScanLimits {
        let Limits { expanded_bytes, depth, file_bytes, .. } = self.limits;
        ScanLimits { file_bytes, expanded_bytes, depth, entries: 1, findings: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_fraction_depends_on_the_solution_length() {
        let settings = Settings::get().unwrap();
        let needs = [2, 4, 5, 30, 1000].map(|all| settings.required_runs(all));
        assert_eq!(needs, [2, 4, 4, 6, 40]);
    }
}
