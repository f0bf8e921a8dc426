//! Minimum and maximum values in run configurations and tasks. The schemas, the checks and their
//! messages share them.

/// Minimum CPU quota of a sandbox.
pub const LEAST_CPUS: f64 = 0.01;
/// Maximum CPU quota of a sandbox: more than any machine has.
pub const MOST_CPUS: f64 = 4096.0;
/// Minimum memory of a sandbox in MiB: an interpreter does not start with less.
pub const LEAST_MEMORY_MB: u64 = 32;
/// Maximum for sizes in MiB: one pebibyte.
pub const MOST_MB: u64 = 1 << 30;
/// Maximum for counts such as steps and tokens. A larger value is a typo, and sums could overflow.
pub const MOST_COUNT: u64 = 1_000_000_000_000;
/// Maximum for time limits in seconds: a hundred years. Longer times overflow clocks.
pub const MOST_SECONDS: f64 = 3.2e9;
/// Maximum for cost limits in US dollars.
pub const MOST_DOLLARS: f64 = 1e9;
/// Maximum ratio of a sandbox's resources to the machine's. A larger ratio suggests a wrong unit.
pub const MOST_TIMES_THE_MACHINE: f64 = 100.0;
