//! Decides what `resume` does with an interrupted trial, as configured in
//! `configs/tables/interrupted.toml`.

use std::collections::BTreeMap;

use proctor_scaffold_api::Scaffold;
use proctor_types::{Fault, FaultCause, FaultLayer, ShippedTable};
use serde::Deserialize;

const SHIPPED_TOML: &str = include_str!("../../../configs/tables/interrupted.toml");

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum InterruptedPolicy {
    Continue,
    Restart,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InterruptedTable {
    default: InterruptedPolicy,
    scaffolds: BTreeMap<String, InterruptedPolicy>,
}

impl InterruptedPolicy {
    fn for_scaffold(scaffold: &str) -> Result<Self, Fault> {
        static TABLE: ShippedTable<InterruptedTable> =
            ShippedTable::new("tables/interrupted.toml", SHIPPED_TOML);
        let table = TABLE
            .get()
            .map_err(|error| Fault::new(FaultLayer::Setup, error).cause(FaultCause::Invalid))?;
        Ok(table.scaffolds.get(scaffold).copied().unwrap_or(table.default))
    }
}

/// Whether an interrupted trial of the scaffold can be resumed.
///
/// # Errors
/// Fails if the built-in table is invalid.
pub(crate) fn can_resume(scaffold: &dyn Scaffold) -> Result<bool, Fault> {
    Ok(scaffold.is_resumable()
        && InterruptedPolicy::for_scaffold(scaffold.name())? == InterruptedPolicy::Continue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn can_resume_is_true_only_for_host_loops() {
        for (scaffold, then) in [
            ("tools", InterruptedPolicy::Continue),
            ("bash", InterruptedPolicy::Continue),
            ("claude-code", InterruptedPolicy::Restart),
            ("replay", InterruptedPolicy::Restart),
        ] {
            assert_eq!(InterruptedPolicy::for_scaffold(scaffold).unwrap(), then, "{scaffold}");
        }
    }
}
