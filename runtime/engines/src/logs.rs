//! `RUN/engine/`: the output of the workers' jobs.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{ErrorKind, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use crate::Job;

/// Number of bytes at the end of a log in which the last error is searched for.
const MAX_TAIL_BYTES: u64 = 16 << 10;
/// How lines with errors of Proctor and of Slurm begin.
const ERROR_PREFIXES: [&str; 2] = ["error: ", "slurmstepd: error: "];
/// Maximum number of distinct messages shown per submission.
const MAX_MESSAGES: usize = 3;

/// Returns the folder that contains the logs.
pub(crate) fn log_dir(run_dir: &Path) -> PathBuf {
    run_dir.join("engine")
}

/// Returns messages about why jobs failed, based on the last error in each job's log, or else on the
/// log's last line. Each distinct message is listed once, with the number of jobs. Jobs with an empty
/// log are omitted.
pub fn failure_messages(run_dir: &Path, jobs: &[Job]) -> Vec<String> {
    let mut messages: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.has_failed()) {
        if let Some(message) = read_last_message(&log_dir(run_dir).join(format!("{}.log", job.id)))
        {
            messages.entry(message).or_default().push(&job.id);
        }
    }
    let more = messages.len().saturating_sub(MAX_MESSAGES);
    let line = |(message, ids): (&String, &Vec<&str>)| match ids.as_slice() {
        [id] => format!("job {id}: {message}"),
        ids => {
            format!("{} jobs, first {}: {message}", ids.len(), ids.first().unwrap_or(&""))
        }
    };
    let mut lines: Vec<String> = messages.iter().take(MAX_MESSAGES).map(line).collect();
    if more > 0 {
        lines.push(format!("{more} more messages in {}", log_dir(run_dir).display()));
    }
    lines
}

fn read_last_message(log: &Path) -> Option<String> {
    let mut file = match File::open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let why = "the job failed without a log; check that the node has the run directory at the same path";
            return Some(why.to_owned());
        }
        Err(_) => return None,
    };
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // A requeued job appends to its log. Errors of earlier starts don't explain its end.
    let began = lines.iter().rposition(|line| is_start_line(line)).map_or(0, |at| at + 1);
    let lines = lines.get(began..)?;
    let Some(at) = lines.iter().rposition(|line| error_text(line).is_some()) else {
        return lines.last().map(|line| (*line).to_owned());
    };
    let message = error_text(lines.get(at)?)?;
    match lines.get(at + 1).filter(|line| line.starts_with("hint: ")) {
        Some(hint) => Some(format!("{message} ({hint})")),
        None => Some(message.to_owned()),
    }
}

/// Returns the message of a line with an error.
fn error_text(line: &str) -> Option<&str> {
    ERROR_PREFIXES.iter().find_map(|prefix| line.strip_prefix(*prefix))
}

/// Whether `worker.sh` prints this line when it starts a worker.
fn is_start_line(line: &str) -> bool {
    line.starts_with("node ") && line.contains(": job ") && line.contains(", start ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn new_job(id: &str, state: &str) -> Job {
        Job { id: id.into(), state: state.into(), reason: String::new(), node: String::new() }
    }

    #[test]
    fn failure_messages_list_each_error_once() {
        let run = tempfile::tempdir().unwrap();
        fs::create_dir(log_dir(run.path())).unwrap();
        let log = |id: &str, text: &str| {
            fs::write(log_dir(run.path()).join(format!("{id}.log")), text).unwrap();
        };
        let wrong = "started\nerror: wrong version\n hint: install it\n";
        log("7_0", wrong);
        log("7_1", wrong);
        log("7_2", "error: of an earlier start\n");
        let jobs = [new_job("7_0", "FAILED"), new_job("7_1", "FAILED"), new_job("7_2", "RUNNING")];
        let said = failure_messages(run.path(), &jobs);
        assert_eq!(said, ["2 jobs, first 7_0: wrong version (hint: install it)"]);
        let without = failure_messages(run.path(), &[new_job("7_4", "NODE_FAIL")]);
        assert!(without[0].contains("7_4") && without[0].contains("without a log"), "{without:?}");
    }

    #[test]
    fn last_message_is_an_error_of_the_last_start_or_the_last_line() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let start = "node n1: job 7_0, start 0, time left 5:00";
        let killed = "slurm_script: line 37: 4242 Killed \"$program\" worker";
        let limit = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED DUE TO TIME LIMIT ***";
        for (text, message) in [
            (format!("{start}\nerror: a\n hint: b\nlater\n"), Some("a (hint: b)")),
            (format!("{start}\n{killed}\n\n"), Some(killed)),
            (format!("{start}\n{killed}\nerror: killed\n"), Some("killed")),
            (format!("{start}\n{limit}\n"), limit.strip_prefix("slurmstepd: error: ")),
            (format!("{start}\nerror: a\n{start}\nlast\n"), Some("last")),
            (format!("error: a\n{start}\n"), None),
            (String::new(), None),
        ] {
            fs::write(&log, &text).unwrap();
            assert_eq!(read_last_message(&log).as_deref(), message, "{text}");
        }
    }

    #[test]
    fn start_line_is_the_one_that_the_script_prints() {
        let script = include_str!("worker.sh");
        let line = script.lines().find_map(|line| line.strip_prefix("echo \"")).unwrap();
        assert!(is_start_line(line), "{line}");
    }
}
