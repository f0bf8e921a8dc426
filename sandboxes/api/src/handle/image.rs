//! Variables of a sandbox: those of its image, and those that its commands get by default.

use std::collections::BTreeMap;

use super::SandboxHandle;
use crate::Command;

static NOTHING: BTreeMap<String, String> = BTreeMap::new();

impl SandboxHandle {
    /// Says which variables every command gets that does not set them. The first call counts.
    pub fn set_default_env(&self, env: BTreeMap<String, String>) {
        let _ = self.default_env.set(env);
    }

    /// The command with those variables.
    pub(super) fn with_defaults(&self, mut command: Command) -> Command {
        for (name, value) in self.default_env.get().unwrap_or(&NOTHING) {
            if !command.env.contains_key(name) {
                command.env.insert(name.clone(), value.as_str().into());
            }
        }
        command
    }
}

impl SandboxHandle {
    /// Says which variables the image sets. The first call counts.
    pub fn set_image_env(&self, env: BTreeMap<String, String>) {
        let _ = self.image_env.set(env);
    }

    /// The variables that the image sets. Commands do not get them by themselves: an environment is exactly
    /// what a command names. Empty where there is no image, or its back end cannot tell.
    pub fn image_env(&self) -> &BTreeMap<String, String> {
        self.image_env.get().unwrap_or(&NOTHING)
    }
}
