//! Tests sandboxes in a real engine. Without an engine, each test prints its name and that it did
//! not run. If `PROCTOR_REQUIRE_DOCKER=1` is set, it fails instead.

#![expect(clippy::unwrap_used, reason = "a test's own helper may fail it")]

#[path = "../../../tests/not_run.rs"]
mod not_run;

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command as Process, Stdio},
    time::{Duration, Instant},
};

use not_run::not_run;
use proctor_conformance::{checks, find_unproven, print_results, run_kit};
use proctor_docker::Docker;
use proctor_sandbox_api::{
    Backend, Base, CacheEntry, Command, LayerSpec, PreparedEnvironment, Sandbox, SandboxRequest,
    SourceTree, wire::RawPath,
};
use proctor_types::SandboxSpec;

/// An image that `tests/images/debian.sh` creates.
const DEBIAN: &str = "proctor-test:bookworm";

/// Connects to the engine. Returns `None` if no engine is running, so that the test cannot run.
async fn connect_or_skip(test_name: &str) -> Option<Docker> {
    match Docker::connect().await {
        Ok(docker) => Some(docker),
        Err(fault) => {
            not_run(test_name, "DOCKER", fault);
            None
        }
    }
}

fn layer_spec(base: Base, setup: &[&str]) -> LayerSpec {
    LayerSpec {
        base,
        source: None,
        setup: setup.iter().map(|line| (*line).to_owned()).collect(),
        workdir: RawPath::from("/testbed"),
        env: vec![],
        time_limit: Duration::from_secs(300),
    }
}

fn sandbox_request(environment: &PreparedEnvironment) -> SandboxRequest {
    SandboxRequest {
        environment: environment.clone(),
        limits: SandboxSpec::default(),
        mounts: Vec::new(),
        purpose: "a test".into(),
    }
}

async fn shell(sandbox: &dyn Sandbox, line: &str) -> String {
    let done = sandbox.handle().run(Command::shell(line)).await.unwrap();
    format!("{}{}", done.stdout.text(), done.stderr.text())
}

async fn assert_kit_passes(docker: &Docker, name: &str, base: Base) {
    let prepared = docker.prepare(&layer_spec(base, &[])).await.unwrap();
    let results = run_kit(docker, &prepared, false).await;
    print_results(name, &results);
    let checks = checks();
    assert!(checks.len() >= 40);
    // If the engine's storage driver has no quotas, only the check of a full disk is skipped.
    let skips = if std::env::var_os("PROCTOR_REQUIRE_DOCKER").is_some() { 1 } else { usize::MAX };
    let missed = find_unproven(checks.iter().map(|check| check.name), skips, &results);
    assert!(missed.is_empty(), "{missed:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_passes_the_kit_on_the_host_base() {
    let Some(docker) = connect_or_skip("docker_passes_the_kit_on_the_host_base").await else {
        return;
    };
    assert_kit_passes(&docker, "docker (host base)", Base::Host).await;
}

/// If the image is missing, the test prints which script creates it. If `PROCTOR_REQUIRE_DOCKER=1`
/// is set, the test fails instead.
#[tokio::test(flavor = "multi_thread")]
async fn docker_passes_the_kit_on_an_image() {
    let name = "docker_passes_the_kit_on_an_image";
    let Some(docker) = connect_or_skip(name).await else { return };
    let found = Process::new("docker").args(["image", "inspect", DEBIAN]).output();
    if !found.is_ok_and(|found| found.status.success()) {
        return not_run(name, "DOCKER", format!("no image {DEBIAN}: run tests/images/debian.sh"));
    }
    assert_kit_passes(&docker, "docker (image)", Base::Image(DEBIAN.to_owned())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_builds_a_layer_once_with_source_and_setup() {
    let Some(docker) = connect_or_skip("docker_builds_a_layer_once_with_source_and_setup").await
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("code.py"), "print('code')\n").unwrap();
    let mut spec =
        layer_spec(Base::Host, &["python3 code.py > out", "mkdir /made && touch /made/x"]);
    let digest = format!("{:?}", folder.path());
    let source = folder.path().to_owned();
    spec.source =
        Some(SourceTree { folder: source, digest, destination: RawPath::from("/testbed") });
    let (first, second) = tokio::join!(docker.prepare(&spec), docker.prepare(&spec));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(first.was_built != second.was_built, "exactly one of the two must build");
    assert_eq!(first.digest, second.digest);

    let mut sandbox = docker.open(&sandbox_request(&first)).await.unwrap();
    assert_eq!(shell(&*sandbox, "cat /testbed/out; ls /made").await, "code\nx\n");
    sandbox.close().await.unwrap();
    let _ = Process::new("docker").args(["rmi", &first.backend_id]).output();
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_setup_reaches_the_registry_and_leaves_no_settings() {
    let name = "docker_setup_reaches_the_registry_and_leaves_no_settings";
    let Some(docker) = connect_or_skip(name).await else { return };
    // This command is unique to this process, so the environment is not in the cache.
    let own = format!(": {}", std::process::id());
    let lines = ["python3 -m venv /venv", "/venv/bin/pip install -q iniconfig==2.1.0", &own];
    let prepared = docker.prepare(&layer_spec(Base::Host, &lines)).await.unwrap();
    assert!(prepared.was_built);
    let mut sandbox = docker.open(&sandbox_request(&prepared)).await.unwrap();
    let seen = shell(
        &*sandbox,
        "/venv/bin/python -c 'import iniconfig; print(1)'; ls /etc/pip.conf; env | grep PIP",
    )
    .await;
    assert!(seen.starts_with("1\n") && seen.contains("No such file"), "{seen}");
    assert!(!seen.contains("PIP_"), "{seen}");
    sandbox.close().await.unwrap();
    let _ = Process::new("docker").args(["rmi", &prepared.backend_id]).output();
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_names_the_setup_line_that_failed() {
    let Some(docker) = connect_or_skip("docker_names_the_setup_line_that_failed").await else {
        return;
    };
    let fault =
        docker.prepare(&layer_spec(Base::Host, &["true", "echo so; exit 7"])).await.unwrap_err();
    let text = fault.to_string();
    assert!(
        text.contains("command 2") && text.contains("status 7") && text.contains("so"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_sandbox_killed_from_outside_is_broken() {
    let Some(docker) = connect_or_skip("docker_sandbox_killed_from_outside_is_broken").await else {
        return;
    };
    let prepared = docker.prepare(&layer_spec(Base::Host, &[])).await.unwrap();
    let mut spec = sandbox_request(&prepared);
    spec.purpose = format!("killed from outside by {}", std::process::id());
    let mut sandbox = docker.open(&spec).await.unwrap();
    let running = {
        let handle = sandbox.handle().clone();
        tokio::spawn(async move { handle.run(Command::shell("sleep 1000")).await })
    };
    let filter = format!("label=proctor.purpose={}", spec.purpose);
    let listed = Process::new("docker").args(["ps", "-q", "--filter", &filter]).output().unwrap();
    let id = String::from_utf8(listed.stdout).unwrap().trim().to_owned();
    assert!(!id.is_empty());
    assert!(Process::new("docker").args(["kill", &id]).output().unwrap().status.success());
    let ended = tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
    assert!(ended.unwrap_err().is_broken());
    sandbox.close().await.unwrap();
    let left = Process::new("docker").args(["ps", "-aq", "--filter", &filter]).output().unwrap();
    assert!(left.stdout.is_empty(), "the container was not removed");
}

/// How long an engine waits for a container to stop before killing it.
const ENGINE_STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Closing a sandbox doesn't wait for a command that ignores signals or for an agent that cannot
/// respond.
#[tokio::test(flavor = "multi_thread")]
async fn docker_closes_an_unresponsive_sandbox_without_waiting() {
    let Some(docker) =
        connect_or_skip("docker_closes_an_unresponsive_sandbox_without_waiting").await
    else {
        return;
    };
    let prepared = docker.prepare(&layer_spec(Base::Host, &[])).await.unwrap();
    for stopped in [false, true] {
        let mut spec = sandbox_request(&prepared);
        spec.purpose = format!("deaf {} {stopped}", std::process::id());
        let mut sandbox = docker.open(&spec).await.unwrap();
        let running = {
            let handle = sandbox.handle().clone();
            let line = "trap '' TERM INT HUP QUIT; touch /tmp/deaf; while :; do sleep 1; done";
            tokio::spawn(async move { handle.run(Command::shell(line)).await })
        };
        while sandbox.handle().stat(&RawPath::from("/tmp/deaf")).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let filter = format!("label=proctor.purpose={}", spec.purpose);
        let listed =
            Process::new("docker").args(["ps", "-q", "--filter", &filter]).output().unwrap();
        let id = String::from_utf8(listed.stdout).unwrap().trim().to_owned();
        if stopped {
            let stop = Process::new("docker").args(["kill", "-s", "STOP", &id]).output().unwrap();
            assert!(stop.status.success());
        }
        let begun = Instant::now();
        sandbox.close().await.unwrap();
        assert!(begun.elapsed() < ENGINE_STOP_TIMEOUT, "stopped: {stopped}: {:?}", begun.elapsed());
        assert!(running.await.unwrap().is_err());
        let left =
            Process::new("docker").args(["ps", "-aq", "--filter", &filter]).output().unwrap();
        assert!(left.stdout.is_empty(), "the container was not removed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_pull_of_a_missing_image_names_the_image() {
    let name = "docker_pull_of_a_missing_image_names_the_image";
    let Some(docker) = connect_or_skip(name).await else { return };
    let base = Base::Image("localhost:9/no/such:image".to_owned());
    let fault = docker.prepare(&layer_spec(base, &[])).await.unwrap_err();
    assert!(fault.to_string().contains("localhost:9/no/such:image"), "{fault}");
    assert!(fault.hint.is_some());
}

/// Not a test, but the runtime that the next test kills. It opens a sandbox and waits until it is
/// killed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by docker_sandbox_of_a_killed_runtime_ends_and_is_swept"]
async fn docker_runtime_to_be_killed() {
    let docker = Docker::connect().await.unwrap();
    let prepared = docker.prepare(&layer_spec(Base::Host, &[])).await.unwrap();
    let mut spec = sandbox_request(&prepared);
    spec.purpose = format!("kill test {}", std::process::id());
    let sandbox = docker.open(&spec).await.unwrap();
    println!("READY");
    let _ = sandbox.handle().run(Command::shell("setsid sleep 987654 & sleep 987654")).await;
}

/// Returns a runtime's cache directory, based on a label of the runtime's container.
fn lock_folder(runtime: u32) -> std::path::PathBuf {
    let filter = format!("label=proctor.purpose=kill test {runtime}");
    let format = "{{.Label \"proctor.lock\"}}";
    let listed = Process::new("docker")
        .args(["ps", "--no-trunc", "--filter", &filter, "--format", format])
        .output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let lock = std::path::PathBuf::from(listed.trim());
    lock.parent().unwrap().parent().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_sandbox_of_a_killed_runtime_ends_and_is_swept() {
    let name = "docker_sandbox_of_a_killed_runtime_ends_and_is_swept";
    let Some(docker) = connect_or_skip(name).await else { return };
    let mut runtime = Process::new(std::env::current_exe().unwrap())
        .args(["docker_runtime_to_be_killed", "--exact", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(runtime.stdout.take().unwrap()).lines();
    assert!(
        lines.map_while(Result::ok).any(|line| line.contains("READY")),
        "the runtime did not print READY"
    );
    let filter = format!("label=proctor.purpose=kill test {}", runtime.id());
    let containers = |all: &str| {
        let listed = Process::new("docker").args(["ps", all, "--filter", &filter]).output();
        String::from_utf8(listed.unwrap().stdout).unwrap().trim().to_owned()
    };
    assert!(!containers("-q").is_empty(), "the runtime has no container");
    docker.sweep().await.unwrap();
    assert!(!containers("-q").is_empty(), "a live runtime was swept");
    // A runtime that starts with a copy of the live runtime's cache must not sweep it either.
    let copy = tempfile::tempdir().unwrap();
    let cache = copy.path().join("cache");
    let copied = Process::new("cp").arg("-a").arg(lock_folder(runtime.id())).arg(&cache).status();
    assert!(copied.unwrap().success());
    Docker::connect_in(&cache).await.unwrap().sweep().await.unwrap();
    assert!(
        !containers("-q").is_empty(),
        "a live runtime was swept by a runtime with a copy of its cache"
    );

    runtime.kill().unwrap();
    runtime.wait().unwrap();
    let mut waited = 0;
    while !containers("-q").is_empty() {
        assert!(waited < 100, "the sandbox outlived its runtime");
        tokio::time::sleep(Duration::from_millis(100)).await;
        waited += 1;
    }
    docker.sweep().await.unwrap();
    assert!(containers("-aq").is_empty(), "the container was not removed");
}

/// The root file system contains a single file and no libc, shell or Python. The test uses it as a
/// folder, an archive, a saved image, and an image in the engine.
#[tokio::test(flavor = "multi_thread")]
async fn docker_sandboxes_need_no_programs_in_their_base() {
    let Some(docker) = connect_or_skip("docker_sandboxes_need_no_programs_in_their_base").await
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/only"), format!("file of {}", std::process::id())).unwrap();
    let run = |program: &str, args: &[&str]| {
        let done = Process::new(program).args(args).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    run("tar", &["-C", "root", "-czf", "rootfs.tar.gz", "."]);
    let image = format!("proctor-test-empty:{}", std::process::id());
    run("docker", &["import", "rootfs.tar.gz", &image]);
    run("docker", &["save", "-o", "saved.tar", &image]);

    let bases = [
        Base::Folder(root),
        Base::Archive(folder.path().join("rootfs.tar.gz")),
        Base::Archive(folder.path().join("saved.tar")),
        Base::Image(image.clone()),
    ];
    let mut made = vec![image];
    for base in bases {
        let prepared = docker.prepare(&layer_spec(base, &[])).await.unwrap();
        let mut sandbox = docker.open(&sandbox_request(&prepared)).await.unwrap();
        let bytes = sandbox.handle().read(&RawPath::from("/etc/only"), 100).await.unwrap();
        assert!(bytes.starts_with(b"file of"));
        sandbox.handle().write(&RawPath::from("/testbed/new"), b"x", None).await.unwrap();
        let done = sandbox.handle().run(Command::shell("true")).await.unwrap();
        assert_eq!(done.exit.code, Some(127), "there is no shell");
        sandbox.close().await.unwrap();
        made.push(prepared.backend_id);
    }
    for image in made {
        let _ = Process::new("docker").args(["rmi", &image]).output();
    }
}

/// If the same build context is used twice, the image is built only once. The image's container
/// settings are read.
#[tokio::test(flavor = "multi_thread")]
async fn docker_dockerfile_is_built_once_and_its_settings_are_read() {
    let test = "docker_dockerfile_is_built_once_and_its_settings_are_read";
    let Some(docker) = connect_or_skip(test).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file("only", &format!("file of {}", std::process::id()));
    file("left-out", "x");
    file(".dockerignore", "left-out\n");
    file(
        "Dockerfile",
        "FROM scratch\nCOPY . /etc/\nENV A=1 B=\"2 3\"\nWORKDIR /w\nUSER 1000:1000\nENTRYPOINT [\"/start\", \"now\"]\n",
    );
    let base = Base::Dockerfile(folder.path().to_owned());
    let settings = docker.image_settings(&base).await.unwrap();
    assert_eq!((settings.env["A"].as_str(), settings.env["B"].as_str()), ("1", "2 3"));
    let (workdir, user) = (settings.workdir.as_deref(), settings.user.as_deref());
    assert_eq!((workdir, user), (Some("/w"), Some("1000:1000")));
    assert_eq!(settings.entrypoint, ["/start", "now"].map(str::to_owned));
    assert!(settings.cmd.is_empty(), "{:?}", settings.cmd);
    let (one, other) = (
        docker.prepare(&layer_spec(base.clone(), &[])).await.unwrap(),
        docker.prepare(&layer_spec(base, &[])).await.unwrap(),
    );
    assert_eq!((&one.base, one.was_built, other.was_built), (&other.base, true, false));
    let mut sandbox = docker.open(&sandbox_request(&one)).await.unwrap();
    let bytes = sandbox.handle().read(&RawPath::from("/etc/only"), 100).await.unwrap();
    assert!(bytes.starts_with(b"file of"));
    assert!(sandbox.handle().stat(&RawPath::from("/etc/left-out")).await.unwrap().is_none());
    sandbox.close().await.unwrap();
    let built = docker.cache_entries().await.unwrap();
    assert!(
        built.iter().any(|kept| kept.backend_id.starts_with("proctor-build:")),
        "the image must be discardable"
    );
    let _ = Process::new("docker").args(["rmi", &one.backend_id]).output();
    let _ = Process::new("docker").args(["rmi", &one.base]).output();

    file("Dockerfile", "FROM scratch\nCOPY nothing-of-this-name /x\n");
    let base = Base::Dockerfile(folder.path().to_owned());
    let fault = docker.image_settings(&base).await.unwrap_err();
    assert!(
        fault.what.contains("Dockerfile") && fault.what.contains("nothing-of-this-name"),
        "{fault}"
    );
    fs::remove_file(folder.path().join("Dockerfile")).unwrap();
    let fault = docker.image_settings(&base).await.unwrap_err();
    assert!(fault.what.contains("no file `Dockerfile`"), "{fault}");
}

/// Only images that this back end created are removed, and none that a container uses.
#[tokio::test]
async fn docker_environment_is_listed_and_discarded() {
    let test = "docker_environment_is_listed_and_discarded";
    let Some(docker) = connect_or_skip(test).await else { return };
    // No other test uses this command, so the environment is not in the cache.
    let line = format!("echo {} > /testbed/own.txt", std::process::id());
    let spec = layer_spec(Base::Host, &[&line]);
    let prepared = docker.prepare(&spec).await.unwrap();
    let kept = docker.cache_entries().await.unwrap();
    let is_ours = |kept: &CacheEntry| {
        kept.backend_id.starts_with("proctor-") || kept.backend_id.starts_with("sha256:")
    };
    assert!(kept.iter().all(is_ours), "{kept:?}");
    let own = kept.iter().find(|kept| kept.backend_id == prepared.backend_id).unwrap();
    assert!(own.bytes > 0 && own.created_at.is_some());
    let mut sandbox = docker.open(&sandbox_request(&prepared)).await.unwrap();
    assert!(!docker.discard(own).await.unwrap(), "a container still uses the environment");
    assert!(docker.prepare(&spec).await.is_ok_and(|again| !again.was_built));
    sandbox.close().await.unwrap();
    assert!(docker.discard(own).await.unwrap());
    assert!(
        docker
            .cache_entries()
            .await
            .unwrap()
            .iter()
            .all(|kept| kept.backend_id != prepared.backend_id)
    );
    let again = docker.prepare(&spec).await.unwrap();
    assert!(again.was_built, "the layer must be built again");
    docker.discard(own).await.unwrap();
}

/// An image loses its name when another image is given that name.
#[tokio::test]
async fn docker_untagged_image_is_listed_and_discarded() {
    let test = "docker_untagged_image_is_listed_and_discarded";
    let Some(docker) = connect_or_skip(test).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let name = format!("proctor-base:{:032x}", std::process::id());
    let import = |comment: &str, content: &str| {
        fs::write(folder.path().join("file"), content).unwrap();
        let archive = folder.path().join("base.tar");
        let tar = ["-C", folder.path().to_str().unwrap(), "-cf", archive.to_str().unwrap(), "file"];
        assert!(Process::new("tar").args(tar).status().unwrap().success());
        let import = ["import", "-m", comment, archive.to_str().unwrap(), &name];
        let done = Process::new("docker").args(import).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    };
    let own = import("a base of Proctor", &format!("one {name}"));
    let theirs = import("somebody's", &format!("two {name}"));
    import("a base of Proctor", &format!("three {name}"));
    let kept = docker.cache_entries().await.unwrap();
    assert!(kept.iter().all(|kept| kept.backend_id != theirs), "{kept:?}");
    let lost = kept.iter().find(|kept| kept.backend_id == own).unwrap();
    assert!(docker.discard(lost).await.unwrap());
    assert!(docker.cache_entries().await.unwrap().iter().all(|kept| kept.backend_id != own));
    for image in [&theirs, &name] {
        Process::new("docker").args(["rmi", image]).output().unwrap();
    }
}

/// A container's end is attributed to its content only if the kernel killed one of its processes at
/// the memory limit.
#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_killed_container_is_not_attributed_to_its_content() {
    let name = "end_of_a_killed_container_is_not_attributed_to_its_content";
    let Some(docker) = connect_or_skip(name).await else { return };
    let prepared = docker.prepare(&layer_spec(Base::Host, &[])).await.unwrap();
    let mut spec = sandbox_request(&prepared);
    spec.purpose = format!("to-be-killed-{}", std::process::id());
    let mut killed = docker.open(&spec).await.unwrap();
    shell(&*killed, "echo here").await;
    let label = format!("label=proctor.purpose={}", spec.purpose);
    let listed = ["ps", "--no-trunc", "--quiet", "--filter", &label];
    let id = Process::new("docker").args(listed).output().unwrap().stdout;
    let id = String::from_utf8_lossy(&id).trim().to_owned();
    assert_eq!(id.len(), 64, "one container: {id:?}");
    let done = Process::new("docker").args(["kill", &id]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let error = killed.handle().run(Command::shell("sleep 30")).await.unwrap_err();
    assert_eq!(killed.handle().diagnose_exhaustion(&error.to_fault("running")).await, None);
    killed.close().await.unwrap();
}
