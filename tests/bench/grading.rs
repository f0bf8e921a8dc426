//! Measures how much time grading adds to the tests themselves: `cargo bench -p proctor --bench
//! grading`.
//!
//! Part 1: for each recipe, plain pytest on the task's tests, in a sandbox with the task's
//! environment, alternates with complete grading of the gold patch (A B A B). Grading includes
//! opening and closing the sandbox. It runs both with all defenses and with one of them disabled.
//! Part 2: on Docker, Proctor and `run_instance` of `swebench` 5.0.2 alternately grade one
//! SWE-bench row.
//!
//! The bench asserts no times. The first run builds the recipes' environments, which takes minutes
//! and needs PyPI. `PROCTOR_BENCH_RECIPES` is a glob for the recipes (`none` skips them),
//! `PROCTOR_BENCH_WITHOUT` is the defense to disable (`canaries`), and `PROCTOR_BENCH_SWEBENCH` is
//! a Python interpreter that has the package.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "benchmarks print results and panic on errors"
)]

mod harness;
mod official;
#[path = "../end_to_end/swe_row.rs"]
#[expect(clippy::unwrap_used, reason = "shared with tests")]
mod swe_row;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use proctor_grade::{GradeOptions, GradingResult, expected_gold_evidence, find_leaks};
use proctor_run::{CancelSignal, Capacity, Environments, GradingSandbox, grade_patch};
use proctor_sandbox_api::{Backend, Command, Machine, PreparedEnvironment, SandboxRequest};
use proctor_setup::Sources;
use proctor_types::{SandboxSpec, Task};

const ROUNDS: usize = 3;

#[tokio::main]
async fn main() {
    if std::env::var("PROCTOR_BENCH_RECIPES").as_deref() != Ok("none") {
        compare_with_pytest().await;
    }
    official::compare_with_harness(&cache_folder()).await;
}

async fn compare_with_pytest() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = std::env::var("PROCTOR_BENCH_RECIPES");
    let recipes = given.unwrap_or_else(|_| "configs/recipes/*.toml".into());
    let defense = std::env::var("PROCTOR_BENCH_WITHOUT").unwrap_or_else(|_| "canaries".into());
    let cache = cache_folder();
    let native = proctor_native::Native::new(cache.join("native")).expect("a native back end");
    let faults = proctor_run::FaultPolicy::shipped().expect("a sound policy");
    let environments = Environments::new(Sources::new(cache.join("sources")));
    let loaded = proctor_datasets::load(&[recipes], &root).expect("recipes");
    println!(
        "{:<28} {:>7} {:>12} {:>12} {:>8} {:>18}",
        "milliseconds, medians",
        "tests",
        "pytest",
        "grading",
        "ratio",
        format!("without {defense}")
    );
    let (mut plain_all, mut graded_all, mut bare_all) = (0.0, 0.0, 0.0);
    for located in &loaded.recipes {
        let tasks = cache.join("tasks");
        let tell = |what: &str| eprintln!("{}: {what}", located.recipe.id);
        let sources = environments.sources();
        let task =
            proctor_collection::build_cached(&located.recipe, &native, sources, &tasks, &tell)
                .await
                .expect("a task");
        let (environment, _, _) = environments
            .get(&native, &task, Path::new("."), &faults)
            .await
            .expect("an environment");
        let gold = proctor_patch::Patch::parse(task.mask.as_deref().unwrap_or_default().as_bytes())
            .reverse()
            .expect("a mask")
            .to_bytes();
        // A run also computes this once per task, from the gold patch.
        let mut options = GradeOptions::default();
        let (_, first) = time_grading(&native, &environment, &task, &gold, &options).await;
        options.expected_evidence = expected_gold_evidence(&first).expect("a policy");
        // Disable one defense, to measure its cost.
        let mut without = options.clone();
        without.defenses = without.defenses.without(&defense);
        let (mut plain, mut graded, mut bare) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            plain.push(time_pytest(&native, &environment, &task).await);
            for (options, all) in [(&options, &mut graded), (&without, &mut bare)] {
                let (took, one) = time_grading(&native, &environment, &task, &gold, options).await;
                assert!(one.verdict.resolved, "{}: {:?}", task.id, one.verdict.evidence);
                all.push(took);
            }
        }
        let (plain, graded, bare) = (median_ms(plain), median_ms(graded), median_ms(bare));
        plain_all += plain;
        graded_all += graded;
        bare_all += bare;
        let tests = task.fail_to_pass.len() + task.pass_to_pass.len();
        println!(
            "{:<28} {tests:>7} {plain:>12.0} {graded:>12.0} {:>7.2}x {:>17.2}x",
            task.id.as_str(),
            graded / plain,
            bare / plain
        );
    }
    println!(
        "{:<28} {:>7} {plain_all:>12.0} {graded_all:>12.0} {:>7.2}x {:>17.2}x",
        "all",
        "",
        graded_all / plain_all,
        bare_all / plain_all
    );
}

/// Runs only the tests, in a sandbox that is already open.
async fn time_pytest(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    task: &Task,
) -> Duration {
    let mut sandbox = backend.open(&sandbox_request(environment)).await.expect("a sandbox");
    let mut files: Vec<&str> = task
        .fail_to_pass
        .iter()
        .chain(&task.pass_to_pass)
        .filter_map(|id| Some(id.split_once("::")?.0))
        .collect();
    files.sort_unstable();
    files.dedup();
    let argv = task.test_command.iter().map(String::as_str).chain(files);
    let mut command = Command::new(argv).cwd(task.workdir.as_str());
    for (name, value) in &task.env {
        command = command.env(name, value.as_str());
    }
    let begun = Instant::now();
    let done = sandbox.handle().run(command).await.expect("a test run");
    let took = begun.elapsed();
    assert!(done.exit.code.is_some_and(|code| code <= 1), "{}", done.stdout.text());
    sandbox.close().await.expect("a closed sandbox");
    took
}

/// Grades a patch completely: opens a sandbox, applies the mask and the patch, restores the tests,
/// runs them, and computes the verdict.
async fn time_grading(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    task: &Task,
    gold: &[u8],
    options: &GradeOptions,
) -> (Duration, GradingResult) {
    let (limits, cancel) = (SandboxSpec::default(), CancelSignal::default());
    let capacity = Capacity::new(&Machine::detect());
    let findings = find_leaks(backend, environment, task, &limits).await.expect("a look");
    let handle = GradingSandbox {
        backend,
        environment,
        findings: &findings,
        limits: &limits,
        reservation: &limits,
        purpose: "bench".into(),
        cancel: &cancel,
        capacity: &capacity,
    };
    let begun = Instant::now();
    let graded = grade_patch(handle, task, gold, options).await.expect("a grading");
    (begun.elapsed(), graded)
}

fn sandbox_request(environment: &PreparedEnvironment) -> SandboxRequest {
    SandboxRequest {
        environment: environment.clone(),
        limits: SandboxSpec::default(),
        mounts: Vec::new(),
        purpose: "bench".into(),
    }
}

/// Returns the cache of the `proctor` command, so that the bench can use environments that are
/// already built.
fn cache_folder() -> PathBuf {
    if let Some(given) = std::env::var_os("PROCTOR_CACHE") {
        return given.into();
    }
    PathBuf::from(std::env::var_os("HOME").expect("HOME")).join(".cache/proctor")
}

/// Returns the median duration in milliseconds.
fn median_ms(mut samples: Vec<Duration>) -> f64 {
    samples.sort();
    samples[samples.len() / 2].as_secs_f64() * 1e3
}
