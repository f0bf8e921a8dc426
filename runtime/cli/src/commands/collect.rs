//! `proctor collect`: a dataset folder out of a repository.

use std::{path::PathBuf, process::ExitCode};

use proctor_collection::{CollectError, Origin, Place};
use proctor_setup::Sources;

use crate::{
    args::CollectArgs,
    assemble,
    error::{CommandError, UserError},
    home,
    print::result,
};

/// The exit status of a collection that gave no task.
const NO_TASK: u8 = 3;

pub async fn collect(args: CollectArgs) -> Result<ExitCode, CommandError> {
    let origin = Origin::parse(&args.origin).map_err(|what| {
        UserError::new(what).hint("for example: proctor collect boltons==25.0.0 --out boltons")
    })?;
    let out =
        args.out.unwrap_or_else(|| PathBuf::from("collections").join(folder_of(&args.origin)));
    let cache = home::cache()?;
    let backend = assemble::backend(args.sandbox.into(), &cache).await?;
    let sources = Sources::new(cache.join("sources"));
    let place = Place {
        backend: backend.as_ref(),
        sources: &sources,
        cache,
        jobs: args.jobs as usize,
        seed: args.seed,
        tell: &|what| eprintln!("{what}"),
    };
    let report = proctor_collection::collect(&origin, &args.origin, &out, &place).await;
    let report = report.map_err(|error| match error {
        CollectError::Nothing { what, hint } => UserError::new(what).hint(hint).into(),
        other => CommandError::from(other),
    })?;
    result(&report.summary())?;
    eprintln!("written: {}", out.display());
    match report.tasks.is_empty() {
        true => {
            eprintln!("no task: {} says why, file by file", out.join("summary.md").display());
            Ok(ExitCode::from(NO_TASK))
        }
        false => Ok(ExitCode::SUCCESS),
    }
}

/// A folder's name for an origin.
fn folder_of(origin: &str) -> String {
    let last = origin.trim_end_matches('/').rsplit('/').next().unwrap_or(origin);
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = last.replace("==", "-").chars().map(plain).collect();
    match name.trim_matches(['.', '-']) {
        "" => "project".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_after_what_is_collected() {
        assert_eq!(folder_of("boltons==25.0.0"), "boltons-25.0.0");
        assert_eq!(folder_of("git+https://h.test/o/n.git@abc"), "n.git-abc");
        assert_eq!(folder_of("../some/dir/"), "dir");
        assert_eq!(folder_of(".."), "project");
    }
}
