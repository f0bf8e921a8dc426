//! Runs the bench in a native sandbox as used for trials: with namespaces, no network and a private
//! `/tmp`.

use std::{path::Path, time::Duration};

use proctor_grade::{GradeOptions, TestPlan, grade, run_tests};
use proctor_native::Native;
use proctor_sandbox_api::{
    Backend, Base, LayerSpec, PreparedEnvironment, Sandbox, SandboxRequest, SourceTree,
};
use proctor_types::{SandboxSpec, TestStatus};

use crate::{
    bench::{F2P, GradedPatch, P2P, gold, package_with_cheat, patch, task, write_source_files},
    results::forgery_code,
};

pub const PYTHON: &str = "/venv/bin/python";

pub async fn prepare_environment(backend: &dyn Backend, dir: &Path) -> PreparedEnvironment {
    prepare_environment_with(backend, dir, &[]).await
}

/// Like [`prepare_environment`], with additional files in the work directory.
pub async fn prepare_environment_with(
    backend: &dyn Backend,
    dir: &Path,
    files: &[(&str, &str)],
) -> PreparedEnvironment {
    let source = dir.join("source");
    write_source_files(&source);
    let mut digest = "bench".to_owned();
    for (path, text) in files {
        std::fs::write(source.join(path), text).unwrap();
        digest = format!("{digest}-{}", proctor_types::sha256_hex(text.as_bytes()));
    }
    let setup = ["python3 -m venv /venv", "/venv/bin/pip install --quiet pytest==8.4.2"];
    let spec = LayerSpec {
        base: Base::Host,
        source: Some(SourceTree { folder: source, digest, destination: "/testbed".into() }),
        setup: setup.map(str::to_owned).into(),
        workdir: "/testbed".into(),
        env: Vec::new(),
        time_limit: Duration::from_secs(300),
    };
    backend.prepare(&spec).await.unwrap()
}

async fn open(native: &Native, environment: &PreparedEnvironment) -> Box<dyn Sandbox> {
    let spec = SandboxRequest {
        environment: environment.clone(),
        limits: SandboxSpec::default(),
        mounts: Vec::new(),
        purpose: "grading".into(),
    };
    native.open(&spec).await.unwrap()
}

#[tokio::test]
async fn native_sandbox_grades_like_the_bench() {
    let place = tempfile::tempdir().unwrap();
    let native = Native::new(place.path().join("cache")).unwrap();
    let environment = prepare_environment(&native, place.path()).await;

    let task = task("/testbed", PYTHON, &[]);
    let forged = patch(&[("roman/__init__.py", Some(&package_with_cheat(&forgery_code())))]);
    for (patch, resolved, suspect) in
        [(gold(), true, false), (String::new(), false, false), (forged, false, true)]
    {
        let mut sandbox = open(&native, &environment).await;
        let graded =
            grade(sandbox.handle(), &task, patch.as_bytes(), &GradeOptions::default()).await;
        sandbox.close().await.unwrap();
        let seen = GradedPatch(graded.unwrap());
        assert_eq!(
            (seen.is_resolved(), seen.is_suspect()),
            (resolved, suspect),
            "{}",
            seen.details()
        );
    }

    let mut sandbox = open(&native, &environment).await;
    let plan = TestPlan {
        command: task.test_command.clone(),
        workdir: task.workdir.clone(),
        files: vec!["tests/test_roman.py".into(), "tests/test_kept.py".into()],
        ids: None,
        env: task.env.clone(),
        time_limit: Duration::from_secs(60),
        user: None,
    };
    let run =
        run_tests(sandbox.handle(), &plan, &proctor_setup::HiddenCopies::default()).await.unwrap();
    sandbox.close().await.unwrap();
    assert!(run.is_complete, "{run:?}");
    assert_eq!(run.evidence, []);
    for id in F2P.iter().chain(&P2P) {
        assert_eq!(run.status(id), TestStatus::Passed, "{id}");
    }
    assert_eq!(run.tests.len(), F2P.len() + P2P.len());
}
