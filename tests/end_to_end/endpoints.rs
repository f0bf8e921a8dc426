//! Runs the cases in `tests/endpoints`. Each case is a model server that, from the second request
//! on, validates requests as real services do.

use std::{path::Path, process::Command};

use crate::tier;

#[test]
fn strict_endpoints_accept_requests_and_their_rejections_are_not_scored() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/endpoints");
    let work = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.arg(folder.join("run.py")).arg("--work").arg(work.path().join("cases"));
    command.args(if tier::is_full() { ["--full", "--every=1"] } else { ["--every=4", "--jobs=3"] });
    let done = command.env("PROCTOR", env!("CARGO_BIN_EXE_proctor")).output().unwrap();
    let (out, errors) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    print!("{out}{errors}");
    assert!(done.status.success(), "{out}{errors}");
}
