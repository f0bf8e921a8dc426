//! Looks up scaffolds by name: those in Proctor's own process, command-line agents, and users'
//! programs.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use async_trait::async_trait;
use proctor_bundles::{Bundle, BundleStore};
use proctor_external::{External, LoadedManifest, Manifest};
use proctor_host_scaffolds::{PROGRAM_KEY, PYTHON, ProgramStore, restore_python};
use proctor_scaffold_api::{ProgressSink, Scaffold, ScaffoldSource, Scaffolds, SourceError};
use proctor_types::{Arm, RecordedArm, RunRecord, UserError};
use serde_json::Value;

use crate::bundled;

static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut names = proctor_scaffolds::names().to_vec();
    names.extend_from_slice(proctor_external::names());
    names.extend_from_slice(proctor_host_scaffolds::names());
    names.sort_unstable();
    names
});

/// All scaffolds: built-in ones, agents that run in the sandbox, and users' own. Bundles and copies
/// of users' programs are stored in a cache directory.
#[derive(Debug, Clone)]
pub struct Catalog {
    cache: PathBuf,
}

impl Catalog {
    /// Creates a catalog that stores bundles and programs in `cache`.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self { cache: cache.into() }
    }
}

#[async_trait(?Send)]
impl ScaffoldSource for Catalog {
    fn names(&self) -> &[&'static str] {
        &NAMES
    }

    fn is_host_scaffold(&self, name: &str) -> bool {
        is_host_scaffold(name)
    }

    fn find_scaffold(&self, name: &str) -> Result<Option<Arc<dyn Scaffold>>, UserError> {
        find_scaffold(&self.cache, name)
    }

    fn scaffolds_for_arms(&self, arms: &[Arm]) -> Result<Scaffolds, UserError> {
        scaffolds_for_arms(&self.cache, arms)
    }

    async fn build(
        &self,
        names: &BTreeSet<&str>,
        report_progress: ProgressSink<'_>,
    ) -> Result<bool, SourceError> {
        build(&self.cache, names, report_progress).await
    }

    async fn scaffolds_with_bundles(
        &self,
        record: &RunRecord,
        report_progress: ProgressSink<'_>,
    ) -> Result<Scaffolds, SourceError> {
        scaffolds_with_bundles(&self.cache, record, report_progress).await
    }
}

/// Returns the scaffold that has this name or is defined in this manifest file. Its bundle is
/// included if it is built.
fn find_scaffold(cache: &Path, name: &str) -> Result<Option<Arc<dyn Scaffold>>, UserError> {
    let builtin = proctor_scaffolds::builtin_scaffold(name);
    let builtin = builtin.map_err(|error| UserError::new(error.to_string()))?;
    if builtin.is_some() {
        return Ok(builtin);
    }
    if is_host_scaffold(name) {
        return proctor_host_scaffolds::scaffold(name, program_store(cache))
            .map_err(UserError::new);
    }
    let Some(loaded) = find_manifest(cache, name)? else { return Ok(None) };
    let Manifest { name: called, version, bundle, .. } = &loaded.manifest;
    let bundle = match bundle {
        Some(recipe) => {
            let (bundles, folder) = (bundle_store(cache), manifest_folder(name));
            // Check this now. Otherwise, a missing file would be reported only by the build, after
            // the plan.
            bundles
                .check_files(called, version, recipe, &folder)
                .map_err(|error| UserError { message: error.problem, hint: error.hint })?;
            bundles.find_built(called, version, recipe, &folder)
        }
        None => None,
    };
    Ok(Some(Arc::new(External::new(loaded, bundle))))
}

fn find_manifest(cache: &Path, name: &str) -> Result<Option<LoadedManifest>, UserError> {
    let loaded = match (bundled::find_added_manifest(cache, name), name.ends_with(".toml")) {
        (Some(file), _) => Some(proctor_external::load(&file)),
        (None, true) => Some(proctor_external::load(Path::new(name))),
        (None, false) => proctor_external::shipped_manifest(name).transpose(),
    };
    let Some(loaded) = loaded.transpose().map_err(bundled::to_user_error)? else {
        return Ok(None);
    };
    let called = loaded.manifest.name.as_str();
    if proctor_scaffolds::names().contains(&called) || is_host_scaffold(called) {
        let taken = &loaded.manifest.name;
        let what = format!(
            "{name}: `name`: Proctor already has a scaffold `{taken}`; choose another name"
        );
        return Err(UserError::new(what));
    }
    Ok(Some(loaded))
}

/// Returns whether the scaffold's loop is a user's program that runs in its own sandbox.
fn is_host_scaffold(name: &str) -> bool {
    proctor_host_scaffolds::is_host_scaffold(name)
}

/// Returns the store for copies of users' programs.
fn program_store(cache: &Path) -> ProgramStore {
    ProgramStore::new(cache.join("programs"))
}

fn bundle_store(cache: &Path) -> BundleStore {
    BundleStore::new(bundled::bundles_folder(cache))
}

/// Returns the directory with the files that a manifest refers to.
fn manifest_folder(name: &str) -> PathBuf {
    let parent = Path::new(name).parent().filter(|_| name.ends_with(".toml"));
    parent.map(Path::to_owned).unwrap_or_default()
}

/// Builds the missing bundles of the given scaffolds and reports progress. Returns whether any
/// bundle was built, because the digests of bundles are factors of the arms.
async fn build(
    cache: &Path,
    names: &BTreeSet<&str>,
    report_progress: ProgressSink<'_>,
) -> Result<bool, SourceError> {
    let bundles = bundle_store(cache);
    let mut any = false;
    for &name in names {
        if proctor_scaffolds::names().contains(&name) || is_host_scaffold(name) {
            continue;
        }
        let Some(loaded) = find_manifest(cache, name)? else { continue };
        let built =
            ensure_bundle(&bundles, &loaded.manifest, &manifest_folder(name), report_progress)
                .await?;
        any |= built.is_some_and(|one| one.1);
    }
    Ok(any)
}

/// Returns an agent's bundle and whether it was built now; `None` if the agent has no bundle.
async fn ensure_bundle(
    bundles: &BundleStore,
    manifest: &Manifest,
    folder: &Path,
    report_progress: ProgressSink<'_>,
) -> Result<Option<(Bundle, bool)>, SourceError> {
    let Manifest { name, version, bundle, .. } = manifest;
    let Some(recipe) = bundle else { return Ok(None) };
    if let Some(bundle) = bundles.find_built(name, version, recipe, folder) {
        return Ok(Some((bundle, false)));
    }
    let bundle = bundles.ensure_built(name, version, recipe, folder, report_progress).await;
    let bundle =
        bundle.map_err(|error| SourceError::Build { problem: error.problem, hint: error.hint })?;
    Ok(Some((bundle, true)))
}

/// Returns the scaffolds of a plan's arms by name, without bundles. A command-line agent is
/// restored from the plan, even if its manifest file has changed.
fn scaffolds_for_arms(cache: &Path, arms: &[Arm]) -> Result<Scaffolds, UserError> {
    let mut found = Scaffolds::new();
    for arm in arms {
        let problem = |error: UserError| UserError {
            message: format!("arm {}: {}", arm.name, error.message),
            hint: error.hint,
        };
        let recorded = External::from_factors(&arm.prompts);
        let recorded = recorded.map_err(|error| problem(bundled::to_user_error(error)))?;
        let scaffold = match recorded {
            Some(external) => Some(Arc::new(external) as Arc<dyn Scaffold>),
            None => match proctor_scaffolds::restore_scaffold(&arm.scaffold, &arm.prompts) {
                Ok(Some(builtin)) => Some(builtin),
                Ok(None) => find_scaffold(cache, &arm.scaffold).map_err(problem)?,
                Err(error) => return Err(problem(UserError::new(error.to_string()))),
            },
        };
        if let Some(scaffold) = scaffold {
            found.insert(arm.id.to_string(), Arc::clone(&scaffold));
            found.insert(arm.scaffold.clone(), scaffold);
        }
    }
    Ok(found)
}

/// Like `scaffolds_for_arms`, but with bundles. Builds missing bundles. Rejects a bundle that
/// differs from the plan, because it would make a different arm.
async fn scaffolds_with_bundles(
    cache: &Path,
    record: &RunRecord,
    report_progress: ProgressSink<'_>,
) -> Result<Scaffolds, SourceError> {
    let bundles = bundle_store(cache);
    let mut found = scaffolds_for_arms(cache, &record.arms)?;
    for arm in &record.arms {
        let written = record.config.arms.iter().find(|one| one.name == arm.name);
        if is_host_scaffold(&arm.scaffold) {
            check_program(cache, arm, written)?;
            continue;
        }
        let recorded = External::from_factors(&arm.prompts)
            .map_err(|error| UserError::new(format!("arm {}: {error}", arm.name)))?;
        let Some(external) = recorded else { continue };
        let folder = manifest_folder(written.map_or("", |one| one.scaffold.as_str()));
        let built = ensure_bundle(&bundles, external.manifest(), &folder, report_progress).await?;
        let Some((bundle, _)) = built else {
            continue;
        };
        if External::bundle_factor(&bundle) != arm.prompts["bundle"] {
            let what = format!(
                "arm {}: the bundle of {} has changed since the run was planned",
                arm.name, arm.scaffold
            );
            let hint = "start a new run, because the agent itself has changed";
            return Err(UserError::new(what).hint(hint).into());
        }
        let scaffold: Arc<dyn Scaffold> = Arc::new(external.with_bundle(bundle));
        found.insert(arm.id.to_string(), Arc::clone(&scaffold));
        found.insert(arm.scaffold.clone(), scaffold);
    }
    Ok(found)
}

/// Checks that the program that an arm was planned with is available. If the stored copy is gone,
/// copies the original file again, provided that it has not changed.
fn check_program(
    cache: &Path,
    arm: &Arm,
    recorded_arm: Option<&RecordedArm>,
) -> Result<(), UserError> {
    let problem = |what: String| UserError::new(format!("arm {}: {what}", arm.name));
    if arm.scaffold == PYTHON {
        let unknown = RecordedArm::default();
        let written = recorded_arm.unwrap_or(&unknown);
        let restored = restore_python(&program_store(cache), &arm.settings_table(), written);
        return restored.map_err(|what| {
            problem(what).hint("restore the file and the environment, or start a new run")
        });
    }
    let Some(digest) = arm.settings[PROGRAM_KEY].as_str() else { return Ok(()) };
    let programs = program_store(cache);
    if programs.find_copy(digest).is_some() {
        return Ok(());
    }
    let path = recorded_arm.and_then(|one| one.settings.get(PROGRAM_KEY)).and_then(Value::as_str);
    let path = path.unwrap_or_default();
    let hint = "put the program back, or start a new run";
    let kept = programs
        .store_copy(Path::new(path))
        .map_err(|error| problem(error.to_string()).hint(hint))?;
    match kept == digest {
        true => Ok(()),
        false => Err(problem(format!("{path} has changed since the run was planned")).hint(hint)),
    }
}
