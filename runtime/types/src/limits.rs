//! The minimum and maximum of values in run configurations and tasks, in one table. The schemas,
//! the checks and their messages use it.

/// CPUs of a sandbox, as a quota.
pub const LEAST_CPUS: f64 = 0.01;
/// More than any machine has.
pub const MOST_CPUS: f64 = 4096.0;
/// MiB of memory: less does not start an interpreter.
pub const LEAST_MEMORY_MB: u64 = 32;
/// A pebibyte in MiB.
pub const MOST_MB: u64 = 1 << 30;
/// Counts (steps, tokens): more than a trillion is a typo, and close to overflowing sums.
pub const MOST_COUNT: u64 = 1_000_000_000_000;
/// Seconds of any limit: a hundred years. A longer time is no limit, and overflows clocks.
pub const MOST_SECONDS: f64 = 3.2e9;
/// US dollars.
pub const MOST_DOLLARS: f64 = 1e9;
/// How many times the machine's resources a sandbox may be given: a larger value is a wrong unit.
pub const MOST_TIMES_THE_MACHINE: f64 = 100.0;
