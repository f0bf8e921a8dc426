//! Fingerprints the code that prepares sandboxes. A verdict from a sandbox with a different
//! fingerprint is not reused.

#[path = "../fingerprint.rs"]
mod fingerprint;

fn main() {
    fingerprint::fingerprint(
        "PREPARATION",
        &[
            "src",
            "../../configs/leak-check.toml",
            "../patch/src",
            "../../sandboxes/api/src",
            "../../sandboxes/clock/library",
            "../../sandboxes/host/src",
        ],
    );
}
