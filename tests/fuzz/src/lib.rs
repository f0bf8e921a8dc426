//! Fuzzing on stable Rust: edits real inputs for a limited time. The same seed gives the same
//! edits.
//!
//! Proptest chooses the edits, catches panics, and shrinks a list of edits that causes a failure.
//! Coverage is not measured. Instead, real seeds and edits that keep JSON and words intact get past
//! the parsers. A stack overflow ends the process; in that case, the line that is printed at the
//! start shows how to repeat the failure.

mod edit;
#[path = "../../tier.rs"]
mod tier;

use std::{
    cell::Cell,
    fs,
    io::Write,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use proptest::{
    prelude::{Strategy, any},
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};

/// The default time for fuzzing a target, in seconds.
const DEFAULT_SECONDS: f64 = 1.5;
/// The default time in the full tier, in seconds.
const FULL_SECONDS: f64 = 60.0;
/// The time limit for processing a single input.
const MAX_INPUT_TIME: Duration = Duration::from_secs(5);
/// Number of inputs to process between two checks of the time.
const BATCH_SIZE: u32 = 32;
/// Maximum length of an error message, in characters.
const MAX_ERROR_CHARS: usize = 900;

/// Fuzzes a target, starting with the files in the directory `seeds`. `accepts` asserts what must
/// hold for any input, and returns whether the input is valid. Every seed must be valid before it
/// is edited.
///
/// `PROCTOR_FUZZ_SECONDS` sets the time. If it is set, and in the full tier, each run uses other
/// inputs; `PROCTOR_FUZZ_SEED` repeats those of an earlier run.
pub fn fuzz(seeds: impl AsRef<Path>, accepts: impl Fn(&[u8]) -> bool) {
    let folder = seeds.as_ref();
    let seeds = read_seeds(folder);
    for (name, bytes) in &seeds {
        assert!(accepts(bytes), "{}: the unchanged seed is not accepted", name);
    }
    let seeds: Vec<Vec<u8>> = seeds.into_iter().map(|(_, bytes)| bytes).collect();
    let full = || tier::is_full().then_some(FULL_SECONDS);
    let seconds = env_number("PROCTOR_FUZZ_SECONDS").or_else(full);
    let fresh = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        seconds.map_or(0, |_| now.as_millis() as u64)
    };
    let first = env_number("PROCTOR_FUZZ_SEED").map_or_else(fresh, |seed| seed as u64);
    let name = folder.display();
    // Write directly, because the test harness would capture the line and show nothing after a
    // stack overflow.
    let _ = writeln!(std::io::stderr(), "fuzz: {name}: PROCTOR_FUZZ_SEED={first}");
    let (began, limit) =
        (Instant::now(), Duration::from_secs_f64(seconds.unwrap_or(DEFAULT_SECONDS)));
    let (inputs, taken) = (Cell::new(0_u64), Cell::new(0_u64));
    for seed in first.. {
        let failed = run_batch(&seeds, seed, &|input| {
            let began = Instant::now();
            let accepted = accepts(input);
            inputs.set(inputs.get() + 1);
            taken.set(taken.get() + u64::from(accepted));
            began.elapsed()
        });
        if let Some((why, input)) = failed {
            let input = input.escape_ascii();
            panic!("{why}\nrepeat: PROCTOR_FUZZ_SEED={seed}\nseeds: {name}\ninput: {input}");
        }
        if began.elapsed() > limit {
            break;
        }
    }
    let (inputs, taken) = (inputs.get(), taken.get());
    let _ = writeln!(std::io::stderr(), "fuzz: {name}: {inputs} inputs, {taken} of them accepted");
}

/// Asserts that an error message is a single line of acceptable length and contains `location`.
#[track_caller]
pub fn assert_error_text(error: &str, location: &str) {
    assert!(!error.contains('\n'), "the error has several lines: {error}");
    let long = error.chars().count();
    assert!(long < MAX_ERROR_CHARS, "the error has {long} characters: {error}");
    assert!(error.contains(location), "the error does not name `{location}`: {error}");
}

fn read_seeds(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut seeds: Vec<_> = entries
        .map(|entry| {
            let path = entry.and_then(|entry| fs::canonicalize(entry.path()));
            let path = path.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (path.display().to_string(), bytes)
        })
        .collect();
    assert!(!seeds.is_empty(), "{}: no seed", folder.display());
    seeds.sort();
    seeds
}

fn env_number(name: &str) -> Option<f64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Returns the failure and the input that caused it, with as few edits as possible.
fn run_batch(
    seeds: &[Vec<u8>],
    seed: u64,
    run_target: &dyn Fn(&[u8]) -> Duration,
) -> Option<(String, Vec<u8>)> {
    let config = Config { cases: BATCH_SIZE, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let edits = proptest::collection::vec(any::<edit::Edit>(), 0..6);
    let inputs = (0..seeds.len(), edits).prop_map(|(first, edits)| {
        edits.iter().fold(seeds[first].clone(), |input, edit| edit::apply_edit(input, seeds, *edit))
    });
    let ran = TestRunner::new_with_rng(config, rng).run(&inputs, |input| {
        let took = run_target(&input);
        if took < MAX_INPUT_TIME {
            return Ok(());
        }
        Err(TestCaseError::fail(format!("took {took:?}")))
    });
    match ran {
        Ok(()) => None,
        Err(TestError::Fail(why, input)) => Some((why.message().to_owned(), input)),
        Err(TestError::Abort(why)) => Some((why.message().to_owned(), Vec::new())),
    }
}
