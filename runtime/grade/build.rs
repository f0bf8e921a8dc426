//! Computes the grader's fingerprint, so that cached verdicts of a different grader are never
//! reused.

#[path = "../fingerprint.rs"]
mod fingerprint;

fn main() {
    // All sources that affect a verdict, besides the task, the patch, the environment and its
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
            "../../configs/tables/grading.toml",
            "../../configs/tables/harbor.toml",
            "../../configs/tables/screening.toml",
            "../../configs/benchmarks",
        ],
    );
}
