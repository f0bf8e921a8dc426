//! What became of a sandbox once a patch was in it: a verdict where the patch, or the code under test,
//! did it within its limits, and a fault only where the machine did.

use proctor_sandbox_api::{Exhausted, SandboxHandle};
use proctor_types::{Evidence, Fault};

use crate::evidence::{self, note};

/// The evidence that replaces a fault, or the fault itself where the content of the sandbox did not
/// cause it.
///
/// Without this a patch could turn its failure into a missing value: every later step of a grading can
/// be made to fail by what lies in the sandbox (a full disk, no inode left, a path longer than the
/// kernel takes, a file that grew past what is read). One place decides for all steps, so that a step
/// that is added later is decided too. Only to be called once the patch is being laid.
pub(crate) async fn judge(handle: &SandboxHandle, fault: Fault) -> Result<Evidence, Fault> {
    let Some((how, what)) = handle.exhausted(&fault).await else { return Err(fault) };
    let kind = match how {
        Exhausted::Refused => evidence::SANDBOX_EXHAUSTED,
        Exhausted::Killed => evidence::SANDBOX_KILLED,
        Exhausted::Overdue => evidence::TIMED_OUT,
    };
    Ok(note(kind, what))
}
