//! `proctor import`: converts other tools' trajectories and predictions to a run that can be viewed
//! and graded.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use proctor_datasets::read_predictions;
use proctor_interchange::{Fidelity, Format, ImportedTrial, detect_format, read_trajectory};
use proctor_record::{Journal, RecordError, RunDir};
use proctor_report::deduplicate_errors;
use proctor_run::{PlannedTask, TaskPrediction, record_prediction};
use proctor_types::{
    Arm, Envelope, Environment, Event, SandboxSpec, TASK_SCHEMA_VERSION, Task, TaskId, Timeouts,
    TrialId, count_with_noun, sha256_hex,
};
use serde_json::json;

use crate::{
    args::{ImportArgs, ImportFormat},
    assemble, cache_dir,
    commands::{export::FIDELITY_FILE, import_files, resume::plan_from_record},
    config::{self, ConfigFile},
    error::{CommandError, UserError},
    print::print_escaped,
    tasks,
};

/// Number of parent directories whose names are tried as the task's name. Some agents use the same
/// file name for every task.
const PARENT_LEVELS: usize = 3;
/// Maximum attempt number. A higher number is probably a mistake in the file, and would create a
/// huge plan, because a plan has an entry for every attempt up to the highest.
const MAX_ATTEMPTS: u32 = 1_000;

struct InputTrial {
    /// Possible names of the task, most likely first.
    task_candidates: Vec<String>,
    arm: String,
    attempt: Option<u32>,
    file: PathBuf,
    sha256: String,
    content: TrialContent,
}

enum TrialContent {
    Imported(Box<ImportedTrial>),
    Patch(String),
    FailedAttempt(String),
}

pub async fn import(args: &ImportArgs) -> Result<ExitCode, CommandError> {
    let mut fidelity = BTreeMap::new();
    let mut given = Vec::new();
    for path in &args.files {
        if !path.is_dir() {
            given.extend(read_input_file(path, args.format, &mut fidelity)?);
            continue;
        }
        let below = import_files::find_files(path, args.format)?;
        for file in &below.files {
            given.extend(read_input_file(file, args.format, &mut fidelity)?);
        }
        if below.ignored_count > 0 {
            let others = count_with_noun(below.ignored_count, "other file");
            tell!("note: ignored {others} in {}", path.display());
        }
    }
    let planned = plan_tasks(args, &mut given).await?;
    let trials = group_trials(given)?;
    let sandbox = SandboxSpec { kind: args.sandbox.into(), ..SandboxSpec::default() };
    let arms: Vec<Arm> = build_arms(&trials, &sandbox);
    let attempts = trials.keys().map(|(_, _, attempt)| *attempt).max().unwrap_or(1);
    let config = import_config(args, &sandbox, attempts);
    let (dir, _) = assemble::create_run(&args.out, &config, arms.clone(), &planned, None)?;
    let mut record = dir.read_run()?;
    let all =
        plan_from_record(&record).trials().into_iter().map(|(id, _, arm)| (id, arm.name.clone()));
    let (given, absent): (Vec<_>, Vec<_>) = all
        .map(|(id, arm)| (trials.get(&(arm, id.task.to_string(), id.attempt)), id))
        .partition(|(given, _)| given.is_some());
    record.absent = absent.into_iter().map(|(_, id)| id).collect();
    dir.write_run(&record)?;
    for (given, id) in given {
        match given.map(|given| &given.content) {
            Some(TrialContent::Imported(imported)) => write_trial(&dir, &id, imported)?,
            Some(TrialContent::Patch(patch)) => {
                record_prediction(&dir, &id, TaskPrediction::Patch(patch.as_bytes()))?;
            }
            Some(TrialContent::FailedAttempt(why)) => {
                record_prediction(&dir, &id, TaskPrediction::Failed(why))?
            }
            None => {}
        }
    }
    let fidelity: Vec<&Fidelity> = fidelity.values().collect();
    let text = serde_json::to_string_pretty(&json!({ "imported": fidelity }))?;
    fs::write(args.out.join(FIDELITY_FILE), format!("{text}\n"))?;
    let out = args.out.display();
    print_escaped(&format!(
        "imported {} of {} into {out}\n",
        count_with_noun(trials.len(), "trial"),
        count_with_noun(arms.len(), "arm")
    ))?;
    for one in fidelity {
        for left in &one.left_out {
            tell!("{}: not imported: {} ({})", one.format, left.what, left.count);
        }
        for lacks in &one.not_in_source {
            tell!("{}: missing from the files: {} ({})", one.format, lacks.what, lacks.count);
        }
    }
    tell!(
        "`proctor view {out}` shows the trials{}",
        match args.tasks.is_empty() {
            true => "; import with --tasks DATASET to grade them with `proctor grade`".to_owned(),
            false => format!("; `proctor grade {out}` grades their patches"),
        }
    );
    Ok(ExitCode::SUCCESS)
}

fn read_input_file(
    file: &Path,
    format: Option<ImportFormat>,
    fidelity: &mut BTreeMap<&'static str, Fidelity>,
) -> Result<Vec<InputTrial>, UserError> {
    let bytes = fs::read(file).map_err(|error| {
        UserError::new(format!("cannot read {}: {error}", file.display()))
            .hint("pass trajectory or prediction files, or folders that contain them")
    })?;
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let format = match format {
        Some(asked) => asked.as_trajectory_format(),
        None => detect_format(&name, &text),
    };
    let Some(format) = format else {
        let known = fidelity.entry(Format::SweBench.name());
        return read_patches(
            file,
            &sha256_hex(&bytes),
            known.or_insert_with(|| Fidelity::new(Format::SweBench)),
        );
    };
    let told = fidelity.entry(format.name()).or_insert_with(|| Fidelity::new(format));
    let imported = read_trajectory(format, &text, told)
        .map_err(|bad| UserError::new(format!("{}: {bad}", file.display())).hint(bad.hint))?;
    Ok(vec![InputTrial {
        task_candidates: task_names(file, format, &imported),
        arm: imported.arm_name(),
        attempt: imported.attempt,
        file: file.to_owned(),
        sha256: sha256_hex(&bytes),
        content: TrialContent::Imported(Box::new(imported)),
    }])
}

fn read_patches(
    file: &Path,
    sha256: &str,
    fidelity: &mut Fidelity,
) -> Result<Vec<InputTrial>, UserError> {
    let found = read_predictions(file).map_err(|error| {
        UserError::new(error.to_string()).hint(
            "pass a trajectory from Harbor (ATIF), mini-swe-agent or SWE-agent, or predictions (see docs/reference/export.md)",
        )
    })?;
    let rows = deduplicate_errors(
        found.bad_rows.iter().map(|bad| (bad.location(), bad.error())),
        tasks::MAX_LISTED_ROWS,
    );
    if !found.by_model.is_empty() {
        for row in rows {
            tell!("warning: {row}; skipped");
        }
    } else if !rows.is_empty() {
        return Err(UserError::new(tasks::join_rows(rows)).hint(
            "fix or remove these entries; each needs {\"instance_id\", \"model_name_or_path\", \"model_patch\"}",
        ));
    }
    let mut all = Vec::new();
    for (arm, attempts) in found.by_model {
        for ((task, attempt), one) in attempts {
            fidelity.trials += 1;
            fidelity.record_missing("conversations", 1);
            let attempt = one.has_attempt_number.then_some(attempt);
            let made = match one.failure {
                Some(why) => TrialContent::FailedAttempt(why),
                None => TrialContent::Patch(one.patch),
            };
            let arm = arm.clone();
            let (file, sha256) = (file.to_owned(), sha256.to_owned());
            all.push(InputTrial {
                task_candidates: vec![task],
                arm,
                attempt,
                file,
                sha256,
                content: made,
            });
        }
    }
    Ok(all)
}

/// Returns possible names of the task: the name in the file, or else the names of the file and its
/// parent directories.
fn task_names(file: &Path, format: Format, imported_trial: &ImportedTrial) -> Vec<String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let endings = [".traj.json", ".traj", ".json"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    let said = imported_trial.task.clone();
    // SWE-agent stores the environment type in this field instead of the task. Files written by
    // Proctor store the task, and only these files name an arm.
    let said = said.filter(|said| {
        let is_proctors = imported_trial.arm.is_some();
        let is_in_the_name = || stem == said || stem.starts_with(&format!("{said}."));
        format != Format::SweAgent || is_proctors || is_in_the_name()
    });
    let above = file.ancestors().skip(1).take(PARENT_LEVELS).filter_map(Path::file_name);
    let above = above.map(|name| name.to_string_lossy().into_owned());
    said.into_iter().chain([stem.to_owned()]).chain(above).collect()
}

/// Returns the tasks that the files belong to. If a dataset is given, they are its full tasks.
/// Afterwards, each entry of `inputs` has exactly one task name.
async fn plan_tasks(
    args: &ImportArgs,
    inputs: &mut [InputTrial],
) -> Result<Vec<PlannedTask>, CommandError> {
    if args.tasks.is_empty() {
        let mut planned: Vec<PlannedTask> = Vec::new();
        for one in inputs {
            one.task_candidates.truncate(1);
            let id = one.task_candidates.first().cloned().unwrap_or_default();
            if !planned.iter().any(|planned| planned.task.id.as_str() == id) {
                let task = Arc::new(bare_task(&id, &one.content));
                planned.push(PlannedTask { task, base_dir: PathBuf::new() });
            }
        }
        return Ok(planned);
    }
    let cache = cache_dir::default_cache_dir()?;
    let loaded =
        tasks::read_complete_dataset(&args.tasks, &cache, &assemble::print_message).await?;
    let all = match loaded.recipes.is_empty() {
        true => tasks::planned_tasks(&loaded)?,
        false => {
            let backend = assemble::start_backend(args.sandbox.into(), &cache).await?;
            tasks::build_tasks(loaded, &cache, &backend, &assemble::print_message).await?
        }
    };
    let known: BTreeSet<&str> = all.iter().map(|planned| planned.task.id.as_str()).collect();
    let mut used = BTreeSet::new();
    for one in inputs {
        let found = one.task_candidates.iter().find(|name| known.contains(name.as_str())).cloned();
        let Some(found) = found else {
            let named = one.task_candidates.first().cloned().unwrap_or_default();
            let what = format!("{}: the dataset has no task `{named}`", one.file.display());
            let near = config::similar_names(&named, known.iter().copied());
            let hint = match near.is_empty() {
                true => "pass the dataset that the file was made for, or omit --tasks".to_owned(),
                false => {
                    format!(
                        "did you mean `{}`? The task is taken from the file name",
                        near.join("` or `")
                    )
                }
            };
            return Err(UserError::new(what).hint(hint).into());
        };
        used.insert(found.clone());
        one.task_candidates = vec![found];
    }
    Ok(all.into_iter().filter(|planned| used.contains(planned.task.id.as_str())).collect())
}

/// Returns a task that contains only the agent's input, because nothing else is known.
fn bare_task(id: &str, content: &TrialContent) -> Task {
    let statement = match content {
        TrialContent::Imported(imported) => imported.statement(),
        TrialContent::Patch(_) | TrialContent::FailedAttempt(_) => "",
    };
    Task {
        schema_version: TASK_SCHEMA_VERSION,
        id: TaskId::new(id),
        repo: None,
        level: None,
        statement: statement.to_owned(),
        environment: Environment::default(),
        source: None,
        workdir: "/testbed".to_owned(),
        mask: None,
        hidden: Vec::new(),
        blocked_urls: Vec::new(),
        fail_to_pass: Vec::new(),
        pass_to_pass: Vec::new(),
        test_command: Vec::new(),
        test_patch: None,
        timeouts: Timeouts::default(),
        gold: None,
        env: BTreeMap::new(),
        clock: None,
        user: None,
        platform: None,
        resources: None,
        cheats: Vec::new(),
        impossible: None,
        categories: Vec::new(),
        meets_minima: None,
        created_at: None,
        details: Default::default(),
        from_scratch: None,
        test_results: None,
        benchmark: None,
        harbor: None,
        from_image: Default::default(),
    }
}

type InputTrials = BTreeMap<(String, String, u32), InputTrial>;

/// Groups the trials by arm, task and attempt. A file without an attempt number gets the next free
/// number.
fn group_trials(inputs: Vec<InputTrial>) -> Result<InputTrials, UserError> {
    let mut trials = InputTrials::new();
    let (named, unnamed): (Vec<_>, Vec<_>) =
        inputs.into_iter().partition(|one| one.attempt.is_some());
    for one in named.into_iter().chain(unnamed) {
        let task = one.task_candidates.first().cloned().unwrap_or_default();
        let at = |attempt| (one.arm.clone(), task.clone(), attempt);
        if let Some(attempt) = one.attempt.filter(|attempt| !(1..=MAX_ATTEMPTS).contains(attempt)) {
            let what = format!(
                "{}: attempt {attempt} is out of range (1 to {MAX_ATTEMPTS})",
                one.file.display()
            );
            return Err(UserError::new(what).hint("fix the number in the file, or remove it"));
        }
        let attempt = match one.attempt {
            Some(attempt) => attempt,
            None => (1..).find(|attempt| !trials.contains_key(&at(*attempt))).unwrap_or(1),
        };
        let key = at(attempt);
        if let Some(other) = trials.get(&key) {
            let (one, other) = (one.file.display(), other.file.display());
            let what =
                format!("{one}: {other} is also attempt {attempt} at {task} by the arm {}", key.0);
            return Err(
                UserError::new(what).hint("omit one of them, or import it into a separate run")
            );
        }
        trials.insert(key, one);
    }
    Ok(trials)
}

/// Returns one arm for each arm name in the files. An arm's factors are its name, its agent and
/// model as stated in its files, and a digest of the files.
fn build_arms(trials: &InputTrials, sandbox: &SandboxSpec) -> Vec<Arm> {
    let mut names: BTreeMap<&str, Vec<&InputTrial>> = BTreeMap::new();
    for given in trials.values() {
        names.entry(&given.arm).or_default().push(given);
    }
    let arm = |(name, all): (&str, Vec<&InputTrial>)| {
        let digests: Vec<&str> = all.iter().map(|one| one.sha256.as_str()).collect();
        let first = all.iter().find_map(|one| match &one.content {
            TrialContent::Imported(imported) => Some(imported.as_ref()),
            _ => None,
        });
        let imported = json!({
            "name": name,
            "agent": first.map(|one| &one.agent_name),
            "version": first.and_then(|one| one.version.as_ref()),
            "model": first.and_then(|one| one.model.as_ref()),
            "sha256": sha256_hex(digests.join("\n").as_bytes()),
        });
        Arm::for_patches(name, sandbox, json!({ "imported": imported }))
    };
    names.into_iter().map(arm).collect()
}

fn write_trial(
    run: &RunDir,
    id: &TrialId,
    imported_trial: &ImportedTrial,
) -> Result<(), RecordError> {
    let dir = run.create_trial_dir(id)?;
    let blobs = run.trial_blobs(&dir);
    let patch = imported_trial.patch.as_deref().unwrap_or_default().as_bytes();
    let hash = blobs.put(patch)?;
    blobs.sync()?;
    let (mut events, outcome) = imported_trial.to_record(id);
    let files = proctor_patch::Patch::parse(patch).paths().len() as u64;
    let collected = Event::PatchCollected { bytes: patch.len() as u64, files, hash };
    let ended = Event::TrialEnded { outcome: Box::new(outcome.clone()), packed: blobs.pack_size() };
    for event in [collected, ended] {
        if let Some(last) = events.last().cloned() {
            events.push(Envelope { event, ..last });
        }
    }
    Journal::create_with_events(dir.trajectory_path(), 1, events)?;
    dir.write_patch(patch)?;
    dir.write_outcome(&outcome)
}

fn import_config(args: &ImportArgs, sandbox: &SandboxSpec, attempts: u32) -> ConfigFile {
    ConfigFile {
        attempts,
        jobs: 2,
        ..config::plain_config(args.tasks.clone(), sandbox, Vec::new())
    }
}
