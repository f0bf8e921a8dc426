//! Turns one test file into a verified level-1 task, or rejects it with a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use proctor_grade::TestPlan;
use proctor_sandbox_api::{Backend, PreparedEnvironment, SourceTree};
use proctor_setup::{LayerFindings, Sources};
use proctor_types::{Fault, Integrity, Source, Task, TestStatus, file_from_test_id};
use serde::{Deserialize, Serialize};

use super::{
    answers::CachedModel,
    copied_code::find_copied_objects,
    environment::Environment,
    graph::FileGraph,
    mask::{carve_importable, objects_named_in, removed_lines},
    notes::Notes,
    objects::Objects,
    other_files::{self, OtherFiles},
    project::Project,
    prose::{Feature, describe_feature},
    seeded_rng::SeededRng,
    settings::Settings,
    solvability::{Solvability, SolvabilityCounts},
    statement, stubs,
    suite::Suite,
    tops,
    traverse::{Bounds, ExtractedObjects, extract},
    verify::{self, VerifyContext},
};
use crate::{
    Carving, Draft, Object, RecipeError,
    carve::{StubOptions, stub_and_code},
    freeze::{freeze_in, run_masked_tests},
};

/// Shared state for all candidates of a collection.
pub(super) struct CandidateContext<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) sources: &'a Sources,
    pub(super) source: Source,
    pub(super) tree: SourceTree,
    pub(super) project: Project,
    pub(super) environment: Environment,
    pub(super) prepared: PreparedEnvironment,
    pub(super) suite: Suite,
    pub(super) objects: Objects,
    pub(super) graphs: BTreeMap<String, FileGraph>,
    /// Python files in test directories that contain no tests. These files and everything that they
    /// import stay.
    pub(super) helpers: Vec<String>,
    pub(super) settings: &'a Settings,
    pub(super) seed: String,
    /// Notes on functions, from traced runs.
    pub(super) notes: Notes,
    /// The model that chooses tops and writes descriptions, if any.
    pub(super) answers: Option<CachedModel<'a>>,
    /// The candidates that the model chose for each test file. Empty without a model.
    pub(super) model_candidates: BTreeMap<String, Vec<tops::Candidate>>,
}

/// A test file that yields no task, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    pub file: String,
    /// `tops`, `pass_to_pass`, `mask`, `verify`, `solvability`, `leak_check` or `fault`. For level 2, `level_2: `
    /// followed by `tops`, `rewrite`, `oracle`, `gold`, `verify`, `solvability`, `leak_check`, `same` or `attacks`.
    pub stage: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct VerifiedTask {
    pub(super) task: Task,
    /// The row in FeatureBench's format.
    pub(super) row: serde_json::Value,
    pub(super) facts: TaskMetrics,
    #[serde(default)]
    pub(super) solvability: Solvability,
}

/// The values of a task for the complexity table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskMetrics {
    pub task: String,
    /// The task's test file.
    pub file: String,
    pub policy: String,
    /// Number of words in the statement.
    pub words: usize,
    /// Number of lines, files and functions in the gold patch.
    pub lines: usize,
    pub files: usize,
    pub functions: usize,
    pub tops: Vec<String>,
    pub fail_to_pass: usize,
    pub pass_to_pass: usize,
    /// Number of other files whose tests must still pass.
    pub pass_to_pass_files: usize,
    /// The share of the test file's tests that pass without the feature.
    pub pass_rate: f64,
    /// The share of the test file's tests that pass without the feature or with functions that do nothing.
    #[serde(default)]
    pub idle_rate: f64,
    /// The share of gold lines that the statement reveals beyond signatures and documentation.
    pub leak_score: f64,
    pub meets_minima: bool,
    /// Whether the task is in the lite set.
    pub lite: bool,
    /// Counts of the requirements of the task's tests.
    #[serde(default)]
    pub solvability: SolvabilityCounts,
    /// The integrity of the gold patch's verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gold_integrity: Option<Integrity>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Task(Box<VerifiedTask>),
    Reject(Reject),
}

/// The code that is removed for a task, and the tests that must still pass.
#[derive(Clone)]
pub(super) struct Removal {
    pub(super) others: OtherFiles,
    pub(super) extracted: ExtractedObjects,
    pub(super) carving: Carving,
    pub(super) mask: String,
    watched: Vec<String>,
}

impl CandidateContext<'_> {
    /// Creates a level-1 task from a test file, or returns the reason for rejecting it.
    ///
    /// A fault that has nothing to do with the test file, so a retry may help.
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
            return Err(StopReason::Reject("tops", "none of its tests passes every time".into()));
        };
        let tops = self.tops(file, graph);
        if tops.is_empty() {
            return Err(StopReason::Reject(
                "tops",
                "it calls no Python function of the package".into(),
            ));
        }
        let mut removal = self.choose_removal(file, graph, &tops)?;
        for round in 0.. {
            match self.run_other_tests(file, &removal).await? {
                Ok(()) => break,
                Err((failed, log)) => {
                    let gone = removal.extracted.all();
                    let back = objects_named_in(&log, &self.objects, &gone);
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

    pub(super) fn verify_context(&self) -> VerifyContext<'_> {
        VerifyContext { backend: self.backend, sources: self.sources }
    }

    /// Returns the first removal that yields a task of FeatureBench's size. Tries one policy after
    /// the other. If none succeeds, returns the largest removal.
    fn choose_removal(
        &self,
        file: &str,
        graph: &FileGraph,
        tops: &BTreeSet<usize>,
    ) -> Result<Removal, StopReason> {
        let mut best: Option<Removal> = None;
        let mut refused = Vec::new();
        for &policy in &self.settings.pass_to_pass.policies {
            let name = serde_json::to_string(&policy).unwrap_or_default();
            let mut seeded = SeededRng::from_parts(&[&self.seed, file, &name]);
            let chosen = other_files::choose(
                policy,
                file,
                tops,
                &self.steady_graphs(),
                &self.settings.pass_to_pass,
                &mut seeded,
            );
            let others = match chosen {
                Ok(others) => others,
                Err(why) => {
                    refused.push((name, why));
                    continue;
                }
            };
            let mut remained: BTreeSet<usize> = BTreeSet::new();
            for graph in self.graphs.values() {
                remained.extend(&graph.imported);
            }
            for graph in others.files.iter().filter_map(|file| self.graphs.get(file)) {
                remained.extend(&graph.reached);
                remained.extend(&graph.collected);
            }
            remained.extend(self.objects.used_as_values(&remained));
            let [low, high] = self.settings.take_away.lines;
            let bounds = Bounds {
                remained: &remained,
                lines: seeded.between(low, high),
                never: &self.settings.take_away.never,
            };
            let extracted = extract(&others.tops, graph, &self.objects, &bounds);
            if extracted.all().is_empty() {
                refused.push((name, "other tests or imports need all of it".to_owned()));
                continue;
            }
            let watched: Vec<String> = others
                .files
                .iter()
                .chain(&self.helpers)
                .filter(|name| *name != file)
                .cloned()
                .collect();
            let mut removal = Removal {
                others,
                extracted,
                carving: Carving { objects: Vec::new(), files: BTreeMap::new() },
                mask: String::new(),
                watched,
            };
            if let Err(why) = self.carve(file, &mut removal) {
                refused.push((name, why));
                continue;
            }
            let lines = removed_lines(&removal.mask);
            if best.as_ref().is_none_or(|best| removed_lines(&best.mask) < lines) {
                best = Some(removal);
            }
            if lines >= self.settings.minima.lines {
                break;
            }
        }
        best.ok_or_else(|| StopReason::Reject("pass_to_pass", join_reasons(&refused)))
    }

    pub(super) fn carve(&self, file: &str, removal: &mut Removal) -> Result<(), String> {
        let carving = carve_importable(
            &self.tree.folder,
            &self.objects,
            &mut removal.extracted,
            &removal.watched,
            self.settings.take_away.rounds,
        )?;
        if let Some(graph) = self.graphs.get(file) {
            removal.extracted.show_entries(graph);
        }
        removal.mask = carving.mask();
        removal.carving = carving;
        Ok(())
    }

    /// Returns the graphs of files with tests that always pass.
    fn steady_graphs(&self) -> BTreeMap<String, FileGraph> {
        let steady = self.graphs.iter().filter(|(file, _)| self.suite.steady.contains_key(*file));
        steady.map(|(file, graph)| (file.clone(), graph.clone())).collect()
    }

    /// Runs the other files' tests once with the mask applied. The inner error contains the failed tests and the
    /// output.
    pub(super) async fn run_other_tests(
        &self,
        file: &str,
        removal: &Removal,
    ) -> Result<Result<(), (String, String)>, StopReason> {
        let files: Vec<&String> =
            removal.others.files.iter().filter(|other| *other != file).collect();
        let ids = |file: &String| self.suite.steady.get(file).cloned().unwrap_or_default();
        let other: Vec<String> = files.iter().flat_map(|file| ids(file)).collect();
        let task = self.task_from_removal(file, removal, String::new());
        let run = run_masked_tests(
            self.backend,
            &self.prepared,
            &task,
            &self.test_plan(&task, other.clone()),
        )
        .await?;
        let failed: Vec<&String> =
            other.iter().filter(|id| run.status(id) != TestStatus::Passed).collect();
        if failed.is_empty() {
            return Ok(Ok(()));
        }
        let shown: Vec<&str> = failed.iter().take(3).map(|id| id.as_str()).collect();
        let more = failed.len().saturating_sub(shown.len());
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let mut log = String::from_utf8_lossy(&run.log).into_owned();
        for why in run.collect_errors.values() {
            log.push_str(why);
        }
        Ok(Err((format!("{}{more}", shown.join(", ")), log)))
    }

    pub(super) fn test_plan(&self, task: &Task, ids: Vec<String>) -> TestPlan {
        let files: BTreeSet<String> =
            ids.iter().map(|id| file_from_test_id(id).to_owned()).collect();
        TestPlan {
            command: task.test_command.clone(),
            workdir: task.workdir.clone(),
            files: files.into_iter().collect(),
            ids: Some(ids),
            env: task.env.clone(),
            time_limit: Duration::from_secs_f64(task.timeouts.grade_seconds),
            user: None,
        }
    }

    /// Restores code that an agent could also read elsewhere in the work directory. Rejects the
    /// task if this restores everything.
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
            let gone = removal.extracted.all();
            let back = find_copied_objects(
                leaks,
                &gone,
                &self.objects,
                &removal.carving,
                &self.tree.folder,
            );
            if back.is_empty() {
                return Ok((environment, findings));
            }
            if back == gone {
                let what = leaks.first().map(ToString::to_string).unwrap_or_default();
                let why = format!("the remaining code contains a copy of all of it; {what}");
                return Err(StopReason::Reject("leak_check", why));
            }
            removal.extracted.restore(&back);
            self.carve(file, removal).map_err(|why| StopReason::Reject("mask", why))?;
        }
    }

    /// Renders the statement, freezes the test ids, and grades gold and noop.
    async fn verify_task(
        &self,
        file: &str,
        mut removal: Removal,
    ) -> Result<VerifiedTask, StopReason> {
        let (environment, mut findings) = self.restore_copied_code(file, &mut removal).await?;
        let ids: Vec<String> = self.suite.steady.values().flatten().cloned().collect();
        let mut task = self.task_from_removal(file, &removal, String::new());
        let test_command = task.test_command.join(" ");
        let carving = self.with_notes(file, &removal);
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
        task.statement.clone_from(&statements.own);
        let files: BTreeSet<String> =
            ids.iter().map(|id| file_from_test_id(id).to_owned()).collect();
        let draft = Draft {
            task,
            carving: removal.carving.clone(),
            test_files: files.into_iter().collect(),
            leave_out: Vec::new(),
            ids: Some(ids),
            feature: Some(file.to_owned()),
        };
        // Check for leaks before running tests. If the environment contains the solution, the task
        // is rejected anyway.
        verify::check_no_copies(self.verify_context(), &draft.task, &environment, &findings)
            .await?;
        let hidden = draft.task.hidden.clone();
        let place = (self.backend, &environment, &findings);
        let frozen = freeze_in(place, draft, &|_| {}).await;
        let frozen = frozen.map_err(|error| match error {
            RecipeError::Fault(fault) => StopReason::Fault(fault),
            other => StopReason::Reject("verify", other.to_string()),
        })?;
        let mut task = frozen.task;
        let solvability = self.solvability(file, &task, &removal, &statements.own);
        let required = solvability.statement_sentences();
        if !required.is_empty() {
            statements = write(&required)?;
            task.statement.clone_from(&statements.own);
        }
        solvability.remove_left_out(&mut task)?;
        let steady = self.suite.steady.get(file).map_or(0, Vec::len);
        let fail_to_pass = task.fail_to_pass.len();
        // Tests that were removed from the task also fail without the feature, so count them.
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
        let lines = removed_lines(&removal.mask);
        let minima = &self.settings.minima;
        let all = removal.extracted.all();
        let meets_minima = lines >= minima.lines
            && fail_to_pass >= minima.points
            && other_files.len() >= minima.files
            && idle_rate <= minima.pass_rate;
        let mut facts = TaskMetrics {
            task: task.id.to_string(),
            file: file.to_owned(),
            policy: serde_json::to_value(removal.others.policy)
                .ok()
                .and_then(|value| value.as_str().map(str::to_owned))
                .unwrap_or_default(),
            words: statements.own.split_whitespace().count(),
            lines,
            files: removal.carving.files.len(),
            functions: all.len(),
            tops: self.object_ids(&removal.extracted.shown),
            fail_to_pass,
            pass_to_pass: task.pass_to_pass.len(),
            pass_to_pass_files: other_files.len(),
            pass_rate: round_share(pass_rate),
            idle_rate: round_share(idle_rate),
            leak_score: round_share(statements.leak_score),
            meets_minima,
            lite: false,
            solvability: solvability.counts(),
            gold_integrity: None,
        };
        task.meets_minima = Some(meets_minima);
        if task.hidden != hidden {
            (_, findings) = verify::prepare_and_scan(self.verify_context(), &task).await?;
            verify::check_no_copies(self.verify_context(), &task, &environment, &findings).await?;
        }
        let integrity =
            verify::grade_gold_and_noop(self.verify_context(), &task, &environment, &findings)
                .await?;
        facts.gold_integrity = Some(integrity);
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
        if self.answers.is_none() {
            return Ok(None);
        }
        let (mut code, mut stubs) = (String::new(), String::new());
        for number in removal.extracted.all() {
            let Some(object) = self.objects.list.get(number) else { continue };
            let text = fs::read_to_string(self.tree.folder.join(&object.file)).unwrap_or_default();
            object.code(&text).iter().for_each(|one| code.push_str(&format!("{one}\n\n")));
            if removal.extracted.shown.contains(&number) {
                let is_it = |it: &&Object| it.file == object.file && it.path == object.path;
                stubs.extend(carving.objects.iter().filter(is_it).map(|it| it.stub.as_str()));
            }
        }
        Ok(self.describe_code(file, &code, &stubs).await?)
    }

    /// Asks the model to describe some code, if there is a model.
    pub(super) async fn describe_code(
        &self,
        file: &str,
        code: &str,
        stubs: &str,
    ) -> Result<Option<String>, Fault> {
        let Some(answers) = &self.answers else { return Ok(None) };
        let (package, summary) = (&*self.project.name, self.project.summary.trim());
        describe_feature(answers, file, Feature { package, summary, code, stubs }).await.map(Some)
    }

    /// Returns the carving with notes in the stubs.
    fn with_notes(&self, file: &str, removal: &Removal) -> Carving {
        let mut carving = removal.carving.clone();
        let Some(graph) = self.graphs.get(file) else { return carving };
        let is_helper = |number| removal.extracted.helpers.contains(&number);
        for object in &mut carving.objects {
            let number = self.objects.find_by_path(&object.file, &object.path);
            let Some((before, _)) = carving.files.get(&object.file) else { continue };
            let notes = |_: &str| match number {
                Some(number) => self.notes.for_object(number, &self.objects, graph, &is_helper),
                None => Vec::new(),
            };
            let view = StubOptions { notes: &notes, ..StubOptions::PLAIN };
            if let Some((stub, _)) = stub_and_code(before, &object.path, view) {
                object.stub = stub;
            }
        }
        carving
    }

    pub(super) fn object_ids(&self, numbers: &BTreeSet<usize>) -> Vec<String> {
        numbers
            .iter()
            .filter_map(|&number| self.objects.list.get(number))
            .map(|it| it.id())
            .collect()
    }
}

/// Joins the reasons of all policies. If they are identical, returns only one.
fn join_reasons(refused: &[(String, String)]) -> String {
    if let [(_, first), rest @ ..] = refused
        && rest.iter().all(|(_, why)| why == first)
    {
        return first.clone();
    }
    let each: Vec<String> = refused.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    each.join("; ")
}

pub(super) fn round_share(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

/// Why a candidate was abandoned.
pub(crate) enum StopReason {
    Reject(&'static str, String),
    Fault(Fault),
}

impl From<Fault> for StopReason {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<RecipeError> for StopReason {
    fn from(error: RecipeError) -> Self {
        match error {
            RecipeError::Fault(fault) => Self::Fault(fault),
            other => Self::Reject("verify", other.to_string()),
        }
    }
}
