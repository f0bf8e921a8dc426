//! The conformance kit on native sandboxes, its list printed with times.

use std::time::Duration;

use proctor_native::Native;
use proctor_sandbox_api::{Backend, Base, LayerSpec, conformance, wire::RawPath};

#[tokio::test(flavor = "multi_thread")]
async fn native_conformance() {
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    let spec = LayerSpec {
        base: Base::Host,
        source: None,
        setup: vec![],
        workdir: RawPath::from("/testbed"),
        env: vec![],
        time_limit: Duration::from_secs(60),
    };
    let prepared = native.prepare(&spec).await.unwrap();
    let results = conformance::run_kit(&native, &prepared, false).await;
    let list = conformance::render(&results);
    conformance::announce("native", &results);
    assert!(results.len() >= 40, "{} checks", results.len());
    let failed = results.iter().filter(|r| !r.passed && r.skipped_reason.is_none()).count();
    assert_eq!(failed, 0, "\n{list}");
}
