//! `proctor curve`: computes results under smaller limits from a run's snapshots.

use std::{collections::BTreeMap, path::Path, process::ExitCode, sync::Arc};

use proctor_plan::PlannedRun;
use proctor_record::RunDir;
use proctor_report::{
    CURVE_SCHEMA, Curve, CurveCheck, CurveCost, CurvePoint, FirstResolved, TrialResult, curve_csv,
    curve_html, curve_text, read_results,
};
use proctor_run::{
    Execution, FirstResolvedSearch, Plan, PlannedTask, PrefixBudget, RunContext, TrialPrefixes,
    grade_prefix,
};
use proctor_types::{
    Arm, BudgetKind, Disclosure, Ending, RULES_VERSION, RunRecord, TrialId, Verdict,
    canonical_json, count_with_noun, sha256_hex,
};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    args::{CurveArgs, CurveFormat},
    assemble::{self, FlakyTests, RegradePolicy},
    cache_dir,
    commands::{
        curve_check::{run_separately, sample_tasks},
        resume::plan_from_record,
    },
    error::{CommandError, INCOMPLETE_STATUS, INTERRUPTED_STATUS, UserError},
    print::{print_escaped, print_result},
    progress::shorten_repeated,
    selection,
};

pub async fn print_curve(args: CurveArgs) -> Result<ExitCode, CommandError> {
    let budget = CurveBudget::parse(args.at.as_deref())?;
    let run = RunDir::open_read_only(&args.run).map_err(CommandError::from_record_error)?;
    let record: RunRecord = run.read_run()?;
    let mut arms = selection::select_run_arms(&record.arms, &args.arms)?;
    let mut notes = Vec::new();
    if let Some(budget) = &budget {
        (arms, notes) = budget.retain_largest_arms(arms);
        for note in &notes {
            tell!("note: {note}");
        }
        for arm in &arms {
            budget.check_arm(arm, args.allow_truncated)?;
        }
    } else if !args.every {
        return Err(UserError::new("nothing to compute")
            .hint("pass budgets (`--at steps=10,50,100`), or `--every` to find each task's first resolving step")
            .into());
    }
    let mut drawing = CurveBuilder::new(&args.run, &record, arms).await?;
    let points = match &budget {
        Some(budget) => drawing.compute_points(budget).await?,
        None => Vec::new(),
    };
    let first_resolved = if args.every { drawing.find_first_resolved().await? } else { Vec::new() };
    let (mut checks, mut model_calls) = (Vec::new(), 0);
    if let (Some(budget), Some(count)) = (&budget, args.check) {
        let Some(checked) = drawing.check_sample(budget, count as usize).await? else {
            return Ok(ExitCode::from(INTERRUPTED_STATUS));
        };
        (checks, model_calls) = checked;
    }
    let cost = CurveCost { model_calls, gradings: drawing.grading_count };
    let schema_version = CURVE_SCHEMA;
    let curve = Curve { schema_version, points, first_resolved, checks, cost, notes };
    match args.format {
        CurveFormat::Text => print_escaped(&curve_text(&curve))?,
        CurveFormat::Json => print_result(&format!("{}\n", serde_json::to_string_pretty(&curve)?))?,
        CurveFormat::Csv => print_result(&curve_csv(&curve))?,
        CurveFormat::Html => print_result(&curve_html(&curve))?,
    }
    let complete = curve.points.iter().all(|point| point.graded == point.trials);
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE_STATUS) })
}

/// The requested budgets. All are of one kind and in ascending order.
struct CurveBudget {
    name: &'static str,
    kind: PrefixBudget,
    limits: Vec<f64>,
}

impl CurveBudget {
    fn parse(text: Option<&str>) -> Result<Option<Self>, UserError> {
        let Some(text) = text else { return Ok(None) };
        let wrong = |what: String| {
            UserError::new(format!("--at {text}: {what}")).hint(
                "pass one kind with its values, such as `steps=10,50,100` or `cost=0.5,1` (kinds: \
                 steps, tokens, cost, seconds)",
            )
        };
        let (name, values) = text.split_once('=').ok_or_else(|| wrong("missing `=`".into()))?;
        let (name, kind) = match name.trim() {
            "steps" => ("steps", PrefixBudget::Steps),
            "tokens" => ("tokens", PrefixBudget::Tokens),
            "cost" => ("cost", PrefixBudget::Cost),
            "seconds" => ("seconds", PrefixBudget::Seconds),
            other => return Err(wrong(format!("unknown budget kind `{other}`"))),
        };
        let whole = matches!(kind, PrefixBudget::Steps | PrefixBudget::Tokens);
        let mut ats = Vec::new();
        for value in values.split(',').map(str::trim) {
            let at = value.parse().ok().filter(|at: &f64| *at > 0.0 && at.is_finite());
            let at = at.ok_or_else(|| wrong(format!("`{value}` is not a number above 0")))?;
            if whole && at.fract() != 0.0 {
                return Err(wrong(format!("`{value}` is not a whole number")));
            }
            ats.push(at);
        }
        ats.sort_by(f64::total_cmp);
        ats.dedup();
        Ok(Some(Self { name, kind, limits: ats }))
    }

    /// Returns the arm's own limit of the same kind.
    fn arm_limit(&self, arm: &Arm) -> Option<f64> {
        let budget = &arm.budget;
        match self.kind {
            PrefixBudget::Steps => budget.steps.map(|steps| steps as f64),
            PrefixBudget::Tokens => budget.total_tokens.map(|tokens| tokens as f64),
            PrefixBudget::Cost => budget.cost_usd,
            PrefixBudget::Seconds => budget.wall_seconds,
        }
    }

    /// Drops each arm that does not cover all requested budgets if a sibling has a larger limit.
    /// Siblings differ only in this limit, so the results for smaller limits follow from the
    /// sibling with the largest one. Returns the other arms, and a note about each dropped arm.
    fn retain_largest_arms(&self, arms: Vec<Arm>) -> (Vec<Arm>, Vec<String>) {
        let most = self.limits.last().copied().unwrap_or_default();
        let others: Vec<String> = arms.iter().map(|arm| self.factors_without_limit(arm)).collect();
        let (mut kept, mut notes) = (Vec::new(), Vec::new());
        for (arm, own) in arms.iter().zip(&others) {
            let limit = self.limit_or_infinity(arm);
            let siblings = arms.iter().zip(&others).filter(|(_, other)| *other == own);
            let larger = siblings
                .map(|(sibling, _)| sibling)
                .filter(|sibling| most > limit && self.limit_or_infinity(sibling) > limit)
                .max_by(|a, b| self.limit_or_infinity(a).total_cmp(&self.limit_or_infinity(b)));
            match larger {
                Some(larger) => notes.push(format!(
                    "skipped arm `{}`: its limit is {limit}, and arm `{}` has a larger limit",
                    arm.name, larger.name
                )),
                None => kept.push(arm.clone()),
            }
        }
        (kept, notes)
    }

    /// Returns the arm's own limit of this kind, or infinity if it has none.
    fn limit_or_infinity(&self, arm: &Arm) -> f64 {
        self.arm_limit(arm).unwrap_or(f64::INFINITY)
    }

    /// Returns all factors of an arm except its limit of this kind, as text.
    fn factors_without_limit(&self, arm: &Arm) -> String {
        canonical_json(&self.with_limit(arm, None).factors())
    }

    /// Returns an error if the arm has no data for one of the requested budgets. Unless
    /// `allow_truncated` is set, also returns an error if the arm's model knew its budget.
    fn check_arm(&self, arm: &Arm, allow_truncated: bool) -> Result<(), UserError> {
        let most = self.limits.last().copied().unwrap_or_default();
        if let Some(limit) = self.arm_limit(arm).filter(|limit| most > *limit) {
            let what = format!(
                "--at {}={most}: arm {} ran with a limit of {limit}, so there is no data for larger budgets",
                self.name, arm.name
            );
            return Err(UserError::new(what)
                .hint(format!("use at most {limit}, or run the arm again with a larger limit")));
        }
        if knows_budget(arm) && !allow_truncated {
            let what = format!(
                "arm {}: the model knew its budget and might have behaved differently with a smaller budget",
                arm.name
            );
            return Err(UserError::new(what).hint(
                "--allow-truncated shows the curve anyway, marked as truncated; for an exact \
                 curve, run the arm once with each limit, or hide the budget \
                 (`budget.disclosure = \"hidden\"`)",
            ));
        }
        Ok(())
    }

    /// Returns a copy of the arm with the limit `limit`. The copy has a different id.
    fn limited_arm(&self, arm: &Arm, limit: f64) -> Arm {
        self.with_limit(arm, Some(limit)).with_computed_id()
    }

    /// Returns a copy of the arm with the limit `limit`, or without a limit. The id is not updated.
    fn with_limit(&self, arm: &Arm, limit: Option<f64>) -> Arm {
        let mut arm = arm.clone();
        let budget = &mut arm.budget;
        let whole = limit.map(|at| at as u64);
        match self.kind {
            PrefixBudget::Steps => budget.steps = whole,
            PrefixBudget::Tokens => budget.total_tokens = whole,
            PrefixBudget::Cost => budget.cost_usd = limit,
            PrefixBudget::Seconds => budget.wall_seconds = limit,
        }
        arm
    }

    /// Whether `limit` is the arm's own limit of this kind and ended the trial.
    fn limit_ended_trial(&self, ending: &Ending, arm: &Arm, limit: f64) -> bool {
        let kind = match self.kind {
            PrefixBudget::Steps => BudgetKind::Steps,
            PrefixBudget::Tokens => BudgetKind::TotalTokens,
            PrefixBudget::Cost => BudgetKind::Cost,
            PrefixBudget::Seconds => BudgetKind::Wall,
        };
        let own = matches!(ending, Ending::Budget { budget, scope } if *budget == kind && scope.is_trial());
        own && self.arm_limit(arm) == Some(limit)
    }
}

fn knows_budget(arm: &Arm) -> bool {
    arm.budget.disclosure != Disclosure::Hidden
}

/// A planned trial, with its recorded trees and their verdicts.
struct CurveTrial {
    id: TrialId,
    planned_task: PlannedTask,
    arm: Arc<Arm>,
    result: TrialResult,
    /// `None` if the trial has no verdict or its record is incomplete.
    prefixes: Option<TrialPrefixes>,
    /// Verdicts by tree hash. `None` if a tree could not be graded.
    verdicts: BTreeMap<String, Option<Verdict>>,
}

impl CurveTrial {
    /// Returns the grading result of a tree. The outer option is `None` if the tree has not been
    /// graded, and the inner one if grading failed.
    fn known_verdict(&self, tree: &str) -> Option<&Option<Verdict>> {
        self.verdicts.get(tree)
    }
}

/// A patch, and the trials and trees that need its verdict.
type PendingGrading = (Vec<u8>, Vec<(usize, String)>);

struct CurveBuilder<'a> {
    path: &'a Path,
    record: &'a RunRecord,
    /// The arms for which the curve is computed.
    arms: Vec<Arm>,
    trials: Vec<CurveTrial>,
    /// Created when the first tree has to be graded.
    context: Option<Arc<RunContext>>,
    grading_count: u64,
}

impl<'a> CurveBuilder<'a> {
    async fn new(
        path: &'a Path,
        record: &'a RunRecord,
        arms: Vec<Arm>,
    ) -> Result<Self, CommandError> {
        let run = RunDir::open_read_only(path).map_err(CommandError::from_record_error)?;
        let results = read_results(path, false)?;
        let plan = plan_from_record(record).trials();
        let mut trials = Vec::new();
        let drawn = |id: &TrialId| arms.iter().any(|arm| arm.id == id.arm);
        for ((id, planned, arm), result) in plan.into_iter().zip(results) {
            if !drawn(&id) {
                continue;
            }
            let mut prefixes = None;
            if result.verdict.is_some() {
                match TrialPrefixes::read(&run, &id) {
                    Ok(found) => prefixes = Some(found),
                    Err(fault) => tell!("{id}: cannot read its steps: {fault}"),
                }
            }
            let mut verdicts = BTreeMap::new();
            if let Some(prefixes) = &prefixes {
                verdicts.insert(prefixes.final_tree().to_owned(), result.verdict.clone());
            }
            trials.push(CurveTrial { id, planned_task: planned, arm, result, prefixes, verdicts });
        }
        Ok(Self { path, record, arms, trials, context: None, grading_count: 0 })
    }

    async fn compute_points(
        &mut self,
        budget: &CurveBudget,
    ) -> Result<Vec<CurvePoint>, CommandError> {
        let mut wanted = Vec::new();
        for (index, trial) in self.trials.iter().enumerate() {
            let Some(prefixes) = &trial.prefixes else { continue };
            if budget.kind == PrefixBudget::Cost
                && trial.result.outcome.as_ref().is_some_and(|outcome| outcome.spent.unpriced)
            {
                let what = format!("arm {}: no price is configured for its model", trial.arm.name);
                let hint = "set `price` below [models.NAME] in the run's configuration, or use steps or tokens";
                return Err(UserError::new(what).hint(hint).into());
            }
            for at in &budget.limits {
                let tree = prefixes.tree_after(prefixes.step_reaching(budget.kind, *at));
                wanted.push((index, tree.to_owned()));
            }
        }
        self.grade_trees(wanted).await?;
        let mut points = Vec::new();
        for arm in &self.arms {
            for at in &budget.limits {
                points.extend(self.compute_point(budget, arm, *at));
            }
        }
        Ok(points)
    }

    fn compute_point(&self, budget: &CurveBudget, arm: &Arm, limit: f64) -> Option<CurvePoint> {
        let mut bound = 0;
        let mut results = Vec::new();
        for trial in self.trials.iter().filter(|trial| trial.id.arm == arm.id) {
            let verdict = trial.prefixes.as_ref().and_then(|prefixes| {
                let step = prefixes.step_reaching(budget.kind, limit);
                let ended = trial.result.outcome.as_ref().map(|outcome| &outcome.ending);
                let cut = step.is_some_and(|step| step < prefixes.step_count());
                let own = ended.is_some_and(|ending| budget.limit_ended_trial(ending, arm, limit));
                bound += u64::from(cut || own);
                trial.known_verdict(prefixes.tree_after(step)).cloned().flatten()
            });
            results.push(TrialResult { verdict, ..trial.result.clone() });
        }
        let results: Vec<&TrialResult> = results.iter().collect();
        let truncated = knows_budget(arm) && budget.arm_limit(arm) != Some(limit);
        CurvePoint::from_trials((budget.name, limit), &results, bound, truncated)
    }

    /// Runs a sample of the tasks with the smallest budget and compares the results with the
    /// curve's verdicts. Skips arms without a model, such as gold, because their results are
    /// deterministic. Returns `None` if interrupted.
    async fn check_sample(
        &mut self,
        budget: &CurveBudget,
        count: usize,
    ) -> Result<Option<(Vec<CurveCheck>, u64)>, CommandError> {
        let Some(at) = budget.limits.first().copied() else { return Ok(Some((Vec::new(), 0))) };
        let asked: Vec<&Arm> = self.arms.iter().filter(|arm| arm.model.is_some()).collect();
        let limited: Vec<Arm> = asked.iter().map(|arm| budget.limited_arm(arm, at)).collect();
        if asked.is_empty() {
            return Err(UserError::new("--check: no arm of the run uses a model")
                .hint("omit --check")
                .into());
        }
        let record = RunRecord {
            rules: RULES_VERSION,
            attempts: 1,
            arms: limited.clone(),
            tasks: sample_tasks(&self.record.tasks, count),
            ..self.record.clone()
        };
        let name = self.path.canonicalize()?;
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path =
            self.path.canonicalize()?.with_file_name(format!("{name}-check-{}-{at}", budget.name));
        let (cache, catalog) = (cache_dir::default_cache_dir()?, assemble::scaffold_catalog()?);
        let world = assemble::plan_context(&cache, &catalog);
        let planned = PlannedRun::from_record(&path, record, world)?;
        let Some((real, calls)) = run_separately(planned, true).await? else {
            return Ok(None);
        };
        let mut checks = Vec::new();
        for (arm, limited) in asked.into_iter().zip(&limited) {
            let both: Vec<(bool, bool)> = real
                .iter()
                .filter(|trial| trial.arm == limited.id)
                .filter_map(|trial| {
                    let own = self.trials.iter().find(|own| {
                        own.id.arm == arm.id && own.id.task == trial.task && own.id.attempt == 1
                    })?;
                    let prefixes = own.prefixes.as_ref()?;
                    let tree = prefixes.tree_after(prefixes.step_reaching(budget.kind, at));
                    let curve = own.known_verdict(tree)?.as_ref()?.resolved;
                    Some((curve, trial.verdict.as_ref()?.resolved))
                })
                .collect();
            checks.push(CurveCheck::from_verdicts((&arm.id, &arm.name), (budget.name, at), &both));
        }
        Ok(Some((checks, calls)))
    }

    async fn find_first_resolved(&mut self) -> Result<Vec<FirstResolved>, CommandError> {
        let trees: Vec<Vec<(u64, String)>> = self
            .trials
            .iter()
            .map(|trial| {
                let trees =
                    trial.prefixes.as_ref().map(TrialPrefixes::distinct_trees).unwrap_or_default();
                trees.into_iter().map(|(step, tree)| (step, tree.to_owned())).collect()
            })
            .collect();
        let mut searches: Vec<FirstResolvedSearch> = trees
            .iter()
            .zip(&self.trials)
            .map(|(trees, trial)| {
                let end = trial.result.verdict.as_ref();
                FirstResolvedSearch::new(trees.len(), end.is_some_and(|verdict| verdict.resolved))
            })
            .collect();
        // In each round, every search requests one tree. The trees of a round are graded in
        // parallel.
        loop {
            let turn: Vec<(usize, usize)> = searches
                .iter()
                .enumerate()
                .filter_map(|(trial, search)| Some((trial, search.next_tree()?)))
                .collect();
            if turn.is_empty() {
                break;
            }
            let wanted = turn.iter().map(|(trial, tree)| (*trial, trees[*trial][*tree].1.clone()));
            self.grade_trees(wanted.collect()).await?;
            for (trial, tree) in turn {
                let verdict = self.trials[trial].known_verdict(&trees[trial][tree].1);
                let verdict = verdict.and_then(Option::as_ref);
                // A failed grading was already reported. Treat the tree as not resolved.
                searches[trial]
                    .record_verdict(tree, verdict.is_some_and(|verdict| verdict.resolved));
            }
        }
        let found =
            self.trials.iter().zip(&trees).zip(&searches).map(|((trial, trees), search)| {
                let (tree, exact) = search.first_resolved();
                FirstResolved {
                    task: trial.id.task.clone(),
                    arm: trial.id.arm.clone(),
                    name: trial.arm.name.clone(),
                    attempt: trial.id.attempt,
                    step: tree.and_then(|tree| trees.get(tree)).map(|(step, _)| *step),
                    trees: trees.len() as u64,
                    exact: exact && trial.prefixes.is_some(),
                }
            });
        Ok(found.collect())
    }

    /// Grades the requested trees, given as trial index and tree hash, that have no verdict yet.
    /// Equal patches are graded once.
    async fn grade_trees(
        &mut self,
        pending_trees: Vec<(usize, String)>,
    ) -> Result<(), CommandError> {
        // Group equal patches and the trees that need their verdict.
        let mut patches: BTreeMap<String, PendingGrading> = BTreeMap::new();
        for (index, tree) in pending_trees {
            let trial = &mut self.trials[index];
            let Some(prefixes) =
                trial.prefixes.as_ref().filter(|_| trial.known_verdict(&tree).is_none())
            else {
                continue;
            };
            match prefixes.compute_patch(&tree) {
                Ok(patch) => {
                    let sandbox = canonical_json(&serde_json::to_value(&trial.arm.sandbox)?);
                    let place = [trial.id.task.as_str(), &sandbox, &sha256_hex(&patch)].join("\n");
                    let (_, askers) = patches.entry(place).or_insert((patch, Vec::new()));
                    if !askers.contains(&(index, tree.clone())) {
                        askers.push((index, tree));
                    }
                }
                Err(fault) => {
                    let fault = shorten_repeated(&trial.id.to_string(), &fault.to_string());
                    tell!("{}: {fault}", trial.id);
                    trial.verdicts.insert(tree, None);
                }
            }
        }
        if patches.is_empty() {
            return Ok(());
        }
        let context = self.ensure_run_context().await?;
        tell!("grading {}", count_with_noun(patches.len(), "tree"));
        let permits = Arc::new(Semaphore::new(self.record.jobs.max(1)));
        let mut running = JoinSet::new();
        for (patch, askers) in patches.into_values() {
            let Some((first, _)) = askers.first() else { continue };
            let trial = &self.trials[*first];
            let (id, planned, arm) =
                (trial.id.clone(), trial.planned_task.clone(), Arc::clone(&trial.arm));
            let (context, permits) = (Arc::clone(&context), Arc::clone(&permits));
            running.spawn(async move {
                // Ignore the result, because the semaphore is never closed.
                let _permit = permits.acquire_owned().await;
                let graded = grade_prefix(&context, &id, &planned, &arm, &patch).await;
                (id, askers, graded)
            });
        }
        while let Some(joined) = running.join_next().await {
            let (id, askers, graded) = joined?;
            let verdict = match graded {
                Ok((verdict, fresh)) => {
                    self.grading_count += u64::from(fresh);
                    Some(verdict)
                }
                Err(fault) => {
                    let fault = shorten_repeated(&id.to_string(), &fault.to_string());
                    tell!("{id}: failed to grade a snapshot: {fault}");
                    None
                }
            };
            for (index, tree) in askers {
                self.trials[index].verdicts.insert(tree, verdict.clone());
            }
        }
        Ok(())
    }

    /// Returns the run context. The first call creates it and starts the back ends.
    async fn ensure_run_context(&mut self) -> Result<Arc<RunContext>, CommandError> {
        if let Some(context) = &self.context {
            return Ok(Arc::clone(context));
        }
        let cache = cache_dir::default_cache_dir()?;
        let kept = &self.record.config.cache;
        let backends = assemble::start_backends(&self.record.arms, &cache, kept).await?;
        let run = RunDir::open_read_only(self.path).map_err(CommandError::from_record_error)?;
        let plan: Plan = plan_from_record(self.record);
        let catalog = assemble::scaffold_catalog()?;
        let execution = Execution {
            run,
            plan,
            jobs: self.record.jobs,
            backends,
            scaffolds: &catalog,
            cache: &cache,
            regrade_policy: RegradePolicy::ReuseVerdict,
            flaky_tests: FlakyTests::from_record(self.record, &assemble::print_message),
            say: &assemble::print_message,
            on_preflight: &assemble::print_preflight,
        };
        // No watcher is needed, because the caller reports failures. No bundle is needed, because
        // no agent runs.
        let (context, _) = execution.open_for_grading()?.into_parts();
        self.context = Some(Arc::clone(&context));
        Ok(context)
    }
}
