//! `proctor shell`: opens a shell in a sandbox that contains a task's initial state or a trial's
//! recorded state.

use std::{
    io::{IsTerminal as _, Read as _, Write},
    path::Path,
    process::{Command as Program, ExitCode, Stdio},
    sync::Arc,
};

use proctor_plan::{Purpose, ReadConfig as Planning};
use proctor_record::{RunDir, trial_lookup::find_by_name};
use proctor_run::{
    Execution, ForkPoint, Moment, Plan, PlannedTask, RunContext, open_trial_sandbox,
};
use proctor_sandbox_api::{Command, CommandEvent, Sandbox, wire::RawPath};
use proctor_types::{Arm, SandboxKind, SandboxSpec, Task, TrialId};
use tokio::sync::mpsc;

use crate::{
    args::ShellArgs,
    assemble::{self, FlakyTests, RegradePolicy},
    cache_dir,
    commands::{execute::progress_board, resume::plan_from_record},
    config,
    error::{CommandError, INTERRUPTED_STATUS, UserError},
    progress,
};

/// File in the sandbox that receives standard input if it is not a terminal. The shell removes this
/// file before it reads the first command.
const INPUT_FILE: &str = "/tmp/.proctor-shell-input";

/// Starts a shell with a pseudo-terminal if the sandbox has `script`, so that line editing and Ctrl-C work.
const TERMINAL_COMMAND: &str = "shell=$(command -v bash || echo /bin/sh); \
    if script -qec true /dev/null >/dev/null 2>&1; then \
    exec script -qec \"stty $1 2>/dev/null; exec $shell\" /dev/null; fi; exec $shell -i";

pub async fn open_sandbox_shell(args: ShellArgs) -> Result<ExitCode, CommandError> {
    let moment = match (args.graded, args.step, args.trial.is_some()) {
        (true, ..) => Moment::AfterGrading,
        (_, Some(step), _) => Moment::AfterStep(step),
        (_, None, true) => Moment::End,
        (_, None, false) => Moment::Begin,
    };
    let temporary = tempfile::Builder::new().prefix("proctor-shell-").tempdir()?;
    let cache = cache_dir::default_cache_dir()?;
    let (run, only) = match &args.trial {
        Some(trial) => open_trial_run(&args, trial)?,
        None => plan_task_run(&args, temporary.path(), &cache).await?,
    };
    let record = run.read_run()?;
    let mut plan: Plan = plan_from_record(&record);
    let found = plan.trials().into_iter().find(|(id, ..)| *id == only);
    let Some((id, planned, arm)) = found else {
        return Err(UserError::new("the plan does not contain this trial").into());
    };
    plan.arms = vec![Arc::clone(&arm)];
    let kept = &record.config.cache;
    let backends = assemble::start_backends(&[arm.as_ref().clone()], &cache, kept).await?;
    let board = progress_board(&run, &plan);
    let catalog = assemble::scaffold_catalog()?;
    let execution = Execution {
        run,
        plan,
        jobs: 1,
        backends,
        scaffolds: &catalog,
        cache: &cache,
        regrade_policy: RegradePolicy::ReuseVerdict,
        flaky_tests: FlakyTests::default(),
        say: &assemble::print_message,
        on_preflight: &assemble::print_preflight,
    };
    let (context, told) = execution.open().await?.into_parts();
    let watcher = tokio::spawn(progress::show_progress(told, board));
    let status = open_shell(&context, &id, &planned, &arm, moment).await;
    drop(context);
    watcher.await?;
    status
}

fn open_trial_run(args: &ShellArgs, trial: &str) -> Result<(RunDir, TrialId), CommandError> {
    if !args.tasks.is_empty() {
        return Err(UserError::new("--tasks cannot be used with --trial")
            .hint("omit --tasks: the run has its own tasks")
            .into());
    }
    let run = RunDir::open_read_only(&args.of).map_err(CommandError::from_record_error)?;
    let record = run.read_run()?;
    let found = find_by_name(&record, trial)?;
    let id = found.id();
    if let Some(step) = args.step {
        // Check this before opening a sandbox, so that it is reported as a usage error.
        ForkPoint::read(&run, &id, step)?.map_err(|why| {
            UserError::new(format!("--step {step}: {}: {why}", found.name()))
                .hint("`proctor show RUN TASK ARM ATTEMPT` lists its steps")
        })?;
    }
    Ok((run, id))
}

/// Plans a run with a single trial. The trial never starts; the plan only determines the sandbox.
async fn plan_task_run(
    args: &ShellArgs,
    folder: &Path,
    cache: &Path,
) -> Result<(RunDir, TrialId), CommandError> {
    if args.tasks.is_empty() {
        let what = format!("{}: pass a task and --tasks, or a run and --trial", args.of);
        let hint = "use `proctor shell TASK --tasks DATASET` or `proctor shell RUN --trial TASK/ARM/ATTEMPT`";
        return Err(UserError::new(what).hint(hint).into());
    }
    let kind: SandboxKind = args.sandbox.into();
    let sandbox = SandboxSpec { kind, ..SandboxSpec::default() };
    let arm = config::plain_arm("noop", &sandbox);
    let file = config::plain_config(args.tasks.clone(), &sandbox, vec![arm]);
    let catalog = assemble::scaffold_catalog()?;
    let world = assemble::plan_context(cache, &catalog);
    let resolved = Planning::from_arguments(file, assemble::SANDBOX_OPTION_HINT).resolve(world)?;
    let loaded = resolved.load_task(world, Purpose::Open, &args.of).await?;
    let backend = assemble::start_backend(kind, cache).await?;
    let ready = loaded.build_bundles(world).await?.build_recipes(world, &backend).await?;
    let planned = ready.create_run(folder, proctor_embedded_agent::agent_digest())?;
    let Some((id, ..)) = planned.plan.trials().into_iter().next() else {
        return Err(UserError::new("nothing to open").into());
    };
    Ok((planned.run, id))
}

async fn open_shell(
    context: &RunContext,
    id: &TrialId,
    planned_task: &PlannedTask,
    arm: &Arm,
    moment: Moment,
) -> Result<ExitCode, CommandError> {
    let (mut sandbox, task) = open_trial_sandbox(context, id, planned_task, arm, moment).await?;
    let interactive = std::io::stdin().is_terminal();
    if interactive {
        tell!(
            "sandbox of {} on {}, without network; `exit` closes it and discards all changes",
            planned_task.task.id,
            arm.sandbox.kind
        );
    }
    let talked = tokio::select! {
        talked = run_shell(sandbox.as_ref(), &task, interactive) => talked,
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(INTERRUPTED_STATUS)),
    };
    sandbox.close().await?;
    talked
}

async fn run_shell(
    sandbox: &dyn Sandbox,
    task: &Task,
    is_interactive: bool,
) -> Result<ExitCode, CommandError> {
    let handle = sandbox.handle();
    let terminal = if is_interactive { Terminal::enter_raw_mode() } else { None };
    let mut command = match &terminal {
        Some(terminal) => Command::new(["/bin/sh", "-c", TERMINAL_COMMAND, "sh", &terminal.size]),
        None => {
            let mut input = Vec::new();
            std::io::stdin().read_to_end(&mut input)?;
            let wrote = handle.write(&RawPath::from(INPUT_FILE), &input, Some(0o644)).await;
            wrote.map_err(|error| error.to_fault("passing the input"))?;
            let line = format!(
                "exec 0<{INPUT_FILE}; rm -f {INPUT_FILE}; command -v bash >/dev/null && exec bash; exec /bin/sh"
            );
            Command::new(["/bin/sh".to_owned(), "-c".to_owned(), line])
        }
    };
    command = command.cwd(task.cwd());
    for (key, value) in task.command_env() {
        command = command.env(&key, value.as_str());
    }
    if let (Some(_), Ok(term)) = (&terminal, std::env::var("TERM")) {
        command = command.env("TERM", term);
    }
    command.user.clone_from(&task.user);
    let mut running = handle.start(command).map_err(|error| error.to_fault("starting a shell"))?;
    let mut typed = terminal.as_ref().map(|_| spawn_key_reader());
    let exited = loop {
        let said = match &mut typed {
            None => running.next_event().await,
            Some(keys) => tokio::select! {
                said = running.next_event() => said,
                Some(bytes) = keys.recv() => {
                    running.queue_input(&bytes);
                    continue;
                }
            },
        };
        match said.map_err(|error| error.to_fault("running the shell"))? {
            CommandEvent::Stdout(bytes) => write_and_flush(&mut std::io::stdout(), &bytes)?,
            CommandEvent::Stderr(bytes) => write_and_flush(&mut std::io::stderr(), &bytes)?,
            CommandEvent::Exited(exited) => break exited,
        }
    };
    let signal_status = exited.signal.map_or(1, |signal| 128 + signal);
    let status = exited.code.unwrap_or(signal_status);
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}

fn write_and_flush(output: &mut dyn Write, bytes: &[u8]) -> std::io::Result<()> {
    output.write_all(bytes)?;
    output.flush()
}

/// Reads terminal input on a separate thread, because a terminal read cannot be cancelled.
fn spawn_key_reader() -> mpsc::UnboundedReceiver<Vec<u8>> {
    let (send, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = std::io::stdin().read(&mut buffer) {
            if send.send(buffer[..read].to_vec()).is_err() {
                break;
            }
        }
    });
    keys
}

/// The user's terminal. It is in raw mode as long as this value exists.
struct Terminal {
    saved_settings: String,
    /// The terminal's size, as arguments to `stty`.
    size: String,
}

impl Terminal {
    fn enter_raw_mode() -> Option<Self> {
        let saved = run_stty(&["-g"])?;
        let size = run_stty(&["size"])?;
        let (rows, columns) = size.split_once(' ')?;
        run_stty(&["raw", "-echo"])?;
        Some(Self { saved_settings: saved, size: format!("rows {rows} cols {columns}") })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        run_stty(&[&self.saved_settings]);
    }
}

fn run_stty(args: &[&str]) -> Option<String> {
    let output = Program::new("stty").args(args).stdin(Stdio::inherit()).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
