//! The `proctor` command. This crate only parses arguments, assembles the other crates and prints
//! results.

// This module comes first because the following modules use its macro.
#[macro_use]
mod print;

mod args;
mod assemble;
mod command_model;
mod commands;
mod copies;
mod error;
mod mask;
mod progress;
mod watchdog;
mod workers;

use std::{process::ExitCode, time::Duration};

use clap::FromArgMatches as _;
use proctor_config as config;
use proctor_plan::{
    cache_dir, checks, estimates, extend, machine_limits, open_files, selection, shipped, tasks,
};
use tracing_subscriber::EnvFilter;

use crate::{
    args::{Cli, Command},
    error::{CommandError, UserError},
    mask::SecretMask,
    progress::ProgressFormat,
};

/// With mimalloc, the gateway serves about a quarter more streams than with glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long threads may take to finish their work at exit. They mostly remove directories.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let cli = match Cli::from_arg_matches(&args::cli_command().get_matches()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    // The default filter silences async-openai, which logs whole bodies when it cannot parse one.
    let filter = EnvFilter::try_from_env("PROCTOR_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    progress::set_progress_format(if cli.quiet { ProgressFormat::None } else { cli.progress });
    open_files::raise_limit();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tell!("error: cannot start the async runtime: {error}");
            return ExitCode::from(1);
        }
    };
    let done = runtime.block_on(run_command(cli));
    // Signal handlers are gone by now, so a thread that is stuck on a file system must not block
    // the exit forever.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    // Shutting down the runtime drops the sandboxes that are still open.
    proctor_native::wait_for_dropped_sandboxes(SHUTDOWN_TIMEOUT);
    match done {
        Ok(code) => code,
        Err(error) => {
            tell!("{error}");
            error.exit_code()
        }
    }
}

async fn run_command(cli: Cli) -> Result<ExitCode, CommandError> {
    match cli.command {
        Command::Init(args) => commands::init(args),
        Command::Run(args) => commands::run(args).await,
        Command::Resume { run, set, join, here, jobs, confirm } => {
            let jobs = jobs.map(|jobs| usize::try_from(jobs).unwrap_or(usize::MAX));
            let options =
                commands::ResumeOptions { jobs, confirms_rerun: confirm, runs_locally: here };
            match join {
                true => commands::join_run(&run, options, None).await,
                false => {
                    commands::resume(&run, &set, options, assemble::RegradePolicy::ReuseVerdict)
                        .await
                }
            }
        }
        Command::Worker(args) => commands::run_worker(args).await,
        Command::Submit(args) => commands::submit(args).await,
        Command::Cancel { run } => commands::cancel(&run).await,
        Command::Fork(args) => commands::fork(args).await,
        Command::Rerun { run, select } => commands::rerun(&run, select).await,
        Command::Grade(args) => commands::grade(args).await,
        Command::Tasks { action } => commands::run_tasks_action(action).await,
        Command::Report(args) if args.recheck => commands::recheck(&args.runs, args.format),
        Command::Report(args) => commands::report(&args, &SecretMask::from_args(&args.mask)?),
        Command::Compare(args) => commands::compare(&args),
        Command::Collect(args) => commands::collect(args).await,
        Command::CollectPulls(args) => commands::collect_pulls(args).await,
        Command::Shell(args) => commands::open_sandbox_shell(args).await,
        Command::Show(args) => commands::show_trial(&args),
        Command::Label(args) => commands::label(&args),
        Command::Watch { run } => commands::watch(&run).await,
        Command::View { runs, files: Some(out), mask, .. } => {
            commands::view_as_files(&runs, &out, &SecretMask::from_args(&mask)?)
        }
        Command::View { mask, .. } if mask.is_requested() => {
            Err(UserError::new("--mask and --mask-words work only with --static")
                .hint("add --static DIR, or remove --mask and --mask-words")
                .into())
        }
        Command::View { runs, port, .. } => commands::view(&runs, port).await,
        Command::Export { run, format, out, mask } => {
            commands::export(&run, format, &out, &SecretMask::from_args(&mask)?)
        }
        Command::Import(args) => commands::import(&args).await,
        Command::Curve(args) => commands::print_curve(args).await,
        Command::Scaffold { action } => commands::run_scaffold_action(action).await,
        Command::Completions { shell } => commands::print_completions(shell),
        Command::Man { out } => commands::write_man_pages(&out),
        Command::Schema { of } => commands::print_schema(of),
        Command::Clean { dry_run, older_than } => commands::clean(dry_run, older_than).await,
        Command::Doctor { full } => commands::check_back_ends(full).await,
    }
}
