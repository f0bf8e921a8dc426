//! A configuration on its way to a plan: read, resolved, loaded, bundled, ready. Each state is a type,
//! and each check runs once, in the step that makes it possible.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use proctor_config::{ConfigFile, Known, RunConfig, Written, put_model};
use proctor_datasets::Loaded as Rows;
use proctor_record::RunDir;
use proctor_run::{Plan, PlannedTask};
use proctor_sandbox_api::Backend;
use proctor_scaffold_api::{Say, ScaffoldSource};
use proctor_types::{Arm, RunRecord, Selection, UserError, plural};

use crate::{
    PlanError, check_models, checks, extend::Extension, lent, open_files, read_certificate,
    run_tasks, selection, start, tasks,
};

/// How the message about a missing native image names the other back end.
const SWITCH: &str = "set kind = \"docker\" below [sandbox], or use --set sandbox.kind=docker";

/// What planning uses of this machine and this program.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The folder of everything that can be made again.
    pub cache: &'a Path,
    /// The scaffolds that arms may name.
    pub scaffolds: &'a dyn ScaffoldSource,
    /// Why a scripted model's file cannot be read.
    pub script: &'a dyn Fn(&Path) -> Result<(), String>,
    /// Receives notes and the progress of builds.
    pub say: Say<'a>,
}

/// Whether a plan is only shown. A plan that is shown needs no key of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing is built and nothing runs.
    Show,
    /// The plan is going to run.
    Run,
}

/// A configuration as it is written.
pub struct Read {
    file: ConfigFile,
    written: Written,
    /// Arms in the file.
    all: usize,
    /// Globs of the arms that are still to be selected.
    globs: Vec<String>,
    is_selection: bool,
}

impl Read {
    /// Reads a file with its bases, and applies the `--set` values.
    ///
    /// # Errors
    /// A key is wrong; the error names its place.
    pub fn of_file(config: &Path, sets: &[String]) -> Result<Self, UserError> {
        let (file, written) = proctor_config::read(config, sets)?;
        let all = file.arms.len();
        Ok(Self { file, written, all, globs: Vec::new(), is_selection: false })
    }

    /// Selects the arms whose name matches a glob. No glob selects all.
    #[must_use]
    pub fn arms(mut self, globs: &[String]) -> Self {
        self.is_selection = !globs.is_empty();
        self.globs = globs.to_vec();
        self
    }

    /// Puts one model in the place of every arm's. Arms are selected before.
    ///
    /// # Errors
    /// No arm matches, or no vendor has the model.
    pub fn model(mut self, name: &str) -> Result<Self, UserError> {
        if !self.globs.is_empty() {
            let globs = std::mem::take(&mut self.globs);
            let (file, written) = selection::arms_of_file(self.file, &self.written, &globs, name)?;
            (self.file, self.written) = (file, written);
        }
        put_model(&mut self.file, name)?;
        Ok(self)
    }

    /// Sets how many trials run at once.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.file.jobs = jobs;
        self
    }

    /// Looks up every scaffold and model, and identifies each arm by its factors.
    ///
    /// # Errors
    /// A name is unknown, a key has no effect, or the certificate cannot be read.
    pub fn resolve(self, world: World<'_>) -> Result<Resolved, UserError> {
        let of = self.resolution(world)?;
        let Resolution { config, written } = &of;
        if self.is_selection {
            let all = plural(self.all, "arm");
            (world.say)(format!("note: running {} of {all}", config.arms.len()));
        }
        if let Some(path) = &config.file.grading.certificate {
            read_certificate(path)
                .map_err(|error| written.about(&["grading", "certificate"], error))?;
        }
        Ok(Resolved { read: self, of })
    }

    fn resolution(&self, world: World<'_>) -> Result<Resolution, UserError> {
        let scaffold = |name: &str| world.scaffolds.named(name);
        let known =
            Known { scaffold: &scaffold, scaffolds: world.scaffolds.names(), script: world.script };
        let all = proctor_config::resolve(self.file.clone(), &self.written, &known)?;
        let (config, written) = selection::arms(all, &self.written, &self.globs)?;
        Ok(Resolution { config, written })
    }
}

/// The selected arms, with the places where they were written.
struct Resolution {
    config: RunConfig,
    written: Written,
}

impl Resolution {
    /// Adds the place of an arm's key to a message.
    fn place(&self) -> impl Fn(&Arm, &str, UserError) -> UserError {
        |arm, key, error| {
            let arms = &self.config.arms;
            let index = arms.iter().position(|one| one.id == arm.id).unwrap_or(0).to_string();
            let path = match key.split_once('.') {
                Some((table, key)) => self.written.of_arm(&index, table, key),
                None => vec!["arms", &index, key],
            };
            self.written.about(&path, error)
        }
    }

    fn check_models(&self, world: World<'_>) -> Result<(), PlanError> {
        let arms = &self.config.file.arms;
        check_models(&self.config.arms, world.script, &|arm, error| {
            let written = arms.iter().find(|one| one.name == arm.name);
            let Some(model) = written.and_then(|one| one.model.as_deref()) else { return error };
            // The rest of a model was checked when it was resolved; only its key or its URL is left.
            let keyed = arm.model.as_ref().is_some_and(|model| model.key_env.is_some());
            let key = if keyed { "key_env" } else { "base_url" };
            self.written.about(&["models", model, key], error)
        })
    }

    /// Rejects tasks that no trial could run, with the arm's line.
    fn check_tasks(&self, world: World<'_>, tasks: &[PlannedTask]) -> Result<(), UserError> {
        checks::plan(world.scaffolds, &self.config.arms, tasks, SWITCH, &self.place())?;
        for (index, arm) in self.config.file.arms.iter().enumerate() {
            if let Some(trajectory) = &arm.replay {
                checks::replay(trajectory, tasks).map_err(|error| {
                    self.written.about(&["arms", &index.to_string(), "replay"], error)
                })?;
            }
        }
        Ok(())
    }

    /// Rejects more trials at once than open files allow.
    fn check_open_files(&self, tasks: usize) -> Result<(), UserError> {
        let RunConfig { file, arms } = &self.config;
        let trials = tasks * arms.len() * file.attempts as usize;
        open_files::check(file.jobs, trials, arms.iter())
            .map_err(|error| self.written.about(&["jobs"], error))
    }

    /// Rejects bundles with content of the plan's tasks.
    fn check_bundles(&self, world: World<'_>, tasks: &[PlannedTask]) -> Result<(), UserError> {
        let RunConfig { file, arms } = &self.config;
        lent::check(world.scaffolds, file, arms, tasks, &self.place())
    }

    /// Rejects `[statement]` keys that affect no task of the plan, with their line.
    fn check_statements(&self, tasks: &[PlannedTask]) -> Result<(), UserError> {
        for (index, arm) in self.config.arms.iter().enumerate() {
            checks::statement(arm, tasks).map_err(|(key, error)| {
                let index = index.to_string();
                self.written.about(&self.written.of_arm(&index, "statement", key), error)
            })?;
        }
        Ok(())
    }
}

/// A configuration whose arms are known.
pub struct Resolved {
    read: Read,
    of: Resolution,
}

impl Resolved {
    /// The configuration and its arms.
    pub fn config(&self) -> &RunConfig {
        &self.of.config
    }

    /// Reads the tasks: those whose id matches a glob, or all, and of these a sample of `limit`. For a
    /// run, the arms' models are checked first.
    ///
    /// # Errors
    /// A model cannot be called, a dataset cannot be read, or no trial of a task could work.
    pub async fn load(
        self,
        world: World<'_>,
        purpose: Purpose,
        globs: &[String],
        limit: Option<u64>,
    ) -> Result<Loaded, PlanError> {
        let Self { read, of } = self;
        if purpose == Purpose::Run {
            of.check_models(world)?;
        }
        let rows = tasks::whole(&of.config.file.tasks, world.cache, world.say).await;
        let mut rows = rows.map_err(|error| of.written.about(&["tasks"], error))?;
        let selection = selection::choose(&mut rows, globs, limit, world.say)?;
        let tasks = tasks::planned(&rows)?;
        // Before using a back end: recipes build for minutes.
        of.check_tasks(world, &tasks)?;
        of.check_open_files(tasks.len() + rows.recipes.len())?;
        if purpose == Purpose::Show {
            of.check_bundles(world, &tasks)?;
            if rows.recipes.is_empty() {
                of.check_statements(&tasks)?;
            }
        }
        Ok(Loaded { read, of, rows, tasks, selection })
    }
}

/// A configuration with its tasks. Recipes are not built.
pub struct Loaded {
    read: Read,
    of: Resolution,
    rows: Rows,
    tasks: Vec<PlannedTask>,
    selection: Option<Selection>,
}

impl Loaded {
    /// The configuration and its arms.
    pub fn config(&self) -> &RunConfig {
        &self.of.config
    }

    /// The tasks that were read, without those of recipes.
    pub fn tasks(&self) -> &[PlannedTask] {
        &self.tasks
    }

    /// The ids of all tasks, those of recipes last.
    pub fn ids(&self) -> Vec<String> {
        let tasks = self.rows.tasks.iter().map(|task| task.id.to_string());
        tasks.chain(self.rows.recipes.iter().map(|located| located.recipe.id.clone())).collect()
    }

    /// Builds the bundles that the arms miss. Their digests are factors, so arms may change.
    ///
    /// # Errors
    /// A bundle cannot be built, or it holds what a task hides.
    pub async fn bundle(self, world: World<'_>) -> Result<Bundled, PlanError> {
        let mut loaded = self;
        let is_new = {
            let arms = loaded.of.config.file.arms.iter();
            let names: BTreeSet<&str> = arms.map(|arm| arm.scaffold.as_str()).collect();
            world.scaffolds.build(&names, world.say).await?
        };
        if is_new {
            loaded.of = loaded.read.resolution(world)?;
        }
        loaded.of.check_bundles(world, &loaded.tasks)?;
        Ok(Bundled(loaded))
    }
}

/// A configuration whose agents are built.
pub struct Bundled(Loaded);

impl Bundled {
    /// The configuration and its arms.
    pub fn config(&self) -> &RunConfig {
        self.0.config()
    }

    /// Builds the tasks of recipes in sandboxes of `backend`.
    ///
    /// # Errors
    /// A recipe cannot be built, or no trial of its task could work.
    pub async fn build(
        self,
        world: World<'_>,
        backend: &Arc<dyn Backend>,
    ) -> Result<Ready, PlanError> {
        let Loaded { of, rows, mut tasks, selection, .. } = self.0;
        if !rows.recipes.is_empty() {
            let built = tasks::of_recipes(rows.recipes, world.cache, backend, world.say).await?;
            of.check_tasks(world, &built)?;
            of.check_bundles(world, &built)?;
            tasks.extend(built);
        }
        of.check_statements(&tasks)?;
        Ok(Ready { of, tasks, selection })
    }
}

/// A plan that passed every check.
pub struct Ready {
    of: Resolution,
    tasks: Vec<PlannedTask>,
    selection: Option<Selection>,
}

impl Ready {
    /// The configuration and its arms.
    pub fn config(&self) -> &RunConfig {
        &self.of.config
    }

    /// The tasks, built ones last.
    pub fn tasks(&self) -> &[PlannedTask] {
        &self.tasks
    }

    /// Writes the plan into a new run directory. `agent` is the SHA-256 of the sandbox agent.
    ///
    /// # Errors
    /// The folder is not empty, or cannot be written.
    pub fn start(self, out: &Path, agent: &str) -> Result<Planned, PlanError> {
        let Self { of: Resolution { config, .. }, tasks, selection } = self;
        let RunConfig { file, arms } = config;
        let (run, record) = start(out, &file, arms.clone(), &tasks, selection, agent)?;
        let plan = Plan {
            tasks,
            arms: arms.into_iter().map(Arc::new).collect(),
            attempts: file.attempts,
            ..Plan::default()
        };
        Ok(Planned { run, record, plan })
    }

    /// Adds the plan to a run.
    ///
    /// # Errors
    /// A task is not what it was, a model cannot be called, or the plan cannot be written.
    pub fn extend(self, mut extension: Extension, world: World<'_>) -> Result<Planned, PlanError> {
        extension.add_tasks(run_tasks(&self.tasks))?;
        check_models(&extension.record.arms, world.script, &|_, error| error)?;
        let plan = Plan::of(&extension.record);
        let jobs = extension.record.jobs;
        open_files::check(jobs, plan.trials().len(), extension.record.arms.iter())?;
        extension.write(self.selection)?;
        (world.say)(extension.told());
        let Extension { run, record, .. } = extension;
        Ok(Planned { run, record, plan })
    }
}

/// A plan in its run directory, which this process holds.
pub struct Planned {
    /// The run directory.
    pub run: RunDir,
    /// `run.json`.
    pub record: RunRecord,
    /// The trials.
    pub plan: Plan,
}
