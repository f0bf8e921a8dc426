//! Grades a submission to a task that starts from scratch.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use proctor_screening::is_test_path;
use proctor_setup::ApplyError;
use proctor_types::{Fault, FromScratch, Task};

use super::{Grading, restart::Solution};
use crate::{
    GradingResult,
    canary::{self, Canaries},
    evidence::incomplete_patch_evidence,
    patched_tree::PatchedTree,
    paths::file_from_test_id,
    pristine::PristineTree,
    probe::generate_secret_folder,
    restore::restore_guarded_paths,
    scratch::{OriginalLibrary, Submission},
    screening::{ScreeningBase, screen_submission},
    session::OriginOptions,
};

impl Grading<'_> {
    /// Puts the submission in a separate folder, so that its files cannot replace a test, a plugin
    /// or the library.
    pub(super) async fn grade_submission(
        &self,
        from_scratch: &FromScratch,
        patch: &[u8],
    ) -> Result<GradingResult, Fault> {
        let (handle, task) = (self.handle, self.task);
        let nothing = BTreeSet::new();
        let tree = PristineTree::walk(handle, &task.workdir, self.policy).await?;
        let paths = self.build_path_rules(BTreeSet::new(), &tree);
        let pristine = self.load_pristine_tree(tree, &paths, &nothing).await?;
        let roots = self.find_import_roots(&pristine, &paths);
        let original = OriginalLibrary::find(&task.workdir, &pristine, &self.probe, self.policy);
        let canaries = if self.options.defenses.canaries {
            let apart = &self.options.quarantine;
            canary::create_canaries(
                handle,
                &self.launch,
                &self.task_with_functions(),
                &pristine,
                apart,
            )
            .await?
        } else {
            Canaries::default()
        };
        let absent = self.strip_sandbox(handle, &pristine, &paths).await?;
        let defenses = self.options.defenses;
        if defenses.guard_original {
            original.remove(handle, task, &pristine, &paths).await?;
        }
        restore_guarded_paths(
            handle,
            &task.workdir,
            &pristine,
            &paths,
            &nothing,
            &absent,
            defenses,
        )
        .await?;
        self.has_started_applying_patch.store(true, Ordering::Relaxed);
        let submission =
            match Submission::write(handle, generate_secret_folder()?, from_scratch, patch).await {
                Ok(submission) => submission,
                Err(ApplyError::Patch(error)) => return self.rejected_result(&error),
                Err(ApplyError::Sandbox(error)) => {
                    return Err(error.to_fault("copying the submission"));
                }
            };
        let submitted = OriginOptions {
            folder: submission.folder,
            import_root: submission.import_root,
            guard: defenses.guard_original,
            workdir: task.workdir.clone(),
            modules: original.modules.clone(),
            test_folders: self.policy.names.test_folders.clone(),
            test_files: task
                .fail_to_pass
                .iter()
                .map(|id| file_from_test_id(id).to_owned())
                .collect(),
        };
        let laid = PatchedTree {
            pristine: &pristine,
            paths: &paths,
            roots: &roots,
            changed_paths: &nothing,
        };
        let mut evidence = incomplete_patch_evidence(submission.skipped_parts);
        if defenses.screen_patch {
            let provided = self.provided_modules();
            let base = ScreeningBase {
                entries: &pristine.entries,
                provided_modules: Some(&provided),
                is_screened: &|path: &str| !is_test_path(path),
            };
            evidence.extend(screen_submission(task, patch, &base)?);
        }
        let solution = Solution::Submission { start: from_scratch, patch, original: &original };
        self.run_and_evaluate_tests(&laid, &canaries, &solution, Some(submitted), evidence).await
    }

    /// Returns the task with test functions instead of files, if the functions are known. Canaries
    /// can only be made from functions.
    fn task_with_functions(&self) -> Task {
        match &self.options.frozen_ids {
            Some(frozen) => frozen.replace_files_with_tests(self.task),
            None => self.task.clone(),
        }
    }
}
