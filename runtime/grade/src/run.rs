//! Runs tests in a sandbox without grading anything.

use std::collections::BTreeSet;

use proctor_sandbox_api::SandboxHandle;
use proctor_setup::HiddenCopies;
use proctor_types::Fault;

use crate::{
    Defenses, TestPlan, TestRun,
    canary::Canaries,
    hidden::LentModules,
    interpreter_checks::{self, TrustedCode},
    launch::Launch,
    probe::{Probe, ProbeRequest},
    run_changes::RunChanges,
    session::TestSession,
};

/// Runs the tests of `plan` in one interpreter and returns the status of each.
///
/// The sandbox is used as is: no files are restored and no canaries are installed. `hidden_copies`
/// is the content that was hidden when the sandbox was prepared. Test failures, collection errors
/// and timeouts are results, not faults.
///
/// # Errors
///
/// A sandbox fault, or a grading fault if the command does not start pytest or pytest is not
/// installed.
pub async fn run_tests(
    handle: &SandboxHandle,
    plan: &TestPlan,
    hidden_copies: &HiddenCopies,
) -> Result<TestRun, Fault> {
    let launch = Launch::from_command(handle, &plan.command, &plan.env).await?;
    let user = plan.user.as_deref();
    let lent = LentModules::from_hidden(hidden_copies);
    let request = ProbeRequest {
        launch: &launch,
        workdir: &plan.workdir,
        env: &plan.env,
        user,
        lent_modules: &lent,
    };
    let probe = Probe::run(handle, &request).await?;
    let session = TestSession {
        plan,
        launch: &launch,
        probe: &probe,
        canaries: &Canaries::default(),
        watched_files: Vec::new(),
        data_files: Vec::new(),
        provided_modules: BTreeSet::new(),
        test_folders: Vec::new(),
        helper_modules: BTreeSet::new(),
        defenses: Defenses::default(),
        lent_modules: lent,
        origin_options: None,
    };
    let (mut run, records, _) = session.run(handle).await?;
    let during = RunChanges::default();
    // No patch is applied here, so every file counts as pristine.
    let trust = TrustedCode {
        plan,
        probe: &probe,
        submission: None,
        run_changes: &during,
        is_pristine: &|_| true,
    };
    run.evidence.extend(interpreter_checks::interpreter_evidence(&records, &trust));
    Ok(run)
}
