//! Compares how Proctor and the harness's `run_instance` grade one SWE-bench row on Docker.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use proctor_docker::Docker;
use proctor_grade::{GradeOptions, find_leaks, procedure::run_official};
use proctor_run::{CancelSignal, Capacity, Environments, GradingSandbox, grade_patch};
use proctor_sandbox_api::{Backend as _, Machine, PreparedEnvironment, SandboxRequest};
use proctor_setup::Sources;
use proctor_types::{SandboxSpec, Task};

use crate::{harness::Harness, median_ms, swe_row::SweRow};

const ROUNDS: usize = 5;
/// Number of patches that Proctor and the harness each grade at the same time.
const CONCURRENT_PATCHES: usize = 6;

/// The inputs that every grading run uses.
struct GradingInputs {
    docker: Docker,
    environment: PreparedEnvironment,
    task: Task,
}

/// Prints medians and ratios. If no engine responds, prints a notice instead.
pub async fn compare_with_harness(cache: &Path) {
    let docker = match Docker::connect().await {
        Ok(docker) => docker,
        Err(fault) => return println!("\nagainst the harness: NOT RUN: {fault}"),
    };
    let scratch = tempfile::tempdir().expect("a folder");
    let (folder, sources) = (scratch.path().to_owned(), cache.join("sources"));
    let made = move || {
        let mut row = SweRow::create(&folder.join("testbed"), &sources);
        row.build_image(&folder);
        let file = row.write_tasks(&folder.join("row.jsonl"));
        (row, file)
    };
    let (row, file) = tokio::task::spawn_blocking(made).await.expect("a row");
    let loaded =
        proctor_datasets::load(std::slice::from_ref(&file), scratch.path()).expect("a dataset");
    let task = loaded.tasks.into_iter().next().expect("a task");
    let faults = proctor_run::FaultPolicy::shipped().expect("a sound policy");
    let environments = Environments::new(Sources::new(cache.join("sources")));
    let (environment, _, _) =
        environments.get(&docker, &task, Path::new("."), &faults).await.expect("an environment");
    let id = row.image_id();
    assert_eq!(environment.base, id, "both must use the same image");
    let mut harness = Harness::start(scratch.path(), &file);
    let place = GradingInputs { docker, environment, task };
    let gold = row.gold_patch();

    // The first grading run fills the engine's caches, so don't measure it.
    harness.grade(std::slice::from_ref(&gold), 1);
    place.time_both_policies(&gold, &place.capacity()).await;
    let [mut strict, mut official, mut both, mut after, mut whole, mut waiting] =
        [const { Vec::new() }; 6];
    for _ in 0..ROUNDS {
        let (_, instances) = harness.grade(std::slice::from_ref(&gold), 1);
        whole.push(instances[0].total);
        waiting.push(instances[0].total - instances[0].cleanup);
        official.push(place.time_official(&gold).await);
        strict.push(place.time_strict(&gold).await);
        both.push(place.time_both_policies(&gold, &place.capacity()).await);
        // Allow only one sandbox at a time.
        let one = Capacity::new(&Machine { cpus: 1.0, memory_mb: 1 << 20 });
        after.push(place.time_both_policies(&gold, &one).await);
    }
    let [strict, official, both, after, whole, waiting] =
        [strict, official, both, after, whole, waiting].map(median_ms);
    println!(
        "\n{:<58} {:>9} {:>10} {:>10}",
        "one SWE-bench row on Docker", "ms", "harness /", "without"
    );
    println!("{:<58} {:>9} {:>10} {:>10}", "(medians of 5)", "", "this", "its stop /");
    let line = |name: &str, took: f64| {
        println!("{name:<58} {took:>9.0} {:>9.2}x {:>9.2}x", whole / took, waiting / took);
    };
    line("swebench 5.0.2, run_instance", whole);
    line("  excluding stopping and removing its container", waiting);
    line("Proctor, official only", official);
    line("Proctor, strict only", strict);
    line("Proctor, official and strict, sequential", after);
    line("Proctor, official and strict in parallel (default)", both);
    println!("parallel / sequential: {:.2}", both / after);

    let many: Vec<String> =
        (0..CONCURRENT_PATCHES).map(|number| equivalent_patch(&gold, number)).collect();
    let (theirs, _) = harness.grade(&many, CONCURRENT_PATCHES);
    let ours = place.time_concurrently(&many).await;
    println!(
        "\n{CONCURRENT_PATCHES} patches at once: swebench 5.0.2 with {CONCURRENT_PATCHES} workers {:.0} ms, Proctor (official and \
         strict, under one budget of this machine) {:.0} ms: {:.2}x",
        theirs.as_secs_f64() * 1e3,
        ours.as_secs_f64() * 1e3,
        theirs.as_secs_f64() / ours.as_secs_f64()
    );
}

/// Returns an equivalent patch with different text, so that its verdict is not in the cache.
fn equivalent_patch(gold: &str, number: usize) -> String {
    let added = format!(
        "diff --git a/note{number}.txt b/note{number}.txt\nnew file mode 100644\n--- /dev/null\n\
         +++ b/note{number}.txt\n@@ -0,0 +1 @@\n+{number}\n"
    );
    format!("{gold}{added}")
}

impl GradingInputs {
    fn capacity(&self) -> Capacity {
        Capacity::new(&self.docker.machine())
    }

    /// Grades under both policies, in the same way as a run.
    async fn time_both_policies(&self, patch: &str, capacity: &Capacity) -> Duration {
        self.grade(&self.task, patch, capacity).await
    }

    /// Grades the same task without its benchmark, and therefore only under the policy `strict`.
    async fn time_strict(&self, patch: &str) -> Duration {
        let task = Task { benchmark: None, ..self.task.clone() };
        self.grade(&task, patch, &self.capacity()).await
    }

    async fn grade(&self, task: &Task, patch: &str, capacity: &Capacity) -> Duration {
        let (limits, cancel) = (SandboxSpec::default(), CancelSignal::default());
        let findings =
            find_leaks(&self.docker, &self.environment, task, &limits).await.expect("a look");
        let handle = GradingSandbox {
            backend: &self.docker,
            environment: &self.environment,
            findings: &findings,
            limits: &limits,
            reservation: &limits,
            purpose: "bench".into(),
            cancel: &cancel,
            capacity,
        };
        let (options, begun) = (GradeOptions::default(), Instant::now());
        let graded =
            grade_patch(handle, task, patch.as_bytes(), &options).await.expect("a grading");
        let (took, verdict) = (begun.elapsed(), graded.verdict);
        assert!(verdict.policies.values().all(|policy| policy.resolved), "{verdict:?}");
        took
    }

    /// Runs only the official procedure, including opening and closing its sandbox.
    async fn time_official(&self, patch: &str) -> Duration {
        let spec = SandboxRequest {
            environment: self.environment.clone(),
            limits: SandboxSpec::default(),
            mounts: Vec::new(),
            purpose: "bench".into(),
        };
        let begun = Instant::now();
        let mut sandbox = self.docker.open(&spec).await.expect("a sandbox");
        let run =
            run_official(sandbox.handle(), &self.task, patch.as_bytes(), &GradeOptions::default())
                .await;
        let run = run.expect("a run").expect("an official run");
        assert!(run.verdict.is_resolved, "{}", String::from_utf8_lossy(&run.log));
        sandbox.close().await.expect("a closed sandbox");
        begun.elapsed()
    }

    async fn time_concurrently(&self, patches: &[String]) -> Duration {
        let (capacity, begun) = (self.capacity(), Instant::now());
        join_all(patches.iter().map(|patch| self.time_both_policies(patch, &capacity))).await;
        begun.elapsed()
    }
}
