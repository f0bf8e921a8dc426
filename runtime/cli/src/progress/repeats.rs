//! Tracks errors that were already printed.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use proctor_report::error_key;
use proctor_types::plural;

/// Printed errors, by key.
static PRINTED: Mutex<BTreeMap<String, Printed>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Printed {
    /// Where the error first occurred.
    by: String,
    times: usize,
}

/// Returns the error itself if it was not printed yet. Otherwise returns its kind, where it first
/// occurred, and the count.
pub fn brief(who: &str, error: &str) -> String {
    let mut printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = printed
        .entry(error_key(error))
        .and_modify(|known| known.times += 1)
        .or_insert_with(|| Printed { by: who.to_owned(), times: 1 });
    match known.times {
        1 => error.to_owned(),
        times => repeated(error, &known.by, times),
    }
}

/// Returns a reference to a printed error, for a message that is not another occurrence.
pub fn refer(error: &str) -> String {
    let printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    match printed.get(&error_key(error)) {
        Some(known) => repeated(error, &known.by, known.times),
        None => error.to_owned(),
    }
}

fn repeated(error: &str, by: &str, times: usize) -> String {
    let kind = error.split_once(": ").map_or("", |(kind, _)| kind);
    let kind = if kind.is_empty() { String::new() } else { format!("{kind}: ") };
    format!("{kind}same error as {by} ({} so far)", plural(times, "time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_prints_an_error_once_and_then_counts_it() {
        let error = "model fault: only in this test: status 401";
        assert_eq!(refer(error), error);
        assert_eq!(brief("t a", error), error);
        assert_eq!(brief("t b", error), "model fault: same error as t a (2 times so far)");
        assert_eq!(refer(error), "model fault: same error as t a (2 times so far)");
        assert_eq!(brief("t b", "another of this test"), "another of this test");
        assert_eq!(brief("t c", "another of this test"), "same error as t b (2 times so far)");
    }
}
