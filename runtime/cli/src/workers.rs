//! Helpers for commands about a run's workers, on this machine and on others.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use proctor_engines::{EngineError, Submissions, cluster_settings};
use proctor_plan::workers::unwritable_error;
pub use proctor_plan::workers::{live_workers, reject_live_workers};
use proctor_run::{Capacity, Deadline, sandbox_limits};
use proctor_sandbox_api::Machine;
use proctor_types::{RunRecord, SandboxKind, SandboxSpec, count_with_noun};

use crate::error::{CommandError, UserError};

/// Converts an engine's error to a user error.
pub fn user_error(error: EngineError) -> UserError {
    UserError { message: error.message, hint: error.hint }
}

/// Returns an error if the run was submitted to an engine, even if no worker is left: this machine
/// may be a login node, which must not run trials by accident. `overrides` are the settings that the
/// user wants to change.
pub fn reject_engine_run(run: &Path, overrides: &[String]) -> Result<(), UserError> {
    let submissions = Submissions::read(run).map_err(user_error)?;
    let Some(last) = submissions.submissions.last() else { return Ok(()) };
    let what = format!("{}: this run was submitted to {}", run.display(), last.engine);
    let sets: String = overrides.iter().map(|set| format!(" --set '{set}'")).collect();
    let hint = format!(
        "`{}{sets}` continues the run there; `proctor resume {}{sets} --here` continues it on this machine",
        submit_command(run, &last.engine),
        run.display()
    );
    Err(UserError::new(what).hint(hint))
}

/// Returns an error if workers of another Proctor version are working on the run.
pub fn reject_other_versions(run: &Path) -> Result<(), CommandError> {
    let own = env!("CARGO_PKG_VERSION");
    // Checking one live worker is enough. Each of them passed this check when it started, so all of
    // them run the same version.
    let any = proctor_cluster::find_live_member(run, None).map_err(unwritable_error)?;
    let Some(other) = any.filter(|one| one.version != own) else { return Ok(()) };
    let what = format!(
        "this process runs proctor {own}, but a worker on {} runs proctor {}",
        other.host, other.version
    );
    Err(UserError::new(what).hint("use the same version on all machines of a run").into())
}

/// Returns the deadline of a process with this much time left.
pub fn process_deadline(time_left: Duration) -> Result<Deadline, CommandError> {
    let table = cluster_settings().map_err(user_error)?;
    let overhead = Duration::from_secs(table.overhead_seconds);
    let at = Instant::now().checked_add(time_left);
    let at = at.ok_or_else(|| UserError::new("--time-left: too long").hint("use UNLIMITED"))?;
    Ok(Deadline { instant: at, overhead })
}

/// Memory in MiB of the worker process itself, without its sandboxes.
const WORKER_MEMORY_MB: u64 = 256;

/// Returns how many trials a worker runs in parallel: as many as the run's largest sandbox fits
/// into the job's CPUs and memory, but at most the run's `jobs`.
///
/// # Errors
/// Fails if the job's memory is too small for one sandbox. The kernel would kill processes that
/// stay within the sandbox's own limit, and the failure would count against the model.
pub fn worker_job_count(record: &RunRecord) -> Result<usize, UserError> {
    let here = Machine::detect();
    // Also use Slurm's variable, because not every site restricts a job's processes to its CPUs.
    let of_job = std::env::var("SLURM_CPUS_ON_NODE").ok().and_then(|cpus| cpus.parse().ok());
    let cpus = of_job.map_or(here.cpus, |cpus: f64| here.cpus.min(cpus));
    let memory_mb = here.memory_mb.saturating_sub(WORKER_MEMORY_MB);
    let wanted = sandbox_specs_of_run(record);
    if let Some(limit) = Machine::memory_limit_mb() {
        check_memory(limit, &wanted)?;
    }
    let capacity = Capacity::new(&Machine { cpus, memory_mb });
    let fit = wanted.iter().map(|sandbox| capacity.max_sandboxes(sandbox)).min();
    let jobs = fit.unwrap_or(1).min(record.jobs).max(1);
    tell!("{} in parallel", count_with_noun(jobs, "trial"));
    Ok(jobs)
}

fn sandbox_specs_of_run(record: &RunRecord) -> Vec<SandboxSpec> {
    let tasks = &record.tasks;
    let all = record
        .arms
        .iter()
        .flat_map(|arm| tasks.iter().map(move |it| sandbox_limits(arm, &it.task)));
    all.collect()
}

fn check_memory(limit_mb: u64, sandbox_specs: &[SandboxSpec]) -> Result<(), UserError> {
    // Docker sandboxes don't use the job's memory, because they run in the Docker daemon's cgroups.
    let native = sandbox_specs.iter().filter(|sandbox| sandbox.kind == SandboxKind::Native);
    let Some(most) = native.map(|sandbox| sandbox.memory_mb).max() else { return Ok(()) };
    let needed = most.saturating_add(WORKER_MEMORY_MB);
    if needed <= limit_mb {
        return Ok(());
    }
    let what = format!(
        "this job has {limit_mb} MiB of memory, but one sandbox may use {most} MiB, and the worker {WORKER_MEMORY_MB} MiB"
    );
    let hint = format!(
        "submit with --engine-set mem={needed}M or more, or plan the run with a smaller sandbox.memory_mb"
    );
    Err(UserError::new(what).hint(hint))
}

/// Network file systems, by `statfs` number.
const NETWORK_FILE_SYSTEMS: [(u64, &str); 8] = [
    (0x6969, "NFS"),
    (0x0BD0_0BD0, "Lustre"),
    (0x1983_0326, "BeeGFS"),
    (0x4750_4653, "GPFS"),
    (0x00C3_6400, "Ceph"),
    (0xAAD7_AAEA, "PanFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB"),
];

fn network_file_system(number: u64) -> Option<&'static str> {
    let found = NETWORK_FILE_SYSTEMS.iter().find(|(known, _)| *known == number);
    found.map(|(_, name)| *name)
}

/// Returns a warning if the cache is on a network file system. On most clusters, the default cache
/// is, because it is in the home directory.
pub fn network_cache_warning(cache: &Path) -> Option<String> {
    let found = rustix::fs::statfs(cache).ok()?;
    let name = network_file_system(found.f_type as u64)?;
    Some(format!(
        "warning: the cache {} is on a network file system ({name}), where sandboxes may not open; set PROCTOR_CACHE to a folder on the node's own disk, such as /tmp/$USER/proctor",
        cache.display()
    ))
}

/// Returns the command that adds workers to a run.
pub fn submit_command(run: &Path, engine: &str) -> String {
    format!("proctor submit {} --engine {engine} --workers N", run.display())
}

/// Returns the command that continues a run. If workers of an engine ran trials of the run, the
/// command submits new workers to that engine.
pub fn continue_command(run: &Path) -> String {
    let submissions = Submissions::read(run).map(|found| found.submissions).unwrap_or_default();
    match submissions.last() {
        Some(last) => submit_command(run, &last.engine),
        None => format!("proctor resume {}", run.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_memory_rejects_jobs_too_small_for_one_sandbox() {
        let sandbox = |kind, memory_mb| SandboxSpec { kind, memory_mb, ..SandboxSpec::default() };
        let native = sandbox(SandboxKind::Native, 2048);
        assert!(check_memory(4000, std::slice::from_ref(&native)).is_ok());
        let error = check_memory(600, &[native]).unwrap_err();
        assert!(
            error.message.contains("600 MiB") && error.message.contains("2048 MiB"),
            "{error:?}"
        );
        assert!(error.hint.unwrap().contains("mem=2304M"));
        assert!(check_memory(600, &[sandbox(SandboxKind::Docker, 2048)]).is_ok());
    }

    #[test]
    fn network_file_systems_are_recognized_by_number() {
        for (number, name) in
            [(0x6969, Some("NFS")), (0x0BD0_0BD0, Some("Lustre")), (0xEF53, None), (0, None)]
        {
            assert_eq!(network_file_system(number), name, "{number:x}");
        }
        let missing = Path::new("/proc/no-such-folder");
        assert_eq!(network_cache_warning(missing), None);
    }

    const SUBMITTED: &str = r#"[{"engine": "slurm", "job": "1", "workers": 2, "proctor": "0.1.0", "submitted": 1, "command": []}]"#;
    const CANCELLED: &str = r#"[{"engine": "slurm", "job": "1", "workers": 2, "proctor": "0.1.0", "submitted": 1, "command": [], "cancelled": 2}]"#;

    #[test]
    fn continue_command_names_the_engine_of_a_submitted_run() {
        let run = tempfile::tempdir().unwrap();
        assert!(continue_command(run.path()).starts_with("proctor resume "));
        std::fs::write(run.path().join("engine.json"), SUBMITTED).unwrap();
        assert!(continue_command(run.path()).ends_with("--engine slurm --workers N"));
    }

    #[test]
    fn reject_engine_run_names_both_commands_with_the_settings() {
        let run = tempfile::tempdir().unwrap();
        let overrides = ["budget.run.cost_usd=10".to_owned()];
        assert!(reject_engine_run(run.path(), &overrides).is_ok());
        for submissions in [SUBMITTED, CANCELLED] {
            std::fs::write(run.path().join("engine.json"), submissions).unwrap();
            let hint = reject_engine_run(run.path(), &overrides).unwrap_err().hint.unwrap();
            for command in [
                "--engine slurm --workers N --set 'budget.run.cost_usd=10'`",
                "--set 'budget.run.cost_usd=10' --here`",
            ] {
                assert!(hint.contains(command), "{command} is missing in {hint}");
            }
        }
    }
}
