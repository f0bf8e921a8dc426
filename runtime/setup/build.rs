//! Computes a fingerprint of the code that prepares sandboxes. Cached verdicts with another
//! fingerprint are not reused.

#[path = "../fingerprint.rs"]
mod fingerprint;

fn main() {
    fingerprint::fingerprint(
        "PREPARATION",
        &[
            "src",
            "../../configs/tables/leak-check.toml",
            "../patch/src",
            "../../sandboxes/api/src",
            "../../sandboxes/clock/library",
            "../../sandboxes/host/src",
        ],
    );
}
