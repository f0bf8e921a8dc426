//! Names the preparation of sandboxes: what was judged in a sandbox of another preparation is not taken for
//! what would be judged in one of this.

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
