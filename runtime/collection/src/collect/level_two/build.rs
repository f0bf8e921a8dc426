//! Creates a verified level-2 task from one test file, or rejects the file with a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use proctor_grade::{GradeOptions, TestPlan};
use proctor_sandbox_api::PreparedEnvironment;
use proctor_setup::LayerFindings;
use proctor_types::{Cheat, Fault, FromScratch, Task, TaskId, TestStatus};

use super::{
    gold::{self, Files},
    module_names::{TopLevelName, module_name},
    rewrite::{AGENT_PACKAGE, rewrite_test_file},
    statement::{self, Interface},
};
use crate::{
    carve::{NONE_VALUE, build_patch},
    collect::{
        context::CandidateContext,
        outcome::{Outcome, Reject, StopReason, TaskMetrics, VerifiedTask, round_fraction},
        stubs,
        test_file::TestFile,
        traverse::{RemovalBounds, extract_objects},
        verify,
    },
    freeze::{RUNS_PER_SIDE, Statuses, complete_statuses, run_patched_tests},
};

/// The README in the agent's initial work directory. The same text as in FeatureBench.
const README_TEXT: &str = include_str!("../../../../../prompts/featurebench/readme.md");

/// Name of the variant whose functions all return `None`.
const IDLE_VARIANT: &str = "idle";

/// Maximum number of tests named in a rejection reason.
const MAX_LISTED_TESTS: usize = 3;

impl CandidateContext<'_> {
    /// Creates a level-2 task from a test file, or returns the reason why the file was rejected.
    ///
    /// # Errors
    /// Fails if a fault occurs that has nothing to do with the test file. A retry may help.
    pub(in crate::collect) async fn build_level_two(&self, file: &str) -> Result<Outcome, Fault> {
        match self.try_build_level_two(file).await {
            Ok(made) => Ok(Outcome::Task(Box::new(made))),
            Err(StopReason::Reject(stage, reason)) => Ok(Outcome::Reject(Reject {
                file: file.to_owned(),
                stage: format!("level_2: {stage}"),
                reason,
            })),
            Err(StopReason::Fault(fault)) => Err(fault),
        }
    }

    async fn try_build_level_two(&self, file: &str) -> Result<VerifiedTask, StopReason> {
        let steady = self.suite.steady.get(file).cloned().unwrap_or_default();
        let Some(graph) = self.graphs.get(file).filter(|_| !steady.is_empty()) else {
            return Err(StopReason::Reject(
                "tops",
                "none of the file's tests passes every time".into(),
            ));
        };
        let tops = self.choose_tops(file, graph);
        let owners = self.top_level_names(&tops);
        let text = fs::read_to_string(self.tree.folder.join(file)).unwrap_or_default();
        let test_module = module_name(file, &self.project.root);
        let rewritten = rewrite_test_file(&text, &test_module, &owners)
            .map_err(|why| StopReason::Reject("rewrite", why))?;
        let test_patch = build_patch([(file, Some(&*text), Some(&*rewritten.text))]);
        let requested = rewritten.requested;
        let copy = gold::library_copy(&self.tree.folder, &self.project, &requested)
            .map_err(|why| StopReason::Reject("gold", why))?;
        let gold = gold::package_patch(&copy);
        let idle = gold::constant_copy(&copy, &self.project, &requested, NONE_VALUE);
        let constants: Vec<(&String, Files)> = self
            .settings
            .idle
            .returns
            .iter()
            .map(|returns| {
                (returns, gold::constant_copy(&copy, &self.project, &requested, returns))
            })
            .collect();
        let notes = |file: &str, path: &str| {
            let index = self.objects.find_by_path(file, path);
            let lines = index.map(|it| {
                self.notes.notes_for_object(it, &self.objects, graph, &|it| self.is_private(it))
            });
            lines.unwrap_or_default()
        };
        let used = TestFile::read(&text).attributes;
        let mut interface =
            Interface::from_source(&self.tree.folder, &self.project, &requested, &notes, used);
        interface.library_imports = self.library_names(file, &rewritten.text);
        let overview = self.describe_code(file, &interface.hidden_code, &interface.stubs()).await?;
        let write = |required: &[String]| {
            let about = (&self.project, overview.as_deref(), required);
            statement::render_statements(&self.tree.folder, about, &requested, interface.clone())
        };
        let mut statements = write(&[])?;
        let mut task = Task {
            id: TaskId::new(self.task_id(file, 2)),
            level: Some(2),
            mask: None,
            hidden: Vec::new(),
            test_patch: Some(test_patch.clone()),
            gold: Some(gold.clone()),
            cheats: vec![
                Cheat {
                    name: "the library's own objects".to_owned(),
                    patch: gold::package_patch(&gold::library_shim(&requested)),
                },
                stubs::empty_stub_cheat(gold::package_patch(&idle)),
            ],
            from_scratch: Some(FromScratch {
                files: BTreeMap::from([("README.md".to_owned(), README_TEXT.to_owned())]),
                install: "pip install .".to_owned(),
            }),
            ..self.base_task(file, statements.proctor.clone())
        };
        let plan = self.test_plan(&task, steady.clone());
        let of_library = copy.clone();
        let sides = [
            ("shim", gold::library_shim(&requested)),
            ("empty", gold::empty_package()),
            (IDLE_VARIANT, idle),
            ("gold", copy),
        ];
        let mut seen: BTreeMap<&str, Vec<Statuses>> = BTreeMap::new();
        for (side, files) in &sides {
            for _ in 0..RUNS_PER_SIDE {
                let mut plan = plan.clone();
                if *side == IDLE_VARIANT {
                    plan.time_limit = self.stub_time_limit(&plan);
                }
                let statuses = self.run_with_package(&task, &plan, files, side).await?;
                seen.entry(side).or_default().push(statuses);
            }
        }
        let passes = |side: &str, id: &String| {
            let runs = seen.get(side).map(Vec::as_slice).unwrap_or_default();
            runs.iter().all(|run| run.get(id) == Some(&TestStatus::Passed))
        };
        let fails = |side: &str, id: &String| {
            let runs = seen.get(side).map(Vec::as_slice).unwrap_or_default();
            runs.iter().all(|run| run.get(id) != Some(&TestStatus::Passed))
        };
        let broken: Vec<&String> = steady.iter().filter(|id| !passes("shim", id)).collect();
        if !broken.is_empty() {
            let reason = format!(
                "the rewritten tests fail with the library's own objects: {}",
                format_first_ids(&broken)
            );
            return Err(StopReason::Reject("oracle", reason));
        }
        // If a test checks for the library's own classes, it fails with every rewrite.
        let whole = steady.iter().all(|id| passes("gold", id));
        task.fail_to_pass =
            steady.iter().filter(|id| passes("gold", id) && fails("empty", id)).cloned().collect();
        if task.fail_to_pass.is_empty() {
            let reason = "no test passes with a renamed copy of the library and fails without it";
            return Err(StopReason::Reject("gold", reason.to_owned()));
        }
        let solvability = self.level_two_solvability(
            file,
            &task,
            (rewritten.text.as_str(), statements.proctor.as_str()),
            (&of_library, &requested),
        );
        let required = solvability.statement_sentences();
        if !required.is_empty() {
            statements = write(&required)?;
            task.statement.clone_from(&statements.proctor);
        }
        solvability.remove_left_out_tests(&mut task)?;
        if !task.fail_to_pass.iter().any(|id| fails(IDLE_VARIANT, id)) {
            let reason = "functions that do nothing resolve the task, because its tests check no return values";
            return Err(StopReason::Reject("verify", reason.to_owned()));
        }
        self.reject_constant_copies(&task, &plan, &constants).await?;
        let (environment, findings) =
            verify::prepare_and_scan(self.verify_context(), &task).await?;
        verify::reject_copies(self.verify_context(), &task, &environment, &findings).await?;
        let gold_verdict =
            verify::grade_gold_and_noop(self.verify_context(), &task, &environment, &findings)
                .await?;
        self.reject_shim(&task, &environment, &findings).await?;
        let objects = extract_objects(
            &tops,
            graph,
            &self.objects,
            &RemovalBounds {
                externally_needed: &BTreeSet::new(),
                max_lines: usize::MAX,
                protected_names: &[],
            },
        )
        .all_objects();
        let objects: Vec<_> = objects.iter().filter_map(|&it| self.objects.list.get(it)).collect();
        let failing = steady.iter().filter(|id| fails("empty", id)).count();
        let pass_rate = 1.0 - failing as f64 / steady.len().max(1) as f64;
        let failing =
            steady.iter().filter(|id| fails("empty", id) && fails(IDLE_VARIANT, id)).count();
        let idle_rate = 1.0 - failing as f64 / steady.len().max(1) as f64;
        let lines = objects.iter().map(|object| object.line_count).sum();
        let minima = &self.settings.minima;
        let meets_minima = whole
            && lines >= minima.lines
            && task.fail_to_pass.len() >= minima.points
            && idle_rate <= minima.pass_rate;
        task.meets_minima = Some(meets_minima);
        let files: BTreeSet<&str> = objects.iter().map(|object| object.file.as_str()).collect();
        let facts = TaskMetrics {
            task: task.id.to_string(),
            file: file.to_owned(),
            policy: "from_scratch".to_owned(),
            words: statements.proctor.split_whitespace().count(),
            lines,
            files: files.len(),
            functions: objects.len(),
            tops: requested
                .iter()
                .map(|owner| format!("{}.{}", owner.module, owner.name))
                .collect(),
            fail_to_pass: task.fail_to_pass.len(),
            pass_to_pass: 0,
            pass_to_pass_files: 0,
            pass_rate: round_fraction(pass_rate),
            idle_rate: round_fraction(idle_rate),
            leak_score: round_fraction(statements.leak_score),
            meets_minima,
            lite: false,
            solvability: solvability.counts(),
            solvability_gaps: solvability.gaps(),
            gold_integrity: Some(gold_verdict.integrity),
            gold_reasons: gold_verdict.reasons,
        };
        let row = self.featurebench_row(
            &task,
            file,
            &facts,
            statements.featurebench,
            ("", &test_patch),
            &[],
        );
        Ok(VerifiedTask { task, row, facts, solvability })
    }

    /// Returns the tops' top-level names, which tests can import. A method is imported through its
    /// class, so its top-level name is the class's.
    fn top_level_names(&self, tops: &BTreeSet<usize>) -> BTreeSet<TopLevelName> {
        let objects = tops.iter().filter_map(|&index| self.objects.list.get(index));
        let owner = |object: &crate::collect::objects::Object| TopLevelName {
            module: module_name(&object.file, &self.project.root),
            name: object.path.split('.').next().unwrap_or(&object.path).to_owned(),
        };
        objects.map(owner).collect()
    }

    /// Whether an object is private. The statement omits private objects and lists the exceptions
    /// that they raise under their callers.
    fn is_private(&self, index: usize) -> bool {
        let object = self.objects.list.get(index);
        object.is_some_and(|it| it.name().starts_with('_') && !it.name().ends_with("__"))
    }

    /// Runs the rewritten tests with both the library and a package installed.
    async fn run_with_package(
        &self,
        task: &Task,
        plan: &TestPlan,
        package: &Files,
        run_name: &'static str,
    ) -> Result<Statuses, StopReason> {
        let place = (self.backend, &self.prepared_environment, &LayerFindings::default());
        let package: Files = package
            .iter()
            .filter(|(path, _)| path.starts_with(AGENT_PACKAGE))
            .map(clone_file_entry)
            .collect();
        let laid = gold::package_patch(&package).into_bytes();
        let test_patch = task.test_patch.clone().unwrap_or_default().into_bytes();
        let ran = run_patched_tests(place, task, plan, &[&test_patch, &laid]).await?;
        // Functions that do nothing may make a test loop forever, so accept an incomplete run.
        // Tests without a result count as not passed.
        if run_name == IDLE_VARIANT {
            return Ok(ran.tests);
        }
        Ok(complete_statuses(ran, run_name)?)
    }

    /// Rejects the task if it is resolved by a copy of the library whose functions all return the
    /// same constant.
    async fn reject_constant_copies(
        &self,
        task: &Task,
        plan: &TestPlan,
        constants: &[(&String, Files)],
    ) -> Result<(), StopReason> {
        let mut plan = plan.clone();
        plan.time_limit = self.stub_time_limit(&plan);
        for (returns, files) in constants {
            let statuses = self.run_with_package(task, &plan, files, IDLE_VARIANT).await?;
            let passes = |id: &String| statuses.get(id) == Some(&TestStatus::Passed);
            if task.fail_to_pass.iter().all(passes) {
                let reason = format!("{} resolve the task", stubs::stub_name(returns));
                return Err(StopReason::Reject("verify", reason));
            }
        }
        Ok(())
    }

    /// Rejects the task if a package that re-exports the library's own objects resolves it.
    async fn reject_shim(
        &self,
        task: &Task,
        environment: &PreparedEnvironment,
        findings: &LayerFindings,
    ) -> Result<(), StopReason> {
        let Some(shim) = task.cheats.first() else { return Ok(()) };
        let options = GradeOptions::default();
        let graded = verify::grade_patch(
            self.verify_context(),
            task,
            environment,
            findings,
            shim.patch.as_bytes(),
            options,
        )
        .await?;
        if graded.verdict.resolved {
            let reason = "re-exporting the library's own objects resolves the task".to_owned();
            return Err(StopReason::Reject("verify", reason));
        }
        Ok(())
    }
}

fn clone_file_entry((path, text): (&String, &String)) -> (String, String) {
    (path.clone(), text.clone())
}

fn format_first_ids(test_ids: &[&String]) -> String {
    let shown: Vec<&str> = test_ids.iter().take(MAX_LISTED_TESTS).map(|id| id.as_str()).collect();
    match test_ids.len().saturating_sub(MAX_LISTED_TESTS) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
