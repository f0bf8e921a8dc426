//! Completes a task from its image.

use proctor_types::{Cause, Fault, ImageSettings, Layer, Task};

/// The task with the settings that it takes from its image. A Harbor task's own variables may refer
/// to variables of this machine.
///
/// # Errors
/// A variable that is not set on this machine. The fault names the variable; values are never
/// recorded.
pub fn on_image(task: &Task, image: &ImageSettings) -> Result<Task, Fault> {
    if task.harbor.is_none() {
        return Ok(task.on_image(image));
    }
    let mut task = task.clone();
    task.env =
        proctor_harbor::fill_env(&task.env, &|name| std::env::var(name).ok()).map_err(|why| {
            Fault::new(Layer::Environment, format!("{}: environment.env: {why}", task.id))
                .cause(Cause::Invalid)
                .hint("set the variable in Proctor's environment")
        })?;
    Ok(task.on_image(image))
}
