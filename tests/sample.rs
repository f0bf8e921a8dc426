//! Shorter tables for the core tier. Test crates include this file by its path, next to `tier.rs`.

use crate::tier::is_full;

/// Returns all items in the full tier, and every `interval`-th one in the core tier.
pub fn sample<T>(items: impl IntoIterator<Item = T>, interval: usize) -> Vec<T> {
    items.into_iter().step_by(if is_full() { 1 } else { interval }).collect()
}
