//! Runs the official `openai` Python package against the `fake-llm` binary.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use crate::not_run::not_run;

/// Environment variable with the path of a Python interpreter that has the `openai` package.
const PYTHON_VARIABLE: &str = "PROCTOR_OPENAI_PYTHON";

#[test]
fn official_python_client_accepts_the_wire_format() {
    let Some(python) = std::env::var_os(PYTHON_VARIABLE) else {
        let why = format!("{PYTHON_VARIABLE} is not set");
        return not_run("official_python_client_accepts_the_wire_format", "CLIENTS", why);
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut server = Command::new(env!("CARGO_BIN_EXE_fake-llm"))
        .arg(here.join("check_script.toml"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut url = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut url).expect("a line");
    let checked = Command::new(python)
        .arg(here.join("check_openai_client.py"))
        .arg(url.trim())
        .env("NO_PROXY", "127.0.0.1")
        .output();
    server.kill().expect("the server still runs");
    server.wait().expect("it ends");
    let checked = checked.expect("the interpreter starts");
    assert!(
        checked.status.success(),
        "{}{}",
        String::from_utf8_lossy(&checked.stdout),
        String::from_utf8_lossy(&checked.stderr)
    );
}
