//! Fingerprints how sandboxes are prepared. A verdict from a sandbox that another preparation made
//! is not reused.

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
