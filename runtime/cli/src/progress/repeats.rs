//! Tracks errors that were already printed.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use proctor_report::error_key;
use proctor_types::count_with_noun;

/// The errors printed so far, by [`error_key`].
static PRINTED_ERRORS: Mutex<BTreeMap<String, PrintedError>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct PrintedError {
    /// Where the error first occurred.
    first_source: String,
    count: usize,
}

/// Returns the error itself the first time. After that, returns its kind, where it first occurred,
/// and how often it has occurred.
pub fn shorten_repeated(source: &str, error: &str) -> String {
    let mut printed = PRINTED_ERRORS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = printed
        .entry(error_key(error))
        .and_modify(|known| known.count += 1)
        .or_insert_with(|| PrintedError { first_source: source.to_owned(), count: 1 });
    match known.count {
        1 => error.to_owned(),
        times => format_repeated(error, &known.first_source, times),
    }
}

/// Returns a reference to an error that was already printed. Unlike [`shorten_repeated`], does not
/// count another occurrence.
pub fn refer_to_printed(error: &str) -> String {
    let printed = PRINTED_ERRORS.lock().unwrap_or_else(PoisonError::into_inner);
    match printed.get(&error_key(error)) {
        Some(known) => format_repeated(error, &known.first_source, known.count),
        None => error.to_owned(),
    }
}

fn format_repeated(error: &str, first_source: &str, count: usize) -> String {
    let kind = error.split_once(": ").map_or("", |(kind, _)| kind);
    let kind = if kind.is_empty() { String::new() } else { format!("{kind}: ") };
    format!("{kind}same error as {first_source} ({} so far)", count_with_noun(count, "time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorten_repeated_keeps_the_first_error_and_counts_later_ones() {
        let error = "model fault: only in this test: status 401";
        assert_eq!(refer_to_printed(error), error);
        assert_eq!(shorten_repeated("t a", error), error);
        assert_eq!(
            shorten_repeated("t b", error),
            "model fault: same error as t a (2 times so far)"
        );
        assert_eq!(refer_to_printed(error), "model fault: same error as t a (2 times so far)");
        assert_eq!(shorten_repeated("t b", "another of this test"), "another of this test");
        assert_eq!(
            shorten_repeated("t c", "another of this test"),
            "same error as t b (2 times so far)"
        );
    }
}
