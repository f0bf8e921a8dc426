//! `proctor tasks`: inspects and validates datasets.

use std::process::ExitCode;

use crate::{
    args::TasksAction,
    commands::{
        impossible::impossible,
        quality::quality,
        show,
        stats::stats,
        validate::{Validation, validate},
    },
    error::CommandError,
};

pub async fn tasks(action: TasksAction) -> Result<ExitCode, CommandError> {
    match action {
        TasksAction::List(dataset) => show::list(&dataset.tasks).await,
        TasksAction::Show { id, dataset, gold, json } => {
            show::show(id, dataset.tasks, gold, json).await
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
            let asked = Validation {
                dataset,
                repeat,
                attack,
                limit,
                kind,
                jobs,
                out,
                certificate,
                visible_tests,
            };
            validate(asked).await
        }
        TasksAction::Impossible { dataset, sandbox, out } => {
            impossible(&dataset.tasks, sandbox.into(), &out).await
        }
        TasksAction::Stats { dataset, format } => stats(&dataset.tasks, format).await,
        TasksAction::Quality { dataset, certificate, out } => {
            quality(&dataset.tasks, certificate.as_deref(), out.as_deref()).await
        }
    }
}
