//! Environment variables that tell programs how many CPUs a sandbox has. The CPU limit is a quota,
//! so programs that ask the kernel see all CPUs of the machine.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ShippedTable;

static TABLE: ShippedTable<CpuTable> =
    ShippedTable::new("tables/cpus.toml", include_str!("../../../configs/tables/cpus.toml"));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuTable {
    variables: BTreeMap<String, String>,
}

/// Returns the variables for a CPU quota, which is rounded up to a whole number.
///
/// # Errors
/// Fails if the built-in table is invalid. The error starts with the table's file name.
///
/// ```
/// let variables = proctor_types::cpu_variables(1.5)?;
/// assert_eq!(variables["OMP_NUM_THREADS"], "2");
/// assert_eq!(variables["MAKEFLAGS"], "-j2");
/// # Ok::<(), String>(())
/// ```
pub fn cpu_variables(cpus: f64) -> Result<BTreeMap<String, String>, String> {
    let count = cpus.ceil().max(1.0).to_string();
    let table = TABLE.get()?;
    let variables = table.variables.iter();
    Ok(variables.map(|(name, value)| (name.clone(), value.replace("{cpus}", &count))).collect())
}
