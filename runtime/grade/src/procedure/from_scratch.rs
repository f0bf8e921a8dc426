//! FeatureBench level 2: installs the agent's work, then restores the original library.

use std::time::Duration;

use proctor_sandbox_api::wire::RawPath;
use proctor_types::{Fault, FaultLayer, FaultOrigin, FromScratch, quote_shell_word};

use super::{OfficialRun, official::OfficialGrading};

/// Time limit for copying or removing a library.
const COPY_LIMIT: Duration = Duration::from_secs(600);

/// Creates a repository, because the harness applies the patch in one. If the sandbox has no Git,
/// the command has no effect.
const GIT_INIT_COMMAND: &str = "git init -q && git config user.email fb@bench.com && \
                   git config user.name FeatureBench && git add -A && \
                   git commit -q -m 'Initial commit for FeatureBench evaluation' --allow-empty";

impl OfficialGrading<'_> {
    /// Runs the same steps in the same order as the harness. Like the harness, continues if the
    /// installation fails or the test patch does not apply.
    pub(super) async fn grade_submission(
        &self,
        from_scratch: &FromScratch,
        patch: &[u8],
    ) -> Result<OfficialRun, Fault> {
        let (task, policy) = (self.task, self.policy);
        let Some(rules) = &policy.run.from_scratch else {
            let what = format!("{} has no rules for tasks from scratch", policy.benchmark);
            return Err(Fault::new(FaultLayer::Grade, what).context(&task.id));
        };
        let (root, kept) = (quote_shell_word(&task.workdir), quote_shell_word(&rules.pristine));
        let parent = rules.pristine.rsplit_once('/').map_or("/", |(parent, _)| parent);
        let copy = format!(
            "mkdir -p {} && rm -rf {kept} && cp -r {root} {kept}",
            quote_shell_word(parent)
        );
        self.run_or_fault(&copy, "saving the library").await?;
        // `rm` refuses to remove `.` and `..`, so discard its error message.
        self.run_shell(&format!("rm -rf {root}/* {root}/.* 2>/dev/null"), COPY_LIMIT).await?;
        for (path, text) in &from_scratch.files {
            let full = RawPath::from(format!("{}/{path}", task.workdir));
            let laid = self.handle.write(&full, text.as_bytes(), Some(0o644)).await;
            laid.map_err(|error| error.to_fault(format!("writing {path}")))?;
        }
        self.run_shell(GIT_INIT_COMMAND, COPY_LIMIT).await?;
        if !self.apply_model_patch(patch).await? {
            return Ok(self.rejected_run(Vec::new()));
        }
        let line = format!("{}; {} 2>&1", policy.run.prelude, from_scratch.install);
        let limit = Duration::from_secs(rules.seconds);
        let done = self.run_shell_with_variables(&line, limit, &rules.variables).await?;
        let mut log = format!("+ {}\n", from_scratch.install).into_bytes();
        log.extend_from_slice(&done.stdout.head);
        if !done.success() {
            log.extend_from_slice(b"the installation failed; the harness continues\n");
        }
        // As in the harness, the submission's dotfiles are not removed.
        let back = format!("rm -rf {root}/* && cp -r {kept}/* {root}/");
        self.run_or_fault(&back, "restoring the library").await?;
        log.extend(self.apply_test_patch().await?);
        self.run_files(log).await
    }

    async fn run_or_fault(&self, line: &str, action: &str) -> Result<(), Fault> {
        let done = self.run_shell(line, COPY_LIMIT).await?;
        if done.success() {
            return Ok(());
        }
        let said = done.stderr.text();
        let last = said.lines().last().unwrap_or("no error message");
        // The sandbox worked until the submission was copied into it, so attribute the failure to
        // the submission.
        let fault = Fault::new(FaultLayer::Grade, format!("{}: {action}: {last}", self.task.id));
        Err(fault.log(said.as_bytes().to_vec()).origin(FaultOrigin::SandboxRejection))
    }
}
