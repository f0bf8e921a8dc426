//! Names the grader: a verdict that another grader gave is never taken for one of this.

#[path = "../fingerprint.rs"]
mod fingerprint;

fn main() {
    // What a verdict depends on besides the task, the patch, the environment and its preparation.
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
