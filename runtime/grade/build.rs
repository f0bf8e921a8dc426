//! Computes the grader's fingerprint, so that a cached verdict of another grader is never reused.

#[path = "../fingerprint.rs"]
mod fingerprint;

fn main() {
    // Everything a verdict depends on besides the task, the patch, the environment and its
    // preparation.
    fingerprint::fingerprint(
        "GRADER",
        &[
            "src",
            "python",
            "../harbor/src",
            "../official/src",
            "../patch/src",
            "../screening/src",
            "../../configs/grading.toml",
            "../../configs/harbor.toml",
            "../../configs/screening.toml",
            "../../configs/benchmarks",
        ],
    );
}
