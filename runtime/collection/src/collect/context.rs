//! The state that all candidates of a collection share.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proctor_grade::TestPlan;
use proctor_sandbox_api::{Backend, PreparedEnvironment, SourceTree};
use proctor_setup::Sources;
use proctor_types::{Source, Task, file_from_test_id};

use super::{
    answers::CachedModel, environment::Environment, graph::FileGraph, notes::FunctionNotes,
    objects::Objects, project::Project, settings::Settings, suite::Suite, tops,
    verify::VerifyContext,
};

/// State that all candidates of a collection share.
pub(super) struct CandidateContext<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) sources: &'a Sources,
    pub(super) source: Source,
    pub(super) tree: SourceTree,
    pub(super) project: Project,
    pub(super) environment: Environment,
    pub(super) prepared_environment: PreparedEnvironment,
    pub(super) suite: Suite,
    pub(super) objects: Objects,
    pub(super) graphs: BTreeMap<String, FileGraph>,
    /// Python files in test directories that contain no tests. Neither these files nor anything
    /// they import is removed.
    pub(super) helpers: Vec<String>,
    pub(super) settings: &'a Settings,
    pub(super) seed: String,
    /// Notes on functions, from the traced run.
    pub(super) notes: FunctionNotes,
    /// The model that chooses tops and writes descriptions, if any.
    pub(super) cached_model: Option<CachedModel<'a>>,
    /// The candidates that the model chose for each test file. Empty without a model.
    pub(super) model_candidates: BTreeMap<String, Vec<tops::Candidate>>,
}

impl CandidateContext<'_> {
    pub(super) fn verify_context(&self) -> VerifyContext<'_> {
        VerifyContext { backend: self.backend, sources: self.sources }
    }

    pub(super) fn test_plan(&self, task: &Task, test_ids: Vec<String>) -> TestPlan {
        let files: BTreeSet<String> =
            test_ids.iter().map(|id| file_from_test_id(id).to_owned()).collect();
        TestPlan {
            command: task.test_command.clone(),
            workdir: task.workdir.clone(),
            files: files.into_iter().collect(),
            ids: Some(test_ids),
            env: task.env.clone(),
            time_limit: Duration::from_secs_f64(task.timeouts.grade_seconds),
            user: None,
        }
    }

    pub(super) fn object_ids(&self, indices: &BTreeSet<usize>) -> Vec<String> {
        indices.iter().filter_map(|&index| self.objects.list.get(index)).map(|it| it.id()).collect()
    }
}
