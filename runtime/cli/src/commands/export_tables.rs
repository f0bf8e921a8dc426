//! `proctor export --format parquet`, `jsonl` and `csv`: exports a run as tables.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufWriter},
    path::Path,
    process::ExitCode,
};

use proctor_interchange::{TableFormat, TableWriter};
use proctor_record::{RunDir, read_journal, trial_lookup::planned_trials};
use proctor_report::{Cell, StepRow, TableInfo, TrialRow, step_facts, tables, test_rows};
use proctor_types::{count_with_noun, remove_discarded_events};
use serde_json::{Map, Value, json};

use crate::{
    commands::{output_folder::check_new_or_empty, report::build_report},
    error::{CommandError, UserError},
    mask::SecretMask,
    print::print_escaped,
};

/// Name of the file, next to the tables, that describes the tables' columns.
const COLUMNS_FILE: &str = "columns.json";
/// The format version of `columns.json`.
const COLUMNS_SCHEMA: u32 = 1;

/// Writes the tables of a run, which may still be running. Only one trial is in memory at a time.
pub fn export_tables(
    run: &Path,
    format: TableFormat,
    out: &Path,
    secret_mask: &SecretMask,
) -> Result<ExitCode, CommandError> {
    let dir = RunDir::open_read_only(run).map_err(CommandError::from_record_error)?;
    let record = dir.read_run()?;
    check_new_or_empty(out)?;
    let report = build_report(run, HashMap::new())?;
    let cannot_write = |error: io::Error| {
        UserError::new(format!("cannot write {}: {error}", out.display()))
            .hint("choose a writable folder on a disk with free space")
    };
    fs::create_dir_all(out).map_err(cannot_write)?;
    let all = tables();
    let start = |table: &TableInfo| {
        let path = out.join(format!("{}.{}", table.name, format.extension()));
        TableWriter::new(format, table, BufWriter::new(File::create(path)?))
    };
    let [trials, steps, tests] = &all;
    let (mut trials, mut steps, mut tests) = (
        start(trials).map_err(cannot_write)?,
        start(steps).map_err(cannot_write)?,
        start(tests).map_err(cannot_write)?,
    );
    // The report lists the trials in plan order.
    for (found, trial) in planned_trials(&record).iter().zip(&report.tasks) {
        let arm = report.arms.iter().find(|arm| arm.arm == trial.arm);
        let arm_name = found.arm.name.as_str();
        trials
            .push(mask_cells(secret_mask, "trials", TrialRow { trial, arm }.cells()))
            .map_err(cannot_write)?;
        let journal = dir.trial_dir(&found.id()).trajectory_path();
        let events = match journal.exists().then(|| read_journal(&journal)).transpose() {
            Ok(reading) => {
                reading.map(|reading| remove_discarded_events(reading.events)).unwrap_or_default()
            }
            Err(error) => {
                tell!("{}: steps not exported: {error}", found.name());
                Vec::new()
            }
        };
        for facts in &step_facts(&events) {
            let row = StepRow { trial, arm_name, facts };
            steps.push(mask_cells(secret_mask, "steps", row.cells())).map_err(cannot_write)?;
        }
        if trial.resolved.is_some()
            && let Some(verdict) = dir.check_trial(&found.id()).verdict
        {
            for row in test_rows(trial, arm_name, &verdict) {
                tests.push(mask_cells(secret_mask, "tests", row.cells())).map_err(cannot_write)?;
            }
        }
    }
    let counts = [trials, steps, tests].map(TableWriter::close);
    let mut rows = Vec::new();
    for count in counts {
        rows.push(count.map_err(cannot_write)?);
    }
    let mut columns = Map::from_iter([
        ("schema_version".to_owned(), json!(COLUMNS_SCHEMA)),
        ("proctor".to_owned(), json!(env!("CARGO_PKG_VERSION"))),
    ]);
    columns.extend(all.iter().map(|table| (table.name.to_owned(), json!(table.columns))));
    let text = serde_json::to_string_pretty(&Value::Object(columns))? + "\n";
    fs::write(out.join(COLUMNS_FILE), text).map_err(cannot_write)?;
    print_escaped(&format!(
        "exported {}, {}, {} as {} to {}\n",
        count_with_noun(rows[0], "trial"),
        count_with_noun(rows[1], "step"),
        count_with_noun(rows[2], "test"),
        format.extension(),
        out.display()
    ))?;
    secret_mask.print_summary();
    Ok(ExitCode::SUCCESS)
}

/// Masks the secrets in a row's cells.
fn mask_cells(secret_mask: &SecretMask, table: &str, cells: Vec<Cell>) -> Vec<Cell> {
    let without = |cell| match cell {
        Cell::Text(text) => Cell::Text(secret_mask.mask_text(Path::new(table), &text)),
        other => other,
    };
    cells.into_iter().map(without).collect()
}
