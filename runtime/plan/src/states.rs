//! The stages in which a configuration becomes a plan: read, resolved, loaded, bundled, ready. Each
//! stage is a type. Each check runs once, in the first stage that has the data that the check
//! needs.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use proctor_config::{ConfigFile, ConfigSource, NameLookup, RunConfig, set_model};
use proctor_datasets::LoadedDataset as Rows;
use proctor_run::{Plan, PlannedTask};
use proctor_sandbox_api::Backend;
use proctor_types::{Arm, ForkOrigin, Selection, UserError, count_with_noun};

use crate::{
    NewRun, PlanContext, PlanError, PlannedRun, bundle_contents, check_models, checks,
    extend::Extension, open_files, planned_run::check_record, read_certificate, selection, shipped,
    start::create_run, tasks, to_run_tasks,
};

/// Tells the user how to choose another back end. Part of the message about images, which native
/// sandboxes do not support.
const DOCKER_HINT: &str = "set kind = \"docker\" below [sandbox], or use --set sandbox.kind=docker";

/// The purpose of a plan. It determines the checks: a plan that is only shown does not need a
/// model's API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Show the plan. Nothing is built or run.
    Show,
    /// Run the plan.
    Run,
    /// Open a sandbox of one task of the plan. No agent runs and nothing is graded.
    Open,
}

/// A configuration as written by the user.
pub struct ReadConfig {
    file: ConfigFile,
    source: ConfigSource,
    /// Number of arms in the file.
    arm_count: usize,
    /// Globs for the selection of arms, which is applied later.
    arm_globs: Vec<String>,
    has_arm_globs: bool,
    /// Text for hints that tells the user how to choose another back end.
    backend_hint: &'static str,
    /// The fork point where the trials start. `None` if they start from the task's initial state.
    origin: Option<ForkOrigin>,
}

impl ReadConfig {
    /// Reads a file and the configurations that it extends, and applies the `--set` values. Built-in
    /// files are unpacked into `cache`.
    ///
    /// # Errors
    /// Fails if a key is invalid. The error contains the key's location.
    pub fn from_file(config: &Path, overrides: &[String], cache: &Path) -> Result<Self, UserError> {
        let builtins = |name: &Path| shipped::find_builtin(name, cache);
        let (file, written) =
            proctor_config::read_config_with_builtins(config, overrides, &builtins)?;
        Ok(Self::new(file, written, DOCKER_HINT))
    }

    /// Wraps a configuration that a command built from its arguments. `backend_hint` tells the user
    /// how to choose another back end.
    pub fn from_arguments(file: ConfigFile, backend_hint: &'static str) -> Self {
        Self::new(file, ConfigSource::default(), backend_hint)
    }

    fn new(file: ConfigFile, source: ConfigSource, backend_hint: &'static str) -> Self {
        let arm_count = file.arms.len();
        let (arm_globs, has_arm_globs, origin) = (Vec::new(), false, None);
        Self { file, source, arm_count, arm_globs, has_arm_globs, backend_hint, origin }
    }

    /// Selects the arms whose names match a glob. An empty list selects all arms.
    #[must_use]
    pub fn select_arms(mut self, globs: &[String]) -> Self {
        self.has_arm_globs = !globs.is_empty();
        self.arm_globs = globs.to_vec();
        self
    }

    /// Uses one model for every arm. Applies the selection of arms first.
    ///
    /// # Errors
    /// Fails if no arm matches, or if no vendor has the model.
    pub fn with_model(mut self, name: &str) -> Result<Self, UserError> {
        if !self.arm_globs.is_empty() {
            let globs = std::mem::take(&mut self.arm_globs);
            let (file, written) =
                selection::select_file_arms(self.file, &self.source, &globs, name)?;
            (self.file, self.source) = (file, written);
        }
        set_model(&mut self.file, name)?;
        Ok(self)
    }

    /// Sets the number of concurrent trials.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.file.jobs = jobs;
        self
    }

    /// Looks up every scaffold and model, and identifies each arm by its factors.
    ///
    /// # Errors
    /// Fails if a name is unknown, a key has no effect, or the certificate cannot be read.
    pub fn resolve(self, context: PlanContext<'_>) -> Result<ResolvedConfig, UserError> {
        let of = self.resolve_selected_arms(context)?;
        let config = &of.config;
        if self.has_arm_globs {
            let all = count_with_noun(self.arm_count, "arm");
            (context.say)(format!("note: running {} of {all}", config.arms.len()));
        }
        if let Some(path) = &config.file.grading.certificate {
            read_certificate(path)
                .map_err(|error| of.add_location(&["grading", "certificate"], error))?;
        }
        Ok(ResolvedConfig { source_config: self, resolution: of })
    }

    fn resolve_selected_arms(&self, context: PlanContext<'_>) -> Result<Resolution, UserError> {
        let scaffold = |name: &str| context.scaffolds.find_scaffold(name);
        let known = NameLookup {
            find_scaffold: &scaffold,
            scaffold_names: context.scaffolds.names(),
            validate_script: context.check_script,
        };
        let all = proctor_config::resolve_config(self.file.clone(), &self.source, &known)?;
        let (mut config, written) = selection::select_arms(all, &self.source, &self.arm_globs)?;
        if let Some(origin) = &self.origin {
            config.arms = fork_arms(config.arms, origin);
        }
        Ok(Resolution { config, source: written, backend_hint: self.backend_hint })
    }
}

/// Returns the arms as forks of a recorded trial.
fn fork_arms(arms: Vec<Arm>, origin: &ForkOrigin) -> Vec<Arm> {
    let forked = |arm: Arm| Arm { forked_from: Some(origin.clone()), ..arm }.with_computed_id();
    arms.into_iter().map(forked).collect()
}

/// The resolved configuration of the selected arms, and its source for messages.
struct Resolution {
    config: RunConfig,
    source: ConfigSource,
    backend_hint: &'static str,
}

impl Resolution {
    /// Adds the location of a key to a message, unless the configuration comes from command-line
    /// arguments.
    fn add_location(&self, path: &[&str], error: UserError) -> UserError {
        match self.source.table().is_empty() {
            true => error,
            false => self.source.locate_error(path, error),
        }
    }

    /// Returns a function that adds the location of an arm's key to a message.
    fn arm_locator(&self) -> impl Fn(&Arm, &str, UserError) -> UserError {
        |arm, key, error| {
            let arms = &self.config.arms;
            let index = arms.iter().position(|one| one.id == arm.id).unwrap_or(0).to_string();
            let path = match key.split_once('.') {
                Some((table, key)) => self.source.arm_key_path(&index, table, key),
                None => vec!["arms", &index, key],
            };
            self.add_location(&path, error)
        }
    }

    fn check_models(&self, context: PlanContext<'_>) -> Result<(), PlanError> {
        let arms = &self.config.file.arms;
        check_models(&self.config.arms, context.check_script, &|arm, error| {
            let written = arms.iter().find(|one| one.name == arm.name);
            let Some(model) = written.and_then(|one| one.model.as_deref()) else { return error };
            // The other settings were checked when the model was resolved, so the error is about
            // the key or the URL.
            let keyed = arm.model.as_ref().is_some_and(|model| model.key_env.is_some());
            let key = if keyed { "key_env" } else { "base_url" };
            self.add_location(&["models", model, key], error)
        })
    }

    /// Rejects tasks that no trial could run or whose sandbox cannot be opened. The error contains
    /// the location of the arm in the configuration.
    fn check_tasks(
        &self,
        context: PlanContext<'_>,
        purpose: Purpose,
        tasks: &[PlannedTask],
    ) -> Result<(), UserError> {
        let (arms, place) = (&self.config.arms, self.arm_locator());
        if purpose == Purpose::Open {
            return checks::check_sandboxes(arms, tasks, self.backend_hint, &place);
        }
        checks::check_plan(context.scaffolds, arms, tasks, self.backend_hint, &place)?;
        for (index, arm) in self.config.file.arms.iter().enumerate() {
            if let Some(trajectory) = &arm.replay {
                checks::check_replay(trajectory, tasks).map_err(|error| {
                    self.add_location(&["arms", &index.to_string(), "replay"], error)
                })?;
            }
        }
        Ok(())
    }

    /// Returns an error if the limit on open files is too low for the concurrent trials.
    fn check_open_files(&self, tasks: usize) -> Result<(), UserError> {
        let RunConfig { file, arms } = &self.config;
        let trials = tasks * arms.len() * file.attempts as usize;
        open_files::check_limit(file.jobs, trials, arms.iter())
            .map_err(|error| self.add_location(&["jobs"], error))
    }

    /// Rejects bundles that contain hidden content of the plan's tasks.
    fn check_bundles(
        &self,
        context: PlanContext<'_>,
        tasks: &[PlannedTask],
    ) -> Result<(), UserError> {
        let RunConfig { file, arms } = &self.config;
        bundle_contents::check_bundles(context.scaffolds, file, arms, tasks, &self.arm_locator())
    }

    /// Rejects `[statement]` keys that affect no task of the plan. The error contains the key's
    /// location in the configuration.
    fn check_statements(&self, tasks: &[PlannedTask]) -> Result<(), UserError> {
        for (index, arm) in self.config.arms.iter().enumerate() {
            checks::check_statement(arm, tasks).map_err(|(key, error)| {
                let index = index.to_string();
                self.add_location(&self.source.arm_key_path(&index, "statement", key), error)
            })?;
        }
        Ok(())
    }
}

/// A configuration whose arms are resolved.
pub struct ResolvedConfig {
    source_config: ReadConfig,
    resolution: Resolution,
}

impl ResolvedConfig {
    /// Creates a configuration for arms that consist of existing patches. `file` has no arms, and
    /// no scaffold is looked up.
    pub fn from_patches(file: ConfigFile, arms: Vec<Arm>, backend_hint: &'static str) -> Self {
        let source_config = ReadConfig::from_arguments(file.clone(), backend_hint);
        let (config, written) = (RunConfig { file, arms }, ConfigSource::default());
        Self { source_config, resolution: Resolution { config, source: written, backend_hint } }
    }

    /// Returns the configuration and its arms.
    pub fn config(&self) -> &RunConfig {
        &self.resolution.config
    }

    /// Makes every trial start at a step of a recorded trial. The fork point becomes a factor of
    /// the arms.
    #[must_use]
    pub fn fork_from(mut self, origin: ForkOrigin) -> Self {
        self.resolution.config.arms = fork_arms(self.resolution.config.arms, &origin);
        self.source_config.origin = Some(origin);
        self
    }

    /// Plans tasks that come from another plan, without reading a dataset. Builds missing bundles.
    ///
    /// # Errors
    /// Fails if a model cannot be called, or if no trial of a task could work.
    pub async fn with_tasks(
        self,
        context: PlanContext<'_>,
        tasks: Vec<PlannedTask>,
    ) -> Result<ReadyPlan, PlanError> {
        let Self { source_config: read, resolution: of } = self;
        let (purpose, selection) = (Purpose::Run, None);
        of.check_models(context)?;
        of.check_tasks(context, purpose, &tasks)?;
        of.check_open_files(tasks.len())?;
        let loaded = LoadedPlan {
            source_config: read,
            resolution: of,
            rows: Rows::default(),
            tasks,
            selection,
            purpose,
        };
        // Don't check `[statement]` keys here, because they may affect only tasks of the other plan
        // that are not among `tasks`.
        let BundledPlan(LoadedPlan { resolution: of, tasks, selection, .. }) =
            loaded.build_bundles(context).await?;
        Ok(ReadyPlan { resolution: of, tasks, selection })
    }

    /// Reads the tasks whose IDs match a glob, or all tasks if there are no globs, and samples
    /// `limit` of them. For a run, checks the arms' models first.
    ///
    /// # Errors
    /// Fails if a model cannot be called, a dataset cannot be read, or no trial of a task could
    /// work.
    pub async fn load(
        self,
        context: PlanContext<'_>,
        purpose: Purpose,
        globs: &[String],
        limit: Option<u64>,
    ) -> Result<LoadedPlan, PlanError> {
        if purpose == Purpose::Run {
            self.resolution.check_models(context)?;
        }
        let mut rows = self.read_rows(context).await?;
        let selection = selection::select_tasks(&mut rows, globs, limit, context.say)?;
        self.into_loaded(context, purpose, rows, selection)
    }

    /// Reads one task.
    ///
    /// # Errors
    /// Fails if a dataset cannot be read, if there is no such task, or if the task cannot be used
    /// for the purpose.
    pub async fn load_task(
        self,
        context: PlanContext<'_>,
        purpose: Purpose,
        id: &str,
    ) -> Result<LoadedPlan, PlanError> {
        let mut rows = self.read_rows(context).await?;
        rows.tasks.retain(|task| task.id.as_str() == id);
        rows.recipes.retain(|located| located.recipe.id.as_str() == id);
        if rows.tasks.is_empty() && rows.recipes.is_empty() {
            return Err(UserError::new(format!("no task has the ID `{id}`"))
                .hint("`proctor tasks list --tasks DATASET` lists the task IDs")
                .into());
        }
        self.into_loaded(context, purpose, rows, None)
    }

    async fn read_rows(&self, context: PlanContext<'_>) -> Result<Rows, UserError> {
        let rows = tasks::read_complete_dataset(
            &self.resolution.config.file.tasks,
            context.cache,
            context.say,
        )
        .await;
        rows.map_err(|error| self.resolution.add_location(&["tasks"], error))
    }

    fn into_loaded(
        self,
        context: PlanContext<'_>,
        purpose: Purpose,
        rows: Rows,
        selection: Option<Selection>,
    ) -> Result<LoadedPlan, PlanError> {
        let Self { source_config: read, resolution: of } = self;
        let tasks = tasks::planned_tasks(&rows)?;
        // Run these checks before recipes are built, because building takes minutes.
        of.check_tasks(context, purpose, &tasks)?;
        of.check_open_files(tasks.len() + rows.recipes.len())?;
        if purpose == Purpose::Show {
            of.check_bundles(context, &tasks)?;
            if rows.recipes.is_empty() {
                of.check_statements(&tasks)?;
            }
        }
        Ok(LoadedPlan { source_config: read, resolution: of, rows, tasks, selection, purpose })
    }
}

/// A configuration with its tasks. Recipes are not built yet.
pub struct LoadedPlan {
    source_config: ReadConfig,
    resolution: Resolution,
    rows: Rows,
    tasks: Vec<PlannedTask>,
    selection: Option<Selection>,
    purpose: Purpose,
}

impl LoadedPlan {
    /// Sets the number of concurrent trials, once the back end is known.
    ///
    /// # Errors
    /// Fails if the limit on open files is too low for this number of trials.
    pub fn jobs(mut self, jobs: usize) -> Result<Self, UserError> {
        self.source_config.file.jobs = jobs;
        self.resolution.config.file.jobs = jobs;
        self.resolution.check_open_files(self.tasks.len() + self.rows.recipes.len())?;
        Ok(self)
    }

    /// Returns the configuration and its arms.
    pub fn config(&self) -> &RunConfig {
        &self.resolution.config
    }

    /// Returns the tasks that were read. Tasks of recipes are not included.
    pub fn tasks(&self) -> &[PlannedTask] {
        &self.tasks
    }

    /// Returns the IDs of all tasks. Tasks of recipes come last.
    pub fn task_ids(&self) -> Vec<String> {
        let tasks = self.rows.tasks.iter().map(|task| task.id.to_string());
        tasks.chain(self.rows.recipes.iter().map(|located| located.recipe.id.clone())).collect()
    }

    /// Builds the missing bundles of the arms. Bundle digests are factors, so the arms may change.
    ///
    /// # Errors
    /// Fails if a bundle cannot be built or contains a task's hidden content.
    pub async fn build_bundles(self, context: PlanContext<'_>) -> Result<BundledPlan, PlanError> {
        let mut loaded = self;
        let is_new = {
            let arms = loaded.resolution.config.file.arms.iter();
            let names: BTreeSet<&str> = arms.map(|arm| arm.scaffold.as_str()).collect();
            context.scaffolds.build(&names, context.say).await?
        };
        if is_new {
            loaded.resolution = loaded.source_config.resolve_selected_arms(context)?;
        }
        loaded.resolution.check_bundles(context, &loaded.tasks)?;
        Ok(BundledPlan(loaded))
    }
}

/// A configuration whose agent bundles are built.
pub struct BundledPlan(LoadedPlan);

impl BundledPlan {
    /// Returns the configuration and its arms.
    pub fn config(&self) -> &RunConfig {
        self.0.config()
    }

    /// Builds the tasks of recipes in sandboxes of `backend`.
    ///
    /// # Errors
    /// Fails if a recipe cannot be built, or if no trial of its task could work.
    pub async fn build_recipes(
        self,
        context: PlanContext<'_>,
        backend: &Arc<dyn Backend>,
    ) -> Result<ReadyPlan, PlanError> {
        let LoadedPlan { resolution: of, rows, mut tasks, selection, purpose, .. } = self.0;
        if !rows.recipes.is_empty() {
            let built =
                tasks::build_recipe_tasks(rows.recipes, context.cache, backend, context.say)
                    .await?;
            of.check_tasks(context, purpose, &built)?;
            of.check_bundles(context, &built)?;
            tasks.extend(built);
        }
        of.check_statements(&tasks)?;
        Ok(ReadyPlan { resolution: of, tasks, selection })
    }
}

/// A plan that passed every check.
pub struct ReadyPlan {
    resolution: Resolution,
    tasks: Vec<PlannedTask>,
    selection: Option<Selection>,
}

impl ReadyPlan {
    /// Returns the configuration and its arms.
    pub fn config(&self) -> &RunConfig {
        &self.resolution.config
    }

    /// Returns the tasks. Tasks built from recipes come last.
    pub fn tasks(&self) -> &[PlannedTask] {
        &self.tasks
    }

    /// Writes the plan into a new run directory. `agent_sha256` is the SHA-256 of the sandbox
    /// agent.
    ///
    /// # Errors
    /// Fails if the directory is not empty or cannot be written.
    pub fn create_run(self, out: &Path, agent_sha256: &str) -> Result<PlannedRun, PlanError> {
        let Self { resolution: Resolution { config, .. }, tasks, selection } = self;
        let RunConfig { file, arms } = config;
        let new =
            NewRun { file: &file, arms: arms.clone(), tasks: &tasks, selection, agent_sha256 };
        let (run, record) = create_run(out, new)?;
        let plan = Plan {
            tasks,
            arms: arms.into_iter().map(Arc::new).collect(),
            attempts: file.attempts,
            ..Plan::default()
        };
        Ok(PlannedRun { run, record, plan })
    }

    /// Adds the plan to an existing run.
    ///
    /// # Errors
    /// Fails if a task has changed, a model cannot be called, or the plan cannot be written.
    pub fn extend(
        self,
        mut extension: Extension,
        context: PlanContext<'_>,
    ) -> Result<PlannedRun, PlanError> {
        extension.add_tasks(to_run_tasks(&self.tasks))?;
        let plan = Plan::from_record(&extension.record);
        check_record(&extension.record, &plan, context)?;
        extension.write_plan(self.selection)?;
        (context.say)(extension.summary());
        let Extension { run, record, .. } = extension;
        Ok(PlannedRun { run, record, plan })
    }
}
