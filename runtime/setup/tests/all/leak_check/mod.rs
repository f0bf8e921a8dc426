//! Tests the leak check in real sandboxes. The check must find planted copies and accept clean
//! sandboxes.

#![expect(clippy::unwrap_used, reason = "a test's own helper may fail it")]
#![expect(clippy::print_stdout, reason = "the list of findings is what these tests show")]

mod fixture;

use proctor_docker::Docker;
use proctor_native::Native;
use proctor_sandbox_api::{Backend, Base, Command};
use proctor_setup::{
    HiddenCopies, LayerFindings, LeakKind, Purpose, ReadySandbox, prepare_for_agent,
};
use proctor_types::{FaultLayer, OnFinding};

use crate::not_run::not_run;
use fixture::{
    build_environment, numerals_task, open_prepared_sandbox, prepare_agent_sandbox,
    search_environment,
};

/// Planted copies: their kind, their path, and the kind of finding that each must yield.
const PLANTED_COPIES: [(&str, &str, LeakKind); 38] = [
    ("exact", "/root/backup/thesis.txt", LeakKind::Copy),
    ("exact", "/srv/deploy/numerals.py~", LeakKind::Copy),
    ("exact", "/root/.cache/uv/archive-v0/Xk2/numerals/roman.py", LeakKind::Copy),
    ("reindented", "/var/lib/notes/tidy.py", LeakKind::Copy),
    ("patch", "/tmp/fix.patch", LeakKind::Copy),
    ("wheel", "/root/.cache/pip/wheels/ab/any-1.0-py3-none-any.whl", LeakKind::ArchivedCopy),
    ("sdist_without_a_name", "/root/.cache/pip/http-v2/0/1/body", LeakKind::Copy),
    ("conda_package", "/var/conda/pkgs/numerals-1.0-py_0.tar.bz2", LeakKind::ArchivedCopy),
    ("debian_package", "/var/cache/apt/archives/numerals.deb", LeakKind::ArchivedCopy),
    ("magic_alone", "/srv/lib/libnumerals.a", LeakKind::Copy),
    ("nested", "/root/.npm/_cacache/content-v2/sha512/0a", LeakKind::ArchivedCopy),
    (
        "other_version_importable",
        "/venv2/lib/python3/site-packages/numerals/roman.py",
        LeakKind::ImportableCopy,
    ),
    ("bytecode", "/var/spool/__pycache__/x.pyc", LeakKind::Bytecode),
    ("loose_object", "/srv/mirror.git", LeakKind::History),
    ("swap_file", "/root/.roman.py.swp", LeakKind::Copy),
    ("editor_history", "/root/.config/Code/User/History/1f/Ab.json", LeakKind::Copy),
    ("hidden_test", "/var/tmp/scratch.py", LeakKind::Copy),
    ("hidden_test", "/home/dev/.local/test_roman.py.orig", LeakKind::Copy),
    ("commented", "/srv/deploy/settings.py", LeakKind::Copy),
    ("commented_by_slashes", "/srv/port/numerals.js", LeakKind::Copy),
    ("commented_in_c", "/srv/port/numerals.c", LeakKind::Copy),
    ("quoted", "/home/dev/mail/cur/1", LeakKind::Copy),
    ("html_page", "/srv/manual/source.html", LeakKind::Copy),
    ("html_without_quotes", "/srv/manual/index.xml", LeakKind::Copy),
    ("c_literal", "/srv/port/frozen.h", LeakKind::Copy),
    ("literal_on_one_line", "/srv/port/bundle.js", LeakKind::Copy),
    ("notebook", "/home/dev/notes.ipynb", LeakKind::Copy),
    ("numbered", "/home/dev/listing.txt", LeakKind::Copy),
    ("numbered_by_grep", "/tmp/grep.out", LeakKind::Copy),
    ("log_of_an_agent", "/root/.claude/projects/x/1.jsonl", LeakKind::Copy),
    ("log_of_calls", "/var/log/calls", LeakKind::Copy),
    ("unified_diff", "/home/dev/change.eml", LeakKind::Copy),
    ("gzip_behind_a_script", "/root/install.run", LeakKind::Copy),
    ("zlib_behind_a_header", "/home/dev/paper.pdf", LeakKind::Copy),
    ("wide_text", "/home/dev/editor.txt", LeakKind::Copy),
    ("base64_text", "/etc/cloud/user-data.yaml", LeakKind::Copy),
    ("base64_in_json", "/root/.cache/api/contents", LeakKind::Copy),
    ("hexadecimal", "/var/backups/dump.sql", LeakKind::Copy),
];

fn plant_lines(planted_copies: &[(&str, &str, LeakKind)]) -> String {
    planted_copies.iter().map(|(kind, path, _)| format!("{kind} {path}\n")).collect()
}

fn print_leaks(findings: &LayerFindings) {
    for leak in &findings.leaks {
        println!("  {leak}");
    }
    println!("  {:?}", findings.unseen);
}

/// Asserts that every planted copy has a finding of its kind, and that there are no other findings.
fn assert_copies_found(findings: &LayerFindings, planted_copies: &[(&str, &str, LeakKind)]) {
    for (how, path, kind) in planted_copies {
        let found: Vec<_> =
            findings.leaks.iter().filter(|leak| leak.place.starts_with(path)).collect();
        assert!(!found.is_empty(), "{how} at {path} was not found");
        if *how != "sdist_without_a_name" {
            assert!(found.iter().any(|leak| leak.kind == *kind), "{how}: {found:?}");
        }
    }
    for leak in &findings.leaks {
        let is_planted = planted_copies.iter().any(|(_, path, _)| leak.place.starts_with(path));
        assert!(is_planted, "{leak} was not planted");
    }
}

/// Tests the whole sequence on one back end. The check finds the copies, and rejects the sandbox
/// without revealing the solution. Then the policy removes the copies, and the sandbox is accepted.
async fn check_planted_copies(
    backend: &dyn Backend,
    base: Base,
    planted_copies: &[(&str, &str, LeakKind)],
) {
    let folder = tempfile::tempdir().unwrap();
    let task = numerals_task();
    let environment =
        build_environment(backend, base, folder.path(), &plant_lines(planted_copies)).await;
    let leak_check = search_environment(backend, &environment, &task).await;
    print_leaks(&leak_check);
    assert_copies_found(&leak_check, planted_copies);

    let refused =
        prepare_agent_sandbox(backend, &environment, &task, &leak_check, OnFinding::Refuse)
            .await
            .unwrap_err();
    assert_eq!(refused.layer, FaultLayer::Setup, "an infrastructure fault, never a zero");
    let said = refused.to_string();
    println!("{said}");
    assert!(leak_check.leaks.iter().take(5).all(|leak| said.contains(&leak.place)), "{said}");
    assert!(!said.contains("startswith") && !said.contains("pytest.raises"), "no gold: {said}");

    let removed =
        prepare_agent_sandbox(backend, &environment, &task, &leak_check, OnFinding::Remove)
            .await
            .unwrap();
    assert_eq!(removed.removed.len(), leak_check.leaks.len());
}

async fn check_clean_sandbox(backend: &dyn Backend, base: Base) {
    let folder = tempfile::tempdir().unwrap();
    let task = numerals_task();
    let environment = build_environment(backend, base, folder.path(), "").await;
    let leak_check = search_environment(backend, &environment, &task).await;
    print_leaks(&leak_check);
    assert_eq!(leak_check.leaks, [], "a clean image yields no finding");
    assert!(
        leak_check.unseen.files > 100,
        "the whole sandbox was scanned: {:?}",
        leak_check.unseen
    );
    let leaks = prepare_agent_sandbox(backend, &environment, &task, &leak_check, OnFinding::Refuse)
        .await
        .unwrap();
    assert_eq!(leaks.removed, [""; 0]);
}

fn start_native() -> (tempfile::TempDir, Native) {
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().to_owned()).unwrap();
    (cache, native)
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_copies_in_a_native_sandbox_are_detected() {
    let (_cache, native) = start_native();
    let mut places = PLANTED_COPIES.to_vec();
    // `git gc` packs the planted blob as a delta. Only the reflog refers to the blob's commit.
    places.push(("packed_by_git", "/root/work", LeakKind::History));
    places.push(("wheel_in_history", "/root/builds", LeakKind::History));
    places.push(("bundle_of_git", "/root/numerals.bundle", LeakKind::Copy));
    places.push(("bundle_of_git_3", "/var/backups/all", LeakKind::Copy));
    check_planted_copies(&native, Base::Host, &places).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_native_sandbox_is_set_up() {
    let (_cache, native) = start_native();
    check_clean_sandbox(&native, Base::Host).await;
}

const DEBIAN_IMAGE: &str = "proctor-test:bookworm";

/// Connects to Docker. If there is no Docker, reports that the test did not run.
async fn connect_docker(test_name: &str) -> Option<Docker> {
    match Docker::connect().await {
        Ok(docker) => Some(docker),
        Err(fault) => {
            not_run(test_name, "DOCKER", fault);
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_copies_in_a_docker_image_are_detected() {
    let name = "planted_copies_in_a_docker_image_are_detected";
    let Some(docker) = connect_docker(name).await else { return };
    check_planted_copies(&docker, Base::Image(DEBIAN_IMAGE.into()), &PLANTED_COPIES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_docker_image_is_set_up() {
    let Some(docker) = connect_docker("clean_docker_image_is_set_up").await else { return };
    check_clean_sandbox(&docker, Base::Image(DEBIAN_IMAGE.into())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_in_the_work_directory_are_detected_after_the_mask() {
    let (_cache, native) = start_native();
    let folder = tempfile::tempdir().unwrap();
    let task = numerals_task();
    let places = "exact /testbed/build/lib/numerals/roman.py\nwheel /testbed/dist/any.whl\n\
                  loose_object /testbed/.git\nbytecode /testbed/numerals/roman.pyc\n";
    let environment = build_environment(&native, Base::Host, folder.path(), places).await;
    let leak_check = search_environment(&native, &environment, &task).await;
    assert_eq!(leak_check.leaks, [], "the work directory is left to each trial's check");
    let fault = prepare_agent_sandbox(&native, &environment, &task, &leak_check, OnFinding::Refuse)
        .await
        .unwrap_err();
    let said = fault.to_string();
    assert!(said.contains("/testbed/build/lib/numerals/roman.py"), "{said}");
    assert!(said.contains("/testbed/dist/any.whl"), "{said}");
    assert!(!said.contains(".git") && !said.contains(".pyc"), "always removed: {said}");
    let leaks = prepare_agent_sandbox(&native, &environment, &task, &leak_check, OnFinding::Remove)
        .await
        .unwrap();
    assert_eq!(leaks.removed.len(), 2, "{:?}", leaks.removed);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_in_the_surroundings_are_detected() {
    let (_cache, native) = start_native();
    let folder = tempfile::tempdir().unwrap();
    let places = "exact /root/.netrc\n";
    let environment = build_environment(&native, Base::Host, folder.path(), places).await;
    let mut task = numerals_task();
    task.env.insert("SERVICE_API_KEY".into(), "not to be told".into());
    // Without a mask, the task hides no content, but the check still looks for secrets of the host.
    task.mask = None;
    task.hidden.clear();
    let leak_check = search_environment(&native, &environment, &task).await;
    assert_eq!(leak_check.leaks, []);
    let fault = prepare_agent_sandbox(&native, &environment, &task, &leak_check, OnFinding::Refuse)
        .await
        .unwrap_err();
    let said = fault.to_string();
    assert!(said.contains("SERVICE_API_KEY") && said.contains("/root/.netrc"), "{said}");
    assert!(!said.contains("not to be told"), "{said}");
}

/// For a from-scratch task, the whole source is hidden, the installed package is removed, and the
/// work directory has the configured initial content.
#[tokio::test(flavor = "multi_thread")]
async fn from_scratch_task_cannot_import_the_original() {
    let (_cache, native) = start_native();
    let folder = tempfile::tempdir().unwrap();
    let mut task = numerals_task();
    (task.mask, task.hidden) = (None, Vec::new());
    task.from_scratch = serde_json::from_value(serde_json::json!({
        "files": {"README.md": "put all code here\n"}, "install": "pip install ."
    }))
    .unwrap();
    let site = "/venv2/lib/python3/site-packages";
    let places = format!(
        "exact {site}/numerals/roman.py\nexact {site}/numerals/tally.py\nexact /root/copy.py\n"
    );
    let environment = build_environment(&native, Base::Host, folder.path(), &places).await;
    let leak_check = search_environment(&native, &environment, &task).await;
    print_leaks(&leak_check);
    let at =
        |place: &str| leak_check.leaks.iter().filter(|leak| leak.place.starts_with(place)).count();
    assert_eq!((at(site), at("/root/copy.py")), (1, 1), "one finding per package");

    let fault = prepare_agent_sandbox(&native, &environment, &task, &leak_check, OnFinding::Refuse)
        .await
        .unwrap_err();
    let said = fault.to_string();
    assert!(said.contains("/root/copy.py") && !said.contains(site), "{said}");
    let purpose = Purpose::Driving(OnFinding::Remove);
    let ReadySandbox { mut sandbox, hidden_copies: hidden } =
        open_prepared_sandbox(&native, &environment, &task, &leak_check, purpose).await.unwrap();
    let handle = sandbox.handle();
    prepare_for_agent(handle, &task, &leak_check, &hidden, OnFinding::Remove).await.unwrap();
    let line = format!("ls -A /testbed; ls {site}; PYTHONPATH={site} python3 -c 'import numerals'");
    let done = handle.run(Command::shell(&line).cwd("/testbed")).await.unwrap();
    assert_eq!(done.stdout.text(), "README.md\n");
    assert!(done.stderr.text().contains("No module named 'numerals'"), "{:?}", done.stderr);
    sandbox.close().await.unwrap();
}

/// All purposes of sandboxes. Content that is hidden from the agent must also be hidden from the
/// code under test.
const SANDBOX_PURPOSES: [Purpose<'static>; 3] = [
    Purpose::Driving(OnFinding::Refuse),
    Purpose::Testing,
    Purpose::Procedure { commands: "pytest -rA" },
];

/// Tests that a copy of hidden content on the host is absent from the task's sandboxes but present
/// in all others, and that nothing reveals the copy's location.
async fn check_host_copy(backend: &dyn Backend) {
    let folder = tempfile::tempdir().unwrap();
    let environment = build_environment(backend, Base::Host, folder.path(), "").await;
    let mut sandbox = fixture::open_sandbox(backend, &environment).await;
    let line = "python3 -c 'import textwrap; print(textwrap.__file__)'";
    let done = sandbox.handle().run(Command::shell(line)).await.unwrap();
    let path = done.stdout.text().trim().to_owned();
    let (parent, _) = path.rsplit_once('/').unwrap();
    // List all visible properties of the directory: the names, kinds, modes and owners of its
    // entries.
    let list = format!("cd {parent} && stat -c '%n %F %a %u:%g' -- * .[!.]* __pycache__/* | sort");
    let before = sandbox.handle().run(Command::shell(&list)).await.unwrap().stdout.text();
    sandbox.close().await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let mut task = numerals_task();
    (task.mask, task.hidden) = (None, Vec::new());
    let added: String = text.lines().map(|line| format!("+{line}\n")).collect();
    let count = text.lines().count();
    task.gold = Some(format!("--- /dev/null\n+++ b/wrapping.py\n@@ -0,0 +1,{count} @@\n{added}"));

    let leak_check = search_environment(backend, &environment, &task).await;
    print_leaks(&leak_check);
    assert!(leak_check.leaks.iter().any(|leak| leak.place == path), "{path}");
    let leaks = prepare_agent_sandbox(backend, &environment, &task, &leak_check, OnFinding::Refuse)
        .await
        .unwrap();
    assert!(leaks.removed.iter().any(|line| line.contains(&path)), "{:?}", leaks.removed);
    // The check must find the copy in a sandbox that has it.
    let mut open = fixture::open_sandbox(backend, &environment).await;
    let (handle, nothing) = (open.handle(), HiddenCopies::default());
    let refused = prepare_for_agent(handle, &task, &leak_check, &nothing, OnFinding::Refuse).await;
    assert!(refused.unwrap_err().what.contains(&path));
    open.close().await.unwrap();

    // Measure how much longer the sandbox takes to start. If the whiteouts already exist, it needs
    // only one more mount.
    let (mut plain, mut without) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let begun = std::time::Instant::now();
        let mut sandbox = fixture::open_sandbox(backend, &environment).await;
        plain.push(begun.elapsed());
        sandbox.close().await.unwrap();
        let begun = std::time::Instant::now();
        let ready =
            open_prepared_sandbox(backend, &environment, &task, &leak_check, Purpose::Testing)
                .await;
        without.push(begun.elapsed());
        ready.unwrap().sandbox.close().await.unwrap();
    }
    plain.sort();
    without.sort();
    println!(
        "a sandbox starts in {:?}, without the copies in {:?} (medians)",
        plain[4], without[4]
    );

    let is_its_own = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default();
        name == "textwrap.py" || name.starts_with("__pycache__/textwrap.")
    };
    let expected: Vec<&str> = before.lines().filter(|line| !is_its_own(line)).collect();
    assert!(expected.len() < before.lines().count());
    for purpose in SANDBOX_PURPOSES {
        let ReadySandbox { mut sandbox, hidden_copies: hidden } =
            open_prepared_sandbox(backend, &environment, &task, &leak_check, purpose)
                .await
                .unwrap();
        assert_eq!((hidden.provided_modules.len(), hidden.remaining_copies.len()), (0, 0));
        let handle = sandbox.handle();
        let after = handle.run(Command::shell(&list)).await.unwrap().stdout.text();
        assert_eq!(after.lines().collect::<Vec<_>>(), expected, "{purpose:?}");
        assert_eq!(handle.stat(&path.as_str().into()).await.unwrap(), None);
        let open = format!("cat {path}; python3 -c 'import textwrap'");
        let said = handle.run(Command::shell(&open)).await.unwrap().stderr.text();
        assert!(
            said.contains("No such file") && said.contains("No module named 'textwrap'"),
            "{said}"
        );
        // No device, empty placeholder or mount may exist at or below the directory from which the
        // copy was removed.
        let odd = format!(
            "find {parent} ! -type f ! -type d ! -type l; \
             awk '{{ print $5 }}' /proc/self/mountinfo | grep '^{parent}' | grep -v -- -packages"
        );
        assert_eq!(handle.run(Command::shell(&odd)).await.unwrap().stdout.text(), "");
        // Many other directories with code must look the same as the directory from which the copy
        // was removed.
        let alike = "find /usr -xdev -type d -links 1 -exec sh -c 'ls \"$0\"/*.py' {} ';' 2>/dev/null \
                     | sed 's,/[^/]*$,,' | sort -u | wc -l";
        let alike = handle.run(Command::shell(alike)).await.unwrap().stdout.text();
        assert!(alike.trim().parse::<usize>().unwrap() > 20, "{alike}");
        sandbox.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_on_the_host_is_absent_in_a_native_sandbox() {
    let (_cache, native) = start_native();
    check_host_copy(&native).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_on_the_host_is_absent_in_a_docker_sandbox() {
    let Some(docker) = connect_docker("copy_on_the_host_is_absent_in_a_docker_sandbox").await
    else {
        return;
    };
    check_host_copy(&docker).await;
}

/// Modules of Python's standard library that no other package bundles.
const STDLIB_MODULES: [&str; 16] = [
    "argparse",
    "ast",
    "calendar",
    "cmd",
    "configparser",
    "csv",
    "difflib",
    "fractions",
    "heapq",
    "imaplib",
    "mailbox",
    "optparse",
    "pdb",
    "shelve",
    "smtplib",
    "tarfile",
];

/// Hides a whole library of real code. The check must find each file of the library at its path,
/// and must not report any of the thousands of other files.
#[tokio::test(flavor = "multi_thread")]
async fn real_code_is_detected_without_false_positives() {
    let (_cache, native) = start_native();
    let folder = tempfile::tempdir().unwrap();
    let environment = build_environment(&native, Base::Host, folder.path(), "").await;
    let mut sandbox = fixture::open_sandbox(&native, &environment).await;
    let line = "python3 -c 'import os; print(os.path.dirname(os.__file__))'";
    let done = sandbox.handle().run(proctor_sandbox_api::Command::shell(line)).await.unwrap();
    let library = std::path::PathBuf::from(done.stdout.text().trim());
    sandbox.close().await.unwrap();
    let mut gold = String::new();
    for name in STDLIB_MODULES {
        let text = std::fs::read_to_string(library.join(format!("{name}.py"))).unwrap();
        let count = text.lines().count();
        gold += &format!("--- /dev/null\n+++ b/hidden/{name}.py\n@@ -0,0 +1,{count} @@\n");
        gold.extend(text.lines().map(|line| format!("+{line}\n")));
    }
    let task =
        proctor_types::Task { mask: None, hidden: vec![], gold: Some(gold), ..numerals_task() };
    let leak_check = search_environment(&native, &environment, &task).await;
    print_leaks(&leak_check);
    for name in STDLIB_MODULES {
        let path = library.join(format!("{name}.py"));
        let is_it = |leak: &&proctor_setup::Leak| leak.place == path.to_str().unwrap();
        assert_eq!(leak_check.leaks.iter().filter(is_it).count(), 1, "{name}");
    }
    for leak in &leak_check.leaks {
        // Another Python installation on this machine has its own library, and packages may bundle
        // modules with the same names.
        let mut parts = leak.place.split('/').map(|part| part.trim_end_matches(".py"));
        assert!(parts.any(|part| STDLIB_MODULES.contains(&part)), "{leak}");
    }
    assert!(leak_check.unseen.files > 1_000, "{:?}", leak_check.unseen);
}

#[test]
fn findings_are_cached_by_digest() {
    let folder = tempfile::tempdir().unwrap();
    let task = numerals_task();
    let key = LayerFindings::cache_key(&task, "an environment", "an agent").unwrap();
    assert_ne!(key, LayerFindings::cache_key(&task, "another", "an agent").unwrap());
    assert_ne!(key, LayerFindings::cache_key(&task, "an environment", "another").unwrap());
    let mut other = task.clone();
    other.hidden.push("tests/more.py".into());
    assert_ne!(key, LayerFindings::cache_key(&other, "an environment", "an agent").unwrap());
    assert_eq!(LayerFindings::read(folder.path(), &key), None);
    // Reading must not block if there is a named pipe at the file's path.
    let place = folder.path().join(&key).with_extension("json");
    assert!(std::process::Command::new("mkfifo").arg(place).status().unwrap().success());
    assert_eq!(LayerFindings::read(folder.path(), &key), None);
}
