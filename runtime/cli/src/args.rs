//! The command-line arguments.

mod cli;
mod cluster;
mod collect;
mod exchange;
mod grade;
mod groups;
mod init;
mod mask;
mod results;
mod run;
mod sandbox;
mod tasks;
mod version;

pub use self::{
    cli::{Cli, Command, ScaffoldAction, SchemaKind},
    cluster::{EngineName, SubmitArgs, WorkerArgs},
    collect::{CollectArgs, CollectPullsArgs},
    exchange::{ExportFormat, ImportArgs, ImportFormat},
    grade::GradeArgs,
    groups::cli_command,
    init::InitArgs,
    mask::MaskArgs,
    results::{
        CompareArgs, CurveArgs, CurveFormat, LabelArgs, OutputFormat, ReportArgs, ReportFormat,
        ShowArgs, TrialPart,
    },
    run::{ForkArgs, RerunSelection, RunArgs, ShellArgs},
    sandbox::SandboxArg,
    tasks::{ALL_ATTACKS, DatasetArgs, StatsFormat, TasksAction},
};
