//! Reports that a test cannot run on this machine. Test crates include this file by its path.

use std::{env, fmt::Display, io::Write as _};

/// Prints that the test did not run. `need` is `DOCKER`, `ROOT` (also namespaces and file
/// attributes), `CLIENTS` (Java, Node, packages from PyPI and npm), `OFFICIAL` (the benchmarks' own
/// graders), `SLURM` (Slurm's daemons, and root) or `MODEL` (the packages in `tests/real-model`).
///
/// # Panics
/// Panics if `PROCTOR_REQUIRE_<need>` is set, as in `.ci/run`.
pub fn not_run(test: &str, need: &str, why: impl Display) {
    let required = format!("PROCTOR_REQUIRE_{need}");
    assert!(env::var_os(&required).is_none(), "{test} cannot run and {required} is set: {why}");
    // Write directly, because the test harness hides what passing tests print with `eprintln!`.
    let line = format!("\nNOT RUN: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
