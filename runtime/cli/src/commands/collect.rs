//! `proctor collect` and `proctor collect-pulls`: create a dataset directory from a repository.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use proctor_collection::{
    AttackSelection, CachedModel, CloneCollection, CollectError, CollectionContext, CollectionGoal,
    FailedClone, Model, Origin, PullSearch, RenewalResult, join_clones, renew,
};
use proctor_config::find_model;
use proctor_setup::Sources;
use proctor_types::count_with_noun;

use crate::{
    args::{CollectArgs, CollectPullsArgs},
    assemble, cache_dir,
    command_model::CommandModel,
    error::{CommandError, UserError},
    print::print_result,
    tasks,
};

/// Exit status if a collection creates no tasks.
const NO_TASKS_STATUS: u8 = 3;

pub async fn collect(args: CollectArgs) -> Result<ExitCode, CommandError> {
    let cache = cache_dir::default_cache_dir()?;
    let named = args.origin.unwrap_or_default();
    let origin = match args.renew {
        Some(_) => None,
        None => Some(
            Origin::parse(&named).map_err(|what| UserError::new(what).hint(origin_hint(&named)))?,
        ),
    };
    let old = match &args.renew {
        Some(dataset) => {
            tasks::read_tasks(std::slice::from_ref(dataset), &cache, &assemble::print_message)
                .await?
                .tasks
        }
        None => Vec::new(),
    };
    let backend = assemble::start_backend(args.sandbox.into(), &cache).await?;
    let sources = Sources::new(cache.join("sources"));
    let name = if origin.is_some() { directory_name(&named) } else { "renewed".to_owned() };
    let out = args.out.unwrap_or_else(|| PathBuf::from("collections").join(name));
    reject_file(&out)?;
    if args.dry_run {
        reject_overwriting_tasks(&out)?;
    }
    let model = open_model(args.llm.as_deref(), args.config.as_deref(), &out)?;
    let context = CollectionContext {
        backend: backend.as_ref(),
        sources: &sources,
        cache,
        jobs: args.jobs as usize,
        seed: args.seed,
        dry_run: args.dry_run,
        attacks: args.attack,
        selected_files: None,
        max_files: args.limit.map(|limit| limit as usize),
        model: model.as_ref().map(|model| model as &dyn Model),
        on_progress: &|what| tell!("{what}"),
    };
    let bill = || model.iter().for_each(|model| tell!("{}", model.cost_summary()));
    let Some(origin) = origin else {
        let renewed = renew(&old, &out, &context).await;
        bill();
        let renewed = renewed.map_err(collect_error_to_command_error)?;
        print_result(&renewal_table(&renewed))?;
        let gone = renewed.iter().filter(|task| task.renewed.is_none()).count();
        let stands = renewed.iter().any(|task| task.renewed.is_some());
        return Ok(print_outcome(&out, stands, gone, "renewed.jsonl"));
    };
    let report = proctor_collection::collect(&origin, &named, &out, &context).await;
    bill();
    let report = report.map_err(collect_error_to_command_error)?;
    print_result(&report.summary())?;
    let has_tasks = !report.tasks.is_empty() || !report.level_2.tasks.is_empty();
    let left_out = report.rejects.len() + report.level_2.rejects.len();
    Ok(print_outcome(&out, args.dry_run || has_tasks, left_out, "rejects.jsonl"))
}

/// Formats the result for each task as a Markdown table.
fn renewal_table(renewals: &[RenewalResult]) -> String {
    let mut out = String::from("| task | from | newest | now |\n| --- | --- | --- | --- |\n");
    for task in renewals {
        let now = task.renewed.as_deref().or(task.why.as_deref()).unwrap_or_default();
        let now = now.lines().next().unwrap_or_default().replace('|', "\\|");
        let to = task.to.as_deref().unwrap_or_default();
        out.push_str(&format!("| {} | {} | {to} | {now} |\n", task.task, task.from));
    }
    out
}

/// Prints the last message of a collection and returns its exit status.
fn print_outcome(out: &Path, has_tasks: bool, left_out_count: usize, reasons: &str) -> ExitCode {
    tell!("written: {}", out.display());
    if left_out_count > 0 {
        let reasons = out.join(reasons);
        tell!("rejected: {left_out_count} (reasons in {})", reasons.display());
    }
    if has_tasks {
        return ExitCode::SUCCESS;
    }
    tell!("no tasks created");
    ExitCode::from(NO_TASKS_STATUS)
}

pub async fn collect_pulls(args: CollectPullsArgs) -> Result<ExitCode, CommandError> {
    if let Some(since) = args.since.as_deref().filter(|since| !is_iso_date(since)) {
        let what = format!("--since {since:?} is not a date");
        return Err(UserError::new(what).hint("use YYYY-MM-DD, such as 2024-05-01").into());
    }
    let searches = build_searches(&args)?;
    let out =
        args.out.unwrap_or_else(|| PathBuf::from("collections").join(dataset_name(&searches)));
    reject_file(&out)?;
    let tell = |what: &str| tell!("{what}");
    let cache = cache_dir::default_cache_dir()?;
    let model = open_model(args.llm.as_deref(), args.config.as_deref(), &out)?;
    let answers = model.as_ref().map(|model| CachedModel::new(model, &cache)).transpose()?;
    let answers = answers.as_ref();
    let collected = if args.dry_run {
        collect_clones(&searches, &out, CollectionGoal::Candidates, answers, &tell).await
    } else {
        let backend = assemble::start_backend(args.sandbox.into(), &cache).await?;
        let sources = Sources::new(cache.join("sources"));
        let context = CollectionContext {
            backend: backend.as_ref(),
            sources: &sources,
            cache,
            jobs: args.jobs as usize,
            // `collect-pulls` makes no random choices, so it needs no seed.
            seed: String::new(),
            dry_run: false,
            attacks: AttackSelection::Sample(0),
            selected_files: None,
            max_files: None,
            model: None,
            on_progress: &tell,
        };
        let extent = CollectionGoal::Tasks(&context, args.limit.map(|limit| limit as usize));
        collect_clones(&searches, &out, extent, answers, &tell).await
    };
    model.iter().for_each(|model| tell!("{}", model.cost_summary()));
    let (summary, tasks, rejects) = collected.map_err(collect_error_to_command_error)?;
    print_result(&summary)?;
    Ok(print_outcome(&out, tasks > 0, rejects, "rejects.jsonl"))
}

/// Returns the search for pull requests in each clone.
fn build_searches(args: &CollectPullsArgs) -> Result<Vec<PullSearch>, UserError> {
    let clones = &args.clones;
    for (option, given) in [("--pulls", args.pulls.len()), ("--repo", args.repo.len())] {
        if given > 0 && given != clones.len() {
            let what =
                format!("{} given, but {given} {option}", count_with_noun(clones.len(), "clone"));
            let hint = format!("pass {option} once per clone, in the order of the clones");
            return Err(UserError::new(what).hint(hint));
        }
    }
    if let [clone] = &clones[..]
        && !clone.is_dir()
    {
        let what = format!("{} is not a folder", clone.display());
        return Err(UserError::new(what).hint("pass the folder of a git clone"));
    }
    let search = |(index, clone): (usize, &PathBuf)| PullSearch {
        clone: clone.clone(),
        repo: args.repo.get(index).cloned(),
        since: args.since.clone(),
        dump: args.pulls.get(index).cloned(),
        fast_validation: args.fast_validation,
    };
    Ok(clones.iter().enumerate().map(search).collect())
}

/// Returns a name for the dataset's directory: the name of the clone if there is only one, and a
/// generic name otherwise.
fn dataset_name(searches: &[PullSearch]) -> String {
    match searches {
        [only] => {
            let name = fs::canonicalize(&only.clone).unwrap_or_else(|_| only.clone.clone());
            directory_name(&name.to_string_lossy())
        }
        _ => "pulls".to_owned(),
    }
}

/// Collects from every clone. Returns the summary, the number of tasks, and the number of pull
/// requests that did not become tasks. A single clone's tasks are written to `out` itself. With
/// several clones, each gets a subdirectory, and an error in one clone does not stop the others.
async fn collect_clones(
    searches: &[PullSearch],
    out: &Path,
    goal: CollectionGoal<'_>,
    cached_model: Option<&CachedModel<'_>>,
    tell: &(dyn Fn(&str) + Send + Sync),
) -> Result<(String, usize, usize), CollectError> {
    if let [search] = searches {
        let report =
            proctor_collection::collect_pulls(search, out, goal, cached_model, tell).await?;
        return Ok((report.summary(), report.tasks.len(), report.rejects.len()));
    }
    let (mut clones, mut failed) = (Vec::<CloneCollection>::new(), Vec::new());
    for (index, search) in searches.iter().enumerate() {
        let clone = search.clone.display().to_string();
        let name = dataset_name(std::slice::from_ref(search));
        // Number the subdirectories, because the directories of two clones may have the same name.
        let folder = out.join(format!("{:02}-{name}", index + 1));
        tell(&format!("{clone}: {} of {}", index + 1, searches.len()));
        let collected = match search.clone.is_dir() {
            true => {
                proctor_collection::collect_pulls(search, &folder, goal, cached_model, tell).await
            }
            false => {
                let hint = "pass the folder of a git clone".to_owned();
                Err(CollectError::NothingToCollect { what: "not a folder".to_owned(), hint })
            }
        };
        let reason = match collected {
            Ok(report) => {
                let same = clones.iter().any(|other| other.report.repo == report.repo);
                if !same {
                    clones.push(CloneCollection { folder, report });
                    continue;
                }
                format!(
                    "an earlier clone also has the name {}; pass a --repo for each clone",
                    report.repo
                )
            }
            Err(CollectError::NothingToCollect { what, hint }) => format!("{what} ({hint})"),
            Err(error) => error.to_string(),
        };
        tell(&format!("warning: skipped {clone}: {reason}"));
        failed.push(FailedClone { clone, reason });
    }
    if clones.is_empty() {
        let first = failed.first().map(|one| one.reason.clone()).unwrap_or_default();
        let what = format!(
            "failed to collect from any of {}: {first}",
            count_with_noun(failed.len(), "clone")
        );
        let hint = "pass folders of git clones with their full history".to_owned();
        return Err(CollectError::NothingToCollect { what, hint });
    }
    let joined = join_clones(out, clones, failed)?;
    Ok((joined.summary(), joined.task_count(), joined.reject_count()))
}

/// Opens the model named by `--llm`.
fn open_model(
    llm: Option<&str>,
    config: Option<&Path>,
    out: &Path,
) -> Result<Option<CommandModel>, CommandError> {
    llm.map(|name| CommandModel::open(&find_model(name, config)?, out)).transpose()
}

fn collect_error_to_command_error(error: CollectError) -> CommandError {
    match error {
        CollectError::NothingToCollect { what, hint } => UserError::new(what).hint(hint).into(),
        other => CommandError::from(other),
    }
}

/// Rejects an `--out` that is a file. Checked early, because a collection takes hours.
fn reject_file(out: &Path) -> Result<(), UserError> {
    if out.exists() && !out.is_dir() {
        let what = format!("--out {} is a file", out.display());
        return Err(UserError::new(what).hint("pass a folder, or a path that does not exist yet"));
    }
    Ok(())
}

/// Rejects a dry run if the output directory already contains tasks. A dry run would replace them
/// with an empty list.
fn reject_overwriting_tasks(out: &Path) -> Result<(), UserError> {
    let tasks = out.join("tasks.jsonl");
    match fs::metadata(&tasks) {
        Ok(file) if file.len() > 0 => {
            let what =
                format!("{} contains tasks, which a dry run would overwrite", tasks.display());
            Err(UserError::new(what).hint("choose another folder with --out"))
        }
        _ => Ok(()),
    }
}

/// Whether a string has the form `2024-05-01`. Dates are compared as strings, so no other form
/// works.
fn is_iso_date(text: &str) -> bool {
    let shape = |byte: u8| if byte.is_ascii_digit() { b'0' } else { byte };
    text.bytes().map(shape).eq(*b"0000-00-00")
}

fn directory_name(origin: &str) -> String {
    let last = origin.trim_end_matches('/').rsplit('/').next().unwrap_or(origin);
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = last.replace("==", "-").chars().map(plain).collect();
    match name.trim_matches(['.', '-']) {
        "" => "project".to_owned(),
        name => name.to_owned(),
    }
}

/// Returns a hint for a repository that cannot be read.
fn origin_hint(origin: &str) -> String {
    let address = origin.strip_prefix("git+").unwrap_or(origin);
    if !address.contains("://") {
        return "for example: proctor collect boltons==25.0.0 --out boltons".to_owned();
    }
    // An @ before the last part belongs to the URL: `https://user@host/owner/name`.
    let (url, state) = match address.rsplit_once('@') {
        Some((url, state)) if url.matches('/').count() > 2 => (url, state),
        _ => (address, "HEAD"),
    };
    format!("`git ls-remote {url} {state}` prints the current commit; use git+{url}@COMMIT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_name_is_the_last_part_of_the_origin() {
        assert_eq!(directory_name("boltons==25.0.0"), "boltons-25.0.0");
        assert_eq!(directory_name("git+https://h.test/o/n.git@abc"), "n.git-abc");
        assert_eq!(directory_name("../some/dir/"), "dir");
        assert_eq!(directory_name(".."), "project");
    }

    #[test]
    fn origin_hint_repeats_the_form_of_the_origin() {
        let of_branch = "`git ls-remote https://h.test/o/n main` prints the current commit; use \
                         git+https://h.test/o/n@COMMIT";
        assert_eq!(origin_hint("git+https://h.test/o/n@main"), of_branch);
        assert!(
            origin_hint("https://me@h.test/o/n").contains("ls-remote https://me@h.test/o/n HEAD`")
        );
        assert!(origin_hint("boltons").contains("boltons=="));
    }

    #[test]
    fn is_iso_date_rejects_other_formats() {
        assert!(is_iso_date("2024-05-01"));
        assert!(
            !is_iso_date("2024-5-1") && !is_iso_date("yesterday") && !is_iso_date("2024-05-011")
        );
    }
}
