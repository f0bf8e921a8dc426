//! Tests bundles that are built with the real registries. They run in sandboxes that contain
//! nothing else: no libc, no shell and no network.
//!
//! The core tier builds small bundles and one of the built-in bundles. With `PROCTOR_TIER=full` or
//! `PROCTOR_BUNDLES=all`, the test builds all built-in bundles, which takes minutes and gigabytes.
//! With `PROCTOR_BUNDLES=codex,gemini-cli`, it builds only these two. If `PROCTOR_BUNDLES_CACHE` is
//! set, the test uses that cache directory and does not remove it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first thing that is not there")]

#[path = "../../../tests/not_run.rs"]
mod not_run;
#[path = "../../../tests/tier.rs"]
mod tier;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

use not_run::not_run;
use proctor_bundles::{Bundle, BundleRecipe, BundleStore, MOUNT};
use proctor_docker::Docker;
use proctor_native::Native;
use proctor_sandbox_api::{
    Backend, Base, Command, LayerSpec, Mount, Sandbox, SandboxRequest, describe_exit, wire::RawPath,
};
use proctor_types::SandboxSpec;

/// The program, arguments and expected output for each built-in bundle.
const BUILT_IN_BUNDLES: &[(&str, &[&str], &str)] = &[
    ("claude-code", &["claude", "--version"], "2.1.329"),
    ("codex", &["codex", "--version"], "0.169.0"),
    ("continue", &["cn", "--version"], "1.5.47"),
    ("gemini-cli", &["gemini", "--version"], "0.61.0"),
    ("mini-swe-agent", &["mini", "--help"], "mini-swe-agent"),
    ("opencode", &["opencode", "--version"], "1.18.33"),
    ("openhands", &["openhands", "--version"], "1.16.0"),
    ("qwen-code", &["qwen", "--version"], "0.24.4"),
];

/// A recipe for a static program from npm, which is small enough to build in every test run.
const SMALL_RECIPE: &str = "
kind = 'npm'
bin = { tool = 'lib/node_modules/@esbuild/linux-x64/bin/esbuild' }
[[packages]]
name = '@esbuild/linux-x64'
version = '0.28.2'
integrity = 'sha512-4xTZr1FUmSoQW4XIWmit3tzQrUTZM+N3P0XV8xROKYF50XfI7xeO90+1bZvNwxIufQ9hDQVRJH5YhgPVF8A/HQ=='
";

const FILES_RECIPE: &str = "
kind = 'files'
files = { 'lib/agent.sh' = 'agent.sh', 'share' = 'data' }
bin = { agent = 'lib/agent.sh' }
";

fn recipe(text: &str) -> BundleRecipe {
    toml::from_str(text).unwrap()
}

/// Creates a directory with the files that the recipe [`FILES_RECIPE`] refers to.
fn manifest_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("agent.sh"), "#!/bin/sh\necho I am $0\n").unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/note"), "note\n").unwrap();
    folder
}

fn ignore_progress(_: String) {}

async fn build_files_bundle(cache: &Path, folder: &Path) -> Bundle {
    let bundles = BundleStore::new(cache);
    bundles
        .ensure_built("mine", "1", &recipe(FILES_RECIPE), folder, &ignore_progress)
        .await
        .unwrap()
}

#[tokio::test]
async fn builds_of_one_recipe_have_the_same_name_and_modes() {
    let (one, two, folder) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), manifest_folder());
    let first = build_files_bundle(one.path(), folder.path()).await;
    // Build from another directory, at a later time, with files that have different modes and
    // times.
    let other = manifest_folder();
    fs::set_permissions(other.path().join("data"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(other.path().join("data/note"), fs::Permissions::from_mode(0o600)).unwrap();
    let second = build_files_bundle(two.path(), other.path()).await;
    assert_eq!(first.digest, second.digest);
    assert_eq!(first.folder.file_name(), second.folder.file_name());
    for (path, mode) in
        [("", 0o755), ("bin", 0o755), ("lib/agent.sh", 0o755), ("share/note", 0o644)]
    {
        let found = fs::metadata(second.folder.join(path)).unwrap();
        assert_eq!(found.mode() & 0o7777, mode, "{path}");
        if rustix::process::geteuid().is_root() {
            assert_eq!((found.uid(), found.gid()), (0, 0), "{path}");
        }
    }
    assert_eq!((first.file_count, first.total_bytes), (3, 5 + 23));
    // If the content differs, another bundle is built and stored next to the first.
    fs::write(other.path().join("data/note"), "another\n").unwrap();
    let third = build_files_bundle(two.path(), other.path()).await;
    assert_ne!(third.digest, second.digest);
    assert!(second.folder.exists());
}

#[tokio::test]
async fn bundle_is_reused_and_rebuilt_if_corrupt() {
    let (cache, folder) = (tempfile::tempdir().unwrap(), manifest_folder());
    let (bundles, files) = (BundleStore::new(cache.path()), recipe(FILES_RECIPE));
    assert_eq!(bundles.find_built("mine", "1", &files, folder.path()), None);
    let built = build_files_bundle(cache.path(), folder.path()).await;
    let said = Mutex::new(Vec::new());
    let hear = |line: String| said.lock().unwrap().push(line);
    let again = bundles.ensure_built("mine", "1", &files, folder.path(), &hear).await.unwrap();
    assert_eq!(again, built);
    assert_eq!(said.lock().unwrap().len(), 0, "no bundle should have been built");
    bundles.verify("mine", "1", &files, folder.path()).unwrap();

    // The new text has the same length, so only a full read detects the change.
    fs::write(built.folder.join("share/note"), "evil\n").unwrap();
    assert!(bundles.find_built("mine", "1", &files, folder.path()).is_some());
    let error = bundles.verify("mine", "1", &files, folder.path()).unwrap_err();
    assert!(error.problem.contains("share/note has changed"), "{error}");
    assert!(error.hint.is_some());

    for damage in [
        |tree: &Path| fs::remove_file(tree.join("lib/agent.sh")).unwrap(),
        |tree: &Path| fs::write(tree.join("share/note"), "longer than it was\n").unwrap(),
        |tree: &Path| {
            let mode = fs::Permissions::from_mode(0o4755);
            fs::set_permissions(tree.join("lib/agent.sh"), mode).unwrap();
        },
    ] {
        damage(&built.folder);
        assert_eq!(bundles.find_built("mine", "1", &files, folder.path()), None);
        let healed = bundles.ensure_built("mine", "1", &files, folder.path(), &hear).await.unwrap();
        assert_eq!(healed.digest, built.digest);
    }
    assert!(said.lock().unwrap().iter().any(|line| line.contains("lib/agent.sh is missing")));
}

#[tokio::test]
async fn failed_build_leaves_nothing_and_has_a_hint() {
    let (cache, folder) = (tempfile::tempdir().unwrap(), manifest_folder());
    let bundles = BundleStore::new(cache.path());
    let cases = [
        (FILES_RECIPE.replace("'data'", "'missing'"), "missing", "No such file"),
        (FILES_RECIPE.replace("lib/agent.sh' }", "lib/none.sh' }"), "bin.agent", "lib/none.sh"),
        (
            FILES_RECIPE.replace("kind", "executable = ['lib/no']\nkind"),
            "bundle.executable",
            "lib/no",
        ),
    ];
    for (text, place, what) in cases {
        let failed = bundles
            .ensure_built("mine", "1", &recipe(&text), folder.path(), &ignore_progress)
            .await;
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("mine 1") || error.contains("missing"), "{error}");
        assert!(error.contains(place) && error.contains(what), "{error}");
        let built = fs::read_dir(cache.path().join("built"));
        let left = built.map_or(0, Iterator::count);
        assert_eq!(left, 0, "{error}");
    }
    // A killed build would leave this behind. The next build starts over.
    let done = build_files_bundle(cache.path(), folder.path()).await;
    let mut torn = done.folder.parent().unwrap().as_os_str().to_owned();
    torn.push(".building");
    fs::create_dir_all(Path::new(&torn).join("tree/lib")).unwrap();
    fs::write(Path::new(&torn).join("tree/lib/half"), "x").unwrap();
    fs::remove_dir_all(done.folder.parent().unwrap()).unwrap();
    let again = build_files_bundle(cache.path(), folder.path()).await;
    assert_eq!(again.digest, done.digest);
    assert!(!Path::new(&torn).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_build_a_bundle_once() {
    let (cache, folder) = (tempfile::tempdir().unwrap(), manifest_folder());
    let begun = std::sync::Arc::new(Mutex::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (cache, folder) = (cache.path().to_owned(), folder.path().to_owned());
            let begun = std::sync::Arc::clone(&begun);
            tokio::spawn(async move {
                let count = |line: String| {
                    if line.starts_with("building") {
                        *begun.lock().unwrap() += 1;
                    }
                };
                let bundles = BundleStore::new(cache);
                bundles
                    .ensure_built("mine", "1", &recipe(FILES_RECIPE), &folder, &count)
                    .await
                    .unwrap()
                    .digest
            })
        })
        .collect();
    let mut digests = Vec::new();
    for task in tasks {
        digests.push(task.await.unwrap());
    }
    digests.dedup();
    assert_eq!((digests.len(), *begun.lock().unwrap()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn npm_bundle_is_verified_reproducible_and_cached() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let nowhere = Path::new("/");
    let wrong = recipe(&SMALL_RECIPE.replace("4xTZr1", "5xTZr1"));
    let error = BundleStore::new(one.path())
        .ensure_built("small", "1", &wrong, nowhere, &ignore_progress)
        .await;
    let error = error.unwrap_err();
    if error.is_unreachable {
        return not_run("npm_bundle_is_verified_reproducible_and_cached", "CLIENTS", error);
    }
    let error = error.to_string();
    assert!(error.contains("@esbuild/linux-x64@0.28.2: its checksum is sha512-"), "{error}");
    assert_eq!(fs::read_dir(one.path().join("built")).unwrap().count(), 0);

    let small = recipe(SMALL_RECIPE);
    let build = |cache: &Path| BundleStore::new(cache);
    let first = build(one.path())
        .ensure_built("small", "1", &small, nowhere, &ignore_progress)
        .await
        .unwrap();
    let second = build(two.path())
        .ensure_built("small", "1", &small, nowhere, &ignore_progress)
        .await
        .unwrap();
    assert_eq!(first.digest, second.digest);
    assert_eq!(first.versions["@esbuild/linux-x64"], "0.28.2");
    // Downloads are in the cache, so a bundle that was removed is rebuilt without the network.
    fs::remove_dir_all(one.path().join("built")).unwrap();
    let downloads = one.path().join("downloads");
    let before = fs::metadata(&downloads).unwrap().modified().unwrap();
    let third = build(one.path())
        .ensure_built("small", "1", &small, nowhere, &ignore_progress)
        .await
        .unwrap();
    assert_eq!(third.digest, first.digest);
    assert_eq!(
        fs::metadata(&downloads).unwrap().modified().unwrap(),
        before,
        "it was downloaded again"
    );

    for place in empty_back_ends("a_package_of_npm").await {
        let (said, _) = place.run(&third, &["tool", "--version"]).await.unwrap();
        assert!(said.contains("0.28.2"), "{}: {said}", place.name);
    }
}

/// The built-in bundle that is tested by default. Its program needs the bundled C library. Testing
/// all bundles takes gigabytes.
const DEFAULT_BUNDLE: &str = "claude-code";

/// Runs every requested built-in bundle in sandboxes that contain nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn shipped_bundles_run_in_an_empty_root() {
    let test = "shipped_bundles_run_in_an_empty_root";
    let default = if tier::is_full() { "all" } else { DEFAULT_BUNDLE };
    let asked = std::env::var("PROCTOR_BUNDLES").unwrap_or_else(|_| default.into());
    let chosen = |name: &str| asked == "all" || asked.split(',').any(|one| one == name);
    assert!(
        BUILT_IN_BUNDLES.iter().any(|(name, ..)| chosen(name)),
        "PROCTOR_BUNDLES={asked}: no such bundle"
    );
    let cache = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("PROCTOR_BUNDLES_CACHE").map(PathBuf::from);
    let bundles = BundleStore::new(kept.as_deref().unwrap_or(cache.path()));
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../external/manifests");
    let places = empty_back_ends(test).await;
    let mut wrong = Vec::new();
    for (name, command, says) in BUILT_IN_BUNDLES {
        if !chosen(name) {
            continue;
        }
        let text = fs::read_to_string(manifests.join(format!("{name}.toml"))).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let version = manifest["version"].as_str().unwrap();
        let recipe: BundleRecipe = manifest["bundle"].clone().try_into().unwrap();
        let tell = |line: String| eprintln!("{line}");
        let built = bundles.ensure_built(name, version, &recipe, &manifests, &tell).await;
        let bundle = match built {
            Ok(bundle) => bundle,
            Err(error) => {
                wrong.push(error.to_string());
                continue;
            }
        };
        eprintln!(
            "bundle {name} {version}: {:.0} MB, {} files, built in {:.1} s, {}",
            bundle.total_bytes as f64 / 1e6,
            bundle.file_count,
            bundle.build_seconds,
            &bundle.digest[..16]
        );
        for place in &places {
            match place.run(&bundle, command).await {
                Ok((said, seconds)) if said.contains(says) => {
                    eprintln!("  {}: {seconds:.2} s", place.name);
                }
                Ok((said, _)) => wrong.push(format!("{name} on {} printed: {said}", place.name)),
                Err(why) => wrong.push(format!("{name} on {}: {why}", place.name)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A back end and an empty environment, which has no libc, shell or interpreter.
struct EmptyBackEnd {
    name: &'static str,
    backend: Box<dyn Backend>,
    environment: proctor_sandbox_api::PreparedEnvironment,
    _folders: Vec<tempfile::TempDir>,
}

async fn empty_back_ends(test_name: &str) -> Vec<EmptyBackEnd> {
    let mut out = Vec::new();
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    out.push(empty_back_end("native", Box::new(native), vec![cache]).await);
    match Docker::connect().await {
        Ok(docker) => out.push(empty_back_end("docker", Box::new(docker), Vec::new()).await),
        Err(fault) => not_run(test_name, "DOCKER", fault),
    }
    out
}

async fn empty_back_end(
    name: &'static str,
    backend: Box<dyn Backend>,
    mut folders: Vec<tempfile::TempDir>,
) -> EmptyBackEnd {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/only"), "the only file\n").unwrap();
    fs::create_dir(root.path().join("tmp")).unwrap();
    fs::set_permissions(root.path().join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    let spec = LayerSpec {
        base: Base::Folder(root.path().to_owned()),
        source: None,
        setup: vec![],
        workdir: RawPath::from("/testbed"),
        env: vec![],
        time_limit: Duration::from_secs(60),
    };
    let environment = backend.prepare(&spec).await.unwrap();
    folders.push(root);
    EmptyBackEnd { name, backend, environment, _folders: folders }
}

impl EmptyBackEnd {
    /// Runs a program as a user other than root, with its own home directory. Returns the output
    /// and the duration.
    async fn run(&self, bundle: &Bundle, command: &[&str]) -> Result<(String, f64), String> {
        let request = SandboxRequest {
            environment: self.environment.clone(),
            limits: SandboxSpec { memory_mb: 4096, ..SandboxSpec::default() },
            mounts: vec![Mount {
                folder: bundle.folder.clone(),
                mount_point: RawPath::from(MOUNT),
            }],
            purpose: "a test of bundles".to_owned(),
        };
        let mut sandbox: Box<dyn Sandbox> = self.backend.open(&request).await.unwrap();
        let mut argv = vec![format!("{MOUNT}/bin/{}", command[0])];
        argv.extend(command[1..].iter().map(|word| (*word).to_owned()));
        let run = Command::new(argv).time_limit(Duration::from_secs(120));
        let run = run.env("HOME", "/tmp").env("PATH", "/usr/bin:/bin:/agent/sh");
        // Variables that an image may set. Programs in a bundle must ignore them.
        let mut run = run.env("LD_LIBRARY_PATH", "/agent/sh").env("PYTHONHOME", "/usr");
        if self.name == "docker" {
            run.user = Some("1234:1234".to_owned());
        }
        let started = Instant::now();
        let done = sandbox.handle().run(run).await.unwrap();
        let seconds = started.elapsed().as_secs_f64();
        sandbox.close().await.unwrap();
        let said = format!("{}{}", done.stdout.text(), done.stderr.text());
        match done.success() {
            true => Ok((said, seconds)),
            false => Err(format!("{}: {said}", describe_exit(&done.exit))),
        }
    }
}
