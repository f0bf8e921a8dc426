//! Applies a function to many items, with one thread per core.

use std::{num::NonZero, panic::resume_unwind, thread};

/// Applies `transform` to all items and returns the results in the order of the items. Use this to read
/// many small files at startup, because it uses every core.
pub fn parallel_map<T: Sync, R: Send>(items: &[T], transform: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = items.len().div_ceil(cores).max(1);
    let ask = &transform;
    thread::scope(|scope| {
        let workers: Vec<_> = items
            .chunks(share)
            .map(|share| scope.spawn(move || share.iter().map(ask).collect::<Vec<_>>()))
            .collect();
        let mut answers = Vec::with_capacity(items.len());
        for worker in workers {
            answers.extend(worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        answers
    })
}

#[cfg(test)]
mod tests {
    use super::parallel_map;

    #[test]
    fn parallel_map_returns_results_in_item_order() {
        for count in [0, 1, 2, 7, 1000] {
            let items: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
            assert_eq!(parallel_map(&items, |item| item * 2), doubled);
        }
    }
}
