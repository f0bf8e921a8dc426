//! Runs one agent in a sandbox: prepares it, and starts, watches and stops it.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use proctor_bundles::SHELL;
use proctor_sandbox_api::{
    Command, CommandOutput, SandboxError, SandboxHandle,
    wire::{RawPath, SearchRequest},
};
use proctor_scaffold_api::{Finish, Session, Stop};
use proctor_types::{Fault, FaultCause, FaultLayer, RepositorySettings};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    Manifest, StopRules,
    activity::{Activity, SAMPLE_SCRIPT},
    ending::{AgentEnd, determine_finish},
    repository::HiddenFiles,
    templates::RenderedManifest,
    time_limits::{HELPER_TIMEOUT, KILL_TIMEOUT},
};

/// Shell code that writes the shell's process id to a file and then executes the agent, so that
/// signals reach the agent itself. Standard input is a file and not a pipe. Node makes pipes
/// non-blocking, so an agent that reads immediately (Continue) would find no data while a long
/// prompt is still being written.
const START_SCRIPT: &str = "echo $$ >\"$1\" && exec <\"$2\" && shift 2 && exec \"$@\"";
/// The file that contains the standard input, relative to `HOME`.
const STDIN_FILE: &str = ".stdin";
/// Maximum number of bytes to keep of each output stream.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
/// Maximum size, in bytes, of a file that an exit rule reads.
const MAX_RECORD_BYTES: u64 = 256 << 20;
/// Maximum number of files for each pattern in `[log]`.
const MAX_LOG_FILES: u32 = 1000;

/// The user who runs the agent in its sandbox, and the user's home directory.
struct AgentAccount<'a> {
    handle: Arc<SandboxHandle>,
    user: Option<String>,
    home: &'a str,
}

type RunningAgent<'a> =
    Pin<&'a mut (dyn Future<Output = Result<CommandOutput, SandboxError>> + Send)>;

/// Runs the agent until it exits, and determines how the trial ended.
pub async fn run(
    manifest: &Manifest,
    rendered_manifest: RenderedManifest,
    (home, settings): (&str, RepositorySettings),
    session: &mut dyn Session,
) -> Result<Finish, Stop> {
    let brief = session.brief().clone();
    let account =
        AgentAccount { handle: Arc::clone(session.sandbox()), user: brief.user.clone(), home };
    account.create_home(&rendered_manifest).await?;
    if let Some(file) = &rendered_manifest.prompt_file {
        let note = ("prompt_in_file".to_owned(), file.as_str().into());
        session.note(Map::from_iter([note])).await?;
    }
    let repository = HiddenFiles::prepare(&manifest.repository, settings, home, session).await?;
    let command = account.command(rendered_manifest, &brief.env);
    let mut running = pin!(account.handle.run(command));
    let seen = watch(manifest, &account, running.as_mut(), session).await;
    let (ended, done) = match seen {
        WatchEnd::Exited(done) => (AgentEnd::Exited, Some(*done)),
        WatchEnd::TrialOver => {
            let leave = Duration::from_secs_f64(manifest.stop.leave_seconds);
            match timeout(leave, running.as_mut()).await {
                Ok(done) => (AgentEnd::Exited, Some(done)),
                Err(_) => (AgentEnd::Stopped, account.stop(&manifest.stop, running.as_mut()).await),
            }
        }
        WatchEnd::Idle => (AgentEnd::Idle, account.stop(&manifest.stop, running.as_mut()).await),
        WatchEnd::RequestsRejected => {
            (AgentEnd::RequestsRejected, account.stop(&manifest.stop, running.as_mut()).await)
        }
    };
    // Kill any remaining processes. A process that has moved out of the agent's process group would
    // otherwise keep running and could write to the graded tree.
    let late = account.kill_everything().await?;
    repository.restore(session).await?;
    let done = match done {
        Some(done) => done.map_err(|error| error.to_fault(format!("running {}", manifest.name)))?,
        None => CommandOutput::default(),
    };
    let left = done.exit.left_behind + late;
    if left > 0 {
        session.note(Map::from_iter([("left_running".to_owned(), left.into())])).await?;
    }
    store_output(manifest, &account, &done, session).await?;
    let files = read_record_files(manifest, &account).await?;
    Ok(determine_finish(manifest, ended, (&done, &files), &session.traffic()))
}

/// Why watching the agent ended.
enum WatchEnd {
    Exited(Box<Result<CommandOutput, SandboxError>>),
    /// The trial is over.
    TrialOver,
    /// The agent sent no requests and no process was busy.
    Idle,
    /// The gateway rejected too many consecutive requests.
    RequestsRejected,
}

async fn watch(
    manifest: &Manifest,
    account: &AgentAccount<'_>,
    mut agent: RunningAgent<'_>,
    session: &mut dyn Session,
) -> WatchEnd {
    let limit = Duration::from_secs_f64(manifest.idle_seconds);
    let tick = (limit / 5).clamp(Duration::from_millis(200), Duration::from_secs(15));
    let mut activity = Activity::default();
    loop {
        tokio::select! {
            done = agent.as_mut() => return WatchEnd::Exited(Box::new(done)),
            () = session.wait_for_end() => return WatchEnd::TrialOver,
            () = sleep(tick) => {}
        }
        let traffic = session.traffic();
        if traffic.refused_requests >= manifest.stop.refusals {
            return WatchEnd::RequestsRejected;
        }
        if activity.has_new_requests(&traffic) {
            continue;
        }
        // Check for activity only if there are no requests. Ignore a failed check: if the sandbox
        // is broken, the agent's command fails too.
        let sample = tokio::select! {
            done = agent.as_mut() => return WatchEnd::Exited(Box::new(done)),
            () = session.wait_for_end() => return WatchEnd::TrialOver,
            sample = account.sample_processes() => sample,
        };
        if activity.idle_time(&sample) >= limit {
            return WatchEnd::Idle;
        }
    }
}

impl AgentAccount<'_> {
    fn pid_file(&self) -> String {
        format!("{}/.pid", self.home)
    }

    /// Creates a helper command that runs as the agent's user.
    fn helper_command(&self, line: &str, arguments: &[&str]) -> Command {
        let argv = ["/bin/sh", "-c", line, "sh"].into_iter().chain(arguments.iter().copied());
        let mut command = Command::new(argv).time_limit(HELPER_TIMEOUT);
        command.user.clone_from(&self.user);
        command
    }

    /// Creates the agent's `HOME` and the files in it. Runs as the agent's user, who then owns
    /// them.
    async fn create_home(&self, rendered_manifest: &RenderedManifest) -> Result<(), Stop> {
        let made = self.helper_command("umask 077 && mkdir -p \"$1\"", &[self.home]);
        self.run_setup_command(made, self.home).await?;
        let stdin = (STDIN_FILE.to_owned(), rendered_manifest.stdin.clone(), false);
        for (path, content, executable) in rendered_manifest.files.iter().chain([&stdin]) {
            let path = format!("{}/{path}", self.home);
            let line = "umask 077 && mkdir -p \"${1%/*}\" && cat >\"$1\" && chmod \"$2\" \"$1\"";
            let mut command =
                self.helper_command(line, &[&path, if *executable { "700" } else { "600" }]);
            command.stdin = content.clone().into_bytes();
            self.run_setup_command(command, &path).await?;
        }
        Ok(())
    }

    async fn run_setup_command(&self, command: Command, description: &str) -> Result<(), Stop> {
        let done = self.handle.run(command).await;
        let done = done.map_err(|error| error.to_fault(format!("creating {description}")))?;
        if done.success() {
            return Ok(());
        }
        let said = done.stderr.text();
        let what = format!("{description} could not be created in the sandbox: {}", said.trim());
        let hint = "the image needs /bin/sh, mkdir, cat, chmod and a writable /tmp";
        Err(Fault::new(FaultLayer::Setup, what).cause(FaultCause::Invalid).hint(hint).into())
    }

    fn command(&self, rendered_manifest: RenderedManifest, env: &[(String, String)]) -> Command {
        let (pid_file, stdin) = (self.pid_file(), format!("{}/{STDIN_FILE}", self.home));
        let argv = ["/bin/sh", "-c", START_SCRIPT, "sh", pid_file.as_str(), stdin.as_str()];
        let argv = argv.map(str::to_owned);
        let mut command = Command::new(argv.into_iter().chain(rendered_manifest.argv))
            .cwd(rendered_manifest.cwd.as_str());
        for (key, value) in env {
            command = command.env(key, value.as_str());
        }
        let path = command.env.get("PATH").map(ToString::to_string).unwrap_or_default();
        command = command.env("PATH", format!("{path}:{SHELL}").as_str()).env("HOME", self.home);
        // Bypass proxies for requests to the gateway: some agents load the `.env` file of a
        // repository, and a proxy that it sets must not intercept these requests.
        for key in ["NO_PROXY", "no_proxy"] {
            if !command.env.contains_key(key) {
                command = command.env(key, "127.0.0.1,localhost");
            }
        }
        for (key, value) in &rendered_manifest.env {
            command = command.env(key, value.as_str());
        }
        command.user.clone_from(&self.user);
        command.head_cap = MAX_OUTPUT_BYTES;
        command.reap_all = true;
        command
    }

    async fn sample_processes(&self) -> String {
        let done = self.handle.run(self.helper_command(SAMPLE_SCRIPT, &[&self.pid_file()])).await;
        done.map_or_else(|_| String::new(), |done| done.stdout.text())
    }

    /// Stops a running agent: sends the signal, waits for the grace period, and then kills
    /// everything in the sandbox. Returns the output, unless even killing took too long.
    async fn stop(
        &self,
        rules: &StopRules,
        mut agent: RunningAgent<'_>,
    ) -> Option<Result<CommandOutput, SandboxError>> {
        let line = "kill -s \"$1\" -- \"-$(cat \"$2\")\"";
        let signal = self.helper_command(line, &[rules.signal.name(), &self.pid_file()]);
        let grace = Duration::from_secs_f64(rules.grace_seconds);
        let asked = async {
            // If the agent ignores the signal, it is killed afterwards.
            let _ = self.handle.run(signal).await;
            sleep(grace).await;
        };
        tokio::select! {
            done = agent.as_mut() => return Some(done),
            _ = timeout(grace, asked) => {}
        }
        let killed =
            timeout(KILL_TIMEOUT, async { tokio::join!(agent.as_mut(), self.kill_everything()).0 });
        killed.await.ok()
    }

    /// Kills all processes that the agent left. Returns their number.
    async fn kill_everything(&self) -> Result<u32, Stop> {
        let mut command = Command::shell(":").time_limit(HELPER_TIMEOUT);
        command.reap_all = true;
        let done = self.handle.run(command).await;
        done.map(|done| done.exit.left_behind)
            .map_err(|error| error.to_fault("ending the agent's remaining processes").into())
    }
}

/// Stores the agent's output and log as evidence. Adds a note about files that cannot be read.
async fn store_output(
    manifest: &Manifest,
    account: &AgentAccount<'_>,
    output: &CommandOutput,
    session: &mut dyn Session,
) -> Result<(), Stop> {
    for (name, stream) in [("stdout.log", &output.stdout), ("stderr.log", &output.stderr)] {
        session.store_evidence(name, &stream.head).await?;
    }
    let mut left = manifest.log.bytes;
    for glob in &manifest.log.files {
        let request = SearchRequest {
            root: RawPath::from(account.home),
            pattern: None,
            glob: Some(glob.clone()),
            ignore_case: false,
            honour_ignore: false,
            limit: MAX_LOG_FILES,
        };
        let found = match account.handle.search(request).await {
            Ok((found, _)) => found,
            Err(error) if error.is_broken() => {
                return Err(error.to_fault("reading the agent's log").into());
            }
            Err(_) => continue,
        };
        for file in found {
            let relative = file.path.to_string();
            let path = RawPath::from(format!("{}/{relative}", account.home).as_str());
            match account.handle.read(&path, left).await {
                Ok(content) => {
                    left = left.saturating_sub(content.len() as u64);
                    session.store_evidence(&format!("home/{relative}"), &content).await?;
                }
                Err(error) if error.is_broken() => {
                    return Err(error.to_fault("reading the agent's log").into());
                }
                Err(error) => {
                    let note = json!({ "log_not_kept": relative, "why": error.to_string() });
                    session.note(note.as_object().cloned().unwrap_or_default()).await?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the JSON files that exit rules read, by path. Leaves out files that are missing or are
/// not valid JSON.
async fn read_record_files(
    manifest: &Manifest,
    account: &AgentAccount<'_>,
) -> Result<BTreeMap<String, Value>, Stop> {
    let mut found = BTreeMap::new();
    for file in manifest.exit.iter().filter_map(|rule| rule.file.as_ref()) {
        let path = RawPath::from(format!("{}/{file}", account.home));
        match account.handle.read(&path, MAX_RECORD_BYTES).await {
            Ok(content) => {
                if let Ok(value) = serde_json::from_slice(&content) {
                    found.insert(file.clone(), value);
                }
            }
            Err(error) if error.is_broken() => {
                return Err(error.to_fault("reading the agent's record").into());
            }
            Err(_) => {}
        }
    }
    Ok(found)
}
