//! `proctor tasks`: inspects and validates datasets.

use std::process::ExitCode;

use crate::{
    args::TasksAction,
    commands::{
        impossible::write_impossible_variants,
        quality::check_quality,
        show,
        stats::print_stats,
        validate::{ValidationOptions, validate},
    },
    error::CommandError,
};

pub async fn run_tasks_action(action: TasksAction) -> Result<ExitCode, CommandError> {
    match action {
        TasksAction::List(dataset) => show::list_tasks(&dataset.tasks).await,
        TasksAction::Show { id, dataset, gold, json } => {
            show::show_task(id, dataset.tasks, gold, json).await
        }
        TasksAction::Validate {
            dataset,
            repeat,
            attack,
            limit,
            sandbox,
            jobs,
            out,
            certificate,
            visible_tests,
        } => {
            let kind = sandbox.into();
            let jobs = jobs as usize;
            let asked = ValidationOptions {
                dataset,
                repetitions: repeat,
                attack,
                limit,
                kind,
                jobs,
                out,
                certificate,
                shows_tests: visible_tests,
            };
            validate(asked).await
        }
        TasksAction::Impossible { dataset, sandbox, out } => {
            write_impossible_variants(&dataset.tasks, sandbox.into(), &out).await
        }
        TasksAction::Stats { dataset, format } => print_stats(&dataset.tasks, format).await,
        TasksAction::Quality { dataset, certificate, out } => {
            check_quality(&dataset.tasks, certificate.as_deref(), out.as_deref()).await
        }
    }
}
