//! `proctor tasks quality`: reports problems with the tasks of a dataset.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
};

use proctor_record::now;
use proctor_run::PlannedTask;
use proctor_setup::Sources;
use proctor_types::{
    DependencySigns, QUALITY_SCHEMA_VERSION, QualityFile, SandboxKind, TaskQuality,
    count_with_noun, join_first_few, sha256_hex,
};
use proctor_validation::quality::{JudgedTask, ReadFile, judge_tasks};

use crate::{
    assemble, cache_dir,
    error::{CommandError, UserError},
    print::print_result,
    tasks,
};

/// The directory with a task's source tree, if the source is available on this host.
#[derive(Debug)]
struct AvailableTree(Option<PathBuf>);

impl ReadFile for AvailableTree {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.0.as_ref()?.join(path)).ok()
    }
}

/// Prints a line for each task with problems, and writes the quality file if requested.
pub async fn check_quality(
    patterns: &[String],
    certificate: Option<&Path>,
    out: Option<&Path>,
) -> Result<ExitCode, CommandError> {
    let read = certificate.map(proctor_plan::read_certificate).transpose()?;
    let cache = cache_dir::default_cache_dir()?;
    let loaded = tasks::read_complete_dataset(patterns, &cache, &assemble::print_message).await?;
    // Only recipes that have not been built yet need a sandbox.
    let planned = match loaded.recipes.is_empty() {
        true => tasks::planned_tasks(&loaded)?,
        false => {
            let backend = assemble::start_backend(SandboxKind::Native, &cache).await?;
            tasks::build_tasks(loaded, &cache, &backend, &assemble::print_message).await?
        }
    };
    let sources = Sources::new(cache.join("sources"));
    let mut trees = Vec::new();
    for task in &planned {
        trees.push(fetch_tree(task, &sources).await);
    }
    let subjects: Vec<JudgedTask<'_>> = planned
        .iter()
        .zip(&trees)
        .map(|(planned, tree)| JudgedTask { task: &planned.task, files: tree })
        .collect();
    let judged = judge_tasks(&subjects, read.as_ref()).map_err(|why| anyhow::anyhow!(why))?;
    print_result(&format_findings(&judged))?;
    if let Some(out) = out {
        let digests: BTreeSet<&str> = judged.iter().map(|one| one.digest.as_str()).collect();
        let digests: Vec<&str> = digests.into_iter().collect();
        let file = QualityFile {
            schema_version: QUALITY_SCHEMA_VERSION,
            proctor: env!("CARGO_PKG_VERSION").to_owned(),
            made: now(),
            dataset: sha256_hex(digests.join("\n").as_bytes()),
            certificate: certificate
                .map(|path| std::fs::read(path).map(|text| sha256_hex(&text)))
                .transpose()?,
            tasks: judged,
        };
        let text = serde_json::to_string_pretty(&file)?;
        std::fs::write(out, text + "\n").map_err(|error| {
            UserError::new(format!("cannot write {}: {error}", out.display()))
                .hint("choose a file in a writable folder")
        })?;
        tell!("quality file: {}", out.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Fetches a task's source tree. If the tree cannot be fetched, only the checks of the task's tests
/// are skipped.
async fn fetch_tree(planned_task: &PlannedTask, sources: &Sources) -> AvailableTree {
    let Some(source) = &planned_task.task.source else { return AvailableTree(None) };
    match sources.fetch(source, &planned_task.base_dir).await {
        Ok(tree) => AvailableTree(Some(tree.folder)),
        Err(fault) => {
            tell!("note: {}: cannot read its tests: {fault}", planned_task.task.id);
            AvailableTree(None)
        }
    }
}

/// Reads a quality file for a report.
pub fn read_quality_file(path: &Path) -> Result<QualityFile, UserError> {
    let shown = path.display();
    let hint = "create a quality file with `proctor tasks quality --out FILE`";
    let text = std::fs::read(path).map_err(|error| {
        UserError::new(format!("cannot read the quality file {shown}: {error}")).hint(hint)
    })?;
    let read: QualityFile = serde_json::from_slice(&text).map_err(|error| {
        UserError::new(format!("{shown} is not a quality file: {error}")).hint(hint)
    })?;
    if read.schema_version != QUALITY_SCHEMA_VERSION {
        let what = format!("{shown}: unsupported quality file schema {}", read.schema_version);
        return Err(UserError::new(what).hint(hint));
    }
    Ok(read)
}

/// Formats the findings: a line per task, with its findings below.
fn format_findings(task_qualities: &[TaskQuality]) -> String {
    let mut out = String::new();
    for task in task_qualities {
        let said = finding_lines(task);
        if !said.is_empty() {
            out.push_str(&format!("{}\n", task.task));
            said.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
        }
    }
    let marked = task_qualities.iter().filter(|task| !task.marks.is_empty()).count();
    let certified = task_qualities.iter().filter(|task| task.gold_fails.is_some()).count();
    let attacked = task_qualities.iter().filter(|task| task.attacks.is_some()).count();
    out.push_str(&format!(
        "{}: {marked} marked, {certified} certified, {attacked} attacked.\n",
        count_with_noun(task_qualities.len(), "task")
    ));
    out
}

fn finding_lines(task: &TaskQuality) -> Vec<String> {
    let mut said = Vec::new();
    if !task.marks.is_empty() {
        let marks: Vec<String> = task.marks.iter().map(ToString::to_string).collect();
        said.push(format!("marked: {}", marks.join(", ")));
    }
    if let Some(score) = task.leak_score.filter(|score| *score > 0.0) {
        said.push(format!("leak score: {score:.2}"));
    }
    let many = |ids: &BTreeSet<String>| ids.iter().cloned().collect::<Vec<_>>();
    for (what, ids) in [
        ("flaky", many(&task.flaky)),
        ("resource-sensitive", many(&task.resource_sensitive)),
        ("duplicate of", task.duplicate_of.iter().map(ToString::to_string).collect()),
    ] {
        if !ids.is_empty() {
            said.push(format!("{what}: {}", join_first_few(ids)));
        }
    }
    for (policy, attacks) in task.attacks.iter().flatten() {
        said.push(format!("resolved under {policy} by: {}", attacks.join(", ")));
    }
    for (what, signs) in [("network", &task.network), ("date", &task.date)] {
        said.extend(dependency_signs_line(what, signs));
    }
    said
}

fn dependency_signs_line(label: &str, signs: &DependencySigns) -> Option<String> {
    let first = signs.found.first()?;
    let count = signs.found.len() + signs.more;
    let (test, line, text) = (&first.test, first.line, &first.text);
    Some(format!(
        "{} of {label} use in the task's tests, for example {test}, line {line}: {text}",
        count_with_noun(count, "sign")
    ))
}
