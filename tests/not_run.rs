//! Reports tests that cannot run on this machine. Test crates include this file by its path.

use std::{env, fmt::Display, io::Write as _};

/// Prints the message, or fails if `PROCTOR_REQUIRE_<need>` is set, as in `.ci/run`. Needs are
/// `DOCKER`, `ROOT` (also namespaces and file attributes), `CLIENTS` (Java, Node, packages of PyPI
/// and npm), `OFFICIAL` (the benchmarks' own graders), `SLURM` (Slurm's daemons, root) and `MODEL`
/// (the packages of `tests/real-model`).
///
/// # Panics
/// The need is required.
pub fn not_run(test: &str, need: &str, why: impl Display) {
    let required = format!("PROCTOR_REQUIRE_{need}");
    assert!(env::var_os(&required).is_none(), "{test} cannot run and {required} is set: {why}");
    // Written directly, because the test harness hides what passing tests print with `eprintln!`.
    let line = format!("\nNOT RUN: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
