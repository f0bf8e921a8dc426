//! Tests that a second run of the tests uses a separate sandbox.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use proctor_grade::{FreshSandboxes, GradeOptions, grade_with_fresh_sandboxes};
use proctor_native::Native;
use proctor_sandbox_api::{Backend, PreparedEnvironment, Sandbox, SandboxRequest, wire::RawPath};
use proctor_types::{Fault, SandboxSpec};

use crate::{
    bench::{BenchTask, patch},
    table::prepare_environment,
};

/// Counts the interpreters that import the package, and returns an object that equals everything.
const START_COUNTER: &str = "with open('/tmp/starts', 'a') as starts:
    starts.write('x')


class Always(str):
    __hash__ = str.__hash__

    def __eq__(self, other):
        return True


def kept():
    return 'kept'


def to_roman(number):
    return Always()
";

struct CountingSandboxes<'a> {
    backend: &'a Native,
    environment: &'a PreparedEnvironment,
    opened_count: AtomicUsize,
}

fn sandbox_request(environment: &PreparedEnvironment) -> SandboxRequest {
    SandboxRequest {
        environment: environment.clone(),
        limits: SandboxSpec::default(),
        mounts: Vec::new(),
        purpose: "grading".into(),
    }
}

#[async_trait]
impl FreshSandboxes for CountingSandboxes<'_> {
    async fn open(&self) -> Result<Box<dyn Sandbox>, Fault> {
        self.opened_count.fetch_add(1, Ordering::Relaxed);
        self.backend.open(&sandbox_request(self.environment)).await
    }
}

#[tokio::test]
async fn rerun_uses_a_separate_sandbox() {
    let place = tempfile::tempdir().unwrap();
    let native = Native::new(place.path().join("cache")).unwrap();
    let environment = prepare_environment(&native, place.path()).await;
    let task = BenchTask::default().task("/testbed", "/venv/bin/python");
    let patch = patch(&[("roman/__init__.py", Some(START_COUNTER))]);
    for (apart, starts) in [(true, "x"), (false, "xx")] {
        let fresh = CountingSandboxes {
            backend: &native,
            environment: &environment,
            opened_count: AtomicUsize::new(0),
        };
        let given: Option<&dyn FreshSandboxes> = if apart { Some(&fresh) } else { None };
        let mut first = native.open(&sandbox_request(&environment)).await.unwrap();
        let options = GradeOptions::default();
        let graded =
            grade_with_fresh_sandboxes(first.handle(), given, &task, patch.as_bytes(), &options)
                .await;
        let verdict = graded.unwrap().verdict;
        assert!(verdict.evidence.iter().any(|found| found.kind == "canary_passed"), "{verdict:#?}");
        let file = RawPath::from("/tmp/starts");
        let counted = first.handle().read(&file, 100).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&counted), starts);
        assert_eq!(fresh.opened_count.load(Ordering::Relaxed), usize::from(apart));
        first.close().await.unwrap();
    }
}
