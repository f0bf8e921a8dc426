//! Tests attacks in containers. All attacks must fail, and some must succeed if their defenses are
//! disabled. Attacks that the engine itself prevents always fail.

#![expect(clippy::unwrap_used, reason = "a test's own helper may fail it")]

#[path = "../../../tests/not_run.rs"]
mod not_run;

use std::{process::Command as Process, time::Duration};

use not_run::not_run;
use proctor_conformance::{
    attacks::{attacks, run_attacks, run_expecting_success},
    find_unproven, print_results, render_results,
};
use proctor_docker::Docker;
use proctor_sandbox_api::{
    Backend, Base, LayerSpec, PreparedEnvironment,
    wire::{Defense, RawPath},
};

/// Attacks that succeed in an engine's default container, and Proctor's defenses against them.
const ATTACKS_BY_DEFENSE: [(&str, &[Defense]); 6] = [
    (
        "agent_memory_is_read",
        &[
            Defense::AgentIdentity,
            Defense::NotDumpable,
            Defense::KillCapability,
            Defense::SystemCalls,
        ],
    ),
    ("agent_settings_are_changed", &[Defense::AgentIdentity]),
    ("agent_user_is_taken_over", &[Defense::SystemCalls]),
    ("dangerous_system_calls_are_made", &[Defense::SystemCalls]),
    ("core_dumps_are_written", &[Defense::CoreDumps]),
    ("swarm_outlives_its_command", &[Defense::Eviction]),
];

async fn connect_or_skip(test_name: &str, disabled_defenses: &[Defense]) -> Option<Docker> {
    match Docker::connect_without_defenses(disabled_defenses).await {
        Ok(docker) => Some(docker),
        Err(fault) => {
            not_run(test_name, "DOCKER", fault);
            None
        }
    }
}

async fn prepare_environment(docker: &Docker) -> PreparedEnvironment {
    let spec = LayerSpec {
        base: Base::Host,
        source: None,
        setup: vec![],
        workdir: RawPath::from("/testbed"),
        env: vec![],
        time_limit: Duration::from_secs(120),
    };
    docker.prepare(&spec).await.unwrap()
}

/// Lists the containers of attacked sandboxes and their volumes. A Docker sandbox has no other
/// resources.
fn list_resources() -> Vec<String> {
    let listed = |args: &[&str]| {
        let output = Process::new("docker").args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = listed(&["ps", "-a", "--no-trunc", "--format", "{{.ID}} {{.Labels}}"]);
    let own = format!("{}", std::process::id());
    all.into_iter().filter(|line| line.contains("attack ") && line.contains(&own)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_attacks_are_withstood() {
    let Some(docker) = connect_or_skip("docker_attacks_are_withstood", &[]).await else { return };
    let environment = prepare_environment(&docker).await;
    let results = run_attacks(&docker, &environment, &list_resources).await;
    print_results("docker attack", &results);
    let attacks = attacks();
    assert!(attacks.len() >= 25, "{} attacks", attacks.len());
    // Up to three attacks may be skipped: an engine can limit neither inotify watches and
    // terminals, nor the number of files, nor, without quotas, disk space.
    let skips = if std::env::var_os("PROCTOR_REQUIRE_DOCKER").is_some() { 3 } else { usize::MAX };
    let missed = find_unproven(attacks.iter().map(|attack| attack.name), skips, &results);
    assert!(missed.is_empty(), "{missed:#?}\n{}", render_results(&results));
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_attacks_succeed_without_their_defenses() {
    let name = "docker_attacks_succeed_without_their_defenses";
    let all = attacks();
    let mut withstood = Vec::new();
    for (attack, without) in ATTACKS_BY_DEFENSE {
        let Some(docker) = connect_or_skip(name, without).await else { return };
        let environment = prepare_environment(&docker).await;
        let attack = all.iter().find(|known| known.name == attack).unwrap();
        if let Err(why) = run_expecting_success(&docker, &environment, attack).await {
            withstood.push(why);
        }
    }
    assert!(withstood.is_empty(), "{withstood:#?}");
}
