//! Grades one patch, from the pristine sandbox to the verdict.

mod impossible;
mod report;
mod restart;
mod submission;

pub use impossible::mistakes;
pub use restart::FreshSandboxes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use proctor_patch::Current;
use proctor_sandbox_api::{
    SandboxHandle,
    wire::{EntryKind, RawPath},
};
use proctor_setup::{Applied, ApplyError, Hidden, Stays, apply_parts, take_away};
use proctor_types::{Evidence, Fault, Layer, Task, Verdict};

use self::restart::Solution;
use crate::{
    Defences, Expected, Frozen, TestPlan,
    canary::{self, Canaries, CanaryResults},
    during::During,
    evidence::{self, note},
    examine::{self, Trust},
    exhausted,
    files::whole_files,
    frozen::needs_freezing,
    hidden::{LentModules, exceptions},
    launch::Launch,
    paths::{Guard, Paths, escaped, file_of},
    policy::Policy,
    pristine::{Content, PatchedTree, Pristine, at, paths_of},
    probe::{Interpreters, Probe, ProbeRequest},
    records::Records,
    restore::{remove, restore},
    screening::{Base, screen_patch},
    session::{OriginOptions, TestSession},
    shadow::{Roots, remove_shadows},
    verdict::build_verdict,
};

/// Maximum number of the tests' data files whose readers are recorded. More files than that are a
/// large corpus, whose tests pass the content that they read to the code under test.
const WATCHED_DATA: usize = 2000;

/// Options of a grading.
#[derive(Debug, Clone, Default)]
pub struct GradeOptions {
    /// Time limit of the test run. The lower of this and the task's own limit applies.
    pub time_limit: Option<Duration>,
    pub defences: Defences,
    /// Tests that run and are reported but do not count under the strict policy.
    pub quarantine: BTreeSet<String>,
    /// The frozen tests of the files that the task expects. Without it, the graded run defines which
    /// tests these files contain.
    pub frozen: Option<Frozen>,
    /// The content that preparing the sandbox hid, and the content to hide in the work directory.
    pub hidden: Hidden,
    /// Evidence that a grading of the gold patch also produces, by kind and text. It does not count
    /// against other patches.
    pub expected: Expected,
    /// Identifies the sandbox's content and preparation. With it, the probe of the interpreter is
    /// cached. Without it, each grading probes again.
    pub prepared: Option<String>,
    pub interpreters: Interpreters,
}

/// The result of a grading.
#[derive(Debug, Clone)]
pub struct Graded {
    pub verdict: Verdict,
    /// Output of the test run.
    pub log: Vec<u8>,
    /// The raw content of the results pipe.
    pub raw: Vec<u8>,
}

/// Grades `patch` in a fresh sandbox with the task's environment and its unmasked source.
///
/// A patch that does not apply, is hostile, hangs or crashes gets a verdict. The sandbox cannot be
/// reused.
///
/// # Errors
///
/// A set-up fault if the mask or the test patch does not apply, a grading fault if the test command
/// or its interpreter cannot be used, or a sandbox fault.
pub async fn grade(
    handle: &SandboxHandle,
    task: &Task,
    patch: &[u8],
    options: &GradeOptions,
) -> Result<Graded, Fault> {
    grade_with(handle, None, task, patch, options).await
}

/// Like [`grade`], but reruns tests in a new sandbox from `fresh`, because graded code may have left
/// files in the first one. Without `fresh` they rerun in the first sandbox.
///
/// # Errors
///
/// See [`grade`]; also a fault if a sandbox cannot be opened.
pub async fn grade_with(
    handle: &SandboxHandle,
    fresh: Option<&dyn FreshSandboxes>,
    task: &Task,
    patch: &[u8],
    options: &GradeOptions,
) -> Result<Graded, Fault> {
    if let Some(results) = task.report() {
        let laid = AtomicBool::new(false);
        let grading = report::ReportGrading { handle, task, results, options, fresh, laid };
        return Box::pin(grading.grade(patch)).await;
    }
    let expanded = match &options.frozen {
        Some(frozen) if task.from_scratch.is_none() => Some(frozen.expand(task)),
        _ => None,
    };
    let task = expanded.as_ref().unwrap_or(task);
    let grading = Grading { fresh, ..Grading::prepare(handle, task, options).await? };
    let graded = match &task.from_scratch {
        Some(start) => grading.grade_submission(start, patch).await,
        None => grading.grade(patch).await,
    };
    match graded {
        Err(fault) if grading.laid.load(Ordering::Relaxed) => grading.exhausted(fault).await,
        graded => graded,
    }
}

/// Returns evidence for parts of a patch that were not applied as written.
fn incomplete(left_out: Vec<String>) -> Vec<Evidence> {
    left_out.into_iter().map(|what| note(evidence::PATCH_INCOMPLETE, what)).collect()
}

/// The state of a grading before the model's patch is applied.
struct Grading<'a> {
    handle: &'a SandboxHandle,
    /// Provides sandboxes for second runs.
    fresh: Option<&'a dyn FreshSandboxes>,
    task: &'a Task,
    options: &'a GradeOptions,
    policy: &'static Policy,
    launch: Launch,
    probe: Probe,
    masked: BTreeSet<String>,
    test_patch: BTreeSet<String>,
    /// Whether Proctor has started to apply the model's patch.
    laid: AtomicBool,
}

impl<'a> Grading<'a> {
    async fn prepare(
        handle: &'a SandboxHandle,
        task: &'a Task,
        options: &'a GradeOptions,
    ) -> Result<Self, Fault> {
        let env = task.command_env();
        let launch = Launch::read(handle, &task.test_command, &env).await?;
        let user = task.user.as_deref();
        let lent = LentModules::of(&options.hidden);
        let request =
            ProbeRequest { launch: &launch, workdir: &task.workdir, env: &env, user, lent: &lent };
        let probe = match &options.prepared {
            Some(prepared) => options.interpreters.probe(handle, prepared, &request).await?,
            None => Probe::take(handle, &request).await?,
        };
        let of = |patch: &Option<String>, what: &str| {
            let patch = patch.as_deref().unwrap_or_default();
            if patch.trim().is_empty() {
                return Ok(BTreeSet::new());
            }
            paths_of(patch.as_bytes()).map_err(|error| {
                Fault::new(Layer::Setup, format!("{}: invalid {what}: {error}", task.id))
            })
        };
        let masked = of(&task.mask, "mask")?;
        let test_patch = of(&task.test_patch, "test patch")?;
        let policy = Policy::get()?;
        let laid = AtomicBool::new(false);
        let fresh = None;
        Ok(Self { handle, fresh, task, options, policy, launch, probe, masked, test_patch, laid })
    }

    async fn grade(&self, patch: &[u8]) -> Result<Graded, Fault> {
        let (handle, task) = (self.handle, self.task);
        let is_empty = patch.trim_ascii().is_empty();
        let touched = match if is_empty { Ok(BTreeSet::new()) } else { paths_of(patch) } {
            Ok(touched) => touched,
            Err(error) => return self.rejected(&error),
        };
        let tree = Pristine::walk(handle, &task.workdir, self.policy).await?;
        let paths = self.paths(self.masked.clone(), &tree);
        let pristine = self.pristine(tree, &paths, &touched).await?;
        let roots = self.roots(&pristine, &paths);
        let canaries = if self.options.defences.canaries {
            let apart = &self.options.quarantine;
            canary::make(handle, &self.launch, task, &pristine, apart).await?
        } else {
            Canaries::default()
        };

        let absent = self.set_up(handle, &pristine, &paths).await?;
        let mut screened = Vec::new();
        if self.options.defences.screen_patch && !is_empty {
            let provided = self.provided();
            let base = Base {
                names: &pristine.names,
                provided: Some(&provided),
                // Everything else is restored or removed before the run.
                screened: &|path: &str| paths.guard(path).is_none(),
            };
            screened = screen_patch(handle, task, patch, &base).await?;
        }
        let mut changed = touched;
        let mut left_out = Vec::new();
        self.laid.store(true, Ordering::Relaxed);
        if !is_empty {
            let (root, owner) = (RawPath::from(task.workdir.as_str()), task.user.as_deref());
            match apply_parts(handle, &root, patch, owner).await {
                Ok(Applied { paths, left_out: parts }) => {
                    changed.extend(paths.iter().map(RawPath::escaped));
                    left_out = parts;
                }
                Err(ApplyError::Patch(error)) => return self.rejected(&error),
                Err(ApplyError::SandboxHandle(error)) => {
                    return Err(error.fault("applying the patch"));
                }
            }
        }

        let defences = self.options.defences;
        let mut evidence = incomplete(left_out);
        evidence.extend(screened);
        if defences.remove_shadowing {
            // Self-loading files are removed and reported below.
            let imported = changed
                .iter()
                .filter(|path| paths.guard(path) != Some(Guard::SelfLoading))
                .cloned()
                .collect();
            let found = remove_shadows(handle, &task.workdir, &pristine, &roots, &imported);
            evidence.extend(found.await?);
        }
        let found = restore(handle, &task.workdir, &pristine, &paths, &changed, &absent, defences);
        evidence.extend(found.await?);
        let laid =
            PatchedTree { pristine: &pristine, paths: &paths, roots: &roots, changed: &changed };
        self.run(&laid, &canaries, &Solution::Patch(patch), None, evidence).await
    }

    fn paths(&self, masked: BTreeSet<String>, tree: &Pristine) -> Paths<'static> {
        // If the task has no mask, the gold patch shows which files are source code.
        let gold = self.task.gold.as_deref().filter(|_| self.task.mask.is_none());
        let changed = gold.and_then(|gold| paths_of(gold.as_bytes()).ok()).unwrap_or_default();
        let source = masked.into_iter().chain(changed).collect();
        Paths::new(self.policy, self.task, &self.probe, source, &self.test_patch, &tree.names)
    }

    /// Top-level names that do not belong to the repository.
    fn provided(&self) -> BTreeSet<String> {
        self.probe.provided.iter().chain(&self.probe.standard_library).cloned().collect()
    }

    fn roots(&self, pristine: &Pristine, paths: &Paths<'_>) -> Roots {
        let workdir = &self.task.workdir;
        Roots::find(workdir, pristine, &self.probe, self.policy, paths, &self.launch)
    }

    /// Returns the pristine tree with the test patch applied to the retained files.
    async fn pristine(
        &self,
        mut pristine: Pristine,
        paths: &Paths<'_>,
        touched: &BTreeSet<String>,
    ) -> Result<Pristine, Fault> {
        let (handle, task) = (self.handle, self.task);
        let named = |path: &str| {
            let mut ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
            ids.any(|id| escaped(file_of(id)) == path)
        };
        // A hidden copy in a test folder stays hidden, unless it is itself an expected test file.
        let is_hidden =
            |path: &str| self.options.hidden.is_leak(&at(&task.workdir, path)) && !named(path);
        let keep = |path: &str| match paths.guard(path) {
            _ if is_hidden(path) => false,
            None | Some(Guard::Bytecode) => false,
            Some(Guard::Config | Guard::SelfLoading | Guard::Test) => {
                paths.is_own(path)
                    || touched.contains(path)
                    || self.masked.contains(path)
                    || (path.ends_with("conftest.py") && !paths.is_interpreter(path))
                    // Roots::find reads the import path from it.
                    || (paths.guard(path) == Some(Guard::Config) && !path.contains('/'))
            }
        };
        pristine.keep(handle, &task.workdir, &keep).await?;
        if let Some(test_patch) = task.test_patch.as_deref().filter(|text| !text.trim().is_empty())
        {
            pristine.overlay(test_patch.as_bytes()).map_err(|fault| fault.context(&task.id))?;
        }
        Ok(pristine)
    }

    /// Removes everything that the agent did not have: the masked code, hidden paths, version control
    /// history, and compiled copies of the code, from which a patch could read the solution at test
    /// time. Returns the paths that restoring must check.
    async fn set_up(
        &self,
        handle: &SandboxHandle,
        pristine: &Pristine,
        paths: &Paths<'_>,
    ) -> Result<BTreeSet<String>, Fault> {
        let task = self.task;
        take_away(handle, task, &self.options.hidden, Stays::default()).await?;
        let compiled = pristine.names.keys().filter(|path| {
            paths.guard(path) == Some(Guard::Bytecode) && !paths.is_interpreter(path)
        });
        for path in pristine.histories.iter().chain(compiled) {
            remove(handle, &task.workdir, path).await?;
        }
        let hidden = pristine.files.keys().filter(|path| paths.is_own(path));
        Ok(self.masked.iter().chain(&self.test_patch).chain(hidden).cloned().collect())
    }

    async fn run(
        &self,
        laid: &PatchedTree<'_>,
        canaries: &Canaries,
        solution: &Solution<'_>,
        submitted: Option<OriginOptions>,
        mut evidence: Vec<Evidence>,
    ) -> Result<Graded, Fault> {
        let task = self.task;
        let PatchedTree { pristine, roots, .. } = *laid;
        let plan = self.plan();
        let expected: BTreeMap<String, Content> = pristine
            .files
            .iter()
            .filter(|(path, _)| path.ends_with(".py"))
            .filter_map(|(path, file)| match file {
                Current::File { bytes, .. } => Some((path.clone(), Content::of(bytes))),
                Current::Link { .. } => None,
            })
            .collect();
        let data = pristine.names.iter().filter(|(path, kind)| {
            **kind == EntryKind::File
                && !path.ends_with(".py")
                && laid.paths.guard(path) == Some(Guard::Test)
        });
        let data = data.map(|(path, _)| path.clone()).take(WATCHED_DATA).collect();
        let defences = self.options.defences;
        evidence.extend(exceptions(&self.options.hidden));
        let folder = submitted.as_ref().map(|submitted| submitted.folder.clone());
        let session = TestSession {
            plan: &plan,
            launch: &self.launch,
            probe: &self.probe,
            canaries,
            watch: expected.keys().cloned().collect(),
            data,
            provided: roots.reserved_names(pristine),
            folders: laid.test_folders(),
            helpers: roots.helpers(pristine, laid.paths),
            defences,
            lent: LentModules::of(&self.options.hidden),
            submitted,
        };
        let (mut run, records, since) = session.run(self.handle).await?;
        let mut judged = defences.canaries.then(|| CanaryResults::of(canaries, &records, &run));
        let again = CanaryResults::files_to_rerun(canaries, &records, &run, task);
        canaries.append_to_log(&mut run.log);
        let mut runs = vec![records];
        if let Some(judged) = judged.as_mut().filter(|judged| !judged.passed.is_empty()) {
            let times = self.policy.canaries.again;
            let controls = canaries.controls(&judged.passed, times);
            let files = controls.list.iter().map(|canary| file_of(&canary.id).to_owned()).collect();
            let part = plan.restricted_to(&files);
            let second = TestSession { canaries: &controls, plan: &part, ..session.clone() };
            match Box::pin(self.rerun(&second, laid, solution)).await? {
                Ok((second, records)) => {
                    judged.judge_passed(canaries, Some((&records, &second)), times)
                }
                Err(found) => {
                    judged.judge_passed(canaries, None, times);
                    evidence.push(found);
                }
            }
        }
        if !again.is_empty() {
            let (none, part) = (Canaries::default(), plan.restricted_to(&again));
            let second = TestSession { canaries: &none, plan: &part, ..session.clone() };
            match Box::pin(self.rerun(&second, laid, solution)).await? {
                Ok((second, records)) => {
                    runs.push(records);
                    let passed = run.merge_rerun(second);
                    if !passed.is_empty() {
                        evidence.push(note(evidence::RUN_AGAIN, passed.join(", ")));
                    }
                }
                Err(found) => evidence.push(found),
            }
        }
        if needs_freezing(task) {
            whole_files(task, self.options.frozen.as_ref(), pristine, &mut run.tests);
        }
        evidence.extend(run.evidence.iter().cloned());
        let during =
            During::list(self.handle, &task.workdir, &self.probe, self.policy, since).await?;
        let is_watched =
            defences.restore_tests && defences.restore_config && defences.watch_content;
        for records in &runs {
            if defences.fingerprints {
                evidence.extend(examine::check_swallowed(records, &run.tests));
                let trust = Trust {
                    plan: &plan,
                    probe: &self.probe,
                    submission: folder.as_deref(),
                    during: &during,
                    pristine: &|path: &str| laid.is_pristine(path),
                };
                evidence.extend(examine::check_interpreter(records, &trust));
            }
            if defences.guard_roots {
                evidence.extend(self.late_shadows(laid, records));
            }
            if is_watched {
                evidence.extend(examine::check_content(records, &expected));
            }
        }
        if is_watched {
            let found = during.judge(self.handle, &task.workdir, self.policy, laid);
            evidence.extend(found.await?);
        }
        if let Some(judged) = judged {
            evidence.extend(judged.unverified_passes(canaries, task, &run.tests));
            evidence.extend(judged.evidence);
        }
        let expected = &self.options.expected;
        evidence.retain(|evidence| !expected.contains(evidence));
        // Only the attack tests disable the end check. Then every run counts as complete.
        let complete = run.complete || !defences.require_end;
        let quarantine = &self.options.quarantine;
        let verdict = build_verdict(task, &run.tests, complete, evidence, quarantine)?;
        Ok(Graded { verdict, log: run.log, raw: run.raw })
    }

    fn plan(&self) -> TestPlan {
        let task = self.task;
        let ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
        let ids: Vec<String> = ids.filter(|id| self.policy.is_test(id)).cloned().collect();
        let files: BTreeSet<&str> = ids.iter().map(|id| file_of(id)).collect();
        let own = Duration::from_secs_f64(task.timeouts.grade_seconds.max(0.0));
        TestPlan {
            command: task.test_command.clone(),
            workdir: task.workdir.clone(),
            files: files.into_iter().map(str::to_owned).collect(),
            // If the task expects whole files, all of their tests run.
            ids: (!needs_freezing(task)).then_some(ids),
            env: task.command_env(),
            time_limit: self.options.time_limit.map_or(own, |limit| limit.min(own)),
            user: task.user.clone(),
        }
    }

    /// Reports modules of the patch that replaced the environment's, based on the import path that the
    /// tests used.
    fn late_shadows(&self, laid: &PatchedTree<'_>, records: &Records) -> Vec<Evidence> {
        let Some(end) = records.end() else { return Vec::new() };
        let searched = laid.roots.with(&self.task.workdir, &self.probe, &end.sight.path);
        let found = searched.shadows(laid.pristine, laid.changed);
        // Modules that were removed before the run are already reported.
        let removed = laid.roots.shadows(laid.pristine, laid.changed);
        found
            .difference(&removed)
            .filter(|path| laid.paths.guard(path).is_none())
            .map(|path| note(evidence::MODULE_REPLACED, format!("{path}: on the import path")))
            .collect()
    }

    /// Returns the verdict if the sandbox failed because of the applied patch.
    async fn exhausted(&self, fault: Fault) -> Result<Graded, Fault> {
        unfinished(self.handle, self.task, self.options, fault).await
    }

    /// Returns the verdict for a patch that cannot be applied.
    fn rejected(&self, error: &dyn std::fmt::Display) -> Result<Graded, Fault> {
        rejected(self.task, self.options, error)
    }
}

/// Returns the verdict if the sandbox failed because of the applied patch.
async fn unfinished(
    handle: &SandboxHandle,
    task: &Task,
    options: &GradeOptions,
    fault: Fault,
) -> Result<Graded, Fault> {
    let found = exhausted::judge(handle, fault).await?;
    let log = format!("grading failed: {}\n", found.what).into_bytes();
    let verdict = build_verdict(task, &BTreeMap::new(), false, vec![found], &options.quarantine)?;
    Ok(Graded { verdict, log, raw: Vec::new() })
}

/// Returns the verdict for a patch that cannot be applied.
fn rejected(
    task: &Task,
    options: &GradeOptions,
    error: &dyn std::fmt::Display,
) -> Result<Graded, Fault> {
    let what = error.to_string();
    let log = format!("rejected the patch: {what}\n").into_bytes();
    let evidence = vec![note(evidence::PATCH_REJECTED, what)];
    let verdict = build_verdict(task, &BTreeMap::new(), false, evidence, &options.quarantine)?;
    Ok(Graded { verdict, log, raw: Vec::new() })
}
