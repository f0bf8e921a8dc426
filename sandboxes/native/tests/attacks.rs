//! The attacks on native rooms: withstood, and succeeding without their defences.

#![expect(clippy::unwrap_used, reason = "a test's own helper may fail it")]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use proctor_native::Native;
use proctor_sandbox_api::{
    Backend, Base, LayerSpec, Prepared,
    attacks::{attacks, run_attacks, succeeds},
    conformance::{announce, render},
    wire::RawPath,
};

async fn prepared(native: &Native) -> Prepared {
    let spec = LayerSpec {
        base: Base::Host,
        source: None,
        setup: vec![],
        workdir: RawPath::from("/testbed"),
        env: vec![],
        time_limit: Duration::from_secs(60),
    };
    native.prepare(&spec).await.unwrap()
}

/// What rooms of this process hold: helpers, control groups, mounts below the cache.
fn census(cache: &Path) -> Vec<String> {
    let own = std::process::id();
    let mut held: Vec<String> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let (_, rest) = stat.rsplit_once(')')?;
            let parent: u32 = rest.split_whitespace().nth(1)?.parse().ok()?;
            (parent == own).then(|| format!("process {}", entry.file_name().display()))
        })
        .collect();
    for entry in fs::read_dir(cache.join("runtimes")).unwrap().flatten() {
        let listed = fs::read_to_string(entry.path()).unwrap_or_default();
        for group in listed.lines().filter_map(|folder| fs::read_dir(folder).ok()).flatten() {
            let path: PathBuf = group.unwrap().path();
            if path.is_dir() {
                held.push(format!("control group {}", path.display()));
            }
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let below = mounts.lines().filter(|line| line.contains(cache.to_str().unwrap()));
    held.extend(below.map(|line| format!("mount {line}")));
    held
}

async fn withstood(name: &str) {
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    let environment = prepared(&native).await;
    let results = run_attacks(&native, &environment, &|| census(cache.path())).await;
    announce(name, &results);
    assert!(results.len() >= 25, "{} attacks", results.len());
    let failed = results.iter().filter(|r| !r.passed && r.skipped_reason.is_none()).count();
    assert_eq!(failed, 0, "\n{}", render(&results));
}

#[tokio::test(flavor = "multi_thread")]
async fn native_attacks_are_withstood() {
    withstood("native attack").await;
}

/// Each attack that names its defences works as soon as they are down: it is a real attack.
#[tokio::test(flavor = "multi_thread")]
async fn native_attacks_succeed_without_their_defences() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut withstood = Vec::new();
    for attack in attacks().iter().filter(|attack| !attack.undone_by.is_empty()) {
        let cache = tempfile::tempdir().unwrap();
        let native = Native::without(cache.path().to_owned(), attack.undone_by).unwrap();
        let environment = prepared(&native).await;
        match succeeds(&native, &environment, attack).await {
            Ok(why) => eprintln!("{} without {:?}: {why}", attack.name, attack.undone_by),
            Err(why) => withstood.push(why),
        }
    }
    assert!(withstood.is_empty(), "{withstood:#?}");
}
