//! The pipeline of `proctor collect`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use futures_util::{StreamExt, stream};
use proctor_host::host_base;
use proctor_sandbox_api::Backend;
use proctor_setup::{PREPARATION, Sources};
use proctor_types::{Fault, FaultCause, Task, count_with_noun};

use super::{
    answers::{CachedModel, Model},
    attacks::AttackSelection,
    context::CandidateContext,
    duplicates,
    environment::{self, Environment},
    found_tops::TestFileTops,
    graph::FileGraph,
    labels, lite,
    model_tops::TopsPrompts,
    notes::FunctionNotes,
    objects::Objects,
    observe::{COLLECTOR_SCRIPTS, TestRunner},
    origin::Origin,
    outcome::{Outcome, Reject, VerifiedTask},
    progress::Progress,
    project::Project,
    report::{Report, ReportHeader},
    resolution,
    seeded_rng::SeededRng,
    settings::{SETTINGS_TOML, Settings},
    solvability::Solvability,
    stage_cache::{StageCache, cache_result},
    suite::{self, Suite},
    tops::Candidate,
    verify,
};

/// A collection's dependencies and options.
#[derive(Clone)]
pub struct CollectionContext<'a> {
    pub backend: &'a dyn Backend,
    pub sources: &'a Sources,
    /// The directory in which the stages cache their results.
    pub cache: PathBuf,
    /// Maximum number of candidates that are processed concurrently.
    pub jobs: usize,
    pub seed: String,
    /// Whether to report only the tops and create no tasks.
    pub dry_run: bool,
    /// Which tasks to attack.
    pub attacks: AttackSelection,
    /// The test files from which to create tasks. `None` means all of them.
    pub selected_files: Option<BTreeSet<String>>,
    /// Maximum number of test files from which to create tasks. The seed selects them.
    pub max_files: Option<usize>,
    /// A model that decides which objects each test file tests. Without a model, scores decide.
    pub model: Option<&'a dyn Model>,
    /// Receives progress messages.
    pub on_progress: &'a (dyn Fn(&str) + Send + Sync),
}

/// Why a collection failed to produce a report.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The source cannot be found, or it contains nothing to collect.
    #[error("{what}")]
    NothingToCollect { what: String, hint: String },
    #[error("{}: {error}", place.display())]
    Io { place: PathBuf, error: io::Error },
}

/// Creates the dataset directory `out` from a repository: `tasks.jsonl`, `lite.jsonl`,
/// `featurebench.jsonl`, `rejects.jsonl`, `solvability.jsonl`, `tops.jsonl`, `report.json` and
/// `summary.md`.
///
/// # Errors
/// [`CollectError`]. A candidate that yields no task is not an error. The report lists such
/// candidates.
pub async fn collect(
    origin: &Origin,
    name: &str,
    out: &Path,
    context: &CollectionContext<'_>,
) -> Result<Report, CollectError> {
    let settings = Settings::get()?;
    let tell = context.on_progress;
    tell("downloading the source");
    let source = origin.resolve_source(context.sources).await.map_err(to_collect_error)?;
    let tree = context.sources.fetch(&source, Path::new(".")).await?;
    let mut project = Project::read(&tree.folder, &settings.environment, &settings.layout);
    if project.name.is_empty() {
        project.name = default_name(origin);
    }
    if project.modules.is_empty() {
        return Err(no_package_error(
            name,
            &Project::namespace_packages(&tree.folder, &settings.layout),
        ));
    }
    let stage_cache = StageCache::new(
        &context.cache.join("collections"),
        &collection_cache_key(context, settings.version, &tree.digest),
    );
    let environment = match stage_cache.get::<Environment>("environment", "") {
        Some(environment) => environment,
        None => {
            let found =
                resolution::resolve_environment(context.backend, &tree, &project, settings, tell)
                    .await?;
            cache_result(&stage_cache, "environment", "", &found);
            found
        }
    };
    if !environment.missing.is_empty() {
        tell(&format!("no package provides these modules: {}", environment.missing.join(", ")));
    }
    tell("building the tasks' environment with pinned packages");
    let layer = environment::source_layer(&tree, &project, environment.setup.clone());
    let prepared = context.backend.prepare(&layer).await?;
    let suite = match stage_cache.get::<Suite>("suite", &environment.setup.join("\n")) {
        Some(suite) => suite,
        None => {
            let bench = TestRunner::new(context.backend, &prepared, &project, settings);
            let made =
                suite::run_suite(&bench, project.tests.clone(), &context.seed, settings, tell)
                    .await?;
            cache_result(&stage_cache, "suite", &environment.setup.join("\n"), &made);
            made
        }
    };
    if let Some(unused) = suite.unused.iter().find(|it| suite.test_count == 0 && it.id == "pytest")
    {
        return Err(CollectError::NothingToCollect {
            what: format!("pytest finds no tests in {name}; {}", unused.why),
            hint: "the project's metadata may omit a pytest plug-in, or the project may need more than Python packages".into(),
        });
    }
    if suite.test_count == 0 {
        return Err(CollectError::NothingToCollect {
            what: format!("pytest finds no tests in {name}"),
            hint: "many PyPI releases do not include their tests; try git+URL@COMMIT of the same version".into(),
        });
    }
    let objects = Objects::scan(&tree.folder, &project.modules);
    let graphs = FileGraph::build_all(&suite.calls, &objects);
    let notes = FunctionNotes::from_calls(&suite.calls, &objects);
    let helpers = test_helper_files(&tree.folder, &suite, &project);
    let answers = context.model.map(|model| CachedModel::new(model, &context.cache)).transpose()?;
    let model_candidates: BTreeMap<String, Vec<Candidate>> = match &answers {
        None => BTreeMap::new(),
        Some(answers) => {
            tell(&format!("asking {} what each test file tests", answers.model().name()));
            let asking = TopsPrompts {
                cached_model: answers,
                package: &project.name,
                tree: &tree.folder,
                objects: &objects,
                settings: &settings.tops,
            };
            asking.ask_about_files(&graphs).await?
        }
    };
    let shared = CandidateContext {
        backend: context.backend,
        sources: context.sources,
        source,
        tree,
        project,
        environment,
        prepared_environment: prepared,
        suite,
        objects,
        graphs,
        helpers,
        notes,
        settings,
        seed: context.seed.clone(),
        cached_model: answers,
        model_candidates,
    };
    let found: Vec<TestFileTops> =
        shared.graphs.keys().map(|file| shared.test_file_tops(file)).collect();
    let outcomes = match context.dry_run {
        true => Vec::new(),
        false => process_test_files(&shared, &stage_cache, context).await,
    };
    let (mut first, mut second): (Vec<Outcome>, Vec<Outcome>) = outcomes.into_iter().unzip();
    duplicates::reject_duplicates(&mut second);
    let attacked = [
        shared.run_attacks(&mut first, (context.attacks, 1), &stage_cache, tell).await?,
        shared.run_attacks(&mut second, (context.attacks, 2), &stage_cache, tell).await?,
    ];
    let (mut made, rejects) = split_outcomes(first);
    let (mut from_scratch, rejects_2) = split_outcomes(second);
    lite::mark_lite_tasks([&mut made, &mut from_scratch], &context.seed, &settings.lite);
    let head = ReportHeader {
        origin: name.to_owned(),
        package: shared.project.name.clone(),
        version: shared.project.version.clone(),
        python: shared.environment.python.clone(),
        seed: context.seed.clone(),
        model: context.model.map(|model| model.name().to_owned()),
        test_count: shared.suite.test_count,
        steady_test_count: shared.suite.steady.values().map(Vec::len).sum(),
        unused_items: shared.suite.unused.clone(),
        tops: labels::score_tops(name, &found)?,
        dry_run_counts: context.dry_run.then(|| {
            let about = found.iter().filter(|one| one.may_yield_task(&shared.suite));
            (found.len(), about.count())
        }),
    };
    let facts = |made: &[VerifiedTask]| made.iter().map(|made| made.facts.clone()).collect();
    let mut report = Report::new(head, facts(&made), rejects);
    report.add_level_two(facts(&from_scratch), rejects_2);
    report.add_attacks(attacked);
    made.extend(from_scratch);
    if let Origin::Release { name, version } = origin {
        let uploaded = context.sources.upload_time(name, version).await;
        made.iter_mut().for_each(|made| made.task.created_at.clone_from(&uploaded));
    }
    write_dataset(out, &made, &found, &report)?;
    for (task, integrity, reasons) in report.unclean_gold_tasks() {
        tell(&verify::unclean_warning(task, integrity, reasons));
    }
    Ok(report)
}

/// Converts a fault to an error. If the package index does not have the release, this is a usage
/// error and not a fault on this machine.
fn to_collect_error(fault: Fault) -> CollectError {
    match fault {
        Fault { what, hint: Some(hint), cause: FaultCause::Missing, .. } => {
            CollectError::NothingToCollect { what, hint }
        }
        fault => fault.into(),
    }
}

/// Processes the test files concurrently. Returns each file's level-1 and level-2 outcomes, in file
/// order.
async fn process_test_files<'a>(
    candidate_context: &'a CandidateContext<'_>,
    cache: &StageCache,
    context: &CollectionContext<'_>,
) -> Vec<(Outcome, Outcome)> {
    let wanted =
        |file: &&String| context.selected_files.as_ref().is_none_or(|only| only.contains(*file));
    let mut files: Vec<&String> = candidate_context.graphs.keys().filter(wanted).collect();
    if let Some(max_files) = context.max_files {
        files = SeededRng::from_parts(&[&context.seed, "max_files"]).sample(files, max_files);
        files.sort();
    }
    let suite = serde_json::to_string(&candidate_context.suite.steady).unwrap_or_default();
    // Include the source in the cache key, because tasks contain it. Two sources at different paths
    // may have the same content.
    let source = serde_json::to_string(&candidate_context.source).unwrap_or_default();
    let of_all = &format!("{suite}\0{source}");
    let of = |file: &String| {
        let mut of = format!("{file}\0{of_all}");
        if let Some(model_candidates) = candidate_context.model_candidates.get(file) {
            let tops = model_candidates.iter().filter(|it| it.top).map(|it| it.object.as_str());
            of.push_str(&tops.collect::<Vec<_>>().join("\0"));
        }
        // Include the model in the key, because it writes part of the statement.
        of.extend(candidate_context.cached_model.iter().map(|answers| answers.model().cache_key()));
        of
    };
    let files: Vec<(&String, String)> = files.into_iter().map(|file| (file, of(file))).collect();
    let is_cached = |cache_input: &str| {
        cache.contains("candidate", cache_input) && cache.contains("from-scratch", cache_input)
    };
    let to_make = files.iter().filter(|(_, of)| !is_cached(of)).count();
    let progress = &Progress::new(files.len(), to_make);
    let one = |(file, of): (&'a String, String)| async move {
        let is_made = !is_cached(&of);
        if is_made {
            progress.begin();
        }
        let first = match cache.get("candidate", &of) {
            Some(outcome) => outcome,
            None => cache_outcome(
                cache,
                "candidate",
                (file, &of),
                candidate_context.build_level_one(file).await,
            ),
        };
        let second = match cache.get("from-scratch", &of) {
            Some(outcome) => outcome,
            None => cache_outcome(
                cache,
                "from-scratch",
                (file, &of),
                candidate_context.build_level_two(file).await,
            ),
        };
        let so_far = progress.end(is_made);
        (context.on_progress)(&format!("{file} ({so_far}), level 1: {}", describe_outcome(&first)));
        (context.on_progress)(&format!("{file}, level 2: {}", describe_outcome(&second)));
        (first, second)
    };
    stream::iter(files).map(one).buffered(context.jobs.max(1)).collect().await
}

/// Converts a stage's result to an outcome. Outcomes are cached, except for faults.
fn cache_outcome(
    cache: &StageCache,
    stage: &str,
    (file, of): (&str, &str),
    outcome: Result<Outcome, Fault>,
) -> Outcome {
    match outcome {
        Ok(outcome) => {
            cache_result(cache, stage, of, &outcome);
            outcome
        }
        Err(fault) => Outcome::Reject(Reject {
            file: file.to_owned(),
            stage: "fault".to_owned(),
            reason: fault.to_string(),
        }),
    }
}

fn describe_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Task(made) => format!(
            "new task: {} of code to write, {} to pass",
            count_with_noun(made.facts.lines, "line"),
            count_with_noun(made.facts.fail_to_pass, "test")
        ),
        Outcome::Reject(reject) => {
            let why = reject.reason.lines().next().unwrap_or_default();
            format!("rejected ({}): {why}", reject.stage)
        }
    }
}

fn split_outcomes(outcomes: Vec<Outcome>) -> (Vec<VerifiedTask>, Vec<Reject>) {
    let (mut made, mut rejects) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Outcome::Task(task) => made.push(*task),
            Outcome::Reject(reject) => rejects.push(reject),
        }
    }
    (made, rejects)
}

/// Returns a cache key for everything that all stages depend on.
pub(crate) fn collection_cache_key(
    context: &CollectionContext<'_>,
    version: u32,
    tree: &str,
) -> String {
    let scripts: Vec<&str> = COLLECTOR_SCRIPTS.iter().map(|(_, text)| *text).collect();
    let templates = [
        include_str!("../../../../prompts/collection/statement.md.j2"),
        include_str!("../../../../prompts/featurebench/level-1.md.j2"),
        include_str!("../../../../prompts/collection/level-2.md.j2"),
        include_str!("../../../../prompts/featurebench/level-2.md.j2"),
    ];
    [
        version.to_string().as_str(),
        tree,
        SETTINGS_TOML,
        scripts.concat().as_str(),
        templates.concat().as_str(),
        context.seed.as_str(),
        host_base::host_digest().as_str(),
        PREPARATION,
        context.backend.agent_digest().as_str(),
        context.backend.name(),
    ]
    .join("\0")
}

fn default_name(origin: &Origin) -> String {
    let last = |text: &str| {
        let name = text.trim_end_matches('/').rsplit('/').next().unwrap_or(text);
        name.trim_end_matches(".git").to_owned()
    };
    match origin {
        Origin::Release { name, .. } => name.clone(),
        Origin::Commit { url, .. } => last(url),
        Origin::Folder(path) => fs::canonicalize(path)
            .map_or_else(|_| last(path), |path| last(&path.display().to_string())),
    }
}

fn no_package_error(name: &str, namespaced_packages: &[String]) -> CollectError {
    let message = match namespaced_packages {
        [] => format!("{name} has no Python package at its top level, in src or in lib"),
        all => format!(
            "{name} has {} in a namespace package (a folder without __init__.py), which is not supported",
            all.join(", ")
        ),
    };
    let hint = "use a project with a Python package at its top level, in src or in lib";
    CollectError::NothingToCollect { what: message, hint: hint.into() }
}

/// Returns the Python files in test directories that contain no tests.
fn test_helper_files(tree: &Path, suite: &Suite, project: &Project) -> Vec<String> {
    let known: BTreeSet<&str> = suite
        .steady
        .keys()
        .chain(suite.calls.files.keys())
        .chain(&project.modules)
        .map(String::as_str)
        .collect();
    let folders: BTreeSet<&str> = suite
        .calls
        .files
        .keys()
        .map(|file| file.rsplit_once('/').map_or("", |(folder, _)| folder))
        .collect();
    let mut out = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(tree.join(folder)).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            // At the top level, only `conftest.py` counts as a helper. Other files may be the
            // project's own scripts.
            let is_helper = name.ends_with(".py") && (!folder.is_empty() || name == "conftest.py");
            if is_helper && !known.contains(path.as_str()) {
                out.push(path);
            }
        }
    }
    out.sort();
    out
}

fn write_dataset(
    out: &Path,
    verified_tasks: &[VerifiedTask],
    test_file_tops: &[TestFileTops],
    report: &Report,
) -> Result<(), CollectError> {
    let failed =
        |place: &Path, error: io::Error| CollectError::Io { place: place.to_owned(), error };
    fs::create_dir_all(out).map_err(|error| failed(out, error))?;
    let mut made: Vec<&VerifiedTask> = verified_tasks.iter().collect();
    made.sort_by(|a, b| a.task.id.as_str().cmp(b.task.id.as_str()));
    let tasks: Vec<&Task> = made.iter().map(|made| &made.task).collect();
    let lite: Vec<&Task> =
        made.iter().filter(|made| made.facts.lite).map(|made| &made.task).collect();
    // FeatureBench's rows contain whole test files, so leave out a task if one of its tests was
    // excluded.
    let is_row =
        |made: &&&VerifiedTask| made.facts.meets_minima && made.solvability.left_out.is_empty();
    let rows: Vec<&serde_json::Value> = made.iter().filter(is_row).map(|made| &made.row).collect();
    let solvability: Vec<&Solvability> = made.iter().map(|made| &made.solvability).collect();
    let rejects: Vec<&Reject> = report.rejects.iter().chain(&report.level_2.rejects).collect();
    let report_text = serde_json::to_string_pretty(report).map(|text| text + "\n");
    for (name, text) in [
        ("tops.jsonl", to_json_lines(test_file_tops)),
        ("tasks.jsonl", to_json_lines(&tasks)),
        ("lite.jsonl", to_json_lines(&lite)),
        ("featurebench.jsonl", to_json_lines(&rows)),
        ("rejects.jsonl", to_json_lines(&rejects)),
        ("solvability.jsonl", to_json_lines(&solvability)),
        ("report.json", report_text),
        ("summary.md", Ok(report.summary())),
    ] {
        let path = out.join(name);
        let text = text.map_err(|error| failed(&path, error.into()))?;
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

pub(crate) fn to_json_lines<T: serde::Serialize>(list: &[T]) -> serde_json::Result<String> {
    let mut out = String::new();
    for one in list {
        out.push_str(&serde_json::to_string(one)?);
        out.push('\n');
    }
    Ok(out)
}
