//! `proctor tasks stats`: prints statistics about the tasks of one or more datasets.

use std::{path::Path, process::ExitCode};

use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use proctor_datasets::{
    DatasetStats, RowRetention, RowSourceFiles, SourceReader, TaskStats, fea_bench::Repository,
};
use proctor_run::PlannedTask;
use proctor_setup::Sources;
use proctor_types::{SandboxKind, Source, count_with_noun};
use serde_json::json;

use crate::{
    args::StatsFormat,
    assemble, cache_dir,
    error::CommandError,
    print::{print_escaped, print_result},
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
        StatsFormat::Text => print_escaped(&stats_as_text(&all))?,
        StatsFormat::Markdown => print_escaped(&stats_as_markdown(&all))?,
        StatsFormat::Csv => print_result(&stats_as_csv(&all))?,
        StatsFormat::Json => {
            let value = json!({"schema_version": STATS_SCHEMA, "datasets": all});
            print_result(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure_dataset(pattern: &str, cache: &Path) -> Result<DatasetStats, CommandError> {
    let patterns = [pattern.to_owned()];
    let mut loaded = tasks::read_complete_dataset_with_retention(
        &patterns,
        cache,
        RowRetention::Files,
        &assemble::print_message,
    )
    .await?;
    let files = std::mem::take(&mut loaded.source_files);
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
            Some(files) => Some(TaskSource::DatasetRow(files)),
            None => match open_task_files(task, &sources).await {
                Ok(state) => state,
                Err(why) => {
                    unread.push(format!("{}: {why}", task.task.id));
                    None
                }
            },
        };
        let read = |path: &str| state.as_ref().and_then(|state| state.read(path));
        let source: SourceReader<'_> = &read;
        figures.push(TaskStats::from_task(&task.task, state.as_ref().map(|_| source)));
    }
    if let Some(first) = unread.first() {
        let count = count_with_noun(unread.len(), "source");
        tell!("warning: {count} of {pattern} could not be read: {first}");
    }
    Ok(DatasetStats::from_tasks(pattern, figures))
}

/// A task's source, if its files can be read without opening a sandbox.
enum TaskSource<'a> {
    DatasetRow(&'a RowSourceFiles),
    Clone(Repository, String),
    Tree(std::path::PathBuf),
}

impl TaskSource<'_> {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        match self {
            Self::DatasetRow(files) => files.get(path)?.clone().map(String::into_bytes),
            Self::Clone(clone, commit) => clone.read_file(commit, path).map(String::into_bytes),
            Self::Tree(folder) => std::fs::read(folder.join(path)).ok(),
        }
    }
}

/// Returns access to a task's source files, or `None` if the source exists only in the task's
/// image.
async fn open_task_files(
    planned_task: &PlannedTask,
    sources: &Sources,
) -> Result<Option<TaskSource<'static>>, String> {
    let Some(source) = &planned_task.task.source else { return Ok(None) };
    // Read local clones in place, because checking out every task would take too long.
    if let Source::Git { git, commit } = source {
        let folder = planned_task.base_dir.join(git);
        if folder.is_dir() {
            return Repository::open(&folder)
                .map(|clone| Some(TaskSource::Clone(clone, commit.clone())));
        }
    }
    let tree =
        sources.fetch(source, &planned_task.base_dir).await.map_err(|fault| fault.to_string())?;
    Ok(Some(TaskSource::Tree(tree.folder)))
}

/// Returns every figure's name and formatted value. Estimates start with `~`; unknown figures are
/// `-`.
fn dataset_figures(stats: &DatasetStats) -> Vec<(&'static str, String)> {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let about = |value: Option<f64>, digits: usize| {
        let mark = if stats.estimated > 0 && value.is_some() { "~" } else { "" };
        format!("{mark}{}", number(value, digits))
    };
    let day = |day: Option<&str>| day.unwrap_or("-").to_owned();
    vec![
        ("tasks", stats.tasks.to_string()),
        ("repositories", stats.repositories.to_string()),
        ("first date", day(stats.first_date.as_deref())),
        ("last date", day(stats.last_date.as_deref())),
        ("statement words", number(stats.statement_words, 1)),
        ("gold lines", number(stats.gold_lines, 1)),
        ("gold files", number(stats.gold_files, 2)),
        ("gold functions", about(stats.gold_functions, 2)),
        ("gold classes", about(stats.gold_classes, 2)),
        ("functions added", about(stats.functions_added, 2)),
        ("classes added", about(stats.classes_added, 3)),
        ("lines of oracle files", number(stats.oracle_lines, 1)),
        ("lines of added components", number(stats.added_component_lines, 1)),
        ("% added components", number(stats.added_component_share.map(|share| share * 100.0), 1)),
        ("fail-to-pass tests", number(stats.fail_to_pass, 1)),
        ("all tests", number(stats.tests, 1)),
    ]
}

/// Returns notes on the tasks that a dataset's figures do not fully cover.
fn coverage_notes(stats: &DatasetStats) -> Vec<String> {
    let mut out = Vec::new();
    let mut note = |count: usize, what: &str| {
        if count > 0 {
            let all = count_with_noun(stats.tasks, "task");
            out.push(format!("{}: {count} of {all} {what}", stats.dataset));
        }
    };
    note(stats.tasks - stats.with_gold, "without a measurable solution");
    note(stats.estimated, "with functions and classes counted from the diff only (~)");
    note(stats.tests_are_files, "whose test ids are whole files");
    note(stats.tasks - stats.dated, "without a date");
    out
}

/// Returns the names of the figures, and a column of values for each dataset.
fn figure_rows(datasets: &[DatasetStats]) -> Vec<Vec<String>> {
    let columns: Vec<Vec<(&str, String)>> = datasets.iter().map(dataset_figures).collect();
    let names = columns.first().into_iter().flatten().map(|(name, _)| (*name).to_owned());
    let row = |(index, name): (usize, String)| -> Vec<String> {
        let values = columns.iter().filter_map(|column| column.get(index));
        let values = values.map(|(_, value)| value.clone());
        std::iter::once(name).chain(values).collect()
    };
    names.enumerate().map(row).collect()
}

fn stats_as_text(datasets: &[DatasetStats]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let names = datasets.iter().map(|one| one.dataset.clone());
    table.set_header(std::iter::once("mean per task".to_owned()).chain(names));
    for row in figure_rows(datasets) {
        table.add_row(row.into_iter().enumerate().map(|(column, value)| match column {
            0 => Cell::new(value),
            _ => Cell::new(value).set_alignment(CellAlignment::Right),
        }));
    }
    let mut out = format!("{table}\n");
    for note in datasets.iter().flat_map(coverage_notes) {
        out.push_str(&format!("{note}\n"));
    }
    out
}

fn stats_as_markdown(datasets: &[DatasetStats]) -> String {
    let plain = |text: &str| text.replace('|', "\\|");
    let names: Vec<String> =
        datasets.iter().map(|one| format!("`{}`", plain(&one.dataset))).collect();
    let mut out = format!(
        "| mean per task | {} |\n| --- |{}\n",
        names.join(" | "),
        " ---: |".repeat(datasets.len())
    );
    for row in figure_rows(datasets) {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    for (index, note) in datasets.iter().flat_map(coverage_notes).enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        out.push_str(&format!("{gap}- {}\n", plain(&note)));
    }
    out
}

/// Formats the figures as CSV, without the `~` marks for estimates. Unknown figures are empty.
fn stats_as_csv(datasets: &[DatasetStats]) -> String {
    let field = |text: &str| match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let names: Vec<String> = datasets.iter().map(|one| field(&one.dataset)).collect();
    let mut out = format!("figure,{}\n", names.join(","));
    for row in figure_rows(datasets) {
        let values = row.iter().map(|value| match value.as_str() {
            "-" => String::new(),
            value => field(value.trim_start_matches('~')),
        });
        out.push_str(&format!("{}\n", values.collect::<Vec<_>>().join(",")));
    }
    out
}
