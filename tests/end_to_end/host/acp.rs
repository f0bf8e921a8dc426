//! Tests the scaffold `acp` with an agent that uses no libraries: it is cancelled at a limit, and
//! it sends side requests.

use std::fs;

use super::process::{ArmRecord, base_config};
use crate::stage::{Stage, repository_root};

#[test]
fn acp_agent_is_cancelled_and_title_requests_are_not_steps() {
    let stage = Stage::new();
    let agent = repository_root().join("tests/end_to_end/host/acp_agent.py");
    fs::copy(agent, stage.path("agent.py")).unwrap();
    let mut text = base_config(&stage, "native", &["says"]);
    for (name, budget, requests) in [
        ("waits", "wall_seconds = 20", ""),
        ("titles", "steps = 1", "requests.rules = [{ class = \"side\", tools = false }]"),
        ("all main", "steps = 1", ""),
    ] {
        let mode = if name == "waits" { "waits" } else { "titles" };
        text += &format!(
            "[[arms]]\nname = \"{name}\"\nscaffold = \"acp\"\nmodel = \"says\"\nbudget = {{ {budget} }}\n\
             [arms.settings]\nprogram = \"agent.py\"\nmode = \"{mode}\"\n{requests}\n\
             command = [\"/usr/bin/python3\", \"/agent/agent.py\"]\n"
        );
    }
    let config = stage.write_file("run.toml", &text);
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);

    let waits = ArmRecord::read(&stage, &out, "waits");
    assert_eq!(waits.row["outcome"], "budget_wall", "{:#}", waits.row);
    assert_eq!(waits.read_file("scaffold/stderr.log").trim(), "told: session/cancel one");

    let classes = |arm: &str| {
        let seen = ArmRecord::read(&stage, &out, arm);
        let served = seen.events_of_kind("request_served").into_iter();
        let served = served.map(|one| (one["class"].to_string(), one["status"].to_string()));
        (seen.row["outcome"].to_string(), seen.response_count(), served.collect::<Vec<_>>())
    };
    let of = |class: &str, status: u16| (format!("\"{class}\""), status.to_string());
    let expected = ("\"submitted\"".to_owned(), 1, vec![of("side", 200), of("main", 200)]);
    assert_eq!(classes("titles"), expected);
    // Without rules, the request for a title is the only step, and the conversation itself is
    // rejected.
    let expected = ("\"budget_steps\"".to_owned(), 1, vec![of("main", 200), of("main", 402)]);
    assert_eq!(classes("all main"), expected);
}
