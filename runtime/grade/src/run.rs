//! Runs tests in a room as it stands, without grading anything.

use proctor_sandbox_api::Room;
use proctor_types::Fault;

use crate::{Defences, TestPlan, TestRun, examine, launch::Launch, probe::Probe, session::Session};

/// Runs the tests of `plan` in one start of the interpreter and reports the status of each.
///
/// The room is used as it stands: nothing is restored, no canary is laid. A test that fails, a file
/// that cannot be collected, a time limit that is reached are results.
///
/// # Errors
///
/// A fault of the sandbox where the room fails, and of the grade where the command does not start
/// pytest or its interpreter has none.
pub async fn run_tests(room: &Room, plan: &TestPlan) -> Result<TestRun, Fault> {
    let launch = Launch::read(room, &plan.command, &plan.env).await?;
    let user = plan.user.as_deref();
    let probe = Probe::take(room, &launch, &plan.workdir, &plan.env, user).await?;
    let session = Session {
        plan,
        launch: &launch,
        probe: &probe,
        canaries: &[],
        watch: Vec::new(),
        defences: Defences::default(),
        submitted: None,
    };
    let (mut run, records) = session.run(room).await?;
    run.evidence.extend(examine::interpreter(&records, plan, &probe, None, &|_| true));
    Ok(run)
}
