//! Tests native sandboxes as users other than root, with a single id and with a range of ids.
//!
//! If root starts a test, the test runs itself as such a user, from a copy of the test binary in
//! that user's directory.

#![expect(clippy::unwrap_used, reason = "a test's own helper may fail it")]

#[path = "../../../tests/not_run.rs"]
mod not_run;
#[path = "../../../tests/tier.rs"]
mod tier;
#[path = "../../../tests/users.rs"]
mod users;

use std::{
    env, fs,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::Command as Process,
    time::Duration,
};

use proctor_native::Native;
use proctor_sandbox_api::{
    Backend, Base, Command, LayerSpec, PreparedEnvironment, Sandbox, SandboxRequest, wire::RawPath,
};
use proctor_types::SandboxSpec;
use rustix::process::{Resource, Rlimit, geteuid, setrlimit};
use users::User;

/// This variable is set in a test process that root started as another user.
const CHILD_PROCESS_VAR: &str = "PROCTOR_TEST_ROOTLESS";

/// The variable with the path of a root file system that root prepared for the test.
const ROOTFS_VAR: &str = "PROCTOR_TEST_ROOTFS";

/// Runs the test as `user` if this process is root. Returns whether the test is finished, because
/// it has run or cannot run.
fn run_as_user(user: Option<User>, test_name: &str, rootfs: Option<&Path>) -> bool {
    if env::var_os(CHILD_PROCESS_VAR).is_some() {
        assert!(!geteuid().is_root());
        return false;
    }
    let (Some(()), Some(user)) = (users::require_root(test_name), user) else { return true };
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("test");
    // Don't use `fs::copy`: another test may start a process meanwhile, which would inherit the
    // open file. The kernel would then refuse to execute the copy ("Text file busy").
    let copied =
        Process::new("cp").arg(env::current_exe().unwrap()).arg(&program).status().unwrap();
    assert!(copied.success());
    chown(home.path(), Some(user.uid), Some(user.gid)).unwrap();
    let mut command = Process::new(&program);
    command
        .args([test_name, "--exact", "--nocapture"])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .env(CHILD_PROCESS_VAR, "1")
        .uid(user.uid)
        .gid(user.gid);
    if let Some(rootfs) = rootfs {
        command.env(ROOTFS_VAR, rootfs);
    }
    let output = command.output().unwrap();
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let said = said.concat();
    assert!(output.status.success() && said.contains("1 passed"), "as {user:?}:\n{said}");
    true
}

fn layer_spec(base: Base, setup: &[&str]) -> LayerSpec {
    LayerSpec {
        base,
        source: None,
        setup: setup.iter().map(|line| (*line).to_owned()).collect(),
        workdir: RawPath::from("/testbed"),
        env: vec![],
        time_limit: Duration::from_secs(120),
    }
}

async fn open_sandbox(native: &Native, environment: &PreparedEnvironment) -> Box<dyn Sandbox> {
    let limits =
        SandboxSpec { memory_mb: 256, disk_mb: 64, processes: 256, ..SandboxSpec::default() };
    let request = SandboxRequest {
        environment: environment.clone(),
        limits,
        mounts: Vec::new(),
        purpose: "a test".into(),
    };
    native.open(&request).await.unwrap()
}

async fn shell(sandbox: &dyn Sandbox, line: &str, user: Option<&str>) -> String {
    let mut command = Command::shell(line);
    command.user = user.map(str::to_owned);
    let done = sandbox.handle().run(command).await.unwrap();
    format!("{}{}", done.stdout.text(), done.stderr.text())
}

/// Returns the entry of the sandbox's enforcement that has this prefix.
fn find_enforcement_entry<'a>(sandbox: &'a dyn Sandbox, prefix: &str) -> Option<&'a String> {
    sandbox.enforcement().not_enforced.iter().find(|entry| entry.starts_with(prefix))
}

/// Returns the names in a cache directory, except those that end with `.lock`.
fn cache_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.ends_with(".lock")).collect()
}

/// Runs the kit. A check may be skipped only if its limit starts with an entry of
/// `skippable_limits`.
async fn assert_kit_passes(name: &str, skippable_limits: &[&str]) {
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    let prepared = native.prepare(&layer_spec(Base::Host, &["true"])).await.unwrap();
    let results = proctor_conformance::run_kit(&native, &prepared, !tier::is_full()).await;
    proctor_conformance::print_results(name, &results);
    assert!(results.len() > 20, "{} checks", results.len());
    for result in &results {
        let reason = result.skip_reason.as_deref().unwrap_or_default();
        let skipped =
            !reason.is_empty() && skippable_limits.iter().any(|begin| reason.starts_with(begin));
        assert!(result.has_passed || skipped, "{}", proctor_conformance::render_results(&results));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_id_passes_the_kit() {
    if run_as_user(Some(users::user_with_single_id(1)), "one_id_passes_the_kit", None) {
        return;
    }
    assert_kit_passes("native, one id", &["memory:", "cpus:", "other users:", "agent_identity:"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn id_range_passes_the_kit() {
    let test = "id_range_passes_the_kit";
    if run_as_user(users::user_with_id_range(test), test, None) {
        return;
    }
    assert_kit_passes("native, a range of ids", &["memory:", "cpus:"]).await;
}

#[tokio::test]
async fn id_range_provides_other_users_and_their_files_can_be_removed() {
    let test = "id_range_provides_other_users_and_their_files_can_be_removed";
    if run_as_user(users::user_with_id_range(test), test, None) {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    let layers = cache.path().join("layers");
    let give = "mkdir -m 700 /home/u && touch /home/u/f && chown -R 1000:1001 /home/u";
    native.prepare(&layer_spec(Base::Host, &[give, "false"])).await.unwrap_err();
    assert_eq!(cache_names(&layers), [""; 0], "a failed layer must be removed");

    let prepared = native.prepare(&layer_spec(Base::Host, &[give])).await.unwrap();
    let mut sandbox = open_sandbox(&native, &prepared).await;
    assert_eq!(find_enforcement_entry(&*sandbox, "other users:"), None);
    assert_eq!(shell(&*sandbox, "stat -c %u:%g /home/u/f", None).await, "1000:1001\n");
    let line = "id -u; echo y > /home/u/f && cat /home/u/f";
    assert_eq!(shell(&*sandbox, line, Some("1000:1001")).await, "1000\ny\n");
    let path = RawPath::from("/home/u/new");
    sandbox.handle().write_as(&path, b"x", None, Some("1000:1001")).await.unwrap();
    assert_eq!(shell(&*sandbox, "stat -c %u:%g /home/u/new", None).await, "1000:1001\n");
    sandbox.close().await.unwrap();

    for kept in native.cache_entries().await.unwrap() {
        assert!(native.discard(&kept).await.unwrap(), "{}", kept.description);
    }
    assert_eq!(cache_names(&layers), [""; 0]);
}

#[tokio::test]
async fn one_id_rejects_other_users_with_a_hint() {
    if run_as_user(
        Some(users::user_with_single_id(2)),
        "one_id_rejects_other_users_with_a_hint",
        None,
    ) {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    let fault = native.prepare(&layer_spec(Base::Host, &["touch /x && chown 1000 /x"])).await;
    let fault = fault.unwrap_err();
    assert!(fault.what.contains("setup command 1"), "{fault}");
    assert!(fault.hint.as_deref().unwrap_or_default().contains("/etc/subuid"), "{fault}");

    let prepared =
        native.prepare(&layer_spec(Base::Host, &["touch /x && chown 0:0 /x"])).await.unwrap();
    let mut sandbox = open_sandbox(&native, &prepared).await;
    assert!(find_enforcement_entry(&*sandbox, "other users:").is_some());
    assert_eq!(shell(&*sandbox, "id -u; stat -c %u /x", Some("root")).await, "0\n0\n");
    let mut command = Command::shell("true");
    command.user = Some("1000".into());
    let error = sandbox.handle().run(command).await.unwrap_err();
    assert!(!error.is_broken() && error.to_string().contains("/etc/subuid"), "{error}");
    let path = RawPath::from("/tmp/new");
    let error = sandbox.handle().write_as(&path, b"x", None, Some("1000")).await.unwrap_err();
    assert!(!error.is_broken() && error.to_string().contains("/etc/subuid"), "{error}");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn unmappable_id_range_leaves_one_id() {
    let test = "unmappable_id_range_leaves_one_id";
    if run_as_user(users::user_with_id_range(test), test, None) {
        return;
    }
    // Disable set-uid programs for the current thread, which starts the agent.
    rustix::thread::set_no_new_privs(true).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    let prepared = native.prepare(&layer_spec(Base::Host, &["true"])).await.unwrap();
    let mut sandbox = open_sandbox(&native, &prepared).await;
    let said = find_enforcement_entry(&*sandbox, "other users:").unwrap();
    assert!(said.contains("newuidmap"), "{said}");
    assert_eq!(shell(&*sandbox, "id -u", None).await, "0\n");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn lower_user_process_limit_is_kept_and_recorded() {
    if run_as_user(
        Some(users::user_with_single_id(3)),
        "lower_user_process_limit_is_kept_and_recorded",
        None,
    ) {
        return;
    }
    let few = Rlimit { current: Some(200), maximum: Some(200) };
    setrlimit(Resource::Nproc, few).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    let prepared = native.prepare(&layer_spec(Base::Host, &["true"])).await.unwrap();
    let mut sandbox = open_sandbox(&native, &prepared).await;
    let said = find_enforcement_entry(&*sandbox, "processes:").unwrap();
    assert!(said.contains("200 instead of 272"), "{said}");
    let line = r"sed -n 's/^Max processes *\([0-9]*\) .*/\1/p' /proc/self/limits";
    assert_eq!(shell(&*sandbox, line, None).await, "200\n");
    sandbox.close().await.unwrap();
}

/// A shell script that creates a root file system with a shell and a few programs. One file and one
/// directory are accessible only to root.
const MAKE_ROOTFS: &str = r#"set -e
cd "$1"
mkdir -p bin etc tmp root
for program in sh cat mkdir stat touch; do
    path=$(command -v "$program")
    cp -L "$path" "bin/$program"
    ldd "$path" | grep -o '/[^ )]*' || true
done | sort -u | while read -r library; do
    mkdir -p ".${library%/*}"
    cp -L "$library" ".$library"
done
echo 'root:x:0:0::/root:/bin/sh' > etc/passwd
echo secret > etc/secret
chmod 600 etc/secret
chmod 700 root
chmod 1777 tmp
chmod 755 . bin etc"#;

#[tokio::test]
async fn foreign_root_file_system_is_copied() {
    let test = "foreign_root_file_system_is_copied";
    let rootfs = tempfile::tempdir().unwrap();
    if geteuid().is_root() {
        let mut make = Process::new("sh");
        make.args(["-c", MAKE_ROOTFS, "sh"]).arg(rootfs.path());
        assert!(make.status().unwrap().success());
    }
    if run_as_user(Some(users::user_with_single_id(4)), test, Some(rootfs.path())) {
        return;
    }
    let rootfs = PathBuf::from(env::var_os(ROOTFS_VAR).unwrap());
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    let base = Base::Folder(rootfs.clone());
    let prepared =
        native.prepare(&layer_spec(base.clone(), &["echo built > /etc/built"])).await.unwrap();
    let mut sandbox = open_sandbox(&native, &prepared).await;
    let line =
        "cat /etc/built; echo more >> /etc/passwd && touch /tmp/a && mkdir /root/b && echo changed";
    assert_eq!(shell(&*sandbox, line, None).await, "built\nchanged\n");
    let secret = shell(&*sandbox, "cat /etc/secret", None).await;
    assert!(secret.contains("No such file"), "{secret}");
    let said = find_enforcement_entry(&*sandbox, "base:").unwrap();
    assert!(said.contains("/etc/secret") && said.contains("/root"), "{said}");
    sandbox.close().await.unwrap();
    assert_eq!(fs::read_to_string(rootfs.join("etc/passwd")).unwrap().lines().count(), 1);
    // The root file system must be copied only once.
    let again = native.prepare(&layer_spec(base, &["echo built > /etc/built"])).await.unwrap();
    assert_eq!((again.was_built, again.digest), (false, prepared.digest));
}

/// A shell script that creates an image archive of the root file system made by [`MAKE_ROOTFS`]. In
/// the archive, the owner of `/bin` cannot write to it.
const MAKE_ARCHIVE: &str = r#"set -e
cd "$1"
chmod 555 bin
mkdir image
tar -cf image/layer.tar --exclude=./image .
cd image
echo '{"config": {"Env": ["A=b"]}}' > config.json
echo '[{"Layers": ["layer.tar"], "Config": "config.json"}]' > manifest.json
tar -cf image.tar manifest.json config.json layer.tar
chmod 755 .
chmod 644 image.tar"#;

#[tokio::test]
async fn image_with_read_only_folders_is_unpacked_without_root() {
    let test = "image_with_read_only_folders_is_unpacked_without_root";
    let rootfs = tempfile::tempdir().unwrap();
    if geteuid().is_root() {
        for script in [MAKE_ROOTFS, MAKE_ARCHIVE] {
            let mut make = Process::new("sh");
            make.args(["-c", script, "sh"]).arg(rootfs.path());
            assert!(make.status().unwrap().success());
        }
    }
    if run_as_user(Some(users::user_with_single_id(5)), test, Some(rootfs.path())) {
        return;
    }
    let image = PathBuf::from(env::var_os(ROOTFS_VAR).unwrap()).join("image/image.tar");
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    let prepared = native.prepare(&layer_spec(Base::Archive(image), &["true"])).await.unwrap();
    let mut sandbox = open_sandbox(&native, &prepared).await;
    let line = "stat -c '%a %u' /bin /etc/secret; cat /etc/secret; mkdir /bin/made && echo made";
    assert_eq!(shell(&*sandbox, line, None).await, "555 0\n600 0\nsecret\nmade\n");
    assert!(find_enforcement_entry(&*sandbox, "owners:").is_some());
    sandbox.close().await.unwrap();
    for kept in native.cache_entries().await.unwrap() {
        assert!(native.discard(&kept).await.unwrap(), "{}", kept.description);
    }
    // An archive's lock file is never removed. Otherwise, a process that has just opened it would
    // lock a file that no other process sees.
    let mut left = cache_names(&cache.path().join("bases"));
    left.retain(|name| !name.starts_with(".in-use-"));
    assert_eq!(left, [""; 0]);
}
