//! Decides whether a candidate becomes a task by running its tests with and without its changes.

use std::{path::Path, time::Duration};

use proctor_grade::TestPlan;
use proctor_types::{
    Environment as TaskEnvironment, Integrity, Source, TASK_SCHEMA_VERSION, Task, TaskId,
    TestStatus, Timeouts,
};
use serde::{Deserialize, Serialize};

use super::{
    candidate::Candidate,
    funnel::{Stage, StopReason},
};
use crate::{
    collect::{
        environment::{Environment, WORKDIR, env_vars},
        outcome::StopReason as CollectStop,
        pipeline::CollectionContext,
        project::Project,
        resolution,
        settings::Settings,
        stage_cache::{StageCache, cache_result},
        verify::{self, VerifyContext},
    },
    draft::blocked_urls,
    freeze::{RUNS_PER_SIDE, Statuses, classify_tests, complete_statuses, run_patched_tests},
};

/// Files that affect how a project is installed. The environment's cache key covers them.
const INSTALLATION_FILES: [&str; 3] = ["pyproject.toml", "setup.py", "setup.cfg"];

/// State that all candidates of a collection share.
pub(super) struct CandidateRunner<'a> {
    pub(super) context: &'a CollectionContext<'a>,
    pub(super) cache: &'a StageCache,
    pub(super) settings: &'a Settings,
    /// The clone's absolute path.
    pub(super) clone: String,
    pub(super) repo: String,
}

/// A candidate's result, as it is cached. Faults are not cached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CandidateResult {
    Task(Box<Task>),
    Reject(Stage, String),
}

impl CandidateRunner<'_> {
    /// Runs a candidate's tests, or returns the cached result.
    ///
    /// # Errors
    /// Fails if a fault occurs that has nothing to do with the candidate. A retry may help.
    pub(super) async fn run_cached(
        &self,
        candidate: &Candidate,
        id: &str,
        statement: &str,
    ) -> Result<CandidateResult, proctor_types::Fault> {
        let of = self.cache_key(candidate, id, statement);
        if let Some(tried) = self.cache.get::<CandidateResult>("pull", &of) {
            return Ok(tried);
        }
        let tried = match self.build_task(candidate, id, statement).await {
            Ok(task) => CandidateResult::Task(Box::new(task)),
            Err(StopReason::Reject(stage, why)) => CandidateResult::Reject(stage, why),
            Err(StopReason::Fault(fault)) => return Err(fault),
        };
        cache_result(self.cache, "pull", &of, &tried);
        Ok(tried)
    }

    /// Whether the candidate's result is cached.
    pub(super) fn is_cached(&self, candidate: &Candidate, id: &str, statement: &str) -> bool {
        self.cache.contains("pull", &self.cache_key(candidate, id, statement))
    }

    fn cache_key(&self, candidate: &Candidate, id: &str, statement: &str) -> String {
        serde_json::to_string(&(candidate, id, statement, &self.clone)).unwrap_or_default()
    }

    async fn build_task(
        &self,
        candidate: &Candidate,
        id: &str,
        statement: &str,
    ) -> Result<Task, StopReason> {
        let rejected = |why: &str| StopReason::Reject(Stage::Run, why.to_owned());
        let files = candidate.test_files();
        if files.is_empty() {
            return Err(rejected("the pull request does not change a pytest test file"));
        }
        let source = Source::Git { git: self.clone.clone(), commit: candidate.base.clone() };
        let tree = self.context.sources.fetch(&source, Path::new(".")).await?;
        let settings = self.settings;
        let mut project = Project::read(&tree.folder, &settings.environment, &settings.layout);
        if project.name.is_empty() {
            project.name = self.repo.rsplit('/').next().unwrap_or(&self.repo).to_owned();
        }
        if project.modules.is_empty() {
            return Err(rejected(
                "the base commit has no Python package at the top level, in src or in lib",
            ));
        }
        let environment = self.prepare_environment(&tree, &project).await?;
        let mut task = self.base_task(candidate, id, statement, &project, &environment, source);
        let judge = VerifyContext { backend: self.context.backend, sources: self.context.sources };
        // Check for leaks before running tests: if the environment contains the solution, the task
        // is rejected regardless of the tests.
        let (prepared, findings) = verify::prepare_and_scan(judge, &task).await?;
        verify::reject_copies(judge, &task, &prepared, &findings).await.map_err(to_stop_reason)?;
        let plan = TestPlan {
            command: task.test_command.clone(),
            workdir: task.workdir.clone(),
            files,
            ids: None,
            env: task.env.clone(),
            time_limit: Duration::from_secs_f64(task.timeouts.grade_seconds),
            user: None,
        };
        let (patch, tests) = (candidate.patch.as_bytes(), candidate.test_patch.as_bytes());
        let place = (self.context.backend, &prepared, &findings);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for _ in 0..RUNS_PER_SIDE {
            let ran = run_patched_tests(place, &task, &plan, &[patch, tests]).await?;
            if let Some((file, why)) = ran.collect_errors.iter().next() {
                let why = why.lines().last().unwrap_or_default();
                return Err(rejected(&format!(
                    "with the pull request's changes, pytest cannot collect {file}: {why}"
                )));
            }
            let ran = complete_statuses(ran, "gold")?;
            check_no_failures(&ran)?;
            after.push(ran);
            let ran = run_patched_tests(place, &task, &plan, &[tests]).await?;
            // If the run aborts, every test counts as failed. Test helpers may need code that does
            // not exist before the change.
            before.push(complete_statuses(ran, "plain").unwrap_or_default());
        }
        let sorted = classify_tests(&before, &after, &[]);
        if sorted.fail_to_pass.is_empty() {
            let kept = sorted.pass_to_pass.len();
            return Err(rejected(&format!(
                "no test fails without the pull request's changes and passes with them; {kept} pass both times"
            )));
        }
        task.fail_to_pass = sorted.fail_to_pass;
        task.pass_to_pass = sorted.pass_to_pass;
        let gold = verify::grade_gold_and_noop(judge, &task, &prepared, &findings)
            .await
            .map_err(to_stop_reason)?;
        if gold.integrity != Integrity::Clean {
            (self.context.on_progress)(&verify::unclean_warning(
                task.id.as_str(),
                gold.integrity,
                &gold.reasons,
            ));
        }
        Ok(task)
    }

    /// Returns the environment for a commit of the project. Commits with the same requirements
    /// share an environment.
    async fn prepare_environment(
        &self,
        tree: &proctor_sandbox_api::SourceTree,
        project: &Project,
    ) -> Result<Environment, StopReason> {
        let metadata: Vec<String> = INSTALLATION_FILES
            .iter()
            .map(|name| std::fs::read_to_string(tree.folder.join(name)).unwrap_or_default())
            .collect();
        // Leave the list of code files out of the key, because adding or removing a file does not
        // change the environment.
        let keyed_project = Project { modules: Vec::new(), ..project.clone() };
        let of = serde_json::to_string(&(metadata, keyed_project)).unwrap_or_default();
        if let Some(environment) = self.cache.get::<Environment>("environment", &of) {
            return Ok(environment);
        }
        let quiet = |_: &str| {};
        let found = resolution::resolve_environment(
            self.context.backend,
            tree,
            project,
            self.settings,
            &quiet,
        )
        .await?;
        cache_result(self.cache, "environment", &of, &found);
        Ok(found)
    }

    fn base_task(
        &self,
        candidate: &Candidate,
        id: &str,
        statement: &str,
        project: &Project,
        environment: &Environment,
        source: Source,
    ) -> Task {
        let repo = Some(self.repo.as_str()).filter(|repo| repo.contains('/'));
        Task {
            schema_version: TASK_SCHEMA_VERSION,
            id: TaskId::new(id),
            repo: Some(self.repo.clone()),
            level: None,
            statement: statement.to_owned(),
            environment: TaskEnvironment {
                image: None,
                dockerfile: None,
                base: Some("host".into()),
                setup: environment.setup.clone(),
            },
            source: Some(source),
            workdir: WORKDIR.into(),
            mask: None,
            hidden: Vec::new(),
            blocked_urls: blocked_urls(&project.name, repo, Vec::new()),
            fail_to_pass: Vec::new(),
            pass_to_pass: Vec::new(),
            test_command: environment.test_command.clone(),
            test_patch: Some(candidate.test_patch.clone()),
            timeouts: Timeouts::default(),
            gold: Some(candidate.patch.clone()),
            env: env_vars(project).into_iter().collect(),
            user: None,
            platform: None,
            resources: None,
            cheats: Vec::new(),
            impossible: None,
            clock: None,
            categories: Vec::new(),
            meets_minima: None,
            created_at: None,
            details: Default::default(),
            from_scratch: None,
            test_results: None,
            benchmark: None,
            harbor: None,
            from_image: Default::default(),
        }
    }
}

/// Rejects the task if any test fails with the gold patch. FEA-Bench has the same rule.
fn check_no_failures(gold_statuses: &Statuses) -> Result<(), StopReason> {
    let bad = [TestStatus::Failed, TestStatus::Error];
    let failed: Vec<&str> = gold_statuses
        .iter()
        .filter(|(_, status)| bad.contains(status))
        .map(|(id, _)| id.as_str())
        .collect();
    match &failed[..] {
        [] => Ok(()),
        [first, more @ ..] => {
            let more =
                if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            Err(StopReason::Reject(Stage::Run, format!("{first} fails with its changes{more}")))
        }
    }
}

fn to_stop_reason(stop: CollectStop) -> StopReason {
    match stop {
        CollectStop::Reject(_, why) => StopReason::Reject(Stage::Verify, why),
        CollectStop::Fault(fault) => StopReason::Fault(fault),
    }
}
