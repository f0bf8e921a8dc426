//! Implements `run --tasks GLOB`, `--limit N` and `--arms GLOB`: selects tasks and arms of a
//! configuration.

use std::collections::BTreeSet;

use globset::GlobBuilder;
use proctor_config::{ArmFile, ConfigFile, ConfigSource, RunConfig};
use proctor_datasets::LoadedDataset;
use proctor_scaffold_api::ProgressSink;
use proctor_types::{Arm, Selection, UserError, count_with_noun, sha256_hex, similar_names};

/// Seed of the task sample. It is fixed, and a larger sample is a superset of a smaller one, so
/// that `--extend --limit` adds to the existing tasks.
const SAMPLE_SEED: u64 = 0;

/// Removes unselected tasks from a dataset before their recipes are built. Returns the selection
/// for the record, or `None` if all tasks are selected.
pub fn select_tasks(
    dataset: &mut LoadedDataset,
    globs: &[String],
    limit: Option<u64>,
    say: ProgressSink<'_>,
) -> Result<Option<Selection>, UserError> {
    if globs.is_empty() && limit.is_none() {
        return Ok(None);
    }
    let tasks = dataset.tasks.iter().map(|task| task.id.to_string());
    let all: Vec<String> =
        tasks.chain(dataset.recipes.iter().map(|located| located.recipe.id.clone())).collect();
    let mut chosen = match_globs(&TASKS_OPTION, globs, &all)?;
    if let Some(limit) = limit {
        chosen.sort_by_cached_key(|id| sha256_hex(format!("{SAMPLE_SEED}/{id}").as_bytes()));
        chosen.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let kept: BTreeSet<&String> = chosen.iter().collect();
    dataset.tasks.retain(|task| kept.contains(&task.id.to_string()));
    dataset.recipes.retain(|located| kept.contains(&located.recipe.id));
    say(format!("note: selected {} of {}", chosen.len(), count_with_noun(all.len(), "task")));
    let tasks = match globs {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("{{{}}}", several.join(","))),
    };
    Ok(Some(Selection { tasks, limit, seed: SAMPLE_SEED, of: all.len() as u64 }))
}

/// Removes arms whose names match no glob.
pub fn select_arms(
    run_config: RunConfig,
    source: &ConfigSource,
    globs: &[String],
) -> Result<(RunConfig, ConfigSource), UserError> {
    if globs.is_empty() {
        return Ok((run_config, source.clone()));
    }
    let all: Vec<String> = run_config.arms.iter().map(|arm| arm.name.clone()).collect();
    let kept: BTreeSet<String> = match_globs(&ARMS_OPTION, globs, &all)?.into_iter().collect();
    Ok(run_config.with_arms(source, &|name| kept.contains(name)))
}

/// Selects arms before `--model` replaces all models, because arms that differ only in the model
/// then become one. A glob matches the name in the configuration or, if none matches, the name that
/// the arm has with the new model.
pub fn select_file_arms(
    file: ConfigFile,
    source: &ConfigSource,
    globs: &[String],
    model: &str,
) -> Result<(ConfigFile, ConfigSource), UserError> {
    let names: Vec<String> = file.arms.iter().map(|arm| arm.name.clone()).collect();
    let kept = match_globs(&ARMS_OPTION, globs, &names).or_else(|error| {
        let renamed = |arm: &ArmFile| match &arm.model {
            Some(old) => arm.name.replace(old.as_str(), model),
            None => arm.name.clone(),
        };
        let new: Vec<String> = file.arms.iter().map(renamed).collect();
        let found = match_globs(&ARMS_OPTION, globs, &new).map_err(|_| error)?;
        let both = names.iter().zip(&new).filter(|(_, new)| found.contains(*new));
        Ok::<_, UserError>(both.map(|(name, _)| name.clone()).collect())
    })?;
    Ok(file.with_arms(source, &|name| kept.iter().any(|one| one == name)))
}

/// Returns the arms of a run whose names match a glob, or all arms if `globs` is empty.
pub fn select_run_arms(arms: &[Arm], globs: &[String]) -> Result<Vec<Arm>, UserError> {
    let all: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
    let kept = match_globs(&RUN_ARMS_OPTION, globs, &all)?;
    Ok(arms.iter().filter(|arm| kept.contains(&arm.name)).cloned().collect())
}

/// Strings for error messages about an option that accepts globs.
struct GlobOption {
    option: &'static str,
    no_match_message: &'static str,
    example: &'static str,
    list_hint: &'static str,
}

const TASKS_OPTION: GlobOption = GlobOption {
    option: "--tasks",
    no_match_message: "no task ID in the configuration matches",
    example: "--tasks 'django__*'",
    list_hint: "`proctor tasks list --tasks DATASET` lists the IDs",
};

const ARMS_OPTION: GlobOption = GlobOption {
    option: "--arms",
    no_match_message: "no arm name in the configuration matches",
    example: "--arms 'codex*'",
    list_hint: "`proctor run CONFIG --dry-run` lists the names",
};

const RUN_ARMS_OPTION: GlobOption = GlobOption {
    option: "--arms",
    no_match_message: "no arm name in the run matches",
    example: "--arms '*steps=500'",
    list_hint: "`proctor show RUN` lists the names",
};

/// Returns the names that match any of the globs, in their original order. Returns all names if
/// there is no glob.
fn match_globs(
    option: &GlobOption,
    globs: &[String],
    names: &[String],
) -> Result<Vec<String>, UserError> {
    if globs.is_empty() {
        return Ok(names.to_vec());
    }
    let mut found = BTreeSet::new();
    for glob in globs {
        found.extend(match_glob(option, glob, names)?);
    }
    Ok(names.iter().filter(|name| found.contains(*name)).cloned().collect())
}

/// Returns the names that match a glob: `*` matches any characters, `?` one character, `[..]` one
/// of a set, `{a,b}` either alternative.
fn match_glob(option: &GlobOption, glob: &str, names: &[String]) -> Result<Vec<String>, UserError> {
    let GlobOption { option, no_match_message: none, example, list_hint: list } = option;
    let pattern = GlobBuilder::new(glob).build().map_err(|error| {
        UserError::new(format!("{option} {glob}: {}", error.kind()))
            .hint(format!("use names with `*`, `?`, `[..]` and `{{a,b}}`, as in {example}"))
    })?;
    let pattern = pattern.compile_matcher();
    let found: Vec<_> = names.iter().filter(|name| pattern.is_match(name)).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let near = similar_names(glob.trim_matches('*'), names.iter().map(String::as_str));
    let hint = match near.is_empty() {
        true => format!("{list}; quote the glob in the shell"),
        false => format!("did you mean `{}`?", near.join("`, `")),
    };
    Err(UserError::new(format!("{option} {glob}: {none}")).hint(hint))
}
