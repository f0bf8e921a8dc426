//! Grades one patch, from the pristine sandbox to the verdict.

mod fresh_sandboxes;
mod impossible;
mod report;
mod restart;
mod submission;
mod unfinished;

pub use fresh_sandboxes::FreshSandboxes;
pub use impossible::find_impossible_variants;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use proctor_patch::CurrentFile;
use proctor_sandbox_api::{
    SandboxHandle,
    wire::{EntryKind, RawPath},
};
use proctor_setup::{
    AppliedPatch, ApplyError, ContentToKeep, apply_graded_patch, remove_hidden_content,
};
use proctor_types::{Evidence, Fault, FaultLayer, Task};

use self::{
    restart::Solution,
    unfinished::{build_exhausted_result, build_rejected_result},
};
use crate::{
    GradeOptions, GradingResult, TestPlan,
    canary::{self, Canaries, CanaryResults},
    evidence::{self, incomplete_patch_evidence, new_evidence},
    file_statuses::add_file_statuses,
    frozen_ids::needs_frozen_ids,
    hidden::{LentModules, exposed_content_evidence},
    interpreter_checks::{self, TrustedCode},
    launch::Launch,
    patched_tree::PatchedTree,
    path_rules::{GuardReason, PathRules},
    paths::{escape_task_path, file_from_test_id},
    policy::Policy,
    pristine::{ContentHash, PristineTree, patch_paths, workdir_path},
    probe::{Probe, ProbeRequest},
    records::Records,
    restore::{remove_entry, restore_guarded_paths},
    run_changes::RunChanges,
    screening::{ScreeningBase, screen_patch},
    session::{OriginOptions, TestSession},
    shadow::{ImportRoots, remove_shadows},
    verdict::build_verdict,
};

/// Maximum number of test data files whose readers are recorded. A larger number of files is
/// probably a corpus, whose content the tests themselves pass to the code under test.
const MAX_WATCHED_DATA_FILES: usize = 2000;

/// Grades `patch` in a fresh sandbox with the task's environment and its unmasked source.
///
/// A patch that does not apply, is hostile, hangs or crashes still gets a verdict. The sandbox
/// cannot be reused.
///
/// # Errors
///
/// A setup fault if the mask or the test patch does not apply, a grading fault if the test command
/// or its interpreter cannot be used, or a sandbox fault.
pub async fn grade(
    handle: &SandboxHandle,
    task: &Task,
    patch: &[u8],
    options: &GradeOptions,
) -> Result<GradingResult, Fault> {
    grade_with_fresh_sandboxes(handle, None, task, patch, options).await
}

/// Like [`grade`], but reruns tests in a new sandbox from `fresh_sandboxes`, because graded code
/// may have left files in the first one. If `fresh_sandboxes` is `None`, tests rerun in the first
/// sandbox.
///
/// # Errors
///
/// See [`grade`]; also a fault if a sandbox cannot be opened.
pub async fn grade_with_fresh_sandboxes(
    handle: &SandboxHandle,
    fresh_sandboxes: Option<&dyn FreshSandboxes>,
    task: &Task,
    patch: &[u8],
    options: &GradeOptions,
) -> Result<GradingResult, Fault> {
    if let Some(results) = task.command_test_results() {
        let laid = AtomicBool::new(false);
        let grading = report::ReportGrading {
            handle,
            task,
            results,
            options,
            fresh_sandboxes,
            has_started_applying_patch: laid,
        };
        return Box::pin(grading.grade(patch)).await;
    }
    let expanded = match &options.frozen_ids {
        Some(frozen) if task.from_scratch.is_none() => Some(frozen.replace_files_with_tests(task)),
        _ => None,
    };
    let task = expanded.as_ref().unwrap_or(task);
    let grading = Grading { fresh_sandboxes, ..Grading::prepare(handle, task, options).await? };
    let graded = match &task.from_scratch {
        Some(start) => grading.grade_submission(start, patch).await,
        None => grading.grade(patch).await,
    };
    match graded {
        Err(fault) if grading.has_started_applying_patch.load(Ordering::Relaxed) => {
            grading.exhausted_result(fault).await
        }
        graded => graded,
    }
}

/// The grader's state before it applies the model's patch.
struct Grading<'a> {
    handle: &'a SandboxHandle,
    /// Provides sandboxes for second runs.
    fresh_sandboxes: Option<&'a dyn FreshSandboxes>,
    task: &'a Task,
    options: &'a GradeOptions,
    policy: &'static Policy,
    launch: Launch,
    probe: Probe,
    masked_paths: BTreeSet<String>,
    test_patch_paths: BTreeSet<String>,
    /// Whether Proctor has started to apply the model's patch.
    has_started_applying_patch: AtomicBool,
}

impl<'a> Grading<'a> {
    async fn prepare(
        handle: &'a SandboxHandle,
        task: &'a Task,
        options: &'a GradeOptions,
    ) -> Result<Self, Fault> {
        let env = task.command_env();
        let launch = Launch::from_command(handle, &task.test_command, &env).await?;
        let user = task.user.as_deref();
        let lent = LentModules::from_hidden(&options.hidden_copies);
        let request = ProbeRequest {
            launch: &launch,
            workdir: &task.workdir,
            env: &env,
            user,
            lent_modules: &lent,
        };
        let probe = match &options.preparation_key {
            Some(prepared) => options.probe_cache.probe(handle, prepared, &request).await?,
            None => Probe::run(handle, &request).await?,
        };
        let of = |patch: &Option<String>, what: &str| {
            let patch = patch.as_deref().unwrap_or_default();
            if patch.trim().is_empty() {
                return Ok(BTreeSet::new());
            }
            patch_paths(patch.as_bytes()).map_err(|error| {
                Fault::new(FaultLayer::Setup, format!("{}: invalid {what}: {error}", task.id))
            })
        };
        let masked = of(&task.mask, "mask")?;
        let test_patch = of(&task.test_patch, "test patch")?;
        let policy = Policy::get()?;
        let laid = AtomicBool::new(false);
        let fresh = None;
        Ok(Self {
            handle,
            fresh_sandboxes: fresh,
            task,
            options,
            policy,
            launch,
            probe,
            masked_paths: masked,
            test_patch_paths: test_patch,
            has_started_applying_patch: laid,
        })
    }

    async fn grade(&self, patch: &[u8]) -> Result<GradingResult, Fault> {
        let (handle, task) = (self.handle, self.task);
        let is_empty = patch.trim_ascii().is_empty();
        let touched = match if is_empty { Ok(BTreeSet::new()) } else { patch_paths(patch) } {
            Ok(touched) => touched,
            Err(error) => return self.rejected_result(&error),
        };
        let tree = PristineTree::walk(handle, &task.workdir, self.policy).await?;
        let paths = self.build_path_rules(self.masked_paths.clone(), &tree);
        let pristine = self.load_pristine_tree(tree, &paths, &touched).await?;
        let roots = self.find_import_roots(&pristine, &paths);
        let canaries = if self.options.defenses.canaries {
            let apart = &self.options.quarantine;
            canary::create_canaries(handle, &self.launch, task, &pristine, apart).await?
        } else {
            Canaries::default()
        };

        let absent = self.strip_sandbox(handle, &pristine, &paths).await?;
        let mut screened = Vec::new();
        if self.options.defenses.screen_patch && !is_empty {
            let provided = self.provided_modules();
            let base = ScreeningBase {
                entries: &pristine.entries,
                provided_modules: Some(&provided),
                // All other paths are restored or removed before the run.
                is_screened: &|path: &str| paths.guard_reason(path).is_none(),
            };
            screened = screen_patch(handle, task, patch, &base).await?;
        }
        let mut changed = touched;
        let mut left_out = Vec::new();
        self.has_started_applying_patch.store(true, Ordering::Relaxed);
        if !is_empty {
            let (root, owner) = (RawPath::from(task.workdir.as_str()), task.user.as_deref());
            match apply_graded_patch(handle, &root, patch, owner).await {
                Ok(AppliedPatch { changed_paths: paths, deviations: parts }) => {
                    changed.extend(paths.iter().map(RawPath::to_escaped));
                    left_out = parts;
                }
                Err(ApplyError::Patch(error)) => return self.rejected_result(&error),
                Err(ApplyError::Sandbox(error)) => {
                    return Err(error.to_fault("applying the patch"));
                }
            }
        }

        let defenses = self.options.defenses;
        let mut evidence = incomplete_patch_evidence(left_out);
        evidence.extend(screened);
        if defenses.remove_shadowing {
            // Skip self-loading files, which are removed and reported below.
            let imported = changed
                .iter()
                .filter(|path| paths.guard_reason(path) != Some(GuardReason::SelfLoading))
                .cloned()
                .collect();
            let found = remove_shadows(handle, &task.workdir, &pristine, &roots, &imported);
            evidence.extend(found.await?);
        }
        let found = restore_guarded_paths(
            handle,
            &task.workdir,
            &pristine,
            &paths,
            &changed,
            &absent,
            defenses,
        );
        evidence.extend(found.await?);
        let laid = PatchedTree {
            pristine: &pristine,
            paths: &paths,
            roots: &roots,
            changed_paths: &changed,
        };
        self.run_and_evaluate_tests(&laid, &canaries, &Solution::Patch(patch), None, evidence).await
    }

    fn build_path_rules(
        &self,
        masked_paths: BTreeSet<String>,
        tree: &PristineTree,
    ) -> PathRules<'static> {
        // If the task has no mask, the gold patch shows which files are source code.
        let gold = self.task.gold.as_deref().filter(|_| self.task.mask.is_none());
        let changed = gold.and_then(|gold| patch_paths(gold.as_bytes()).ok()).unwrap_or_default();
        let source = masked_paths.into_iter().chain(changed).collect();
        PathRules::new(
            self.policy,
            self.task,
            &self.probe,
            source,
            &self.test_patch_paths,
            &tree.entries,
        )
    }

    /// Returns the top-level module names that do not belong to the repository.
    fn provided_modules(&self) -> BTreeSet<String> {
        self.probe.provided.iter().chain(&self.probe.standard_library).cloned().collect()
    }

    fn find_import_roots(&self, pristine: &PristineTree, paths: &PathRules<'_>) -> ImportRoots {
        let workdir = &self.task.workdir;
        ImportRoots::find(workdir, pristine, &self.probe, self.policy, paths, &self.launch)
    }

    /// Returns the pristine tree with the test patch applied to the retained files.
    async fn load_pristine_tree(
        &self,
        mut pristine: PristineTree,
        paths: &PathRules<'_>,
        touched_paths: &BTreeSet<String>,
    ) -> Result<PristineTree, Fault> {
        let (handle, task) = (self.handle, self.task);
        let named = |path: &str| {
            let mut ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
            ids.any(|id| escape_task_path(file_from_test_id(id)) == path)
        };
        // A hidden copy in a test folder stays hidden, unless it is itself an expected test file.
        let is_hidden = |path: &str| {
            self.options.hidden_copies.is_leak(&workdir_path(&task.workdir, path)) && !named(path)
        };
        let keep = |path: &str| match paths.guard_reason(path) {
            _ if is_hidden(path) => false,
            None | Some(GuardReason::Bytecode) => false,
            Some(GuardReason::Config | GuardReason::SelfLoading | GuardReason::Test) => {
                paths.is_task_path(path)
                    || touched_paths.contains(path)
                    || self.masked_paths.contains(path)
                    || (path.ends_with("conftest.py") && !paths.is_interpreter(path))
                    // `ImportRoots::find` reads these files to determine the import path.
                    || (paths.guard_reason(path) == Some(GuardReason::Config) && !path.contains('/'))
            }
        };
        pristine.store_files(handle, &task.workdir, &keep).await?;
        if let Some(test_patch) = task.test_patch.as_deref().filter(|text| !text.trim().is_empty())
        {
            pristine
                .apply_test_patch(test_patch.as_bytes())
                .map_err(|fault| fault.context(&task.id))?;
        }
        Ok(pristine)
    }

    /// Removes everything that the agent did not have and from which a patch could read the
    /// solution at test time: the masked code, hidden paths, version control history, and compiled
    /// copies of the code. Returns the paths that the restore step must check.
    async fn strip_sandbox(
        &self,
        handle: &SandboxHandle,
        pristine: &PristineTree,
        paths: &PathRules<'_>,
    ) -> Result<BTreeSet<String>, Fault> {
        let task = self.task;
        remove_hidden_content(handle, task, &self.options.hidden_copies, ContentToKeep::default())
            .await?;
        let compiled = pristine.entries.keys().filter(|path| {
            paths.guard_reason(path) == Some(GuardReason::Bytecode) && !paths.is_interpreter(path)
        });
        for path in pristine.history_folders.iter().chain(compiled) {
            remove_entry(handle, &task.workdir, path).await?;
        }
        let hidden = pristine.files.keys().filter(|path| paths.is_task_path(path));
        Ok(self.masked_paths.iter().chain(&self.test_patch_paths).chain(hidden).cloned().collect())
    }

    async fn run_and_evaluate_tests(
        &self,
        patched_tree: &PatchedTree<'_>,
        canaries: &Canaries,
        solution: &Solution<'_>,
        origin_options: Option<OriginOptions>,
        mut evidence: Vec<Evidence>,
    ) -> Result<GradingResult, Fault> {
        let task = self.task;
        let PatchedTree { pristine, roots, .. } = *patched_tree;
        let plan = self.build_plan();
        let expected: BTreeMap<String, ContentHash> = pristine
            .files
            .iter()
            .filter(|(path, _)| path.ends_with(".py"))
            .filter_map(|(path, file)| match file {
                CurrentFile::File { bytes, .. } => {
                    Some((path.clone(), ContentHash::compute(bytes)))
                }
                CurrentFile::Link { .. } => None,
            })
            .collect();
        let data = pristine.entries.iter().filter(|(path, kind)| {
            **kind == EntryKind::File
                && !path.ends_with(".py")
                && patched_tree.paths.guard_reason(path) == Some(GuardReason::Test)
        });
        let data = data.map(|(path, _)| path.clone()).take(MAX_WATCHED_DATA_FILES).collect();
        let defenses = self.options.defenses;
        evidence.extend(exposed_content_evidence(&self.options.hidden_copies));
        let folder = origin_options.as_ref().map(|submitted| submitted.folder.clone());
        let session = TestSession {
            plan: &plan,
            launch: &self.launch,
            probe: &self.probe,
            canaries,
            watched_files: expected.keys().cloned().collect(),
            data_files: data,
            provided_modules: roots.reserved_names(pristine),
            test_folders: patched_tree.test_folders(),
            helper_modules: roots.helper_module_names(pristine, patched_tree.paths),
            defenses,
            lent_modules: LentModules::from_hidden(&self.options.hidden_copies),
            origin_options,
        };
        let (mut run, records, since) = session.run(self.handle).await?;
        let mut judged =
            defenses.canaries.then(|| CanaryResults::evaluate(canaries, &records, &run));
        let again = CanaryResults::files_to_rerun(canaries, &records, &run, task);
        canaries.append_to_log(&mut run.log);
        let mut runs = vec![records];
        if let Some(judged) = judged.as_mut().filter(|judged| !judged.passed_canaries.is_empty()) {
            let times = self.policy.canaries.again;
            let controls = canaries.control_run(&judged.passed_canaries, times);
            let files = controls
                .canaries
                .iter()
                .map(|canary| file_from_test_id(&canary.id).to_owned())
                .collect();
            let part = plan.restrict_to_files(&files);
            let second = TestSession { canaries: &controls, plan: &part, ..session.clone() };
            match Box::pin(self.rerun(&second, patched_tree, solution)).await? {
                Ok((second, records)) => {
                    judged.evaluate_passed(canaries, Some((&records, &second)), times)
                }
                Err(found) => {
                    judged.evaluate_passed(canaries, None, times);
                    evidence.push(found);
                }
            }
        }
        if !again.is_empty() {
            let (none, part) = (Canaries::default(), plan.restrict_to_files(&again));
            let second = TestSession { canaries: &none, plan: &part, ..session.clone() };
            match Box::pin(self.rerun(&second, patched_tree, solution)).await? {
                Ok((second, records)) => {
                    runs.push(records);
                    let passed = run.merge_rerun(second);
                    if !passed.is_empty() {
                        evidence.push(new_evidence(evidence::RUN_AGAIN, passed.join(", ")));
                    }
                }
                Err(found) => evidence.push(found),
            }
        }
        if needs_frozen_ids(task) {
            add_file_statuses(task, self.options.frozen_ids.as_ref(), pristine, &mut run.tests);
        }
        evidence.extend(run.evidence.iter().cloned());
        let during =
            RunChanges::detect(self.handle, &task.workdir, &self.probe, self.policy, since).await?;
        let is_watched =
            defenses.restore_tests && defenses.restore_config && defenses.watch_content;
        for records in &runs {
            if defenses.fingerprints {
                evidence.extend(interpreter_checks::swallowed_error_evidence(records, &run.tests));
                let trust = TrustedCode {
                    plan: &plan,
                    probe: &self.probe,
                    submission: folder.as_deref(),
                    run_changes: &during,
                    is_pristine: &|path: &str| patched_tree.is_pristine(path),
                };
                evidence.extend(interpreter_checks::interpreter_evidence(records, &trust));
            }
            if defenses.guard_roots {
                evidence.extend(self.replaced_module_evidence(patched_tree, records));
            }
            if is_watched {
                evidence.extend(interpreter_checks::content_evidence(records, &expected));
            }
        }
        if is_watched {
            let found = during.evaluate(self.handle, &task.workdir, self.policy, patched_tree);
            evidence.extend(found.await?);
        }
        if let Some(judged) = judged {
            evidence.extend(judged.unverified_pass_evidence(canaries, task, &run.tests));
            evidence.extend(judged.evidence);
        }
        let expected = &self.options.expected_evidence;
        evidence.retain(|evidence| !expected.contains(evidence));
        // If the end check is disabled, which only the attack tests do, every run counts as
        // complete.
        let complete = run.is_complete || !defenses.require_end;
        let quarantine = &self.options.quarantine;
        let verdict = build_verdict(task, &run.tests, complete, evidence, quarantine)?;
        Ok(GradingResult { verdict, log: run.log, raw_results: run.raw_results })
    }

    fn build_plan(&self) -> TestPlan {
        let task = self.task;
        let ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
        let ids: Vec<String> = ids.filter(|id| self.policy.is_test(id)).cloned().collect();
        let files: BTreeSet<&str> = ids.iter().map(|id| file_from_test_id(id)).collect();
        let own = Duration::from_secs_f64(task.timeouts.grade_seconds.max(0.0));
        TestPlan {
            command: task.test_command.clone(),
            workdir: task.workdir.clone(),
            files: files.into_iter().map(str::to_owned).collect(),
            // `None` runs all tests of the files, for a task that expects whole files.
            ids: (!needs_frozen_ids(task)).then_some(ids),
            env: task.command_env(),
            time_limit: self.options.time_limit.map_or(own, |limit| limit.min(own)),
            user: task.user.clone(),
        }
    }

    /// Reports modules of the patch that replaced modules of the environment, based on the import
    /// path that the tests used.
    fn replaced_module_evidence(
        &self,
        patched_tree: &PatchedTree<'_>,
        records: &Records,
    ) -> Vec<Evidence> {
        let Some(end) = records.end_record() else { return Vec::new() };
        let searched =
            patched_tree.roots.with_import_path(&self.task.workdir, &self.probe, &end.sight.path);
        let found = searched.find_shadows(patched_tree.pristine, patched_tree.changed_paths);
        // Skip modules that were removed before the run, which are already reported.
        let removed =
            patched_tree.roots.find_shadows(patched_tree.pristine, patched_tree.changed_paths);
        found
            .difference(&removed)
            .filter(|path| patched_tree.paths.guard_reason(path).is_none())
            .map(|path| {
                new_evidence(evidence::MODULE_REPLACED, format!("{path}: on the import path"))
            })
            .collect()
    }

    /// Returns the verdict if the sandbox failed because of the applied patch.
    async fn exhausted_result(&self, fault: Fault) -> Result<GradingResult, Fault> {
        build_exhausted_result(self.handle, self.task, self.options, fault).await
    }

    /// Returns the verdict for a patch that cannot be applied.
    fn rejected_result(&self, error: &dyn std::fmt::Display) -> Result<GradingResult, Fault> {
        build_rejected_result(self.task, self.options, error)
    }
}
