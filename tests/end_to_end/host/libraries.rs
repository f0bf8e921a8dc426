//! Tests the examples in the documentation that need libraries: agents for the scaffolds `acp` and
//! `mcp` that use the official Python SDKs, and mini-swe-agent with its loop outside the task's
//! sandbox.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde_json::Value;

use super::process::{ArmRecord, base_config};
use crate::{
    not_run::not_run,
    stage::{Stage, has_docker, repository_root},
};

const PACKAGES: [&str; 12] = [
    "agent-client-protocol==0.12.1",
    "mcp==2.3.0",
    "openai>=2,<3",
    // The dependencies of mini-swe-agent, except litellm.
    "jinja2",
    "pydantic",
    "pyyaml",
    "platformdirs",
    "python-dotenv",
    "requests",
    "rich",
    "tenacity",
    "typer",
];

/// Returns a folder that contains the examples and their libraries (94 MB). It is created once,
/// next to other clients, and all tests share it.
fn example_program() -> &'static Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let given = std::env::var_os("PROCTOR_CLIENTS_DIR").map(PathBuf::from);
        let clients = given.unwrap_or_else(|| std::env::temp_dir().join("proctor-clients"));
        let place = clients.join("host-2");
        fs::create_dir_all(&clients).map_err(|error| error.to_string())?;
        if !place.is_dir() {
            install_examples(&clients, &place)?;
        }
        for file in ["acp_agent.py", "mcp_agent.py", "mini_swe_agent.py"] {
            let text =
                fs::read(repository_root().join("scaffolds/host/examples").join(file)).unwrap();
            if fs::read(place.join(file)).ok().as_ref() != Some(&text) {
                fs::write(place.join(file), text).map_err(|error| error.to_string())?;
            }
        }
        Ok(place)
    })
}

fn install_examples(clients: &Path, folder: &Path) -> Result<(), String> {
    // Create the folder under a temporary name, so that an interrupted test does not leave an
    // incomplete folder under the final name.
    let making = tempfile::tempdir_in(clients).map_err(|error| error.to_string())?;
    let run = |command: &mut Command| match command.output() {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    };
    // Use the same interpreter as in the agent's sandbox.
    let (venv, made) = (making.path().join("venv"), making.path().join("program"));
    run(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&venv))?;
    let install = |packages: &[&str]| {
        let mut pip = Command::new(venv.join("bin/pip"));
        run(pip.args(["install", "-q", "--target"]).arg(made.join("lib")).args(packages))
    };
    install(&PACKAGES)?;
    install(&["--no-deps", "mini-swe-agent==2.4.6"])?;
    // Another process may have created the folder already.
    match fs::rename(&made, folder) {
        Err(error) if !folder.is_dir() => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Runs examples on one back end. Each arm is a name, a scaffold, a model and a budget. Returns
/// `None` if the test cannot run.
fn run(test_name: &str, kind: &str, arms: &[(&str, &str, &str, &str)]) -> Option<(Stage, PathBuf)> {
    let program = match example_program() {
        Ok(program) => program.display(),
        Err(why) => {
            not_run(test_name, "CLIENTS", why);
            return None;
        }
    };
    let stage = Stage::new();
    let mut text = base_config(&stage, kind, &["solves", "submits", "mini", "empty", "goes-on"]);
    for (name, scaffold, model, budget) in arms {
        let file = if *scaffold == "process" { "mini_swe" } else { scaffold };
        text += &format!(
            "[[arms]]\nname = \"{name}\"\nscaffold = \"{scaffold}\"\nmodel = \"{model}\"\n\
             budget = {{ {budget} }}\n[arms.settings]\nprogram = \"{program}\"\nidle_seconds = 60\n\
             command = [\"/usr/bin/python3\", \"/agent/{file}_agent.py\"]\n"
        );
    }
    let config = stage.write_file("run.toml", &text);
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    Some((stage, out))
}

fn check_solved(test_name: &str, kind: &str) {
    let arms = [
        ("acp", "acp", "solves", "steps = 20"),
        ("mcp", "mcp", "solves", "steps = 20"),
        ("by submit", "mcp", "submits", "steps = 20"),
        ("mini", "process", "mini", "steps = 20"),
    ];
    let Some((stage, out)) = run(test_name, kind, &arms) else { return };
    for (arm, steps, calls) in [("acp", 3, 2), ("mcp", 3, 2), ("by submit", 2, 2), ("mini", 3, 3)] {
        let seen = ArmRecord::read(&stage, &out, arm);
        assert_eq!(seen.row["outcome"], "submitted", "{arm}: {:#}", seen.row);
        assert_eq!(seen.row["resolved"], true, "{arm}: {:#}", seen.row);
        assert_eq!(
            (seen.row["steps"].as_u64(), seen.response_count()),
            (Some(steps), steps as usize)
        );
        // A command in the task's sandbox is recorded once, with its result.
        let (called, returned) =
            (seen.events_of_kind("tool_called"), seen.events_of_kind("tool_returned"));
        assert_eq!((called.len(), returned.len()), (calls, calls), "{arm}: {called:#?}");
        assert_eq!(returned[0]["exit_status"], 0, "{arm}: {returned:#?}");
        // If an agent calls the model itself, every request goes through the gateway's server.
        let served = if arm == "mini" { 0 } else { steps };
        // If the program was ended by a submission, it did not get a response that was in flight.
        let requests = seen.events_of_kind("request_served").into_iter();
        let delivered = requests.filter(|one| one["delivered"] == true).count();
        assert_eq!(delivered as u64, served, "{arm}");
    }
    let acp = ArmRecord::read(&stage, &out, "acp");
    let shown = |key: &str| {
        let noted = acp.events_of_kind("noted").into_iter();
        let found = noted.map(|event| event["note"]["agent_showed"][key].clone());
        found.filter(|one| !one.is_null()).collect::<Vec<Value>>()
    };
    assert_eq!(shown("permission").len(), 2, "each command needed a permission");
    assert_eq!(shown("toolCallId").len(), 2);
    assert_eq!(shown("message").last().unwrap(), "Done.");
}

#[test]
fn acp_agent_and_mcp_client_solve_the_task() {
    check_solved("acp_agent_and_mcp_client_solve_the_task", "native");
}

#[test]
fn docker_acp_agent_and_mcp_client_solve_the_task() {
    let test = "docker_acp_agent_and_mcp_client_solve_the_task";
    if has_docker(test) {
        check_solved(test, "docker");
    }
}

/// Each scaffold gets as many responses as the limit allows. The agent exits soon afterwards, and
/// its work up to then is graded.
#[test]
fn limit_ends_an_acp_agent_and_an_mcp_client() {
    let arms = [
        ("acp", "acp", "goes-on", "steps = 3"),
        ("mcp", "mcp", "goes-on", "steps = 3"),
        ("acp empty", "acp", "empty", "steps = 3"),
    ];
    let test = "limit_ends_an_acp_agent_and_an_mcp_client";
    let Some((stage, out)) = run(test, "native", &arms) else { return };
    for arm in ["acp", "mcp"] {
        let seen = ArmRecord::read(&stage, &out, arm);
        assert_eq!(seen.row["outcome"], "budget_steps", "{arm}: {:#}", seen.row);
        assert_eq!(seen.response_count(), 3, "{arm}");
        // The commands in step 3 ran. No command ran after the rejection.
        assert_eq!(seen.read_file("patch.diff").matches("+one").count(), 3, "{arm}");
        let at = |event: &Value| event["t_mono"].as_f64().unwrap();
        let refused = seen.events_of_kind("request_served");
        let refused = refused.iter().find(|one| one["status"] == 402).unwrap();
        let took = at(seen.events_of_kind("patch_collected")[0]) - at(refused);
        assert!(took < 5.0, "{arm} took {took} s to end");
    }
    let empty = ArmRecord::read(&stage, &out, "acp empty");
    assert_eq!(empty.row["outcome"], "scaffold_exited", "{:#}", empty.row);
    assert!(
        empty.read_file("outcome.json").contains("empty_turn"),
        "{}",
        empty.read_file("outcome.json")
    );
}
