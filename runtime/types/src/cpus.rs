//! Variables that tell programs how many CPUs a sandbox has. A quota is not a set of CPUs: programs
//! that ask the kernel get the machine's number.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ShippedTable;

static TABLE: ShippedTable<CpuTable> =
    ShippedTable::new("cpus.toml", include_str!("../../../configs/cpus.toml"));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuTable {
    variables: BTreeMap<String, String>,
}

/// The variables for a quota of CPUs, rounded up.
///
/// # Errors
/// The built-in table cannot be read; the error starts with its file.
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
    let told = table.variables.iter();
    Ok(told.map(|(name, value)| (name.clone(), value.replace("{cpus}", &count))).collect())
}
