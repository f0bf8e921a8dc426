//! Runs the conformance kit in native sandboxes and prints each check's duration.

use std::time::Duration;

use proctor_native::Native;
use proctor_sandbox_api::{Backend, Base, LayerSpec, wire::RawPath};

#[tokio::test(flavor = "multi_thread")]
async fn native_passes_the_kit() {
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
    let results = proctor_conformance::run_kit(&native, &prepared, false).await;
    proctor_conformance::print_results("native", &results);
    let checks = proctor_conformance::checks();
    assert!(checks.len() >= 40, "{} checks", checks.len());
    // Without root, some limits cannot be enforced, so their checks are skipped.
    let skips = if std::env::var_os("PROCTOR_REQUIRE_ROOT").is_some() { 0 } else { usize::MAX };
    let missed =
        proctor_conformance::find_unproven(checks.iter().map(|check| check.name), skips, &results);
    assert!(missed.is_empty(), "{missed:#?}\n{}", proctor_conformance::render_results(&results));
}
