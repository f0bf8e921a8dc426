//! Detects test files with the same rule as SWE-bench's retrieval.

/// Returns whether one of the words in the path is `test`, `tests`, `e2e` or `testing`. Only whole
/// words count, so `contest/latest.py` is not a test. (FEA-Bench's own prompts nevertheless omit
/// that file.)
///
/// ```
/// use proctor_retrieval::is_test;
/// assert!(is_test("pkg/tests/a.py") && is_test("test_a.py"));
/// assert!(!is_test("contest/latest.py") && !is_test("checkpointing.py"));
/// ```
pub fn is_test(path: &str) -> bool {
    let words = path.split([' ', '_', '/', '.', '-']);
    words
        .map(str::to_lowercase)
        .any(|word| matches!(word.as_str(), "test" | "tests" | "e2e" | "testing"))
}
