//! The gold patch of a task.

use proctor_types::{Fault, FaultCause, FaultLayer, Task};

/// Returns the task's gold patch, which the `gold` scaffold applies.
pub(crate) fn gold_patch(task: &Task) -> Result<String, Fault> {
    let fault = |what: String| {
        Fault::new(FaultLayer::Setup, format!("{}{what}", task.id)).cause(FaultCause::Invalid)
    };
    let gold = proctor_patch::gold_patch(task)
        .map_err(|error| fault(format!(": the mask cannot be reversed: {error}")))?
        .ok_or_else(|| {
            fault(" has neither a gold patch nor a mask".into())
                .hint("use another scaffold: `gold` needs a solution")
        })?;
    String::from_utf8(gold).map_err(|_| fault(": the mask is not UTF-8".into()))
}
