//! Decides why a sandbox failed after a patch was applied. A failure that the patch or the code
//! under test caused leads to a verdict. A failure of the machine is a fault.

use proctor_sandbox_api::{Exhaustion, SandboxHandle};
use proctor_types::{Evidence, Fault};

use crate::evidence::{self, new_evidence};

/// Returns evidence if the sandbox's content caused the fault. Otherwise returns the fault itself.
///
/// Without this check, a patch could turn its failure into a missing result. The content of a
/// sandbox can make any later grading step fail: a full disk, no free inodes, a path that is too
/// long for the kernel, or a file that exceeds the read limit. All steps use this function, so that
/// a new step cannot forget the check.
///
/// Call this only after Proctor has started to apply the patch.
pub(crate) async fn exhaustion_evidence(
    handle: &SandboxHandle,
    fault: Fault,
) -> Result<Evidence, Fault> {
    let Some((how, what)) = handle.diagnose_exhaustion(&fault).await else { return Err(fault) };
    let kind = match how {
        Exhaustion::Refused => evidence::SANDBOX_EXHAUSTED,
        Exhaustion::Killed => evidence::SANDBOX_KILLED,
        Exhaustion::Overdue => evidence::TIMED_OUT,
    };
    Ok(new_evidence(kind, what))
}
