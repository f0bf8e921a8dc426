//! The actual base of a sandbox.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A prepared environment, by immutable identifiers: names may move, these do not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    /// SHA-256 of base, source, set-up lines, work directory and variables; on Docker also of the
    /// sandbox agent, which is in the image.
    pub digest: String,
    /// The content of the base: the id of an image, else a SHA-256.
    pub base: String,
    /// `repository@sha256:...`, with which a registry returns the same image; absent if it did not
    /// come from a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The user of the task's commands, who owns the work directory and the home; absent for root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Variables with the CPU limit, for commands that do not set them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_variables: BTreeMap<String, String>,
}
