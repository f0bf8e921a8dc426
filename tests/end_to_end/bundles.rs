//! Tests `proctor scaffold`, which lists scaffolds, builds bundles and reports corrupt bundles.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

use crate::stage::{Stage, repository_root};

/// Writes the manifest of an agent that is a script, and the files that the manifest refers to.
fn write_manifest(stage: &Stage) -> String {
    stage.write_file("agent.sh", "#!/bin/sh\necho mine\n");
    let text = "name = \"mine\"\nversion = \"1.0\"\napi = \"chat\"\n\
                command = { argv = [\"/agent/bin/agent\"] }\n[bundle]\nkind = \"files\"\n\
                files = { \"lib/agent\" = \"agent.sh\" }\nbin = { agent = \"lib/agent\" }\n";
    stage.write_file("mine.toml", text).display().to_string()
}

/// Runs `proctor` with its own cache and without Docker, because cleaning would remove images that
/// other tests use.
fn run_isolated(stage: &Stage, args: &[&str], status: i32) -> (String, String) {
    let Output { stdout, stderr, status: ended } = stage
        .proctor(args)
        .env("PROCTOR_CACHE", stage.path("cache"))
        .env("DOCKER_HOST", format!("unix://{}", stage.path("no-engine").display()))
        .output()
        .unwrap();
    let (out, said) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(ended.code(), Some(status), "{args:?}\n{out}\n{said}");
    (out, said)
}

fn bundle_folder(out: &str) -> PathBuf {
    let line = out.lines().find_map(|line| line.trim_start_matches("# ").strip_prefix("folder"));
    Path::new(line.unwrap().trim()).to_owned()
}

#[test]
fn bundle_is_built_shown_verified_and_cleaned() {
    let stage = Stage::new();
    let manifest = write_manifest(&stage);
    let (out, said) = run_isolated(&stage, &["scaffold", "show", &manifest], 0);
    assert!(out.contains("kind = \"files\"") && out.contains("# bundle    not built"), "{out}");
    assert_eq!(said, "");
    let (out, said) = run_isolated(&stage, &["scaffold", "add", &manifest], 0);
    assert!(said.contains("built the bundle of mine 1.0: 0 MB, 2 files"), "{said}");
    let folder = bundle_folder(&out);
    let program = fs::metadata(folder.join("bin/agent")).unwrap();
    assert_eq!(program.permissions().mode() & 0o7777, 0o755);
    let (again, said) = run_isolated(&stage, &["scaffold", "add", &manifest], 0);
    assert_eq!((again.as_str(), said.as_str()), (out.as_str(), ""), "it was built once");

    // The output of `show` must still be a valid manifest.
    let (shown, said) = run_isolated(&stage, &["scaffold", "show", &manifest, "--verify"], 0);
    assert!(shown.parse::<toml::Table>().unwrap().contains_key("bundle"));
    assert_eq!(bundle_folder(&shown), folder);
    assert!(said.contains("the bundle of mine 1.0 is intact"), "{said}");
    fs::write(folder.join("lib/agent"), "#!/bin/sh\necho evil\n").unwrap();
    let (_, said) = run_isolated(&stage, &["scaffold", "show", &manifest, "--verify"], 1);
    assert!(said.contains("lib/agent has changed") && said.contains("rebuild it"), "{said}");

    let (out, _) = run_isolated(&stage, &["clean"], 0);
    assert!(out.contains("bundles/built: 1 item"), "{out}");
    assert!(!folder.exists());
}

#[test]
fn scaffold_list_shows_built_in_and_added_scaffolds() {
    let stage = Stage::new();
    let (out, _) = run_isolated(&stage, &["scaffold", "list"], 0);
    let line = |name: &str| out.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(line("tools").contains("built in"), "{out}");
    for name in ["claude-code", "codex", "gemini-cli", "mini-swe-agent", "openhands", "qwen-code"] {
        assert!(line(name).ends_with("not built"), "{name}: {out}");
    }
    assert!(line("codex").contains("0.169.0"), "{out}");
}

#[test]
fn run_reports_a_bundle_that_cannot_be_built() {
    let stage = Stage::new();
    let (_, said) = run_isolated(&stage, &["scaffold", "show", "codex@0.1.0"], 2);
    assert!(said.contains("pinned at") && said.contains("scaffold add codex@0.1.0"), "{said}");
    let (_, said) = run_isolated(&stage, &["scaffold", "add", "codecs"], 2);
    assert!(said.contains("codecs") && said.contains("use one of claude-code"), "{said}");
    let manifest = write_manifest(&stage);
    fs::remove_file(stage.path("agent.sh")).unwrap();
    let (_, said) = run_isolated(&stage, &["scaffold", "add", &manifest], 1);
    assert!(said.contains("mine 1.0") && said.contains("agent.sh"), "{said}");
    let text = fs::read_to_string(&manifest).unwrap().replace("bin =", "bins =");
    let wrong = stage.write_file("wrong.toml", &text).display().to_string();
    let (_, said) = run_isolated(&stage, &["scaffold", "add", &wrong], 2);
    assert!(said.contains("wrong.toml") && said.contains("bins"), "{said}");
}

/// A dry run reports every problem with an agent that it can find, with a hint and the line of the
/// arm.
#[test]
fn dry_run_reports_agent_problems() {
    let stage = Stage::new();
    let manifest = write_manifest(&stage);
    let plan = |scaffold: &str, status: i32| {
        let tasks = repository_root().join("configs/tasks/demo.jsonl");
        let text = format!(
            "tasks = [{tasks:?}]\n[[arms]]\nname = \"a\"\nscaffold = {scaffold:?}\nmodel = \"m\"\n\
             [models.m]\nbase_url = \"http://127.0.0.1:9/v1\"\nname = \"m\"\n"
        );
        let config = stage.write_file("run.toml", &text).display().to_string();
        let (out, said) = run_isolated(&stage, &["run", &config, "--dry-run"], status);
        format!("{out}{said}").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(plan(&manifest, 0).contains("a: mine, m"));
    // The name may end with the manifest's own version, which does not make a different arm.
    let arm = |text: &str| text.split(" codex").next().unwrap().to_owned();
    assert_eq!(arm(&plan("codex@0.169.0", 0)), arm(&plan("codex", 0)));
    let text = fs::read_to_string(&manifest).unwrap();
    let misnamed = text.replace("\"/agent/bin/agent\"", "\"/agent/bin/agent\", \"{{ promt }}\"");
    let misnamed = stage.write_file("misnamed.toml", &misnamed).display().to_string();
    fs::remove_file(stage.path("agent.sh")).unwrap();
    for (scaffold, says) in [
        ("codex@0.1.0", "`codex` is pinned at 0.169.0, not 0.1.0"),
        (misnamed.as_str(), "`command.argv`: line 1: `promt` is undefined"),
        (manifest.as_str(), "agent.sh"),
    ] {
        let said = plan(scaffold, 2);
        assert!(said.contains("key `arms.0.scaffold` (arm `a`)"), "{said}");
        assert!(said.contains(says) && said.contains("hint: "), "{says}: {said}");
    }
}

/// Serves an npm registry that contains `opencode-linux-x64` in these versions. The last version is
/// the latest one. The program is a script that prints its version. Returns the registry's address,
/// and the checksum of each version's archive.
fn serve_registry(stage: &Stage, versions: &[&'static str]) -> (String, Vec<String>) {
    const PACKAGE_NAME: &str = "opencode-linux-x64";
    let mut releases = Vec::new();
    for version in versions {
        let folder = stage.path(version);
        fs::create_dir_all(folder.join("package/bin")).unwrap();
        let about = json!({ "name": PACKAGE_NAME, "version": version });
        fs::write(folder.join("package/package.json"), about.to_string()).unwrap();
        let program = format!("#!/bin/sh\necho {version}\n");
        fs::write(folder.join("package/bin/opencode"), program).unwrap();
        let archive = folder.join("archive.tgz");
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(&archive).arg("-C").arg(&folder).arg("package");
        assert!(tar.status().unwrap().success());
        let summed = Command::new("sha512sum").arg(&archive).output().unwrap().stdout;
        let digits = String::from_utf8(summed).unwrap();
        let bytes: Vec<u8> = (0..64)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let integrity = format!("sha512-{}", BASE64_STANDARD.encode(bytes));
        releases.push((*version, fs::read(&archive).unwrap(), integrity));
    }
    let checksums = releases.iter().map(|release| release.2.clone()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let tarballs = address.clone();
    // The thread runs until the process that runs the test exits.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut first = String::new();
            reader.read_line(&mut first).unwrap();
            let mut line = String::from("x");
            while !line.trim().is_empty() {
                line.clear();
                reader.read_line(&mut line).unwrap();
            }
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            let newest = releases.last().map(|release| release.0);
            let answer = releases.iter().find_map(|(version, archive, integrity)| {
                let tarball = format!("/{PACKAGE_NAME}/-/{PACKAGE_NAME}-{version}.tgz");
                let is_latest = path == format!("/{PACKAGE_NAME}/latest") && newest == Some(*version);
                if path == tarball {
                    return Some(archive.clone());
                }
                let page = json!({ "name": PACKAGE_NAME, "version": version,
                    "dist": { "tarball": format!("{tarballs}{tarball}"), "integrity": integrity } });
                (is_latest || path == format!("/{PACKAGE_NAME}/{version}"))
                    .then(|| page.to_string().into_bytes())
            });
            let (status, body) = match answer {
                Some(body) => ("200 OK", body),
                None => ("404 Not Found", b"{}".to_vec()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n",
                body.len()
            );
            // Ignore errors, because a client may disconnect.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    (address, checksums)
}

#[test]
fn scaffold_add_builds_any_published_version() {
    let stage = Stage::new();
    let (address, checksums) = serve_registry(&stage, &["9.9.9", "9.10.0"]);
    let run = |args: &[&str], status: i32| {
        let output = stage
            .proctor(args)
            .env("PROCTOR_CACHE", stage.path("cache"))
            .env("npm_config_registry", &address)
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1")
            .output()
            .unwrap();
        let (out, said) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(status), "{args:?}\n{out}\n{said}");
        (out, said)
    };
    let (_, said) = run(&["scaffold", "add", "opencode@1.2.3"], 1);
    assert!(said.contains("opencode-linux-x64@1.2.3") && said.contains("npm view"), "{said}");
    let (out, said) = run(&["scaffold", "add", "opencode@9.9.9"], 0);
    assert!(said.contains("opencode 9.9.9 is untested"), "{said}");
    let program = fs::read_to_string(bundle_folder(&out).join("bin/opencode")).unwrap();
    assert!(program.contains("echo 9.9.9"), "{program}");
    let (out, _) = run(&["scaffold", "add", "opencode@latest"], 0);
    assert!(out.contains("opencode-linux-x64 9.10.0"), "{out}");
    let (out, _) = run(&["scaffold", "list"], 0);
    for version in ["9.9.9", "9.10.0"] {
        let name = format!("opencode@{version}");
        let line = out.lines().find(|line| line.starts_with(&name)).unwrap_or_default();
        assert!(line.contains(version) && line.ends_with("untested"), "{out}");
    }
    let (shown, _) = run(&["scaffold", "show", "opencode@9.9.9"], 0);
    assert!(shown.contains("untested = true") && shown.contains(&checksums[0]), "{shown}");

    // If a run uses two versions, they are two arms, and the record marks both as untested.
    let tasks = repository_root().join("configs/tasks/demo.jsonl");
    let arm = |name: &str, scaffold: &str| {
        format!("[[arms]]\nname = {name:?}\nscaffold = {scaffold:?}\nmodel = \"m\"\n")
    };
    let text = format!(
        "tasks = [{tasks:?}]\n{}{}[models.m]\nbase_url = \"http://127.0.0.1:9/v1\"\nname = \"m\"\n",
        arm("old", "opencode@9.9.9"),
        arm("new", "opencode@9.10.0"),
    );
    let config = stage.write_file("run.toml", &text).display().to_string();
    let (out, said) = run(&["run", &config, "--dry-run"], 0);
    let said = format!("{out}{said}").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("old: opencode-9.9.9, m"), "{said}");
    assert!(said.contains("new: opencode-9.10.0, m"), "{said}");
}

/// If the old checksum were accepted, the new version's name would stand for the old program.
#[test]
fn bundle_rejects_a_stale_checksum() {
    let stage = Stage::new();
    let (address, checksums) = serve_registry(&stage, &["9.9.9", "9.10.0"]);
    let manifest = |version: &str, checksum: &str| {
        let text = format!(
            "name = \"mine\"\nversion = {version:?}\napi = \"chat\"\n\
             command = {{ argv = [\"/agent/bin/opencode\"] }}\n[bundle]\nkind = \"npm\"\n\
             bin = {{ opencode = \"lib/node_modules/opencode-linux-x64/bin/opencode\" }}\n\
             [[bundle.packages]]\nname = \"opencode-linux-x64\"\nversion = {version:?}\n\
             integrity = {checksum:?}\n"
        );
        stage.write_file("mine.toml", &text).display().to_string()
    };
    let add = |manifest: &str| {
        let output = stage
            .proctor(["scaffold", "add", manifest])
            .env("PROCTOR_CACHE", stage.path("cache"))
            .env("npm_config_registry", &address)
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1")
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(add(&manifest("9.9.9", &checksums[0])).0, Some(0));
    // The archive with that checksum is now in the cache, but it does not match the manifest.
    let (status, said) = add(&manifest("9.10.0", &checksums[0]));
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("is opencode-linux-x64 9.9.9, expected opencode-linux-x64 9.10.0"),
        "{said}"
    );
    assert!(said.contains("hint: "), "{said}");
    assert_eq!(add(&manifest("9.10.0", &checksums[1])).0, Some(0));
}
