//! Which limits a back end could enforce.

use serde::{Deserialize, Serialize};

/// Honest limits: the name of each limit that was asked for and could not be enforced, with the
/// reason ("memory: no writable memory cgroup").
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    pub not_enforced: Vec<String>,
}
