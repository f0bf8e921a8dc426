//! `proctor compare`: which arm is better, and whether it can be told.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
};

use proctor_record::RunDir;
use proctor_report::{TrialResult, compare as compared, comparison_text};
use proctor_types::{Arm, ArmId};

use crate::{
    args::Format,
    commands::report::results_of,
    error::{CommandError, UserError},
    print::{result, shown},
};

pub fn compare(runs: &[PathBuf], format: Format, why: bool) -> Result<ExitCode, CommandError> {
    let mut trials = Vec::new();
    let mut arms: Vec<Arm> = Vec::new();
    let mut seen = BTreeSet::new();
    for run in runs {
        if !seen.insert(run.canonicalize().unwrap_or_else(|_| run.clone())) {
            let what = format!("{} is named twice", run.display());
            return Err(UserError::new(what).hint("its trials would count twice").into());
        }
        let read = results_of(run, false)?;
        for arm in RunDir::view(run).map_err(CommandError::of_run)?.read_run()?.arms {
            if !arms.iter().any(|known| known.id == arm.id) {
                arms.push(arm);
            }
        }
        trials.extend(read);
    }
    if arms.len() < 2 {
        let name = arms.first().map_or("", |arm| arm.name.as_str());
        let what = format!("there is only one arm, `{name}`, and nothing to compare it with");
        let hint = "name a run with several arms, or further runs of the same tasks";
        return Err(UserError::new(what).hint(hint).into());
    }
    tell_apart(&mut trials, &arms);
    let comparison = compared(&trials, why.then_some(&arms));
    match format {
        Format::Text => shown(&comparison_text(&comparison))?,
        Format::Json => result(&format!("{}\n", serde_json::to_string_pretty(&comparison)?))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Arms of several runs may have one name: then the id goes with it.
pub fn tell_apart(trials: &mut [TrialResult], arms: &[Arm]) {
    let mut named: BTreeMap<&str, u32> = BTreeMap::new();
    for arm in arms {
        *named.entry(&arm.name).or_default() += 1;
    }
    let short = |id: &ArmId| id.as_str().get(..12).unwrap_or(id.as_str()).to_owned();
    for trial in trials {
        let Some(arm) = arms.iter().find(|arm| arm.id == trial.arm) else { continue };
        trial.arm_name = match named.get(arm.name.as_str()) {
            Some(count) if *count > 1 => format!("{} ({})", arm.name, short(&arm.id)),
            _ => arm.name.clone(),
        };
    }
}
