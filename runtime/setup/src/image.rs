//! Completes a task with settings from its image.

use proctor_types::{Fault, FaultCause, FaultLayer, ImageSettings, Task};

/// Returns the task with the settings that its image declares. The variables of a Harbor task may
/// refer to environment variables of this machine.
///
/// Fails if a variable is not set on this machine. The fault contains the variable's name. Values
/// are never recorded.
pub fn with_image_settings(task: &Task, image: &ImageSettings) -> Result<Task, Fault> {
    if task.harbor.is_none() {
        return Ok(task.with_image_settings(image));
    }
    let mut task = task.clone();
    task.env =
        proctor_harbor::expand_env(&task.env, &|name| std::env::var(name).ok()).map_err(|why| {
            Fault::new(FaultLayer::Environment, format!("{}: environment.env: {why}", task.id))
                .cause(FaultCause::Invalid)
                .hint("set the variable in Proctor's environment")
        })?;
    Ok(task.with_image_settings(image))
}
