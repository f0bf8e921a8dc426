//! `run --tasks GLOB` and `--limit N`: some of a configuration's tasks.

use std::collections::BTreeSet;

use globset::GlobBuilder;
use proctor_datasets::Loaded;
use proctor_types::{Selection, plural, sha256_hex};

use crate::{config, error::UserError};

/// What a sample is drawn with. The same tasks each time, and more of them where more are asked for, so that
/// `--extend --limit` adds to what is there.
const SEED: u64 = 0;

/// Leaves what was not asked for out of a dataset, before anything is built. Returns what was chosen, for the
/// record; nothing where all is.
pub fn choose(
    loaded: &mut Loaded,
    glob: Option<&str>,
    limit: Option<u64>,
) -> Result<Option<Selection>, UserError> {
    if glob.is_none() && limit.is_none() {
        return Ok(None);
    }
    let tasks = loaded.tasks.iter().map(|task| task.id.to_string());
    let all: Vec<String> =
        tasks.chain(loaded.recipes.iter().map(|located| located.recipe.id.clone())).collect();
    let mut chosen = match glob {
        Some(glob) => matching(glob, &all)?,
        None => all.clone(),
    };
    if let Some(limit) = limit {
        chosen.sort_by_cached_key(|id| sha256_hex(format!("{SEED}/{id}").as_bytes()));
        chosen.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let kept: BTreeSet<&String> = chosen.iter().collect();
    loaded.tasks.retain(|task| kept.contains(&task.id.to_string()));
    loaded.recipes.retain(|located| kept.contains(&located.recipe.id));
    eprintln!("note: {} of {}", chosen.len(), plural(all.len(), "task"));
    Ok(Some(Selection { tasks: glob.map(str::to_owned), limit, seed: SEED, of: all.len() as u64 }))
}

/// The ids that a glob matches: `*` and `?` match any character, `[..]` one of some, `{a,b}` one of two.
fn matching(glob: &str, ids: &[String]) -> Result<Vec<String>, UserError> {
    let pattern = GlobBuilder::new(glob).build().map_err(|error| {
        UserError::new(format!("--tasks {glob}: {}", error.kind()))
            .hint("write ids with `*`, `?`, `[..]` and `{a,b}`, as in --tasks 'django__*'")
    })?;
    let pattern = pattern.compile_matcher();
    let found: Vec<_> = ids.iter().filter(|id| pattern.is_match(id)).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let near = config::near(glob.trim_matches('*'), ids.iter().map(String::as_str));
    let hint = match near.is_empty() {
        true => "`proctor tasks list --tasks DATASET` lists the ids; quote the glob for the shell"
            .to_owned(),
        false => format!("did you mean `{}`?", near.join("`, `")),
    };
    Err(UserError::new(format!("--tasks {glob}: no task of the configuration has such an id"))
        .hint(hint))
}
