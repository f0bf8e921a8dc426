//! The lowest and the highest of what a user may write, for run configurations and for tasks: the one table of bounds.
//! The schemas, the checks and their messages are made of it.

/// CPUs of a sandbox, as a quota.
pub const LEAST_CPUS: f64 = 0.01;
/// More than any machine has.
pub const MOST_CPUS: f64 = 4096.0;
/// MiB of memory: fewer do not start an interpreter.
pub const LEAST_MEMORY_MB: u64 = 32;
/// A pebibyte in MiB.
pub const MOST_MB: u64 = 1 << 30;
/// Counts (steps, tokens): more than a trillion is a mistyped number, and near where sums overflow.
pub const MOST_COUNT: u64 = 1_000_000_000_000;
/// Seconds of any limit: a hundred years. More are no limit, and overflow clocks.
pub const MOST_SECONDS: f64 = 3.2e9;
/// US dollars.
pub const MOST_DOLLARS: f64 = 1e9;
/// How often more than the machine has a sandbox may be given: beyond that it is a mistyped unit.
pub const MOST_TIMES_THE_MACHINE: f64 = 100.0;
