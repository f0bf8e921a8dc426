//! Tests attacks in native sandboxes. Attacks must fail, and must succeed if their defenses are
//! disabled.

#![expect(clippy::unwrap_used, reason = "a test's own helper may fail it")]

#[path = "../../../tests/not_run.rs"]
mod not_run;

use std::{
    fs,
    io::Write,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use not_run::not_run;
use proctor_conformance::{
    attacks::{attacks, run_attacks, run_expecting_success},
    find_unproven, print_results, render_results,
};
use proctor_native::Native;
use proctor_sandbox_api::{Backend, Base, LayerSpec, PreparedEnvironment, wire::RawPath};

async fn prepare_environment(native: &Native) -> PreparedEnvironment {
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

/// Lists what this process's sandboxes use: helpers, cgroups, and mounts below the cache.
fn list_resources(cache: &Path) -> Vec<String> {
    let own = std::process::id();
    let mut held: Vec<String> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let (_, rest) = stat.rsplit_once(')')?;
            let parent: u32 = rest.split_whitespace().nth(1)?.parse().ok()?;
            // Skip the helpers of other caches: the test as an unprivileged user may run at the
            // same time.
            let other = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            let is_sandbox =
                parent == own && !other.contains("attacks_fail_for_an_unprivileged_user");
            is_sandbox.then(|| format!("process {}", entry.file_name().display()))
        })
        .collect();
    for entry in fs::read_dir(cache.join("runtimes")).unwrap().flatten() {
        let listed = fs::read_to_string(entry.path()).unwrap_or_default();
        for group in listed.lines().filter_map(|folder| fs::read_dir(folder).ok()).flatten() {
            let path: PathBuf = group.unwrap().path();
            if path.is_dir() {
                held.push(format!("cgroup {}", path.display()));
            }
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let below = mounts.lines().filter(|line| line.contains(cache.to_str().unwrap()));
    held.extend(below.map(|line| format!("mount {line}")));
    held
}

/// Runs all attacks. At most `max_skips` of them may be skipped because their limit is not enforced
/// on this machine.
async fn assert_attacks_fail(name: &str, max_skips: usize) {
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    let environment = prepare_environment(&native).await;
    let results = run_attacks(&native, &environment, &|| list_resources(cache.path())).await;
    print_results(name, &results);
    let attacks = attacks();
    assert!(attacks.len() >= 25, "{} attacks", attacks.len());
    let missed = find_unproven(attacks.iter().map(|attack| attack.name), max_skips, &results);
    assert!(missed.is_empty(), "{missed:#?}\n{}", render_results(&results));
}

#[tokio::test(flavor = "multi_thread")]
async fn native_attacks_are_withstood() {
    let skips = if std::env::var_os("PROCTOR_REQUIRE_ROOT").is_some() { 0 } else { usize::MAX };
    assert_attacks_fail("native attack", skips).await;
}

/// If the defenses that an attack lists are disabled, the attack must succeed. This proves that the
/// attack is real.
#[tokio::test(flavor = "multi_thread")]
async fn native_attacks_succeed_without_their_defenses() {
    if !rustix::process::geteuid().is_root() {
        let test = "native_attacks_succeed_without_their_defenses";
        return not_run(test, "ROOT", "only root can disable defenses");
    }
    let mut withstood = Vec::new();
    for attack in attacks().iter().filter(|attack| !attack.prevented_by.is_empty()) {
        let cache = tempfile::tempdir().unwrap();
        let native =
            Native::new_without_defenses(cache.path().to_owned(), attack.prevented_by).unwrap();
        let environment = prepare_environment(&native).await;
        match run_expecting_success(&native, &environment, attack).await {
            Ok(why) => eprintln!("{} without {:?}: {why}", attack.name, attack.prevented_by),
            Err(why) => withstood.push(why),
        }
    }
    assert!(withstood.is_empty(), "{withstood:#?}");
}

/// The next test runs this function as an unprivileged user.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by native_attacks_are_withstood_without_root in its own process"]
async fn attacks_fail_for_an_unprivileged_user() {
    assert_attacks_fail("native rootless attack", usize::MAX).await;
}

/// Runs the attacks as the unprivileged user `nobody`, who can't create cgroups and can map only one
/// user id into a user namespace. The back end must list each limit that it cannot enforce.
#[test]
fn native_attacks_are_withstood_without_root() {
    let test = "native_attacks_are_withstood_without_root";
    if !rustix::process::geteuid().is_root() {
        return not_run(test, "ROOT", "only root can become another user");
    }
    // Copy this binary, because other users may not be able to access its directory.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let binary = folder.path().join("attacks");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let done = Command::new(&binary)
        .args(["attacks_fail_for_an_unprivileged_user", "--exact", "--ignored", "--nocapture"])
        .env("TMPDIR", folder.path())
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    if said.contains("create a user namespace: ") {
        return not_run(test, "ROOT", "normal users cannot create user namespaces here");
    }
    let list: Vec<_> = said.lines().filter(|line| line.starts_with("conformance")).collect();
    std::io::stderr().write_all(format!("\n{}\n", list.join("\n")).as_bytes()).unwrap();
    assert!(done.status.success(), "{said}");
}
