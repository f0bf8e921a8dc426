//! Tests two real clients with an endpoint that supports only Chat Completions. The model calls a
//! tool that writes a file, and then ends the task. The clients run on the host with their own home
//! directory and a minimal environment.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use proctor_gateway::{GatewayServer, RequestRules};
use proctor_types::{Api, Budget};

use super::install::{install_once, installation_or_skip, npm_command, run_command};
use crate::common::{Bench, KEY};

const TASK: &str = "Create a file hello.txt containing hello.";

/// Versions are pinned: newer ones may require another version of Node, and npm would silently
/// install an older package.
const PACKAGES: [&str; 2] = ["@openai/codex@0.169.0", "@anthropic-ai/claude-code@2.1.329"];

const CODEX_CONFIG: &str = include_str!("codex.toml");

fn install_packages() -> &'static Result<PathBuf, String> {
    static INSTALLED_PACKAGES: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    INSTALLED_PACKAGES.get_or_init(|| {
        let home = install_once("clis-1", |home| {
            std::fs::create_dir_all(home).map_err(|error| error.to_string())?;
            // Each package has a single program in a platform package. The install scripts only
            // move that program.
            let quiet = ["--no-audit", "--no-fund", "--ignore-scripts"];
            let mut npm = npm_command()?;
            run_command(npm.args(["install", "--prefix"]).arg(home).args(quiet).args(PACKAGES))
        })?;
        Ok(home.join("node_modules"))
    })
}

/// Returns the program in a platform's package.
fn program_path(modules: &Path, scope: &str, name: &str) -> PathBuf {
    let pattern = format!("{}/{scope}/**/{name}", modules.display());
    let found = glob::glob(&pattern).expect("a pattern").filter_map(Result::ok);
    let mut found = found.filter(|path| {
        let size = path.metadata().map_or(0, |meta| if meta.is_file() { meta.len() } else { 0 });
        size > 50_000_000
    });
    found.next().expect("the package contains its program")
}

struct CliRun {
    bench: Bench,
    succeeded: bool,
    output: String,
    file_content: Option<String>,
    seconds: f64,
}

/// Runs a program to its end with an endpoint that calls `tool` and then finishes.
async fn run_cli(
    steps: u64,
    call: &str,
    command: impl FnOnce(&Path, &str, &str) -> tokio::process::Command,
) -> CliRun {
    let script = format!(
        "[[conversation]]\nwhen = \"hello.txt\"\n\
         [[conversation.turn]]\ncontent = \"I write it.\"\ntool_calls = [{call}]\n\
         [[conversation.turn]]\ncontent = \"Done.\"\n"
    );
    let budget = Budget { steps: Some(steps), ..Budget::default() };
    let bench = Bench::new(&script, budget).await;
    let server =
        GatewayServer::new(bench.trial.clone(), RequestRules::default()).expect("a server");
    let listening = server.listen().await.expect("a free port");
    let handle = tempfile::tempdir().expect("a folder");
    for folder in ["home", "work"] {
        std::fs::create_dir(handle.path().join(folder)).expect("a folder");
    }
    let mut command = command(handle.path(), &listening.url(), server.token());
    let begun = std::time::Instant::now();
    let output = command
        .current_dir(handle.path().join("work"))
        .env("HOME", handle.path().join("home"))
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("SHELL", "/bin/bash")
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(120), output).await;
    let output = output.expect("it ends in time").expect("it starts");
    let printed = [output.stdout, output.stderr].concat();
    CliRun {
        succeeded: output.status.success(),
        output: String::from_utf8_lossy(&printed).into_owned(),
        file_content: std::fs::read_to_string(handle.path().join("work/hello.txt")).ok(),
        seconds: begun.elapsed().as_secs_f64(),
        bench,
    }
}

fn codex_command(program: &Path, dir: &Path, url: &str, token: &str) -> tokio::process::Command {
    let home = dir.join("codex");
    std::fs::create_dir(&home).expect("a folder");
    std::fs::write(home.join("config.toml"), CODEX_CONFIG.replace("@URL@", url)).expect("a file");
    let mut command = tokio::process::Command::new(program);
    command.env_clear().env("CODEX_HOME", home).env("GW_KEY", token);
    let open = "--dangerously-bypass-approvals-and-sandbox";
    command.args(["exec", "--json", "--skip-git-repo-check", open, TASK]);
    command
}

fn claude_command(program: &Path, dir: &Path, url: &str, token: &str) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    command.env_clear().env("ANTHROPIC_BASE_URL", url).env("ANTHROPIC_API_KEY", token);
    command.env("CLAUDE_CONFIG_DIR", dir.join("claude"));
    for (name, value) in [
        ("IS_SANDBOX", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "0"),
    ] {
        command.env(name, value);
    }
    command.args(["-p", TASK, "--model", "my-model", "--output-format", "stream-json"]);
    command.args(["--verbose", "--dangerously-skip-permissions"]);
    command
}

const CODEX_CALL: &str =
    r#"{ name = "exec_command", arguments = { cmd = "echo hello > hello.txt" } }"#;
const CLAUDE_CALL: &str = r#"{ name = "Bash", arguments = { command = "echo hello > hello.txt", description = "write" } }"#;

/// Checks that the file exists, that there were two steps, and that all requests used Chat
/// Completions.
fn check_completed(cli_run: &CliRun, client: Api) {
    assert!(cli_run.succeeded, "{}", cli_run.output);
    assert_eq!(cli_run.file_content.as_deref(), Some("hello\n"), "{}", cli_run.output);
    let served = cli_run.bench.served_requests();
    let said = served.iter().map(|one| (one.client, one.upstream, one.status, one.is_delivered));
    assert_eq!(said.collect::<Vec<_>>(), [(client, Api::Chat, 200, true); 2]);
    assert_eq!(cli_run.bench.trial.spending().steps, 2);
    let requests = cli_run.bench.server.requests();
    assert!(requests.iter().all(|one| one.path == "/v1/chat/completions"));
    assert!(!served[0].losses.is_empty(), "translation losses are recorded");
    assert!(!cli_run.output.contains(KEY) && !format!("{served:?}").contains(KEY));
}

/// Checks that the client ended after one rejected request.
fn check_stopped(cli_run: &CliRun) {
    assert!(!cli_run.succeeded, "{}", cli_run.output);
    let statuses: Vec<_> = cli_run.bench.served_requests().iter().map(|one| one.status).collect();
    assert_eq!(statuses, [200, 402], "{}", cli_run.output);
    assert_eq!(cli_run.file_content.as_deref(), Some("hello\n"), "earlier work is kept");
    assert!(cli_run.seconds < 60.0, "{} s", cli_run.seconds);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_completes_a_task_over_chat_and_stops_at_the_budget() {
    let test = "codex_completes_a_task_over_chat_and_stops_at_the_budget";
    let Some(modules) = installation_or_skip(test, install_packages()) else { return };
    let program = program_path(modules, "@openai", "codex");
    let start = |handle: &Path, url: &str, token: &str| codex_command(&program, handle, url, token);
    check_completed(&run_cli(9, CODEX_CALL, start).await, Api::Responses);
    check_stopped(&run_cli(1, CODEX_CALL, start).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_completes_a_task_over_chat_and_stops_at_the_budget() {
    let test = "claude_code_completes_a_task_over_chat_and_stops_at_the_budget";
    let Some(modules) = installation_or_skip(test, install_packages()) else { return };
    let program = program_path(modules, "@anthropic-ai", "claude");
    let start =
        |handle: &Path, url: &str, token: &str| claude_command(&program, handle, url, token);
    check_completed(&run_cli(9, CLAUDE_CALL, start).await, Api::Messages);
    check_stopped(&run_cli(1, CLAUDE_CALL, start).await);
}
