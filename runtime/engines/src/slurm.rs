//! Runs workers as one Slurm array job, using Slurm's command-line programs. Their output differs
//! between versions, so only formats that are the same in 22.05 and 24.11 are parsed.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    Engine, EngineError, Job, JobHistory, JobReport, Submission, SubmitRequest, cluster_settings,
    command, logs::log_dir, reject_unknown_keys,
};

/// The script that each array task runs.
const WORKER_SCRIPT: &str = include_str!("worker.sh");

/// Keys of `--engine-set` and the corresponding `sbatch` options.
const SBATCH_OPTIONS: [(&str, &str); 8] = [
    ("partition", "--partition"),
    ("account", "--account"),
    ("qos", "--qos"),
    ("time", "--time"),
    ("mem", "--mem"),
    ("cpus", "--cpus-per-task"),
    ("gres", "--gres"),
    ("constraint", "--constraint"),
];
const EXTRA_OPTIONS_KEY: &str = "extra";

/// Output format for `squeue`: array job, index, job, state, reason and nodes.
const SQUEUE_FORMAT: &str = "%F|%K|%A|%T|%r|%N";

/// The Slurm engine, which runs Slurm's client programs on this machine.
#[derive(Debug, Clone, Copy)]
pub struct Slurm;

impl Engine for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn check_availability(&self, settings: &BTreeMap<String, String>) -> Result<(), EngineError> {
        check_setting_keys(settings)?;
        let said =
            command::run_command(Command::new("sbatch").arg("--version"), command_timeout()?);
        said.map(drop).map_err(|trouble| trouble.to_engine_error("sbatch"))
    }

    fn submit(&self, request: &SubmitRequest) -> Result<Submission, EngineError> {
        let arguments = sbatch_arguments(request)?;
        let script = write_script(&request.run_dir)
            .map_err(|error| EngineError::new(format!("{}: {error}", request.run_dir.display())))?;
        let mut line = vec!["sbatch".to_owned()];
        line.extend(arguments);
        line.push(script.display().to_string());
        line.push(request.program.display().to_string());
        line.push(request.run_dir.display().to_string());
        line.push(request.version.clone());
        line.push(cluster_settings()?.requeues.to_string());
        let mut command = Command::new("sbatch");
        command.args(&line[1..]);
        let said = command::run_command(&mut command, command_timeout()?)
            .map_err(|it| it.to_engine_error("sbatch"))?;
        if !said.status.success() {
            return Err(rejection_error(&said.stderr));
        }
        let (job, cluster) = parse_job_id(&said.stdout).ok_or_else(|| {
            EngineError::new(format!(
                "sbatch printed {:?}, which is not a job id",
                said.stdout.trim()
            ))
        })?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Submission {
            engine: self.name().into(),
            job,
            cluster,
            workers: request.workers,
            proctor: request.version.clone(),
            submitted: since.as_secs(),
            settings: request.settings.clone(),
            command: line,
            cancelled: None,
        })
    }

    fn query_jobs(&self, submission: &Submission) -> JobReport {
        let answer = match command_timeout() {
            Ok(answer) => answer,
            Err(error) => return JobReport::Unknown(error.to_string()),
        };
        let mut command = Command::new("squeue");
        command.args(["-h", "-r", "-t", "all", "-o", SQUEUE_FORMAT, "-j", &submission.job]);
        command.args(submission.cluster.iter().flat_map(|name| ["-M", name.as_str()]));
        match command::run_command(&mut command, answer) {
            Ok(said) if said.status.success() => JobReport::Known(parse_jobs(&said.stdout)),
            // Slurm forgets a job's id some time after the job has ended.
            Ok(said) if said.stderr.contains("Invalid job id") => JobReport::Known(Vec::new()),
            Ok(said) => JobReport::Unknown(first_error_line(&said.stderr)),
            Err(trouble) => JobReport::Unknown(trouble.to_engine_error("squeue").to_string()),
        }
    }

    fn query_history(&self, submission: &Submission) -> JobHistory {
        let job = submission.job.as_str();
        // Use all three programs: `sacct` works only at sites with accounting. The other two report
        // less, but are always available.
        let ended = ["-n", "-P", "-X", "-D", "-j", job, "-o", "JobID,State"];
        JobHistory {
            ended_starts: parse_ended_starts(&run_query("sacct", submission, ended)),
            restarts: parse_restarts(&run_query(
                "scontrol",
                submission,
                ["-o", "show", "job", job],
            )),
            nodes: parse_node_states(&run_query("sinfo", submission, ["-h", "-N", "-o", "%N|%T"])),
        }
    }

    fn request_stop(&self, submission: &Submission) -> Result<(), EngineError> {
        run_scancel(submission, &["--state=PENDING"])?;
        // Signal only the script. A plain `scancel` would kill the job once Slurm's `KillWait`
        // expires.
        run_scancel(submission, &["--batch", "--signal=TERM"])
    }

    fn cancel(&self, submission: &Submission) -> Result<(), EngineError> {
        run_scancel(submission, &[])
    }
}

/// Returns a program's output about a submission's cluster. The output is empty if the program is
/// missing or fails.
fn run_query(
    program: &str,
    submission: &Submission,
    options: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> String {
    let Ok(answer) = command_timeout() else { return String::new() };
    let mut command = Command::new(program);
    command.args(submission.cluster.iter().flat_map(|name| ["-M", name.as_str()])).args(options);
    match command::run_command(&mut command, answer) {
        Ok(said) if said.status.success() => said.stdout,
        _ => String::new(),
    }
}

/// Runs `scancel`. Ignores errors about jobs that have already ended.
fn run_scancel(submission: &Submission, options: &[&str]) -> Result<(), EngineError> {
    let mut command = Command::new("scancel");
    command.args(submission.cluster.iter().flat_map(|name| ["-M", name.as_str()]));
    command.args(options).arg(&submission.job);
    let said = command::run_command(&mut command, command_timeout()?)
        .map_err(|it| it.to_engine_error("scancel"))?;
    let has_ended = ["Invalid job id", "already completing or completed"];
    match said.status.success() || has_ended.iter().any(|words| said.stderr.contains(words)) {
        true => Ok(()),
        false => Err(EngineError::new(format!("scancel: {}", first_error_line(&said.stderr)))),
    }
}

fn command_timeout() -> Result<Duration, EngineError> {
    Ok(Duration::from_secs(cluster_settings()?.answer_seconds))
}

fn check_setting_keys(settings: &BTreeMap<String, String>) -> Result<(), EngineError> {
    let known: Vec<&str> =
        SBATCH_OPTIONS.iter().map(|(key, _)| *key).chain([EXTRA_OPTIONS_KEY]).collect();
    reject_unknown_keys("slurm", settings, &known)
}

/// Returns the options for `sbatch`.
fn sbatch_arguments(request: &SubmitRequest) -> Result<Vec<String>, EngineError> {
    check_setting_keys(&request.settings)?;
    let last = request
        .workers
        .checked_sub(1)
        .ok_or_else(|| EngineError::new("--workers 0: nothing to submit").hint("use at least 1"))?;
    let name = request.run_dir.file_name().unwrap_or_default().to_string_lossy();
    // In a file name, `sbatch` replaces patterns such as `%A`. Only the ones below are intended.
    let folder = log_dir(&request.run_dir).display().to_string().replace('%', "%%");
    // Jobs start in the directory from which they are submitted, because a plan may contain paths
    // relative to that directory.
    let mut all = vec![
        "--parsable".to_owned(),
        format!("--array=0-{last}"),
        "--requeue".to_owned(),
        // The keys of the endpoints are in the environment. Some sites set SBATCH_EXPORT=NONE.
        "--export=ALL".to_owned(),
        "--open-mode=append".to_owned(),
        format!("--signal=B:USR1@{}", cluster_settings()?.drain_seconds),
        format!("--job-name=proctor-{name}"),
        format!("--output={folder}/%A_%a.log"),
    ];
    for (key, option) in SBATCH_OPTIONS {
        if let Some(value) = request.settings.get(key) {
            all.push(format!("{option}={value}"));
        }
    }
    if let Some(extra) = request.settings.get(EXTRA_OPTIONS_KEY) {
        let words = shlex::split(extra).ok_or_else(|| {
            EngineError::new(format!(
                "--engine-set {EXTRA_OPTIONS_KEY}={extra}: missing closing quote"
            ))
        })?;
        all.extend(words);
    }
    Ok(all)
}

fn write_script(run_dir: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(log_dir(run_dir))?;
    let path = log_dir(run_dir).join("worker.sh");
    fs::write(&path, WORKER_SCRIPT)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Parses `ID` or `ID;CLUSTER`. Some sites print additional lines first, so only the last line is
/// parsed.
fn parse_job_id(output: &str) -> Option<(String, Option<String>)> {
    let line = output.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let (id, cluster) = match line.split_once(';') {
        Some((id, cluster)) => (id, Some(cluster.to_owned())),
        None => (line, None),
    };
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (id.to_owned(), cluster))
}

pub(crate) fn parse_jobs(output: &str) -> Vec<Job> {
    let job = |line: &str| {
        let mut parts = line.split('|').map(str::trim);
        let (array, index, _, state) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let (reason, node) = (parts.next()?, parts.next()?);
        let id = format!("{array}_{index}");
        Some(Job { id, state: state.into(), reason: reason.into(), node: node.into() })
    };
    output.lines().filter_map(job).collect()
}

/// Parses `sacct` output, which has one row per start of a job, oldest first. The state column may
/// contain a reason, as in `CANCELLED by 1000`.
pub(crate) fn parse_ended_starts(output: &str) -> Vec<Job> {
    let job = |line: &str| {
        let (id, state) = line.split_once('|')?;
        let (state, reason) = state.trim().split_once(' ').unwrap_or((state.trim(), ""));
        let (id, state, reason) = (id.trim().into(), state.into(), reason.into());
        let job = Job { id, state, reason, node: String::new() };
        job.has_ended().then_some(job)
    };
    output.lines().filter_map(job).collect()
}

/// Parses `scontrol -o show job`: one line of `KEY=VALUE` pairs per job.
pub(crate) fn parse_restarts(output: &str) -> BTreeMap<String, u32> {
    let job = |line: &str| {
        let value = |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key));
        let (array, index) = (value("ArrayJobId=")?, value("ArrayTaskId=")?);
        Some((format!("{array}_{index}"), value("Restarts=")?.parse::<u32>().ok()?))
    };
    output.lines().filter_map(job).collect()
}

/// Parses `sinfo`: one line per node and partition.
pub(crate) fn parse_node_states(output: &str) -> BTreeMap<String, String> {
    let node = |line: &str| {
        let (name, state) = line.trim().split_once('|')?;
        Some((name.to_owned(), state.to_owned()))
    };
    output.lines().filter_map(node).collect()
}

/// Converts an error of `sbatch`. Adds a hint if the message is known.
fn rejection_error(stderr: &str) -> EngineError {
    const REJECTION_HINTS: [(&str, &str); 8] = [
        // This message also contains the word "account".
        (
            "accounting/qos policy",
            "your account's limits don't allow this: use fewer --workers, or a smaller time, cpus or mem",
        ),
        ("partition", "`sinfo -s` lists the partitions"),
        ("account", "`sacctmgr show associations user=$USER` lists your accounts"),
        ("qos", "`sacctmgr show qos` lists the qualities of service"),
        ("time limit", "use a shorter --engine-set time=..."),
        ("memory", "no node has that much memory: use a smaller --engine-set mem=..."),
        ("node configuration", "no node has these resources: use smaller mem, cpus or gres"),
        ("array", "use fewer --workers: the site limits the size of arrays"),
    ];
    let said = first_error_line(stderr);
    let error = EngineError::new(format!("sbatch rejected the job: {said}"));
    let all = stderr.to_lowercase();
    let known = REJECTION_HINTS.iter().find(|(word, _)| all.contains(word));
    match known {
        Some((_, hint)) => error.hint(*hint),
        None => error,
    }
}

/// Returns the first error line without the program's name, or the first line if there is no error
/// line.
fn first_error_line(stderr: &str) -> String {
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find_map(|line| line.split_once("error: ").map(|(_, rest)| rest));
    error.or_else(|| lines().next()).unwrap_or("the command failed without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submit_request(settings: &[(&str, &str)]) -> SubmitRequest {
        SubmitRequest {
            run_dir: "/shared/runs/x".into(),
            program: "/shared/bin/proctor".into(),
            version: "0.1.0".into(),
            workers: 4,
            settings: settings
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn settings_become_options_and_unknown_settings_are_rejected() {
        let all = sbatch_arguments(&submit_request(&[
            ("partition", "bench"),
            ("time", "1:00:00"),
            ("extra", "--exclusive --comment='two words'"),
        ]))
        .unwrap();
        for option in [
            "--array=0-3",
            "--requeue",
            "--export=ALL",
            "--signal=B:USR1@120",
            "--partition=bench",
            "--time=1:00:00",
            "--exclusive",
            "--comment=two words",
            "--output=/shared/runs/x/engine/%A_%a.log",
        ] {
            assert!(all.iter().any(|one| one == option), "{option}: {all:?}");
        }
        let error = sbatch_arguments(&submit_request(&[("queue", "x")])).unwrap_err();
        assert!(error.message.contains("queue") && error.hint.unwrap().contains("partition"));
    }

    #[test]
    fn ids_and_states_of_both_slurm_versions_are_parsed() {
        assert_eq!(parse_job_id("17\n"), Some(("17".into(), None)));
        assert_eq!(parse_job_id("welcome\n17;hpc\n"), Some(("17".into(), Some("hpc".into()))));
        assert_eq!(parse_job_id("Submitted batch job\n"), None);
        let read = parse_jobs("17|0|18|RUNNING|None|n1\n17|1|17|PENDING|Resources|\nnoise\n");
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].id.as_str(), read[0].node.as_str()), ("17_0", "n1"));
        assert_eq!((read[1].state.as_str(), read[1].reason.as_str()), ("PENDING", "Resources"));
    }

    #[test]
    fn rejection_keeps_slurms_message_and_adds_a_hint() {
        let error = rejection_error(
            "sbatch: error: invalid partition specified: nope\n\
             sbatch: error: Batch job submission failed: Invalid partition name specified\n",
        );
        assert!(error.message.contains("invalid partition specified: nope"), "{}", error.message);
        assert!(error.hint.unwrap().contains("sinfo"));
        assert!(rejection_error("").message.contains("without a message"));
        let policy = "sbatch: error: QOSMaxSubmitJobPerUserLimit\n\
                      sbatch: error: Batch job submission failed: Job violates accounting/QOS policy \
                      (job submit limit, user's size and/or time limits)\n";
        let error = rejection_error(policy);
        assert!(error.message.contains("QOSMaxSubmitJobPerUserLimit"), "{}", error.message);
        assert!(error.hint.unwrap().contains("fewer --workers"));
    }

    #[test]
    fn percent_signs_in_the_run_directory_are_escaped() {
        let request = SubmitRequest { run_dir: "/shared/50%A".into(), ..submit_request(&[]) };
        let all = sbatch_arguments(&request).unwrap();
        let output = "--output=/shared/50%%A/engine/%A_%a.log".to_owned();
        assert!(all.contains(&output), "{all:?}");
    }

    #[test]
    fn script_requeues_on_the_unfinished_status() {
        assert!(WORKER_SCRIPT.contains(&format!("\"$code\" = {}", crate::UNFINISHED_EXIT_STATUS)));
    }
}
