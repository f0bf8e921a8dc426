//! The environment that a sandbox actually ran in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A prepared environment, identified by hashes because a name such as an image tag can later refer
/// to another image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    /// SHA-256 of the base, source, setup commands, work directory and variables. On Docker, the
    /// digest also covers the sandbox agent, which is part of the image.
    pub digest: String,
    /// Identifies the content of the base: the id of an image, or else a SHA-256.
    pub base: String,
    /// The image as `repository@sha256:...`, for pulling the same image from its registry. Absent
    /// if the image did not come from a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The user that runs the task's commands and owns the work directory and the home directory.
    /// Absent for root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Environment variables that state the CPU limit, for commands that do not set them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_variables: BTreeMap<String, String>,
}
