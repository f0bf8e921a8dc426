//! The list of attacks.

use super::{agent, attack::Attack, kernel, memory, neighbours, paths, processes, storage};

/// Returns all attacks in execution order.
pub fn attacks() -> Vec<Attack> {
    [
        agent::attacks(),
        kernel::attacks(),
        processes::attacks(),
        memory::attacks(),
        storage::attacks(),
        paths::attacks(),
        neighbours::attacks(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
