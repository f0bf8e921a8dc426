//! Tests real agents whose endpoint has problems or whose token budget is used up. By default, two
//! agents run. `PROCTOR_TIER=full` or `PROCTOR_AGENTS=all` runs all of them, and the endpoint is
//! then silent for 60 s.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};
use toml::{Table, toml};

use super::{
    memory,
    real_agents::{arm_rows, load_comparison, should_run_all},
};
use crate::stage::{Stage, events};

/// How long the endpoint is silent: longer than the gateway lets any client wait for response
/// headers (`configs/tables/gateway-server.toml`).
const SILENCE_SECONDS: f64 = 25.0;
/// How long the endpoint is silent if all agents are run.
const FULL_SILENCE_SECONDS: f64 = 60.0;
const KEY: &str = "sk-planted-5d1c0a7be94f42d3";
const STEP_TOKENS: u64 = 120;

/// Endpoint problems that the model's second response is replaced with.
fn fault_responses() -> BTreeMap<&'static str, Value> {
    let silence = if should_run_all() { FULL_SILENCE_SECONDS } else { SILENCE_SECONDS };
    BTreeMap::from([
        (
            "storm",
            json!({"fault": [{"kind": "status", "status": 429, "retry_after": "1", "times": 6}]}),
        ),
        ("cut", json!({"fault": [{"kind": "truncate", "times": 1}]})),
        ("silence", json!({"delay_seconds": silence})),
        ("tokens", json!({})),
    ])
}

/// Plans one run of the comparison's arms for each problem. The run's script contains the problem.
fn plan_fault_run(
    stage: &Stage,
    runtime: &tokio::runtime::Runtime,
) -> (FakeLlm, String, Vec<String>) {
    let (mut config, mut script) = load_comparison("native");
    let arms = config["arms"].as_array().unwrap().clone();
    let conversations = script["conversation"].as_array().unwrap().clone();
    let (mut all_arms, mut all_talks) = (Vec::new(), Vec::new());
    for arm in &arms {
        let agent = arm["scaffold"].as_str().unwrap();
        let of = |talk: &&toml::Value| talk["model"].as_str() == arm["model"].as_str();
        let talk = conversations.iter().find(of).unwrap();
        for (trouble, change) in fault_responses() {
            let name = format!("{agent}-{trouble}");
            let (mut arm, mut talk) =
                (arm.as_table().unwrap().clone(), talk.as_table().unwrap().clone());
            arm.insert("name".into(), name.clone().into());
            arm.insert("model".into(), name.clone().into());
            if trouble == "tokens" {
                arm.insert("budget".into(), toml! { total_tokens = 360 }.into());
            }
            talk.insert("model".into(), name.into());
            for (at, turn) in talk["turn"].as_array_mut().unwrap().iter_mut().enumerate() {
                let turn = turn.as_table_mut().unwrap();
                turn.insert(
                    "usage".into(),
                    toml! { input = 100
                    output = 20 }
                    .into(),
                );
                if at == 1 {
                    turn.extend(Table::try_from(change.clone()).unwrap());
                }
            }
            all_arms.push(arm);
            all_talks.push(talk);
        }
    }
    script.insert("conversation".into(), all_talks.into());
    let script = stage.write_file("script.toml", &toml::to_string(&script).unwrap());
    let fake = runtime.block_on(FakeLlm::start(Script::load(&script).unwrap())).unwrap();
    let names: Vec<String> =
        all_arms.iter().map(|arm| arm["name"].as_str().unwrap().to_owned()).collect();
    let model = |name: &String| {
        let mut model = toml! { key_env = "PLANTED_KEY"
        price = { input = 0.0, output = 0.0 } };
        model.insert("base_url".into(), fake.base_url().into());
        model.insert("name".into(), name.clone().into());
        (name.clone(), toml::Value::from(model))
    };
    config.insert("models".into(), Table::from_iter(names.iter().map(model)).into());
    config.insert("arms".into(), all_arms.into());
    let config = stage.write_file("trouble.toml", &toml::to_string(&config).unwrap());
    (fake, config.display().to_string(), names)
}

#[test]
fn real_agents_survive_endpoint_faults_without_access_to_the_key() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stage = Stage::new();
    let (fake, config, names) = plan_fault_run(&stage, &runtime);
    let out = stage.path("run");
    let over = AtomicBool::new(false);
    let (output, seen) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| memory::watch_agents(KEY, &|| over.load(Ordering::Relaxed)));
        let args = ["run", &config, "--out", out.to_str().unwrap()];
        let output = stage.proctor(args).env("PLANTED_KEY", KEY).output().unwrap();
        over.store(true, Ordering::Relaxed);
        (output, looking.join().unwrap())
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let sent = fake.requests();
    assert!(
        sent.iter().any(|one| one.authorization.as_deref().is_some_and(|key| key.contains(KEY)))
    );

    let mut wrong = Vec::new();
    for (name, (row, journal)) in names.iter().zip(arm_rows(&stage, &out, &names)) {
        let (_, trouble) = name.rsplit_once('-').unwrap();
        if let Err(why) = check_survived(trouble, &row, &journal) {
            wrong.push(format!("{name}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{said}", wrong.join("\n"));

    for name in &names {
        let (agent, _) = name.rsplit_once('-').unwrap();
        let looks =
            seen.get(agent).unwrap_or_else(|| panic!("no process of {agent} was read: {seen:?}"));
        assert!(
            looks.searched_processes > 0,
            "{agent}: its memory could not be searched: {looks:?}"
        );
        assert_eq!(looks.key_places, [] as [String; 0], "{agent}");
    }
}

fn check_survived(problem: &str, row: &Value, journal: &Path) -> Result<(), String> {
    let answered = events(journal, "model_answered").len();
    let served = events(journal, "request_served");
    let with = |status: u64| served.iter().filter(|one| one["status"] == status).count();
    let (outcome, answers) = match problem {
        "tokens" => ("budget_total_tokens", 3),
        _ => ("submitted", 4),
    };
    if row["outcome"] != outcome || row["resolved"] != true || answered != answers {
        return Err(format!("{answered} answers, {}", row));
    }
    if problem == "tokens" {
        let refused =
            served.iter().find(|one| one["status"] == 402).ok_or("no request was refused")?;
        let at = |event: &Value| event["t_mono"].as_f64().unwrap();
        let took = at(&events(journal, "patch_collected")[0]) - at(refused);
        if with(200) != 3 || took >= 5.0 {
            return Err(format!("{} responses, took {took} s to end", with(200)));
        }
        let tokens: u64 = row["tokens"]["input"].as_u64().unwrap_or(0);
        if tokens > 3 * STEP_TOKENS {
            return Err(format!("{tokens} input tokens"));
        }
    }
    Ok(())
}
