//! Sends one request to each model before the first trial. This checks that the endpoint is up,
//! accepts the key, has the model and supports tools. Problems are reported immediately, and trials
//! that would run into the same problem do not start.
//!
//! The request is not a step and not part of a trial. It is billed separately, reported, and stored
//! in `RUN/preflight.jsonl`. A rejection that may be due to the text or length of this request is
//! ignored, because it says nothing about the model.

use std::{
    collections::BTreeMap,
    fs::File,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use proctor_gateway::RequestError;
use proctor_types::{
    Budget, Fault, Message, ModelRequest, ModelSpec, ShippedTable, Spending, ToolSpec, UserError,
    count_with_noun,
};
use serde::Deserialize;
use serde_json::json;

use crate::{Plan, RunContext, exchange_log::ExchangeLog, images};

static PREFLIGHT_TABLE: ShippedTable<PreflightTable> = ShippedTable::new(
    "tables/preflight.toml",
    include_str!("../../../configs/tables/preflight.toml"),
);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PreflightTable {
    least_trials: usize,
    seconds: f64,
    image_seconds: f64,
    question: String,
    question_with_tools: String,
}

/// A finding reported before the first trial.
#[derive(Debug, Clone)]
pub enum PreflightFinding {
    /// A line of text for the user.
    Note(String),
    /// A model cannot be called.
    ModelFailed {
        /// The model's name.
        model: String,
        /// Why the model cannot be called.
        fault: Fault,
    },
}

/// Callback that receives preflight findings.
pub type PreflightSink<'a> = &'a (dyn Fn(PreflightFinding) + Send + Sync);

/// Reports findings about the images of pending trials.
pub(crate) async fn report_images(
    context: &RunContext,
    plan: &Plan,
    report_finding: PreflightSink<'_>,
) -> Result<(), UserError> {
    let seconds = PREFLIGHT_TABLE.get().map_err(UserError::new)?.image_seconds;
    for line in images::check_images(context, plan, seconds).await {
        report_finding(PreflightFinding::Note(line));
    }
    Ok(())
}

/// Sends a test request to each model of the pending trials and reports problems.
pub(crate) async fn probe_models(
    context: &RunContext,
    plan: &Plan,
    out: &Path,
    report_finding: PreflightSink<'_>,
) -> Result<(), UserError> {
    let table = PREFLIGHT_TABLE.get().map_err(UserError::new)?;
    let models = pending_models(context, plan, table.least_trials);
    if models.is_empty() {
        return Ok(());
    }
    let (mut options, path) = (File::options(), out.join("preflight.jsonl"));
    let file = proctor_files::open_with(options.create(true).append(true), &path);
    let file = file.map_err(|error| UserError::new(format!("preflight.jsonl: {error}")))?;
    let file = Arc::new(Mutex::new(file));
    let asked = models.iter().map(|(model, tools)| {
        let sink = ExchangeLog {
            name: "preflight.jsonl",
            model: Some(model.name.clone()),
            file: Arc::clone(&file),
            blobs: context.run.blobs(),
        };
        probe_model(context, model, *tools, table, sink)
    });
    join_all(asked).await.into_iter().flatten().for_each(report_finding);
    Ok(())
}

/// Returns each model that at least `min_trials` pending trials use, and whether any of those
/// trials offers tools to the model.
fn pending_models(context: &RunContext, plan: &Plan, min_trials: usize) -> Vec<(ModelSpec, bool)> {
    let mut found: BTreeMap<String, (ModelSpec, bool, usize)> = BTreeMap::new();
    for (id, _, arm) in plan.selected_trials() {
        let Some(model) = &arm.model else { continue };
        if context.run.trial_dir(&id).verdict_path().exists() {
            continue;
        }
        let tools = context.scaffolds.get(&arm.scaffold).is_some_and(|one| one.needs_tools());
        let key = json!([model.base_url, model.name, model.key_env, model.api]).to_string();
        let entry = found.entry(key).or_insert_with(|| (model.clone(), false, 0));
        entry.1 |= tools;
        entry.2 += 1;
    }
    let enough = found.into_values().filter(|(.., trials)| *trials >= min_trials);
    enough.map(|(model, tools, _)| (model, tools)).collect()
}

/// Sends the test request to one model and returns the finding.
async fn probe_model(
    context: &RunContext,
    model: &ModelSpec,
    needs_tools: bool,
    preflight_table: &PreflightTable,
    sink: ExchangeLog,
) -> Option<PreflightFinding> {
    let name = &model.name;
    let failed = |fault| Some(PreflightFinding::ModelFailed { model: name.clone(), fault });
    let line = match context.gateway.open(model, &Budget::default(), Arc::new(sink)) {
        Ok(line) => line,
        Err(fault) => return failed(fault),
    };
    let tool = ToolSpec {
        name: "ready".to_owned(),
        description: "Says that you are ready.".to_owned(),
        parameters: json!({ "type": "object", "properties": {} }),
    };
    let content =
        if needs_tools { &preflight_table.question_with_tools } else { &preflight_table.question };
    let question = ModelRequest {
        messages: vec![Message::User { content: content.clone() }],
        tools: if needs_tools { vec![tool] } else { Vec::new() },
    };
    let limit = Duration::try_from_secs_f64(preflight_table.seconds).unwrap_or_default();
    match tokio::time::timeout(limit, line.ask(&question)).await {
        Ok(Ok(_)) => {
            let bill = describe_cost(&line.meter().spending());
            Some(PreflightFinding::Note(format!("`{name}` responds; {bill}")))
        }
        Ok(Err(RequestError::Fault(fault))) => failed(fault),
        // Ignore the rejection, because it may be specific to this request.
        Ok(Err(_)) => None,
        Err(_) => {
            let seconds = preflight_table.seconds;
            Some(PreflightFinding::Note(format!(
                "`{name}` did not respond within {seconds} s; continuing"
            )))
        }
    }
}

fn describe_cost(spending: &Spending) -> String {
    format!(
        "{} in, {} out, {}, not part of the trials' cost",
        count_with_noun(spending.input_tokens, "token"),
        count_with_noun(spending.output_tokens, "token"),
        spending.format_cost()
    )
}
