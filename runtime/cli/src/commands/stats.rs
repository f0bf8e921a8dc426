//! `proctor tasks stats`: prints statistics about the tasks of one or more datasets.

use std::{path::Path, process::ExitCode};

use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use proctor_datasets::{
    DatasetStats, ReadSource, RowFiles, RowRetention, TaskStats, fea_bench::Repository,
};
use proctor_run::PlannedTask;
use proctor_setup::Sources;
use proctor_types::{SandboxKind, Source, plural};
use serde_json::json;

use crate::{
    args::StatsFormat,
    assemble, cache_dir,
    error::CommandError,
    print::{print_result, print_visible},
    tasks,
};

/// The version of the `--format json` output.
const STATS_SCHEMA: u32 = 1;

/// Prints a column for each dataset.
pub async fn print_stats(
    patterns: &[String],
    format: StatsFormat,
) -> Result<ExitCode, CommandError> {
    let cache = cache_dir::default_cache_dir()?;
    let mut all = Vec::new();
    for pattern in patterns {
        all.push(measure_dataset(pattern, &cache).await?);
    }
    match format {
        StatsFormat::Text => print_visible(&text(&all))?,
        StatsFormat::Markdown => print_visible(&markdown(&all))?,
        StatsFormat::Csv => print_result(&csv(&all))?,
        StatsFormat::Json => {
            let value = json!({"schema_version": STATS_SCHEMA, "datasets": all});
            print_result(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure_dataset(pattern: &str, cache: &Path) -> Result<DatasetStats, CommandError> {
    let patterns = [pattern.to_owned()];
    let mut loaded = tasks::read_complete_keeping(
        &patterns,
        cache,
        RowRetention::Files,
        &assemble::print_message,
    )
    .await?;
    let files = std::mem::take(&mut loaded.files);
    // Only recipes that have not been built yet need a sandbox.
    let planned = match loaded.recipes.is_empty() {
        true => tasks::planned_tasks(&loaded)?,
        false => {
            let backend = assemble::start_backend(SandboxKind::Native, cache).await?;
            tasks::build_tasks(loaded, cache, &backend, &assemble::print_message).await?
        }
    };
    let sources = Sources::new(cache.join("sources"));
    let (mut figures, mut unread) = (Vec::new(), Vec::new());
    for task in &planned {
        let state = match files.get(&task.task.id) {
            Some(files) => Some(TaskFiles::Row(files)),
            None => match open_task_files(task, &sources).await {
                Ok(state) => state,
                Err(why) => {
                    unread.push(format!("{}: {why}", task.task.id));
                    None
                }
            },
        };
        let read = |path: &str| state.as_ref().and_then(|state| state.read(path));
        let source: ReadSource<'_> = &read;
        figures.push(TaskStats::from_task(&task.task, state.as_ref().map(|_| source)));
    }
    if let Some(first) = unread.first() {
        let count = plural(unread.len(), "source");
        tell!("warning: {count} of {pattern} could not be read: {first}");
    }
    Ok(DatasetStats::from_tasks(pattern, figures))
}

/// A task's source, if its files can be read without opening a sandbox.
enum TaskFiles<'a> {
    Row(&'a RowFiles),
    Clone(Repository, String),
    Tree(std::path::PathBuf),
}

impl TaskFiles<'_> {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        match self {
            Self::Row(files) => files.get(path)?.clone().map(String::into_bytes),
            Self::Clone(clone, commit) => clone.read_file(commit, path).map(String::into_bytes),
            Self::Tree(folder) => std::fs::read(folder.join(path)).ok(),
        }
    }
}

/// Returns access to a task's source files, or `None` if the source exists only in the task's
/// image.
async fn open_task_files(
    planned: &PlannedTask,
    sources: &Sources,
) -> Result<Option<TaskFiles<'static>>, String> {
    let Some(source) = &planned.task.source else { return Ok(None) };
    // Read local clones in place, because checking out every task would take too long.
    if let Source::Git { git, commit } = source {
        let folder = planned.base_dir.join(git);
        if folder.is_dir() {
            return Repository::open(&folder)
                .map(|clone| Some(TaskFiles::Clone(clone, commit.clone())));
        }
    }
    let tree = sources.fetch(source, &planned.base_dir).await.map_err(|fault| fault.to_string())?;
    Ok(Some(TaskFiles::Tree(tree.folder)))
}

/// Returns every figure's name and formatted value. Estimates start with `~`; unknown figures are
/// `-`.
fn figures(of: &DatasetStats) -> Vec<(&'static str, String)> {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let about = |value: Option<f64>, digits: usize| {
        let mark = if of.estimated > 0 && value.is_some() { "~" } else { "" };
        format!("{mark}{}", number(value, digits))
    };
    let day = |day: Option<&str>| day.unwrap_or("-").to_owned();
    vec![
        ("tasks", of.tasks.to_string()),
        ("repositories", of.repositories.to_string()),
        ("first date", day(of.first_date.as_deref())),
        ("last date", day(of.last_date.as_deref())),
        ("statement words", number(of.statement_words, 1)),
        ("gold lines", number(of.gold_lines, 1)),
        ("gold files", number(of.gold_files, 2)),
        ("gold functions", about(of.gold_functions, 2)),
        ("gold classes", about(of.gold_classes, 2)),
        ("functions added", about(of.functions_added, 2)),
        ("classes added", about(of.classes_added, 3)),
        ("lines of oracle files", number(of.oracle_lines, 1)),
        ("lines of added components", number(of.added_component_lines, 1)),
        ("% added components", number(of.added_component_share.map(|share| share * 100.0), 1)),
        ("fail-to-pass tests", number(of.fail_to_pass, 1)),
        ("all tests", number(of.tests, 1)),
    ]
}

/// Lists the tasks that a dataset's figures do not cover.
fn notes(of: &DatasetStats) -> Vec<String> {
    let mut out = Vec::new();
    let mut note = |count: usize, what: &str| {
        if count > 0 {
            let all = plural(of.tasks, "task");
            out.push(format!("{}: {count} of {all} {what}", of.dataset));
        }
    };
    note(of.tasks - of.with_gold, "without a measurable solution");
    note(of.estimated, "with functions and classes counted from the diff only (~)");
    note(of.tests_are_files, "whose test ids are whole files");
    note(of.tasks - of.dated, "without a date");
    out
}

/// Returns the names of the figures, and a column of values for each dataset.
fn rows(all: &[DatasetStats]) -> Vec<Vec<String>> {
    let columns: Vec<Vec<(&str, String)>> = all.iter().map(figures).collect();
    let names = columns.first().into_iter().flatten().map(|(name, _)| (*name).to_owned());
    let row = |(index, name): (usize, String)| -> Vec<String> {
        let values = columns.iter().filter_map(|column| column.get(index));
        let values = values.map(|(_, value)| value.clone());
        std::iter::once(name).chain(values).collect()
    };
    names.enumerate().map(row).collect()
}

fn text(all: &[DatasetStats]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let names = all.iter().map(|one| one.dataset.clone());
    table.set_header(std::iter::once("mean per task".to_owned()).chain(names));
    for row in rows(all) {
        table.add_row(row.into_iter().enumerate().map(|(column, value)| match column {
            0 => Cell::new(value),
            _ => Cell::new(value).set_alignment(CellAlignment::Right),
        }));
    }
    let mut out = format!("{table}\n");
    for note in all.iter().flat_map(notes) {
        out.push_str(&format!("{note}\n"));
    }
    out
}

fn markdown(all: &[DatasetStats]) -> String {
    let plain = |text: &str| text.replace('|', "\\|");
    let names: Vec<String> = all.iter().map(|one| format!("`{}`", plain(&one.dataset))).collect();
    let mut out = format!(
        "| mean per task | {} |\n| --- |{}\n",
        names.join(" | "),
        " ---: |".repeat(all.len())
    );
    for row in rows(all) {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    for (index, note) in all.iter().flat_map(notes).enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        out.push_str(&format!("{gap}- {}\n", plain(&note)));
    }
    out
}

/// Formats the figures as CSV, without the `~` marks for estimates. Unknown figures are empty.
fn csv(all: &[DatasetStats]) -> String {
    let field = |text: &str| match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let names: Vec<String> = all.iter().map(|one| field(&one.dataset)).collect();
    let mut out = format!("figure,{}\n", names.join(","));
    for row in rows(all) {
        let values = row.iter().map(|value| match value.as_str() {
            "-" => String::new(),
            value => field(value.trim_start_matches('~')),
        });
        out.push_str(&format!("{}\n", values.collect::<Vec<_>>().join(",")));
    }
    out
}
