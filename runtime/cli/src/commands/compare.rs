//! `proctor compare`: shows which arm is better, and whether the difference is significant.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use proctor_record::RunDir;
use proctor_report::{
    Comparison, Gate, GateError, GateResult, LongTextStyle, TrialResult, compare_with_differences,
    comparison_text_with_style, read_results,
};
use proctor_types::{Arm, ArmId};

use crate::{
    args::{CompareArgs, OutputFormat},
    copies::reject_run_copies,
    error::{CommandError, INCOMPLETE_STATUS, UserError},
    print::{print_escaped, print_result},
};

/// Exit status: a gate failed.
const GATE_FAILED_STATUS: u8 = 4;
/// Exit status: a gate could not be decided.
const GATE_UNDECIDED_STATUS: u8 = 5;

pub fn compare(args: &CompareArgs) -> Result<ExitCode, CommandError> {
    let mut trials = Vec::new();
    let mut arms: Vec<Arm> = Vec::new();
    reject_run_copies(&args.runs)?;
    for run in &args.runs {
        let read = read_results(run, false)?;
        for arm in
            RunDir::open_read_only(run).map_err(CommandError::from_record_error)?.read_run()?.arms
        {
            if !arms.iter().any(|known| known.id == arm.id) {
                arms.push(arm);
            }
        }
        trials.extend(read);
    }
    let has_control = arms.iter().any(Arm::is_control);
    if arms.len() < 2 && !has_control {
        let name = arms.first().map_or("", |arm| arm.name.as_str());
        let what = format!("nothing to compare with: `{name}` is the only arm");
        let hint = "pass a run with several arms, or more runs of the same tasks";
        return Err(UserError::new(what).hint(hint).into());
    }
    if arms.len() < 2 {
        tell!("note: nothing to compare with: the only arm is a control");
    }
    disambiguate_arm_names(&mut trials, &arms);
    // Report an unknown arm before computing anything.
    let gates = parse_gates(&args.gates, &trials)?;
    let texts = if args.full { LongTextStyle::Full } else { LongTextStyle::Digests };
    let mut comparison = match args.why {
        true => compare_with_differences(&trials, &arms, texts),
        false => proctor_report::compare(&trials, Some(&arms)),
    };
    comparison.gates = gates.iter().map(|gate| gate.evaluate(&comparison, &trials)).collect();
    match args.format {
        OutputFormat::Text => print_escaped(&comparison_text_with_style(&comparison, texts))?,
        OutputFormat::Json => {
            print_result(&format!("{}\n", serde_json::to_string_pretty(&comparison)?))?
        }
    }
    Ok(exit_status(&comparison))
}

fn parse_gates(texts: &[String], trials: &[TrialResult]) -> Result<Vec<Gate>, UserError> {
    let names: BTreeSet<&str> = trials.iter().map(|trial| trial.arm_name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let read = |text: &String| {
        Gate::parse(text, &names)
            .map_err(|GateError { message: what, hint }| UserError::new(what).hint(hint))
    };
    texts.iter().map(read).collect()
}

/// With several gates, the worst result decides: incomplete, then failed, then undecided.
fn exit_status(comparison: &Comparison) -> ExitCode {
    let any = |result| comparison.gates.iter().any(|gate| gate.result == result);
    if any(GateResult::Incomplete) {
        ExitCode::from(INCOMPLETE_STATUS)
    } else if any(GateResult::Failed) {
        ExitCode::from(GATE_FAILED_STATUS)
    } else if any(GateResult::Undecided) {
        ExitCode::from(GATE_UNDECIDED_STATUS)
    } else {
        ExitCode::SUCCESS
    }
}

/// Appends the arm's id to the names of arms that share a name, as happens with several runs.
pub fn disambiguate_arm_names(trials: &mut [TrialResult], arms: &[Arm]) {
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
