//! Grades one patch in a fresh room of the task's environment.

use proctor_grade::{GradeOptions, Graded};
use proctor_sandbox_api::{Backend, Prepared, RoomSpec};
use proctor_types::{Fault, SandboxSpec, Task};

/// The room that a grading is given: the same environment and limits as the trial's.
pub struct GradeRoom<'a> {
    pub backend: &'a dyn Backend,
    pub environment: &'a Prepared,
    pub limits: &'a SandboxSpec,
    pub purpose: String,
}

/// Opens a room, grades, and closes it whatever came of it.
pub async fn grade_patch(
    room: GradeRoom<'_>,
    task: &Task,
    patch: &[u8],
    options: &GradeOptions,
) -> Result<Graded, Fault> {
    let spec = RoomSpec {
        environment: room.environment.clone(),
        limits: room.limits.clone(),
        purpose: room.purpose,
    };
    let mut sandbox = room.backend.open(&spec).await?;
    let graded = proctor_grade::grade(sandbox.room(), task, patch, options).await;
    let closed = sandbox.close().await;
    let graded = graded?;
    closed?;
    Ok(graded)
}
