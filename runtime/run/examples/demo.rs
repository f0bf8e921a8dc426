//! Plans and runs the demo without the command line: `cargo run -p proctor-run --example demo`.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    path::Path,
    sync::Arc,
};

use proctor_catalog::Catalog;
use proctor_native::Native;
use proctor_plan::{PlanContext, PlannedRun, Purpose, ReadConfig, cache_dir, shipped};
use proctor_run::{Execution, FlakyTests, Progress, RegradePolicy};
use proctor_sandbox_api::Backend;
use proctor_types::SandboxKind;

/// Selects the tasks that ship with the demo. The tasks of the demo's recipe would need a package
/// from PyPI.
const DEMO_TASKS_GLOB: &str = "demo__*";

fn print_line(line: String) {
    eprintln!("{line}");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Set up the cache, the scaffolds and the back end. Planning and running both use them.
    let cache = cache_dir::default_cache_dir()?;
    cache_dir::lock_shared(&cache)?;
    let catalog = Catalog::new(&cache);
    let script =
        |file: &Path| fake_llm::Script::load(file).map(drop).map_err(|error| error.to_string());
    let world =
        PlanContext { cache: &cache, scaffolds: &catalog, check_script: &script, say: &print_line };
    let backend: Arc<dyn Backend> = Arc::new(Native::new(cache.join("native"))?);

    // Read the configuration, resolve it, load the tasks, and build the bundles and recipes. Each
    // step checks its own input.
    let config = shipped::find_config(Path::new("demo"), &cache)?;
    let resolved = ReadConfig::from_file(&config, &[], &cache)?.resolve(world)?;
    let loaded = resolved.load(world, Purpose::Run, &[DEMO_TASKS_GLOB.to_owned()], None).await?;
    let ready = loaded.build_bundles(world).await?.build_recipes(world, &backend).await?;
    let folder = tempfile::tempdir()?;
    let PlannedRun { run, record, plan } =
        ready.create_run(&folder.path().join("run"), &backend.agent_digest())?;

    // Run the plan.
    let execution = Execution {
        run,
        plan,
        jobs: record.jobs,
        backends: BTreeMap::from([(SandboxKind::Native, backend)]),
        scaffolds: &catalog,
        cache: &cache,
        regrade_policy: RegradePolicy::ReuseVerdict,
        flaky_tests: FlakyTests::from_record(&record, &print_line),
        say: &print_line,
        on_preflight: &|found| eprintln!("{found:?}"),
    };
    let mut running = execution.start().await?;
    // `running.handle()` can wind down or stop the run from any task.
    let events = running.take_progress();
    let watcher = tokio::spawn(async move {
        let Some(mut events) = events else { return };
        while let Some(event) = events.recv().await {
            if let Progress::Graded { trial, arm, verdict } = event {
                println!("{} {arm}: resolved = {}", trial.task, verdict.resolved);
            }
        }
    });
    let ended = running.join().await?;
    watcher.await?;
    println!("{} trials ended", ended.trials.len());

    // Read the results from disk, as `proctor report` does.
    let report = proctor_report::build_run_report(&folder.path().join("run"), HashMap::new())?;
    for arm in &report.arms {
        println!("{}: {} of {} trials resolved", arm.name, arm.resolved, arm.trials);
    }
    Ok(())
}
