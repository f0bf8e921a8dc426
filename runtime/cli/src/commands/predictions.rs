//! Adds other tools' predictions to a run: one arm per author, one trial per task and attempt.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use proctor_datasets::{AttemptPredictions, Predictions, read_predictions};
use proctor_record::RunDir;
use proctor_report::deduplicate_errors;
use proctor_run::{PlannedTask, TaskPrediction, record_prediction};
use proctor_types::{Arm, SandboxSpec, Task, TrialId, count_with_noun, join_first_few, sha256_hex};
use serde_json::json;

use crate::{
    error::{CommandError, UserError},
    tasks::MAX_LISTED_ROWS,
};

/// The contents of a predictions file, and whether failed attempts count.
pub struct PredictionFile {
    predictions: Predictions,
    includes_failed: bool,
}

/// Reads a file. Reports and skips invalid entries. Fails if the file has no predictions.
pub fn load_predictions(file: &Path, include_failed: bool) -> Result<PredictionFile, UserError> {
    let predictions = read_predictions(file).map_err(|error| UserError::new(error.to_string()))?;
    let entries = deduplicate_errors(
        predictions.bad_rows.iter().map(|bad| (bad.location(), bad.error())),
        MAX_LISTED_ROWS,
    );
    if !predictions.by_model.is_empty() {
        for entry in entries {
            tell!("warning: skipped {entry}; its task counts as having no prediction");
        }
        return Ok(PredictionFile { predictions, includes_failed: include_failed });
    }
    Err(UserError::new(entries.join("\n")).hint(
        "fix or remove these entries; each needs {\"instance_id\", \"model_name_or_path\", \
         \"model_patch\"}, and `n_attempt` if there are several attempts",
    ))
}

/// Hint for tasks that need more than a patch.
const FULL_RUN_HINT: &str = "run the agent on these tasks with `proctor run`, which records its files, or check them with \
     `--predictions gold`";

/// Returns the ids of the tasks whose verifier runs in an environment of its own. Such a verifier
/// receives files of the agent's final state, which a prediction does not contain.
fn tasks_that_need_more_than_a_patch(tasks: &[&Task]) -> Vec<String> {
    let is_separate = |task: &&&Task| {
        task.harbor.as_ref().is_some_and(|harbor| harbor.verifier.separate.is_some())
    };
    tasks.iter().filter(is_separate).map(|task| task.id.to_string()).collect()
}

impl PredictionFile {
    pub fn attempt_count(&self) -> u32 {
        self.predictions.max_attempt()
    }

    /// Prints a note for each prediction whose task is not in the dataset.
    ///
    /// # Errors
    ///
    /// Fails if no prediction matches any task. Otherwise, a report full of zeros would hide that
    /// the user passed the wrong file.
    pub fn report_unknown_tasks(&self, planned_tasks: &[PlannedTask]) -> Result<(), UserError> {
        let known: BTreeSet<&str> =
            planned_tasks.iter().map(|planned| planned.task.id.as_str()).collect();
        let all = || self.predictions.by_model.values().flat_map(|attempts| attempts.keys());
        let strangers: BTreeSet<&str> =
            all().map(|(id, _)| id.as_str()).filter(|id| !known.contains(id)).collect();
        if all().all(|(id, _)| !known.contains(id.as_str())) {
            let theirs = all().next().map_or("nothing", |(id, _)| id.as_str());
            let ours = planned_tasks.first().map_or("nothing", |planned| planned.task.id.as_str());
            let what = format!(
                "no prediction matches a task of the dataset (predictions: {theirs}, ...; \
                         dataset: {ours}, ...)"
            );
            return Err(
                UserError::new(what).hint("pass the dataset that the predictions were made for")
            );
        }
        for id in strangers {
            tell!("note: ignored the prediction for {id}, which is not in the dataset");
        }
        Ok(())
    }

    /// Prints a warning if the file has predictions for tasks that need more than a patch. Their
    /// trials get no verdict.
    ///
    /// # Errors
    ///
    /// Fails if there are no predictions for other tasks.
    pub fn report_ungradable_tasks(&self, planned_tasks: &[PlannedTask]) -> Result<(), UserError> {
        let all = || self.predictions.by_model.values().flat_map(|attempts| attempts.keys());
        let predicted: BTreeSet<&str> = all().map(|(id, _)| id.as_str()).collect();
        let tasks: Vec<&Task> = planned_tasks
            .iter()
            .map(|planned| &*planned.task)
            .filter(|task| predicted.contains(task.id.as_str()))
            .collect();
        let ungradable = tasks_that_need_more_than_a_patch(&tasks);
        if ungradable.is_empty() {
            return Ok(());
        }
        let what = format!(
            "predictions for {} cannot be graded: a separate verifier needs the agent's files, not \
             only its patch: {}",
            count_with_noun(ungradable.len(), "task"),
            join_first_few(ungradable.clone())
        );
        if ungradable.len() == tasks.len() {
            return Err(UserError::new(what).hint(FULL_RUN_HINT));
        }
        tell!("warning: {what}\nhint: {FULL_RUN_HINT}");
        Ok(())
    }

    /// Prints a warning for each author whose predictions do not cover all tasks and attempts.
    pub fn report_missing_predictions(&self, planned_tasks: &[PlannedTask]) {
        let expected = planned_tasks.len() * self.attempt_count() as usize;
        for (name, attempts) in &self.predictions.by_model {
            let is_made = |planned: &PlannedTask, attempt| {
                attempts.contains_key(&(planned.task.id.to_string(), attempt))
            };
            let made: usize = planned_tasks
                .iter()
                .map(|planned| {
                    (1..=self.attempt_count()).filter(|attempt| is_made(planned, *attempt)).count()
                })
                .sum();
            if made < expected {
                tell!(
                    "warning: {name}: no prediction for {} of {}; they count as not resolved",
                    expected - made,
                    count_with_noun(expected, "trial")
                );
            }
        }
    }

    /// Returns one arm per author. The arm's factors are the author and a digest of the
    /// predictions. The digest alone is not enough, because two authors may have identical
    /// predictions.
    pub fn to_arms(&self, sandbox: &SandboxSpec) -> Vec<Arm> {
        let include_failed = self.includes_failed;
        let made = |(name, attempts): (&String, &AttemptPredictions)| {
            let predictions = predictions_digest(attempts);
            let settings = json!({
                "maker": name, "predictions": predictions, "include_failed": include_failed,
            });
            Arm::for_patches(name, sandbox, settings)
        };
        self.predictions.by_model.iter().map(made).collect()
    }

    /// Records a trial for every prediction. `arms` has the same order as in
    /// [`PredictionFile::to_arms`].
    pub fn record_trials(
        &self,
        run: &RunDir,
        arms: &[Arc<Arm>],
        planned_tasks: &[PlannedTask],
    ) -> Result<(), CommandError> {
        for (arm, made) in arms.iter().zip(self.predictions.by_model.values()) {
            for planned in planned_tasks {
                for attempt in 1..=self.attempt_count() {
                    let task = planned.task.id.clone();
                    let found = made.get(&(task.to_string(), attempt));
                    let taken = match found {
                        None => TaskPrediction::Missing,
                        Some(found) => match &found.failure {
                            Some(why) if !self.includes_failed => TaskPrediction::Failed(why),
                            _ => TaskPrediction::Patch(found.patch.as_bytes()),
                        },
                    };
                    let id = TrialId { task, arm: arm.id.clone(), attempt };
                    record_prediction(run, &id, taken)?;
                }
            }
        }
        Ok(())
    }
}

fn predictions_digest(attempts: &AttemptPredictions) -> String {
    let mut all = Vec::new();
    for ((id, attempt), made) in attempts {
        let head = format!("{id}\0{attempt}\0{}\0{}\0", made.failure.is_some(), made.patch.len());
        all.extend_from_slice(head.as_bytes());
        all.extend_from_slice(made.patch.as_bytes());
    }
    sha256_hex(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_with_a_separate_verifier_need_more_than_a_patch() {
        let task = |id: &str, harbor: serde_json::Value| -> Task {
            serde_json::from_value(json!({
                "schema_version": 1, "id": id, "statement": "", "environment": {"image": "i"},
                "workdir": "/app", "fail_to_pass": [], "test_command": ["/tests/test.sh"],
                "harbor": harbor,
            }))
            .unwrap()
        };
        let separate =
            task("separate", json!({"digest": "", "verifier": {"separate": {"artifacts": ["a"]}}}));
        let shared = task("shared", json!({"digest": ""}));
        let own = task("own", json!(null));
        assert_eq!(tasks_that_need_more_than_a_patch(&[&separate, &shared, &own]), ["separate"]);
        assert!(tasks_that_need_more_than_a_patch(&[&shared, &own]).is_empty());
    }
}
