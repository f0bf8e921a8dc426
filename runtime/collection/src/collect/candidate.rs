//! Creates a verified level-1 task from one test file, or rejects the file with a reason.

use std::{collections::BTreeSet, fs};

use proctor_sandbox_api::PreparedEnvironment;
use proctor_setup::LayerFindings;
use proctor_types::{Fault, file_from_test_id};

use super::{
    context::CandidateContext,
    copied_code::find_copied_objects,
    mask::{count_removed_lines, methods_of_failed_classes, objects_in_log},
    outcome::{Outcome, Reject, StopReason, TaskMetrics, VerifiedTask, round_fraction},
    prose::{Feature, describe_feature},
    removal::Removal,
    statement, stubs, verify,
};
use crate::{
    Carving, Draft, Object, RecipeError,
    carve::{StubOptions, stub_and_code},
    freeze::freeze_in_environment,
};

impl CandidateContext<'_> {
    /// Creates a level-1 task from a test file, or returns the reason why the file was rejected.
    ///
    /// # Errors
    /// Fails if a fault occurs that has nothing to do with the test file. A retry may help.
    pub(super) async fn build_level_one(&self, file: &str) -> Result<Outcome, Fault> {
        match self.try_build_level_one(file).await {
            Ok(made) => Ok(Outcome::Task(Box::new(made))),
            Err(StopReason::Reject(stage, reason)) => Ok(Outcome::Reject(Reject {
                file: file.to_owned(),
                stage: stage.to_owned(),
                reason,
            })),
            Err(StopReason::Fault(fault)) => Err(fault),
        }
    }

    async fn try_build_level_one(&self, file: &str) -> Result<VerifiedTask, StopReason> {
        let steady = self.suite.steady.get(file).cloned().unwrap_or_default();
        let Some(graph) = self.graphs.get(file).filter(|_| !steady.is_empty()) else {
            return Err(StopReason::Reject(
                "tops",
                "none of the file's tests passes every time".into(),
            ));
        };
        let tops = self.choose_tops(file, graph);
        if tops.is_empty() {
            return Err(StopReason::Reject(
                "tops",
                "the test file calls none of the package's Python functions".into(),
            ));
        }
        let mut removal = self.choose_removal(file, graph, &tops)?;
        for round in 0.. {
            match self.run_other_tests(file, &removal).await? {
                Ok(()) => break,
                Err((failed, log)) => {
                    let removed_objects = removal.extracted.all_objects();
                    let mut back = objects_in_log(&log, &self.objects, &removed_objects);
                    if back.is_empty() {
                        back = methods_of_failed_classes(
                            &log,
                            &removal.carving,
                            &self.objects,
                            &removed_objects,
                        );
                    }
                    if back.is_empty() || round >= self.settings.take_away.rounds {
                        removal = self.find_working_part(file, &removal, &failed).await?;
                        break;
                    }
                    removal.extracted.restore(&back);
                    self.carve(file, &mut removal)
                        .map_err(|why| StopReason::Reject("mask", why))?;
                }
            }
        }
        self.verify_task(file, removal).await
    }

    /// Restores removed code that an agent could also read elsewhere in the work directory. Rejects
    /// the task if no removed code is left.
    async fn restore_copied_code(
        &self,
        file: &str,
        removal: &mut Removal,
    ) -> Result<(PreparedEnvironment, LayerFindings), StopReason> {
        loop {
            let task = self.task_from_removal(file, removal, String::new());
            let (environment, findings) =
                verify::prepare_and_scan(self.verify_context(), &task).await?;
            let leaks = &findings.workdir.leaks;
            let removed_objects = removal.extracted.all_objects();
            let back = find_copied_objects(
                leaks,
                &removed_objects,
                &self.objects,
                &removal.carving,
                &self.tree.folder,
            );
            if back.is_empty() {
                return Ok((environment, findings));
            }
            if back == removed_objects {
                let what = leaks.first().map(ToString::to_string).unwrap_or_default();
                let reason = format!(
                    "the remaining code contains copies of everything to be removed; {what}"
                );
                return Err(StopReason::Reject("leak_check", reason));
            }
            removal.extracted.restore(&back);
            self.carve(file, removal).map_err(|why| StopReason::Reject("mask", why))?;
        }
    }

    /// Renders the statement, freezes the test ids, and grades the gold patch and an empty patch.
    async fn verify_task(
        &self,
        file: &str,
        mut removal: Removal,
    ) -> Result<VerifiedTask, StopReason> {
        let (environment, mut findings) = self.restore_copied_code(file, &mut removal).await?;
        let ids: Vec<String> = self.suite.steady.values().flatten().cloned().collect();
        let mut task = self.task_from_removal(file, &removal, String::new());
        let test_command = task.test_command.join(" ");
        let carving = self.carving_with_notes(file, &removal);
        let overview = self.describe_removed_code(file, &removal, &carving).await?;
        let write = |required: &[String]| {
            let about = (&self.project, overview.as_deref(), required);
            statement::render_statements(
                about,
                &carving,
                &removal.extracted,
                &self.objects,
                &test_command,
            )
        };
        let mut statements = write(&[])?;
        task.statement.clone_from(&statements.proctor);
        let files: BTreeSet<String> =
            ids.iter().map(|id| file_from_test_id(id).to_owned()).collect();
        let draft = Draft {
            task,
            carving: removal.carving.clone(),
            test_files: files.into_iter().collect(),
            left_out_ids: Vec::new(),
            test_ids: Some(ids),
            feature_test_file: Some(file.to_owned()),
        };
        // Check for leaks before running tests: if the environment contains the solution, the task
        // is rejected regardless of the tests.
        verify::reject_copies(self.verify_context(), &draft.task, &environment, &findings).await?;
        let hidden = draft.task.hidden.clone();
        let place = (self.backend, &environment, &findings);
        let frozen = freeze_in_environment(place, draft, &|_| {}).await;
        let frozen = frozen.map_err(|error| match error {
            RecipeError::Fault(fault) => StopReason::Fault(fault),
            other => StopReason::Reject("verify", other.to_string()),
        })?;
        let mut task = frozen.task;
        let solvability = self.level_one_solvability(file, &task, &removal, &statements.proctor);
        let required = solvability.statement_sentences();
        if !required.is_empty() {
            statements = write(&required)?;
            task.statement.clone_from(&statements.proctor);
        }
        solvability.remove_left_out_tests(&mut task)?;
        let steady = self.suite.steady.get(file).map_or(0, Vec::len);
        let fail_to_pass = task.fail_to_pass.len();
        // Also count the tests that were removed from the task, because they fail without the
        // feature, too.
        let failing = fail_to_pass + solvability.left_out.len();
        let other_files: BTreeSet<&str> = task
            .pass_to_pass
            .iter()
            .map(|id| file_from_test_id(id))
            .filter(|other| *other != file)
            .collect();
        let pass_rate = 1.0 - failing as f64 / steady.max(1) as f64;
        task.cheats = vec![stubs::empty_stub_cheat(stubs::empty_stub_patch(&removal.carving))];
        let idle = (&task.cheats[0], &task.fail_to_pass[..]);
        let idle = self.count_passing_stub(&task, &environment, &findings, idle).await?;
        self.reject_constant_stubs(&task, &environment, &findings, &removal.carving).await?;
        let idle_rate = 1.0 - (failing - idle) as f64 / steady.max(1) as f64;
        let lines = count_removed_lines(&removal.mask);
        let minima = &self.settings.minima;
        let all = removal.extracted.all_objects();
        let meets_minima = lines >= minima.lines
            && fail_to_pass >= minima.points
            && other_files.len() >= minima.files
            && idle_rate <= minima.pass_rate;
        let mut facts = TaskMetrics {
            task: task.id.to_string(),
            file: file.to_owned(),
            policy: serde_json::to_value(removal.other_files.policy)
                .ok()
                .and_then(|value| value.as_str().map(str::to_owned))
                .unwrap_or_default(),
            words: statements.proctor.split_whitespace().count(),
            lines,
            files: removal.carving.files.len(),
            functions: all.len(),
            tops: self.object_ids(&removal.extracted.shown_objects),
            fail_to_pass,
            pass_to_pass: task.pass_to_pass.len(),
            pass_to_pass_files: other_files.len(),
            pass_rate: round_fraction(pass_rate),
            idle_rate: round_fraction(idle_rate),
            leak_score: round_fraction(statements.leak_score),
            meets_minima,
            lite: false,
            solvability: solvability.counts(),
            solvability_gaps: solvability.gaps(),
            gold_integrity: None,
            gold_reasons: Vec::new(),
        };
        task.meets_minima = Some(meets_minima);
        if task.hidden != hidden {
            (_, findings) = verify::prepare_and_scan(self.verify_context(), &task).await?;
            verify::reject_copies(self.verify_context(), &task, &environment, &findings).await?;
        }
        let gold_verdict =
            verify::grade_gold_and_noop(self.verify_context(), &task, &environment, &findings)
                .await?;
        facts.gold_integrity = Some(gold_verdict.integrity);
        facts.gold_reasons = gold_verdict.reasons;
        let row = self.level_one_row(&task, file, &removal, &facts, statements.featurebench);
        Ok(VerifiedTask { task, row, facts, solvability })
    }

    /// Returns the model's description of the removed code, if there is a model.
    async fn describe_removed_code(
        &self,
        file: &str,
        removal: &Removal,
        carving: &Carving,
    ) -> Result<Option<String>, StopReason> {
        if self.cached_model.is_none() {
            return Ok(None);
        }
        let (mut code, mut stubs) = (String::new(), String::new());
        for index in removal.extracted.all_objects() {
            let Some(object) = self.objects.list.get(index) else { continue };
            let text = fs::read_to_string(self.tree.folder.join(&object.file)).unwrap_or_default();
            object.code(&text).iter().for_each(|one| code.push_str(&format!("{one}\n\n")));
            if removal.extracted.shown_objects.contains(&index) {
                let is_it = |it: &&Object| it.file == object.file && it.path == object.path;
                stubs.extend(carving.objects.iter().filter(is_it).map(|it| it.stub.as_str()));
            }
        }
        Ok(self.describe_code(file, &code, &stubs).await?)
    }

    /// Asks the model to describe the given code. Returns `None` if there is no model.
    pub(super) async fn describe_code(
        &self,
        file: &str,
        code: &str,
        stubs: &str,
    ) -> Result<Option<String>, Fault> {
        let Some(answers) = &self.cached_model else { return Ok(None) };
        let (package, summary) = (&*self.project.name, self.project.summary.trim());
        describe_feature(answers, file, Feature { package, summary, code, stubs }).await.map(Some)
    }

    /// Returns the carving, with notes added to the stubs.
    fn carving_with_notes(&self, file: &str, removal: &Removal) -> Carving {
        let mut carving = removal.carving.clone();
        let Some(graph) = self.graphs.get(file) else { return carving };
        let is_helper = |index| removal.extracted.helpers.contains(&index);
        for object in &mut carving.objects {
            let index = self.objects.find_by_path(&object.file, &object.path);
            let Some((before, _)) = carving.files.get(&object.file) else { continue };
            let notes = |_: &str| match index {
                Some(index) => self.notes.notes_for_object(index, &self.objects, graph, &is_helper),
                None => Vec::new(),
            };
            let view = StubOptions { notes: &notes, ..StubOptions::PLAIN };
            if let Some((stub, _)) = stub_and_code(before, &object.path, view) {
                object.stub = stub;
            }
        }
        carving
    }
}
