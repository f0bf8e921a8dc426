//! What a sandbox really stood on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A prepared environment, as it was found: names move, these do not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    /// SHA-256 of base, source, set-up lines, work directory and variables; on Docker also of the sandbox
    /// agent, which lies in the image.
    pub digest: String,
    /// The content of the base: the id of an image, else a SHA-256.
    pub base: String,
    /// `repository@sha256:...`, by which a registry gives the same image again; absent where none
    /// gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The user of the task's commands, whose the work directory and the home are; absent for root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Variables that tell programs the limit on CPUs, in commands that do not set them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_variables: BTreeMap<String, String>,
}
