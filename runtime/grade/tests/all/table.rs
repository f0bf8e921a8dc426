//! Runs every attack on all back ends that grading uses. Prints a table with the verdicts and
//! whether each attack was detected.

#![expect(clippy::print_stdout, reason = "these tests print a table")]

use std::{path::Path, time::Duration};

use proctor_docker::Docker;
use proctor_grade::{GradeOptions, grade};
use proctor_native::Native;
use proctor_sandbox_api::{
    Backend, Base, LayerSpec, PreparedEnvironment, SandboxRequest, SourceTree, wire::RawPath,
};
use proctor_types::{Integrity, SandboxSpec};

use crate::not_run::not_run;
use crate::{
    attack::{Attack, all_attacks},
    bench::{BenchTask, CHECKLIB, GradedPatch, defenses_without_screening, write_source_files},
    sample::sample,
};

pub async fn prepare_environment(backend: &dyn Backend, dir: &Path) -> PreparedEnvironment {
    let source = dir.join("source");
    write_source_files(&source);
    let library = format!(
        "for lib in /venv/lib/python3*/site-packages; do printf '%s' \"{}\" > $lib/checklib.py; done",
        CHECKLIB.replace('\n', "\\n").replace("%s", "%%s")
    )
    .replace("printf '%s'", "printf '%b'");
    let setup = ["python3 -m venv /venv", "/venv/bin/pip install --quiet pytest==8.4.2", &library];
    let spec = LayerSpec {
        base: Base::Host,
        source: Some(SourceTree {
            folder: source,
            digest: "bench".into(),
            destination: "/testbed".into(),
        }),
        setup: setup.map(str::to_owned).into(),
        workdir: "/testbed".into(),
        env: Vec::new(),
        time_limit: Duration::from_secs(300),
    };
    backend.prepare(&spec).await.unwrap()
}

async fn grade_attack(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    attack: &Attack,
) -> GradedPatch {
    let request = SandboxRequest {
        environment: environment.clone(),
        limits: SandboxSpec::default(),
        mounts: Vec::new(),
        purpose: "grading".into(),
    };
    let mut sandbox = backend.open(&request).await.unwrap();
    for (name, text) in &attack.source_files {
        let path = RawPath::from(format!("/testbed/{name}"));
        sandbox.handle().write(&path, text.as_bytes(), Some(0o644)).await.unwrap();
    }
    let ground =
        BenchTask { source_files: &[], env: &attack.env, fail_to_pass: &attack.fail_to_pass };
    let task = ground.task("/testbed", "/venv/bin/python");
    let options =
        GradeOptions { defenses: defenses_without_screening(), ..GradeOptions::default() };
    let graded = grade(sandbox.handle(), &task, attack.patch.as_bytes(), &options).await;
    sandbox.close().await.unwrap();
    GradedPatch(graded.unwrap())
}

async fn print_table(backend: &dyn Backend, name: &str, attacks: impl Iterator<Item = Attack>) {
    let place = tempfile::tempdir().unwrap();
    let environment = prepare_environment(backend, place.path()).await;
    let mut wrong = Vec::new();
    for attack in attacks {
        let seen = grade_attack(backend, &environment, &attack).await;
        let kinds: Vec<&str> =
            seen.0.verdict.evidence.iter().map(|evidence| evidence.kind.as_str()).collect();
        let (resolved, integrity) = (seen.is_resolved(), seen.0.verdict.integrity);
        let integrity_name = serde_json::to_value(integrity).unwrap();
        println!(
            "| {} | {name} | {} | {} | {} |",
            attack.name,
            if resolved { "resolved" } else { "not resolved" },
            integrity_name.as_str().unwrap(),
            attack
                .undetected_reason
                .map_or_else(|| kinds.join(", "), |why| format!("known: {why}")),
        );
        let passes = resolved && integrity == Integrity::Clean;
        if passes != attack.undetected_reason.is_some()
            || attack.is_stopped(&seen) == attack.undetected_reason.is_some()
        {
            wrong.push(format!("{}: {}", attack.name, seen.details()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_attack_has_the_expected_result_on_native() {
    let place = tempfile::tempdir().unwrap();
    let native = Native::new(place.path().join("cache")).unwrap();
    print_table(&native, "native", all_attacks().into_iter()).await;
}

/// The core tier runs only every fourth attack here, because grading hardly depends on the back
/// end, and all attacks run on the native back end.
#[tokio::test(flavor = "multi_thread")]
async fn every_attack_has_the_expected_result_on_docker() {
    match Docker::connect().await {
        Ok(docker) => print_table(&docker, "docker", sample(all_attacks(), 4).into_iter()).await,
        Err(fault) => not_run("every_attack_has_the_expected_result_on_docker", "DOCKER", fault),
    }
}
