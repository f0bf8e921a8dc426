//! Environment variables of a sandbox: those of its image, and the defaults of its commands.

use std::collections::BTreeMap;

use super::SandboxHandle;
use crate::Command;

static EMPTY_ENV: BTreeMap<String, String> = BTreeMap::new();

impl SandboxHandle {
    /// Sets variables for every command that does not set them itself. Only the first call has an
    /// effect.
    pub fn set_default_env(&self, env: BTreeMap<String, String>) {
        let _ = self.default_env.set(env);
    }

    /// Adds those defaults to the command.
    pub(super) fn with_defaults(&self, mut command: Command) -> Command {
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

    /// Returns the image's variables. Commands do not inherit them: their environment is exactly
    /// what they set. Empty without an image or if the back end does not know the variables.
    pub fn image_env(&self) -> &BTreeMap<String, String> {
        self.image_env.get().unwrap_or(&EMPTY_ENV)
    }
}
