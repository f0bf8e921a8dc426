//! Environment variables of a sandbox: those of its image, and the defaults for its commands.

use std::collections::BTreeMap;

use super::SandboxHandle;
use crate::Command;

static EMPTY_ENV: BTreeMap<String, String> = BTreeMap::new();

impl SandboxHandle {
    /// Sets the default variables for commands. A command may override them. Only the first call
    /// has an effect.
    pub fn set_default_env(&self, env: BTreeMap<String, String>) {
        let _ = self.default_env.set(env);
    }

    /// Adds the default variables to the command.
    pub(super) fn with_default_env(&self, mut command: Command) -> Command {
        for (name, value) in self.default_env.get().unwrap_or(&EMPTY_ENV) {
            if !command.env.contains_key(name) {
                command.env.insert(name.clone(), value.as_str().into());
            }
        }
        command
    }
}

impl SandboxHandle {
    /// Sets the image's variables. Only the first call has an effect.
    pub fn set_image_env(&self, env: BTreeMap<String, String>) {
        let _ = self.image_env.set(env);
    }

    /// Returns the image's variables. They are empty if there is no image or the back end does not
    /// know them. Commands do not inherit them: a command's environment is exactly what it sets.
    pub fn image_env(&self) -> &BTreeMap<String, String> {
        self.image_env.get().unwrap_or(&EMPTY_ENV)
    }
}
