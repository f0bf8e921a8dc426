//! Compares parsed `task.toml` files with the results from Harbor's own package
//! (`tests/harbor/configs.py`).

use std::{fs, path::Path};

use proctor_harbor::{Config, read_config};
use proctor_types::HarborNetwork;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Case {
    text: String,
    config: Option<Value>,
}

fn network(network: Option<&HarborNetwork>) -> Value {
    match network {
        None => Value::Null,
        Some(HarborNetwork::Public) => json!(["public", []]),
        Some(HarborNetwork::NoNetwork) => json!(["no-network", []]),
        Some(HarborNetwork::Allowlist(hosts)) => json!(["allowlist", hosts]),
    }
}

/// Returns the configuration in the same form in which the script writes it.
fn to_json(config: &Config) -> Value {
    json!({
        "name": config.name,
        "agent_seconds": config.agent.timeout_seconds,
        "agent_user": config.agent.user,
        "agent_network": network(config.agent.network.as_ref()),
        "verifier_seconds": config.verifier.timeout_seconds,
        "verifier_user": config.verifier.user,
        "verifier_network": network(config.verifier.network.as_ref()),
        "verifier_env": config.verifier.env,
        "network": network(Some(&config.environment.network)),
        "image": config.environment.image,
        "cpus": config.environment.cpus,
        "memory_mb": config.environment.memory_mb,
        "env": config.environment.env,
        "workdir": config.environment.workdir,
        "solution_env": config.solution_env,
        "separate": config.has_separate_verifier,
        "artifacts": config.artifacts,
    })
}

/// Compares numbers by value, so that 2 equals 2.0.
fn equal_values(first: &Value, second: &Value) -> bool {
    match (first, second) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| {
                    other.get(key).is_some_and(|found| equal_values(value, found))
                })
        }
        (one, other) => one == other,
    }
}

#[test]
fn configurations_match_harbors_package() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/harbor/configs.json");
    let cases: Vec<Case> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert!(cases.len() > 50);
    let mut wrong = Vec::new();
    for Case { text, config } in &cases {
        let parsed = read_config(text).map(|read| to_json(&read.config));
        let agrees = match (&parsed, config) {
            (Ok(found), Some(config)) => equal_values(found, config),
            (Err(mistakes), None) => !mistakes.is_empty(),
            _ => false,
        };
        if !agrees {
            wrong.push(format!("{text:?}: {parsed:?}, Harbor: {config:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
