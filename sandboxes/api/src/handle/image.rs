//! What the image of a sandbox sets for the commands in its containers.

use std::collections::BTreeMap;

use super::SandboxHandle;

static NOTHING: BTreeMap<String, String> = BTreeMap::new();

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
