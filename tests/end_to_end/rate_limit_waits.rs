//! Tests that a run reports waits for an endpoint while they last, and that the outcome of the
//! trial includes their total.

use fake_llm::{FakeLlm, Script};

use crate::stage::{Stage, find_arm};

/// A script whose first response takes a while. The second request is rejected once, with a delay
/// of two seconds before the retry.
const SCRIPT: &str = r#"
[[conversation]]
[[conversation.turn]]
delay_seconds = 2.5
tool_calls = [{ name = "shell", arguments = { command = "true" } }]
[[conversation.turn]]
fault = [{ kind = "status", status = 429, retry_after = "2" }]
tool_calls = [{ name = "submit", arguments = {} }]
"#;

#[test]
fn rate_limit_wait_is_shown_while_it_lasts() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script: Script = toml::from_str(SCRIPT).unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let stage = Stage::new();
    let url = fake.base_url();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\nattempts = 2\njobs = 2\n\
             [endpoints.fake]\nbase_url = \"{url}\"\nmax_concurrent = 1\n\
             [[arms]]\nname = \"waits\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{url}\"\nname = \"fake\"\n"
        ),
    );
    let out = stage.path("run");
    let done = stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let at =
        |part: &str| said.find(part).unwrap_or_else(|| panic!("{part:?} is missing in {said}"));
    // One trial waits until the other one is allowed to send its request. The wait is reported
    // while it lasts, and its total is reported afterwards.
    assert!(at("s for a rate limit or a shared limit") < at("s for the endpoint"), "{said}");
    assert!(said.contains("attempt 1 of 12: 429 the script says so; waiting 2 s"), "{said}");
    assert!(said.contains("submitted after 2 steps, "), "{said}");
    assert!(said.contains(", waited "), "{said}");

    let report = stage.report(&out);
    let waited: Vec<f64> = report["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["waited_seconds"].as_f64().unwrap())
        .collect();
    let longest = waited.iter().copied().fold(0.0, f64::max);
    assert!(longest >= 1.5, "{waited:?}");
    let total = find_arm(&report, "waits")["waited_seconds"]["total"].as_f64().unwrap();
    assert!((total - waited.iter().sum::<f64>()).abs() < 0.01, "{total} {waited:?}");
    let text = stage.run(["report", out.to_str().unwrap()], 0);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("s for the endpoint (not working time)"), "{text}");
}
