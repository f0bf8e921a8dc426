//! The pipeline of `proctor collect-pulls`.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use proctor_datasets::fea_bench::Repository;
use proctor_types::{Details, Fault, NumberOrText, Task, count_with_noun};
use serde_json::Value;

use super::{
    candidate::Candidate,
    dump::{self, DumpedPull},
    funnel::{
        FastValidation, PullReject, PullReport, PullTaskMetrics, ReportHeader, Stage, StopReason,
    },
    history::find_pulls,
    intent::Intent,
    lite,
    model_intent::ask_intent,
    rows::{DatasetRows, build_rows},
    runner::{CandidateResult, CandidateRunner},
    settings::PullSettings,
};
use crate::collect::{
    answers::CachedModel,
    pipeline::{CollectError, CollectionContext, collection_cache_key, to_json_lines},
    progress::Progress,
    settings::Settings,
    stage_cache::StageCache,
};

/// The clone to search, and filters for its pull requests.
#[derive(Debug, Clone, Default)]
pub struct PullSearch {
    /// A clone with its full history. The clone is not modified.
    pub clone: PathBuf,
    /// The repository as `owner/name`. By default, the name comes from the URL of the clone's
    /// `origin` or, failing that, from the directory's name.
    pub repo: Option<String>,
    /// Skip pull requests that were merged before this date (`2024-05-01`).
    pub since: Option<String>,
    /// A file with pull requests from the forge's API, one JSON object per line.
    pub dump: Option<PathBuf>,
    /// Whether to skip the repository if none of its first candidates becomes a task.
    /// `configs/tables/pulls.toml` sets the number of candidates to try.
    pub fast_validation: bool,
}

/// Whether a collection ends with candidates, or runs their tests to create tasks.
#[derive(Clone, Copy)]
pub enum CollectionGoal<'a> {
    /// Report candidates without running any code.
    Candidates,
    /// Run up to this many candidates, newest first. `None` runs all of them.
    Tasks(&'a CollectionContext<'a>, Option<usize>),
}

/// Creates the dataset directory `out` from a clone's merged pull requests. If `cached_model` is
/// set, a model decides which pull requests add a feature, instead of the built-in rules.
///
/// # Errors
/// [`CollectError`]. A pull request that yields no task is not an error. The report lists such pull
/// requests.
pub async fn collect_pulls(
    search: &PullSearch,
    out: &Path,
    goal: CollectionGoal<'_>,
    cached_model: Option<&CachedModel<'_>>,
    on_progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<PullReport, CollectError> {
    let settings = PullSettings::get()?;
    let texts = match &search.dump {
        Some(file) => dump::read_dump(file).map_err(|what| nothing_to_collect(what, DUMP_HINT))?,
        None => HashMap::new(),
    };
    let clone = Repository::open(&search.clone).map_err(|what| {
        nothing_to_collect(format!("{}: {what}", search.clone.display()), CLONE_HINT)
    })?;
    let repo = search.repo.clone().unwrap_or_else(|| repository_name(&clone, &search.clone));
    let by_rules = cached_model.is_none();
    let MiningResult { commit, mut candidates, mut rejects, last_pull } =
        mine_history(&clone, search, &texts, (settings, by_rules), on_progress)?;
    if let Some(answers) = cached_model {
        let of = count_with_noun(candidates.len(), "pull request");
        on_progress(&format!("asking {} whether {of} add a feature", answers.model().name()));
        (candidates, rejects) = filter_by_model(answers, &repo, candidates, rejects).await?;
    }
    let mut ready_candidates = Vec::new();
    for candidate in candidates {
        let id = format!("{}-{}", repo.replace('/', "__"), candidate.number);
        let forms = build_rows(&candidate, &id, &repo, &clone, texts.get(&candidate.number))?;
        ready_candidates.push(ReadyCandidate { id, candidate, rows: forms });
    }
    let dry_run = matches!(goal, CollectionGoal::Candidates);
    let since = search.since.clone();
    let (not_tried, fast_validation) = (0, None);
    let mut head = ReportHeader {
        repo,
        commit,
        since,
        dry_run,
        untried_count: not_tried,
        last_pull,
        fast_validation,
    };
    let CollectionGoal::Tasks(context, limit) = goal else {
        let facts = ready_candidates.iter().map(|ready| ready.metrics(settings, None)).collect();
        let report = PullReport::new(head, facts, rejects, Vec::new());
        let medium: Vec<&Value> = ready_candidates.iter().map(|ready| &ready.rows.medium).collect();
        write_dataset(out, &report, vec![("candidates.jsonl", to_json_lines(&medium))])?;
        return Ok(report);
    };
    let limit = limit.unwrap_or(ready_candidates.len()).min(ready_candidates.len());
    head.untried_count = ready_candidates.split_off(limit).len();
    let all = format!("pulls {}\0{}", settings.version, super::settings::SETTINGS_TOML);
    let shared = Settings::get()?;
    let bench = CandidateRunner {
        context,
        cache: &StageCache::new(
            &context.cache.join("collections"),
            &collection_cache_key(context, shared.version, &all),
        ),
        settings: shared,
        clone: fs::canonicalize(&search.clone)
            .unwrap_or_else(|_| search.clone.clone())
            .display()
            .to_string(),
        repo: head.repo.clone(),
    };
    let first = match search.fast_validation {
        true => settings.fast_validation.candidates.min(ready_candidates.len()),
        false => 0,
    };
    let mut outcomes = run_candidates(&bench, &ready_candidates[..first], on_progress).await;
    if search.fast_validation {
        let tasks = outcomes.iter().filter(|it| matches!(it, Ok(CandidateResult::Task(_)))).count();
        head.fast_validation = Some(FastValidation { tried: first, tasks });
        if tasks == 0 {
            head.untried_count += ready_candidates.split_off(first).len();
            let of = count_with_noun(first, "candidate");
            on_progress(&format!(
                "fast validation: none of the first {of} of {} became a task",
                head.repo
            ));
        }
    }
    outcomes.extend(run_candidates(&bench, &ready_candidates[first..], on_progress).await);
    let mut collected = CollectedTasks { rejects, ..CollectedTasks::default() };
    for (ready, outcome) in ready_candidates.into_iter().zip(outcomes) {
        collected.add(ready, outcome, settings);
    }
    let report = PullReport::new(head, collected.metrics, collected.rejects, collected.faults);
    let of = |form: fn(&DatasetRows) -> &Value| {
        to_json_lines(&collected.rows.iter().map(form).collect::<Vec<_>>())
    };
    let rows = vec![
        ("tasks.jsonl", to_json_lines(&collected.tasks)),
        ("feabench.jsonl", of(|forms| &forms.medium)),
        ("feabench-standard.jsonl", of(|forms| &forms.standard)),
        ("feabench-oracle.jsonl", of(|forms| &forms.oracle)),
    ];
    write_dataset(out, &report, rows)?;
    Ok(report)
}

/// A candidate with its FEA-Bench rows.
struct ReadyCandidate {
    id: String,
    candidate: Candidate,
    rows: DatasetRows,
}

impl ReadyCandidate {
    fn metrics(&self, settings: &PullSettings, task: Option<&Task>) -> PullTaskMetrics {
        let Self { id, candidate, .. } = self;
        let exclusions = lite::find_exclusions(candidate, &settings.lite);
        PullTaskMetrics {
            instance_id: id.clone(),
            pull_number: candidate.number,
            title: candidate.title.clone(),
            intent: candidate.intent.clone(),
            files: candidate.file_count(),
            edited_lines: candidate.edited,
            new_lines: candidate.new_lines,
            functions: candidate.functions,
            classes: candidate.classes,
            fail_to_pass: task.map_or(0, |task| task.fail_to_pass.len()),
            pass_to_pass: task.map_or(0, |task| task.pass_to_pass.len()),
            lite: exclusions.is_empty(),
            not_lite_criteria: exclusions.iter().map(|one| one.criterion.to_owned()).collect(),
            not_lite: exclusions.into_iter().map(|one| one.reason).collect(),
        }
    }
}

/// The results of all candidates.
#[derive(Default)]
struct CollectedTasks {
    tasks: Vec<Task>,
    rows: Vec<DatasetRows>,
    metrics: Vec<PullTaskMetrics>,
    rejects: Vec<PullReject>,
    faults: Vec<PullReject>,
}

impl CollectedTasks {
    fn add(
        &mut self,
        ready_candidate: ReadyCandidate,
        outcome: Result<CandidateResult, Fault>,
        settings: &PullSettings,
    ) {
        let reject = |stage: Stage, reason: String| PullReject {
            pull_number: ready_candidate.candidate.number,
            title: ready_candidate.candidate.title.clone(),
            stage,
            reason,
        };
        match outcome {
            Err(fault) => self.faults.push(reject(Stage::Run, fault.to_string())),
            Ok(CandidateResult::Reject(stage, reason)) => self.rejects.push(reject(stage, reason)),
            Ok(CandidateResult::Task(task)) => {
                let mut task = *task;
                let facts = ready_candidate.metrics(settings, Some(&task));
                if facts.lite {
                    task.categories.push("lite".to_owned());
                }
                task.created_at = Some(ready_candidate.candidate.created_at.clone());
                task.details = details(&ready_candidate.candidate, &ready_candidate.rows);
                let mut forms = ready_candidate.rows;
                forms.set_test_ids(&task.fail_to_pass, &task.pass_to_pass);
                self.metrics.push(facts);
                self.rows.push(forms);
                self.tasks.push(task);
            }
        }
    }
}

/// Returns FEA-Bench's solution fields for a task in Proctor's own format.
fn details(candidate: &Candidate, rows: &DatasetRows) -> Details {
    Details {
        base_commit: candidate.base.clone().into(),
        pull_number: NumberOrText::Number(candidate.number.into()).into(),
        non_py_patch: to_detail(&candidate.non_py_patch),
        functions_added: (candidate.functions as u64).into(),
        classes_added: (candidate.classes as u64).into(),
        new_components: candidate.components().into(),
        discussion: to_detail(rows.texts.discussion.as_deref().unwrap_or_default()),
        ..Details::default()
    }
}

/// Returns the text as a detail of the task, or no detail if the text is blank.
fn to_detail(text: &str) -> proctor_types::DetailField<String> {
    match text.trim().is_empty() {
        true => proctor_types::DetailField::Absent,
        false => text.to_owned().into(),
    }
}

/// Runs the candidates concurrently and returns their results in order.
async fn run_candidates<'a>(
    candidate_runner: &CandidateRunner<'_>,
    ready_candidates: &'a [ReadyCandidate],
    on_progress: &(dyn Fn(&str) + Send + Sync),
) -> Vec<Result<CandidateResult, Fault>> {
    let is_cached = |it: &ReadyCandidate| {
        candidate_runner.is_cached(&it.candidate, &it.id, &it.rows.texts.statement)
    };
    let to_make = ready_candidates.iter().filter(|it| !is_cached(it)).count();
    let progress = &Progress::new(ready_candidates.len(), to_make);
    let one = |ready: &'a ReadyCandidate| async move {
        let ReadyCandidate { id, candidate, rows: forms } = ready;
        let is_made = !is_cached(ready);
        if is_made {
            progress.begin();
        }
        let outcome = candidate_runner.run_cached(candidate, id, &forms.texts.statement).await;
        let said = match &outcome {
            Ok(CandidateResult::Task(task)) => {
                format!("new task: {} to pass", count_with_noun(task.fail_to_pass.len(), "test"))
            }
            Ok(CandidateResult::Reject(_, why)) => format!("rejected: {why}"),
            Err(fault) => format!("not tried: {}", fault.what),
        };
        let said = said.lines().next().unwrap_or_default();
        on_progress(&format!("#{} ({}): {said}", candidate.number, progress.end(is_made)));
        outcome
    };
    let outcomes = stream::iter(ready_candidates).map(one);
    outcomes.buffered(candidate_runner.context.jobs.max(1)).collect().await
}

const CLONE_HINT: &str = "pass the directory of a git clone with its full history";
const DUMP_HINT: &str = "write one pull request per line, as returned by the forge's API: {\"number\": 7, \"title\": \"...\"}";

fn nothing_to_collect(message: String, hint: &'static str) -> CollectError {
    CollectError::NothingToCollect { what: message, hint: hint.to_owned() }
}

/// Keeps the candidates that the model considers features, and rejects the others.
async fn filter_by_model(
    cached_model: &CachedModel<'_>,
    repo: &str,
    candidates: Vec<Candidate>,
    mut rejects: Vec<PullReject>,
) -> Result<(Vec<Candidate>, Vec<PullReject>), Fault> {
    let at_once = Settings::get()?.tops.model.at_once.max(1);
    let all = candidates.iter().map(|candidate| ask_intent(cached_model, repo, candidate));
    let intents: Vec<Intent> = stream::iter(all).buffered(at_once).try_collect().await?;
    let mut features = Vec::new();
    for (candidate, said) in candidates.into_iter().zip(intents) {
        match said.is_feature {
            true => features.push(Candidate { intent: said.reason, ..candidate }),
            false => rejects.push(PullReject {
                pull_number: candidate.number,
                title: candidate.title,
                stage: Stage::Intent,
                reason: said.reason,
            }),
        }
    }
    Ok((features, rejects))
}

/// The candidates and rejects found in a history without running any code.
struct MiningResult {
    commit: String,
    candidates: Vec<Candidate>,
    rejects: Vec<PullReject>,
    last_pull: u64,
}

fn mine_history(
    clone: &Repository,
    search: &PullSearch,
    dumped_pulls: &HashMap<u64, DumpedPull>,
    (settings, use_rules): (&PullSettings, bool),
    on_progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<MiningResult, CollectError> {
    let history = clone.history().map_err(|what| nothing_to_collect(what, CLONE_HINT))?;
    let commit = history.first().map(|commit| commit.id.clone()).unwrap_or_default();
    let mut merged_pulls = find_pulls(&history);
    let all = merged_pulls.len();
    let last_pull = merged_pulls.iter().map(|pull| pull.number).max().unwrap_or_default();
    if let Some(since) = &search.since {
        merged_pulls.retain(|pull| pull.date.as_str() >= since.as_str());
    }
    if merged_pulls.is_empty() {
        let message = match all {
            0 => format!("no merged pull request in {}", count_with_noun(history.len(), "commit")),
            all => format!("all {all} pull requests were merged before the given date"),
        };
        let hint = "a merge commit starts with `Merge pull request #7 from ...`; the first line of \
                    a squashed commit ends with `(#7)`";
        return Err(nothing_to_collect(message, hint));
    }
    on_progress(&format!("{} commits, {} merged pull requests", history.len(), merged_pulls.len()));
    let (mut candidates, mut rejects) = (Vec::new(), Vec::new());
    for (index, pull) in merged_pulls.iter().enumerate() {
        if index > 0 && index % 250 == 0 {
            on_progress(&format!(
                "{index} of {}: {} candidates",
                merged_pulls.len(),
                candidates.len()
            ));
        }
        match Candidate::from_pull(clone, pull, dumped_pulls.get(&pull.number), settings, use_rules)
        {
            Ok(candidate) => candidates.push(candidate),
            Err(StopReason::Fault(fault)) => return Err(fault.into()),
            Err(StopReason::Reject(stage, reason)) => rejects.push(PullReject {
                pull_number: pull.number,
                title: pull.title.clone(),
                stage,
                reason,
            }),
        }
    }
    Ok(MiningResult { commit, candidates, rejects, last_pull })
}

/// Returns `owner/name` from the clone's origin URL. If the origin is not a remote URL, returns the
/// directory's name.
fn repository_name(clone: &Repository, folder: &Path) -> String {
    let origin = clone.origin_url().unwrap_or_default();
    let below = origin.split_once("://").map(|(_, rest)| rest).and_then(|it| it.split_once('/'));
    let below = below.or_else(|| origin.strip_prefix("git@")?.split_once(':'));
    if let Some((_, path)) = below.filter(|_| !origin.starts_with("file:")) {
        return path.trim_matches('/').trim_end_matches(".git").to_owned();
    }
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.trim_end_matches(".git").replacen("__", "/", 1)
}

fn write_dataset(
    out: &Path,
    report: &PullReport,
    rows: Vec<(&str, serde_json::Result<String>)>,
) -> Result<(), CollectError> {
    let failed =
        |place: &Path, error: io::Error| CollectError::Io { place: place.to_owned(), error };
    fs::create_dir_all(out).map_err(|error| failed(out, error))?;
    let report_text = serde_json::to_string_pretty(report).map(|text| text + "\n");
    let told = [
        ("rejects.jsonl", to_json_lines(&report.rejects)),
        ("report.json", report_text),
        ("summary.md", Ok(report.summary())),
    ];
    for (name, text) in rows.into_iter().chain(told) {
        let path = out.join(name);
        let text = text.map_err(|error| failed(&path, error.into()))?;
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
