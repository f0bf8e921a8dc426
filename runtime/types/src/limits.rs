//! Minimum and maximum values in run configurations and tasks. The schemas, the checks and the
//! checks' messages share these values.

/// Minimum CPU quota of a sandbox.
pub const MIN_CPUS: f64 = 0.01;
/// Maximum CPU quota of a sandbox: more than any machine has.
pub const MAX_CPUS: f64 = 4096.0;
/// Minimum memory of a sandbox in MiB: an interpreter does not start with less.
pub const MIN_MEMORY_MB: u64 = 32;
/// Maximum for sizes in MiB: one pebibyte.
pub const MAX_SIZE_MB: u64 = 1 << 30;
/// Maximum for counts such as steps and tokens. A larger value is a typo, and sums could overflow.
pub const MAX_COUNT: u64 = 1_000_000_000_000;
/// Maximum for time limits in seconds: a hundred years. Longer times overflow clocks.
pub const MAX_SECONDS: f64 = 3.2e9;
/// Maximum for cost limits in US dollars.
pub const MAX_COST_USD: f64 = 1e9;
/// Maximum ratio of a sandbox's resources to the machine's. A larger ratio suggests a wrong unit.
pub const MAX_RESOURCE_RATIO: f64 = 100.0;
