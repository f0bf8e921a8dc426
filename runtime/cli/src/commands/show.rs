//! `proctor tasks list` and `show`: print the tasks of a dataset for people.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use proctor_datasets::BadRow;
use proctor_patch::Patch;
use proctor_report::{deduplicate_errors, wrap_long_lines};
use proctor_types::{SandboxKind, Task, count_with_noun, escape_unprintable_line};

use crate::{
    assemble, cache_dir, checks, config,
    error::{CommandError, UserError},
    print, tasks,
};

/// Exit status if a dataset has invalid rows. It equals the status of a usage error in
/// [`CommandError`].
const INVALID_ROWS_STATUS: u8 = 2;

/// Reads the tasks that match the patterns. Returns the valid tasks and the invalid rows.
async fn read_tasks(patterns: &[String]) -> Result<(Vec<Task>, Vec<BadRow>), CommandError> {
    let cache = cache_dir::default_cache_dir()?;
    let mut loaded = tasks::read_tasks(patterns, &cache, &assemble::print_message).await?;
    let bad = std::mem::take(&mut loaded.bad_rows);
    // Recipes must first be built into tasks, which needs a sandbox.
    if loaded.recipes.is_empty() {
        return Ok((loaded.tasks, bad));
    }
    let backend = assemble::start_backend(SandboxKind::Native, &cache).await?;
    let planned = tasks::build_tasks(loaded, &cache, &backend, &assemble::print_message).await?;
    Ok((planned.into_iter().map(|planned| planned.task.as_ref().clone()).collect(), bad))
}

pub async fn list_tasks(patterns: &[String]) -> Result<ExitCode, CommandError> {
    let (tasks, bad) = read_tasks(patterns).await?;
    let rows = tasks.iter().map(|task| {
        [
            task.id.to_string(),
            benchmark_name(task),
            task.level.map_or(String::new(), |level| level.to_string()),
            task.repo.clone().unwrap_or_default(),
            task.fail_to_pass.len().to_string(),
            task.pass_to_pass.len().to_string(),
        ]
    });
    let listed = match io::stdout().is_terminal() {
        true => format!("{}\n{}\n", task_table(rows), count_with_noun(tasks.len(), "task")),
        false => rows
            .map(|row| row.map(|cell| escape_unprintable_line(&cell)).join("\t") + "\n")
            .collect(),
    };
    print::print_escaped(&listed)?;
    for line in deduplicate_errors(
        bad.iter().map(|bad| (bad.location(), bad.error())),
        tasks::MAX_LISTED_ROWS,
    ) {
        tell!("{}", wrap_long_lines(&format!("bad row: {line}")));
    }
    Ok(if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(INVALID_ROWS_STATUS) })
}

fn task_table(rows: impl Iterator<Item = [String; 6]>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["id", "benchmark", "level", "repository", "F2P", "P2P"]);
    for [id, benchmark, level, repository, fail_to_pass, pass_to_pass] in rows {
        let number = |number: String| Cell::new(number).set_alignment(CellAlignment::Right);
        table.add_row([
            Cell::new(id),
            Cell::new(benchmark),
            Cell::new(level),
            Cell::new(repository),
            number(fail_to_pass),
            number(pass_to_pass),
        ]);
    }
    table
}

/// Shows one task. `--tasks` consumes all following words, so the last one may be the task's id.
pub async fn show_task(
    id: Option<String>,
    mut patterns: Vec<String>,
    show_gold: bool,
    as_json: bool,
) -> Result<ExitCode, CommandError> {
    let id = match id {
        Some(id) => id,
        None if patterns.len() > 1 => patterns.pop().unwrap_or_default(),
        None => {
            return Err(UserError::new("no task given")
                .hint("use `proctor tasks show ID --tasks DATASET`; `proctor tasks list` lists the ids")
                .into());
        }
    };
    let id = id.as_str();
    let (tasks, bad) = read_tasks(&patterns).await?;
    let known: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
    let Some(task) = tasks.into_iter().find(|task| task.id.as_str() == id) else {
        let what = match bad.iter().find(|bad| bad.id.as_deref() == Some(id)) {
            Some(bad) => format!("invalid row for `{id}`: {bad}"),
            None => format!("unknown task `{id}`"),
        };
        let near = config::similar_names(id, known.iter().map(String::as_str));
        let hint = match near.is_empty() {
            true => "run `proctor tasks list` to see the valid ids".to_owned(),
            false => format!("did you mean `{}`?", near.join("` or `")),
        };
        return Err(UserError::new(what).hint(hint).into());
    };
    let shown = if as_json {
        serde_json::to_string_pretty(&if show_gold { task } else { remove_gold(task) })?
    } else {
        format_task(&task, show_gold)
    };
    print::print_result(&format!("{shown}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn benchmark_name(task: &Task) -> String {
    task.benchmark.as_ref().map_or(String::new(), |benchmark| {
        let split = benchmark.split.as_ref().map_or(String::new(), |split| format!("/{split}"));
        format!("{}{split}", benchmark.name)
    })
}

/// Returns the task without its solution. The mask is removed too, because its reverse is the
/// solution.
fn remove_gold(mut task: Task) -> Task {
    let hide = |patch: &mut Option<String>| {
        if let Some(text) = patch {
            *text = format!("hidden: {}; `--gold` shows it", describe_patch(text));
        }
    };
    hide(&mut task.gold);
    hide(&mut task.mask);
    task
}

fn describe_patch(patch: &str) -> String {
    let patch = Patch::parse(patch.as_bytes());
    let (more, less) = patch.count_changed_lines();
    format!("{}, +{more} -{less} lines", count_with_noun(patch.paths().len(), "file"))
}

fn format_task(task: &Task, show_gold: bool) -> String {
    let mut out = format!("{}\n\n", task.id);
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{name:<12} {value}");
        }
    };
    let known = task.benchmark.as_ref();
    fact("benchmark", benchmark_name(task));
    fact("harness", known.and_then(|known| known.version.clone()).unwrap_or_default());
    fact("revision", known.and_then(|known| known.revision.clone()).unwrap_or_default());
    fact("repository", task.repo.clone().unwrap_or_default());
    fact("level", task.level.map_or(String::new(), |level| level.to_string()));
    let environment = &task.environment;
    fact("image", environment.image.clone().unwrap_or_default());
    fact("dockerfile", environment.dockerfile.clone().unwrap_or_default());
    fact("base", environment.base.clone().unwrap_or_default());
    let of_image = task.workdir.is_empty().then(|| "(from the image)".to_owned());
    fact("workdir", of_image.unwrap_or_else(|| task.workdir.clone()));
    fact("tests", task.test_command.join(" "));
    let results = task.command_test_results().map(|results| match &results.path {
        Some(path) => format!("{} in {path}", results.format),
        None => format!("{} in standard output", results.format),
    });
    fact("results", results.unwrap_or_default());
    fact("limit", format!("{} s for grading", task.timeouts.grade_seconds));
    fact("hidden", task.hidden.join(", "));
    fact("blocked", task.blocked_urls.join(", "));
    let patch = |patch: &Option<String>| patch.as_deref().map(describe_patch).unwrap_or_default();
    fact("mask", patch(&task.mask));
    fact("gold", patch(&task.gold));
    if let Some(harbor) = &task.harbor {
        fact("harbor", harbor.digest.clone());
        if harbor.solution.is_some() {
            fact("gold", "solution/solve.sh".into());
        }
    }
    if !checks::has_gold(task) {
        fact("gold", "not published (no gold and no mask)".into());
    }
    fact("test patch", patch(&task.test_patch));
    if task.from_scratch.is_some() {
        fact("start", "an empty work directory".into());
    }
    if let Some(wrong) = &task.impossible {
        let what = format!("{}, line {}, was: {}", wrong.test, wrong.line, wrong.was.trim());
        fact("impossible", what);
    }
    for (name, ids) in [("fail to pass", &task.fail_to_pass), ("pass to pass", &task.pass_to_pass)]
    {
        let _ = writeln!(out, "\n{name}: {}", ids.len());
        for id in ids.iter().take(MAX_SHOWN_IDS) {
            let _ = writeln!(out, "  {id}");
        }
        if ids.len() > MAX_SHOWN_IDS {
            let _ = writeln!(out, "  and {} more; `--json` shows all", ids.len() - MAX_SHOWN_IDS);
        }
    }
    let _ = write!(
        out,
        "\nstatement, {}:\n\n{}\n",
        count_with_noun(task.statement.chars().count(), "character"),
        task.statement
    );
    if show_gold {
        for (name, patch) in [("mask", &task.mask), ("gold", &task.gold)] {
            if let Some(patch) = patch {
                let _ = write!(out, "\n{name}:\n\n{patch}");
            }
        }
    }
    out
}

/// Maximum number of ids shown per list.
const MAX_SHOWN_IDS: usize = 20;
