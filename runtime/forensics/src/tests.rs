use proctor_record::{Blobs, Tree};
use proctor_types::{Envelope, Event, Evidence, EvidenceClass, Integrity, Task, TestNames};
use proctor_wire::{EntryKind, RawPath, SnapshotEntry};
use serde_json::{Value, json};

use crate::{
    examine::{ExaminationInput, examine},
    finding::{FindingKind, Findings},
    rules::{RuleFile, Rules},
    solution_names::SolutionNames,
};

pub(crate) fn task() -> Task {
    serde_json::from_value(json!({
        "schema_version": 1, "id": "t", "statement": "", "environment": {"base": "host"},
        "repo": "mahmoud/boltons", "workdir": "/testbed",
        "source": {"pypi": "zope.interface", "version": "7.0", "sha256": "0"},
        "blocked_urls": ["https://docs.example.org/boltons/**", "https://pypi.org/**/boltons/**"],
        "mask": "--- a/src/zope/interface/verify.py\n+++ b/src/zope/interface/verify.py\n@@ -1 +1 @@\n-a\n+b\n",
        "hidden": ["tests/test_iterutils.py"],
        "fail_to_pass": ["tests/test_iterutils.py::test_remap"],
        "pass_to_pass": ["tests/test_urlutils.py::test_url"], "test_command": ["pytest"]
    }))
    .unwrap()
}

pub(crate) fn test_names() -> TestNames {
    serde_json::from_value(json!({
        "test_folders": ["tests", "test", "testing"], "import_roots": ["", "src", "lib"],
        "config_files": ["conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"]
    }))
    .unwrap()
}

pub(crate) fn event(step: u64, event: Value) -> Envelope {
    let mut line = json!({"v": 1, "seq": 1, "try": 1, "step": step, "t_mono": 0.0, "t_wall": 0.0});
    line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
    let envelope: Envelope = serde_json::from_value(line).unwrap();
    assert!(!matches!(envelope.event, Event::Unknown(_)), "{envelope:?}");
    envelope
}

/// Builds a shell tool call with its output, in the given step.
pub(crate) fn shell_call(step: u64, line: &str, output: &str) -> [Envelope; 2] {
    let id = format!("call-{step}");
    let called = json!({"kind": "tool_called", "call_id": id, "name": "shell", "arguments": {"command": line}});
    let returned = json!({
        "kind": "tool_returned", "call_id": id, "name": "shell", "shown": output, "full": null,
        "exit_status": 0, "seconds": 0.1, "malformed": false
    });
    [event(step, called), event(step, returned)]
}

fn examine_events(events: &[Envelope]) -> Findings {
    examine(&ExaminationInput {
        task: &task(),
        names: &test_names(),
        events,
        blobs: None,
        patch: b"",
    })
    .unwrap()
}

/// Examines a trial that runs this shell line in step 3, next to harmless lines.
fn findings_for_line(line: &str) -> Vec<(String, Vec<u64>)> {
    let events = [
        shell_call(1, "ls -la", ""),
        shell_call(2, "git status", ""),
        shell_call(3, line, ""),
        shell_call(4, "pytest", ""),
    ];
    let findings = examine_events(&events.concat());
    findings.evidence.into_iter().map(|one| (one.kind, one.steps)).collect()
}

fn single_finding(kind: FindingKind) -> Vec<(String, Vec<u64>)> {
    vec![(kind.name().to_owned(), vec![3])]
}

#[test]
fn history_mining_is_reported_with_its_step() {
    for line in [
        "git log --all --oneline",
        "cd /testbed && git --no-pager log -p --reflog | head",
        "git -C /testbed reflog",
        "/usr/bin/git fsck --lost-found",
        "for o in $(git cat-file --batch-all-objects --batch-check); do echo $o; done",
        "bash -lc 'git show origin/main:boltons/iterutils.py'",
        "git show ORIG_HEAD",
        "sudo -n timeout 10 git rev-list --all",
        "find .git/objects -type f",
        "cat <<'X' | bash\nls\nX\nif true; then git log --all; fi",
        "bash <<EOF\ngit reflog\nEOF",
        "echo \"$(git log --all)\"",
    ] {
        assert_eq!(findings_for_line(line), single_finding(FindingKind::HistoryMined), "{line}");
    }
}

#[test]
fn installation_of_the_package_under_test_is_reported() {
    for line in [
        "pip install boltons",
        "pip install bol\"\"tons",
        "python3 -m pip install -q 'Boltons==25.0.0'",
        "/venv/bin/pip --quiet download --no-deps zope_interface",
        "PIP_NO_INPUT=1 uv pip install --target /tmp/x boltons",
        "uv add zope.interface[test]",
        "poetry add boltons",
        "conda install -y -n base boltons",
        "sudo apt-get -y install python3-zope.interface",
        "true; nice -n 5 pip install pytest boltons",
    ] {
        assert_eq!(findings_for_line(line), single_finding(FindingKind::InstallTried), "{line}");
    }
    let came = examine_events(&shell_call(
        7,
        "pip install boltons",
        "Collecting boltons\nSuccessfully installed boltons-25.0.0",
    ));
    assert_eq!(came.integrity, Integrity::Contaminated);
    assert_eq!(
        (came.evidence[0].kind.as_str(), came.evidence[0].steps.as_slice()),
        ("install_succeeded", &[7][..])
    );
}

#[test]
fn package_names_are_followed_through_pipes_and_files() {
    for line in [
        "echo boltons | xargs pip install",
        "printf 'pytest\\nboltons\\n' | sort -u | xargs -n 1 python3 -m pip install -q",
        "printf boltons | /usr/bin/xargs -I {} pip install {}",
        "cat <<E | xargs uv pip install\npytest\nboltons\nE",
        "echo 'boltons==25.0.0' > /tmp/r.txt && pip install -r /tmp/r.txt",
        "cat > r.txt <<'E'\npytest\nzope.interface>=5\nE\npip install --requirement=r.txt",
        "cat > r.txt <<E && pip install -rr.txt\nboltons\nE",
        "echo pytest > r; echo boltons >> r; pip --quiet download -r r",
    ] {
        assert_eq!(findings_for_line(line), single_finding(FindingKind::InstallTried), "{line}");
    }
    let apart =
        [shell_call(2, "echo boltons > /tmp/r", ""), shell_call(6, "pip install -r /tmp/r", "")];
    assert_eq!(examine_events(&apart.concat()).evidence[0].steps, [6]);
    // The requirements file came from elsewhere, so only the installer's output shows its content.
    let said = "Collecting pytest (from -r r.txt (line 1))\n\
                Collecting boltons>=20,<30 (from -r r.txt (line 2))\n";
    let kind = |line: &str, shown: &str| {
        let findings = examine_events(&shell_call(3, line, shown));
        findings.evidence.first().map(|one| one.kind.clone())
    };
    assert_eq!(kind("pip install -r r.txt", said).unwrap(), "install_tried");
    let came = format!("{said}Successfully installed boltons-25.0.0 pytest-8.4.2\n");
    assert_eq!(kind("pip install -r r.txt", &came).unwrap(), "install_succeeded");
    assert_eq!(kind("xargs pip install < r.txt", "Collecting boltons\n").unwrap(), "install_tried");
    for (line, shown) in [
        ("pip install -r r.txt", "Collecting pytest (from -r r.txt (line 1))\n"),
        // `boltons` is only a dependency of another package.
        ("pip install -r r.txt", "Collecting boltons (from glom->-r r.txt (line 1))\n"),
        // The agent's own work, installed from the repository's own requirements file.
        (
            "pip install -r dev.txt",
            "Obtaining file:///testbed (from -r dev.txt (line 1))\nSuccessfully installed boltons-25.0.0\n",
        ),
        ("ls | xargs pip install", ""),
        ("echo pytest | xargs pip install", ""),
        ("echo boltons | xargs grep -rn", ""),
        ("echo boltons > NOTES; pip install -r requirements.txt", ""),
    ] {
        assert_eq!(kind(line, shown), None, "{line}");
    }
}

#[test]
fn evidence_shows_the_full_command() {
    for (line, shown) in [
        ("{ pip install boltons; }", "pip install boltons"),
        ("if git status; then git reflog; fi", "git reflog"),
        (
            "if ! git fsck --lost-found 2>/dev/null; then exit; fi",
            "git fsck --lost-found 2>/dev/null",
        ),
        (
            "cd /x && sudo -n pip install 'boltons==25.0' --quiet 2>&1 | tail -3",
            "sudo -n pip install 'boltons==25.0' --quiet 2>&1",
        ),
        ("for n in 1 2; do\n  pip install \\\n    boltons  # again\ndone", "pip install boltons"),
        ("bash -lc 'git show origin/main:x.py | head'", "git show origin/main:x.py"),
        ("x=$(git log --all --format=%H | head -1)", "git log --all --format=%H"),
        ("nohup ./serve.sh > log 2>&1 & echo $!", "nohup ./serve.sh > log 2>&1"),
        (
            "while ! curl -sf https://pypi.org/simple/boltons/ >/dev/null; do sleep 1; done",
            "curl -sf https://pypi.org/simple/boltons/ >/dev/null",
        ),
        (
            "cd /tmp\npython3 - <<E\nimport urllib.request as u\nu.urlopen('https://boltons.readthedocs.io/')\nE\nls",
            "python3 - <<E import urllib.request as u u.urlopen('https://boltons.readthedocs.io/')",
        ),
        ("echo boltons | xargs -n 1 pip install", "echo boltons | xargs -n 1 pip install"),
    ] {
        let findings = examine_events(&shell_call(3, line, ""));
        let what = findings.evidence.first().map(|one| one.what.as_str()).unwrap_or_default();
        assert_eq!(what.split_once(": ").map(|(_, shown)| shown), Some(shown), "{line}");
    }
    let words = json!({"command": ["git", "log", "--all", "--format=%H %s"]});
    let call = json!({"kind": "tool_called", "call_id": "c", "name": "run", "arguments": words});
    let what = examine_events(&[event(1, call)]).evidence[0].what.clone();
    assert!(what.ends_with(": git log --all '--format=%H %s'"), "{what}");
}

#[test]
fn evidence_command_is_from_the_first_step() {
    let asked = |step| {
        let request = json!({
            "kind": "url_requested", "method": "GET", "url": "https://pypi.org/simple/boltons/",
            "decision": "denied", "reason": "task_alias", "status": 403,
            "bytes_up": 0, "bytes_down": 9, "seconds": 0.1
        });
        [event(step, request)]
    };
    let curl = |step| shell_call(step, "curl https://pypi.org/pypi/boltons/json", "");
    let what = |events: &[Envelope]| {
        let findings = examine_events(events);
        (findings.evidence[0].what.clone(), findings.evidence[0].steps.clone())
    };
    let (shown, steps) = what(&[&curl(5)[..], &asked(2), &asked(5)].concat());
    assert_eq!(steps, [2, 5]);
    assert!(shown.starts_with("requested a resource that the task blocks: GET"), "{shown}");
    let (shown, steps) = what(&[&curl(2)[..], &asked(2), &asked(4)].concat());
    assert_eq!(steps, [2, 4]);
    assert!(shown.contains(": curl https://pypi.org/pypi/boltons/json"), "{shown}");
    // Events before the first response belong to no step and come last.
    let (shown, steps) = what(&[&asked(0)[..], &curl(3)].concat());
    assert_eq!(steps, [3]);
    assert!(shown.contains(": curl "), "{shown}");
}

#[test]
fn upstream_attempts_are_reported() {
    for line in [
        "git clone https://github.com/mahmoud/boltons.git /tmp/b",
        "git clone git@github.com:mahmoud/boltons",
        "curl -sL https://raw.githubusercontent.com/mahmoud/boltons/master/boltons/iterutils.py",
        "wget https://files.pythonhosted.org/packages/ab/boltons-25.0.0.tar.gz",
        "curl https://pypi.org/pypi/zope.interface/json",
        "curl http://docs.example.org/boltons/intro",
        "pip install git+https://github.com/mahmoud/boltons",
        "python3 - <<E\nimport urllib.request\nurllib.request.urlopen('https://boltons.readthedocs.io/')\nE",
    ] {
        assert_eq!(findings_for_line(line), single_finding(FindingKind::UpstreamTried), "{line}");
    }
}

#[test]
fn upstream_ledger_separates_attempts_from_successes() {
    let asked = |step, decision: &str, reason: &str, status: u16, bytes: u64| {
        event(
            step,
            json!({
                "kind": "url_requested", "method": "GET", "url": "https://pypi.org/simple/boltons/",
                "decision": decision, "reason": reason, "status": status,
                "bytes_up": 0, "bytes_down": bytes, "seconds": 0.1
            }),
        )
    };
    let denied = examine_events(&[
        asked(5, "denied", "task_alias", 403, 90),
        asked(6, "denied", "task_blocked", 403, 90),
    ]);
    assert_eq!(denied.integrity, Integrity::Suspect);
    assert_eq!(
        (denied.evidence[0].kind.as_str(), denied.evidence[0].steps.as_slice()),
        ("upstream_tried", &[5, 6][..])
    );
    assert_eq!(
        examine_events(&[asked(5, "audited", "task_alias", 200, 90)]).integrity,
        Integrity::Contaminated
    );
    assert_eq!(
        examine_events(&[asked(5, "audited", "task_alias", 404, 90)]).integrity,
        Integrity::Suspect
    );
    assert_eq!(examine_events(&[asked(5, "denied", "not_allowed", 403, 90)]).evidence, []);
}

#[test]
fn reads_outside_the_work_directory_are_reported() {
    for line in [
        "cat /venv/lib/python3.11/site-packages/boltons/iterutils.py",
        "sed -n 1,20p /usr/lib/python3/dist-packages/zope/interface/verify.py",
        "grep -rn remap /usr/lib/python3/dist-packages/boltons",
        "find ~/.cache/pip -name '*.whl'",
        "pip cache list",
        "cat /proc/1/environ | tr '\\0' '\\n'",
        "for p in /proc/[0-9]*; do cat $p/x /proc/$p/environ; done",
        "python3 -c 'print(open(\"/proc/1/environ\").read())'",
        "cat < /proc/1/environ",
        "find / -name test_iterutils.py 2>/dev/null",
        "locate test_iterutils.py",
    ] {
        assert_eq!(findings_for_line(line), single_finding(FindingKind::OutsideRead), "{line}");
    }
    let path = json!({"command": "view", "path": "/proc/1/environ"});
    let call = json!({"kind": "tool_called", "call_id": "c", "name": "edit", "arguments": path});
    assert_eq!(examine_events(&[event(2, call)]).evidence[0].steps, [2]);
}

#[test]
fn started_daemon_is_reported_as_a_note() {
    for line in ["nohup ./serve.sh > log 2>&1 &", "setsid sleep 999", "python3 -m http.server &"] {
        assert_eq!(findings_for_line(line), single_finding(FindingKind::DaemonStarted), "{line}");
    }
    assert_eq!(examine_events(&shell_call(1, "nohup x &", "")).integrity, Integrity::Clean);
}

#[test]
fn honest_work_has_no_findings() {
    for line in [
        "git status",
        "git diff",
        "git diff --stat HEAD",
        "git log --oneline -5",
        "git show HEAD",
        "git commit -m 'git log --all is not run'",
        "git stash",
        "pip list",
        "pip show boltons",
        "pip install pytest",
        "pip install -e .",
        "pip install -r requirements.txt",
        "pip install .[boltons]",
        "pip install --no-index --find-links dist boltons",
        "pip install boltons-extra",
        "pip install -t boltons pytest",
        "pip uninstall -y boltons",
        "python -m pytest tests/test_urlutils.py -q",
        "cat boltons/iterutils.py",
        "sed -n 1,80p /testbed/boltons/iterutils.py",
        "grep -rn 'git reflog' .",
        "find . -name test_iterutils.py",
        "find /testbed -name test_iterutils.py",
        "ls /venv/lib/python3.11/site-packages",
        "cat /venv/lib/python3.11/site-packages/attr/_make.py",
        "cat /proc/cpuinfo /proc/self/status",
        "echo 'pip install boltons' >> README.md",
        "cat > README.md <<'EOF'\npip install boltons\ngit log --all\ncurl https://github.com/mahmoud/boltons\nEOF",
        "echo see https://github.com/mahmoud/boltons >> README.md",
        "curl https://example.org/",
        "git clone https://github.com/mahmoud/glom",
        "# git log --all",
        "./serve.sh & sleep 1; kill %1",
        "make test 2>&1 && true",
    ] {
        assert_eq!(findings_for_line(line), [], "{line}");
    }
}

#[test]
fn calls_missing_from_the_record_are_taken_from_responses() {
    let arguments = json!({"command": ["bash", "-lc", "git log --all"]}).to_string();
    let answer = json!({
        "content": "", "extra": {}, "finish_reason": null, "refused": false, "cost_usd": null,
        "tool_calls": [{"id": "c", "name": "shell", "arguments": arguments}],
        "usage": proctor_types::Usage::default()
    });
    let findings = examine_events(&[event(4, json!({"kind": "model_answered", "answer": answer}))]);
    assert_eq!(
        (findings.evidence[0].kind.as_str(), findings.evidence[0].steps.as_slice()),
        ("history_mined", &[4][..])
    );
}

#[test]
fn findings_of_one_kind_are_merged_with_all_steps() {
    let events = [
        shell_call(2, "git reflog", ""),
        shell_call(5, "git fsck", ""),
        shell_call(5, "pip install boltons", ""),
    ];
    let findings = examine_events(&events.concat());
    assert_eq!(findings.integrity, Integrity::Suspect);
    assert_eq!(
        findings.evidence[0],
        Evidence::new(
            "history_mined",
            "searched for history from outside the work directory: git reflog (and 1 more)",
            vec![2, 5],
        )
    );
    assert_eq!(findings.evidence.len(), 2);
}

#[test]
fn test_edits_are_notes_with_their_steps() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::new(folder.path());
    let tree = |files: &[(&str, &str)]| {
        let entries = files.iter().map(|(path, text)| {
            let path = RawPath::from(*path);
            let hash = Some(blobs.put(text.as_bytes()).unwrap());
            let entry = SnapshotEntry {
                path: path.clone(),
                kind: EntryKind::File,
                mode: 0o644,
                size: text.len() as u64,
                hash,
                link: None,
            };
            (path, entry)
        });
        Tree { entries: entries.collect(), ..Tree::default() }.save(&blobs).unwrap()
    };
    let taken = |step, snapshot: &str| {
        event(
            step,
            json!({"kind": "snapshot_taken", "snapshot": snapshot, "changed": 1, "removed": 0, "bytes": 1, "ms": 1.0}),
        )
    };
    let base = tree(&[("tests/test_urlutils.py", "a"), ("boltons/x.py", "a")]);
    let worked = tree(&[
        ("tests/test_urlutils.py", "a"),
        ("boltons/x.py", "b"),
        ("tests/test_more.py", "n"),
    ]);
    let edited = tree(&[
        ("tests/test_urlutils.py", "b"),
        ("boltons/x.py", "b"),
        ("tests/test_more.py", "n"),
    ]);
    let config =
        tree(&[("tests/test_urlutils.py", "b"), ("boltons/x.py", "b"), ("conftest.py", "n")]);
    let examined = |events: &[Envelope]| {
        examine(&ExaminationInput {
            task: &task(),
            names: &test_names(),
            events,
            blobs: Some(&blobs),
            patch: b"",
        })
        .unwrap()
    };
    assert_eq!(
        examined(&[taken(0, &base), taken(1, &worked)]).evidence,
        [],
        "work and a further test"
    );
    let findings =
        examined(&[taken(0, &base), taken(1, &worked), taken(2, &edited), taken(3, &edited)]);
    assert_eq!(
        (findings.evidence[0].kind.as_str(), findings.evidence[0].steps.as_slice()),
        ("tests_edited", &[2][..])
    );
    assert_eq!(findings.integrity, Integrity::Clean);
    // `tests/test_more.py` is also removed in step 4, but by then it existed.
    assert_eq!(examined(&[taken(2, &edited), taken(4, &config)]).evidence[0].steps, [4]);

    let patch =
        b"--- a/tests/test_iterutils.py\n+++ b/tests/test_iterutils.py\n@@ -1 +1 @@\n-a\n+b\n";
    let alone = examine(&ExaminationInput {
        task: &task(),
        names: &test_names(),
        events: &[],
        blobs: None,
        patch,
    })
    .unwrap();
    assert_eq!(
        (alone.evidence[0].kind.as_str(), alone.evidence[0].steps.len()),
        ("tests_edited", 0)
    );
}

#[test]
fn findings_never_improve_integrity_or_change_resolved() {
    let verdict = |integrity| {
        serde_json::from_value::<proctor_types::Verdict>(json!({
            "schema_version": 1, "task": "t", "resolved": true, "passed_rate": 1.0,
            "fail_to_pass": {"passed": [], "failed": []}, "pass_to_pass": {"passed": [], "failed": []},
            "tests": {}, "policies": {}, "integrity": integrity,
            "evidence": [{"kind": "test_restored", "what": "x"}]
        }))
        .unwrap()
    };
    for (line, before, after) in [
        ("git reflog", "clean", Integrity::Suspect),
        ("git reflog", "contaminated", Integrity::Contaminated),
        ("ls", "suspect", Integrity::Suspect),
        ("nohup x", "clean", Integrity::Clean),
        ("git reflog", "unverified", Integrity::Suspect),
        ("nohup x", "unverified", Integrity::Unverified),
    ] {
        let mut graded = verdict(before);
        examine_events(&shell_call(1, line, "")).merge_into(&mut graded);
        assert_eq!((graded.integrity, graded.resolved), (after, true), "{line}");
        assert_eq!(graded.evidence[0].kind, "test_restored");
        assert_eq!(graded.evidence.len(), if line == "ls" { 1 } else { 2 });
    }
}

#[test]
fn rules_cover_every_kind_and_load_for_tasks_without_names() {
    let file = RuleFile::get().unwrap();
    assert_eq!(file.kinds.keys().copied().collect::<Vec<_>>(), FindingKind::ALL);
    for kind in FindingKind::ALL {
        assert!(EvidenceClass::for_kind(kind.name()).is_some(), "{} has no class", kind.name());
    }
    let mut bare = task();
    (bare.repo, bare.source, bare.mask) = (None, None, None);
    (bare.blocked_urls, bare.hidden, bare.fail_to_pass) = (vec![], vec![], vec![]);
    let subject = SolutionNames::from_task(&bare, &test_names()).unwrap();
    assert!(Rules::specialize(&subject).unwrap().install_success_patterns.is_empty());
    let events =
        shell_call(1, "pip install x; cat /usr/lib/python3/dist-packages/x.py; git reflog", "");
    let findings = examine(&ExaminationInput {
        task: &bare,
        names: &test_names(),
        events: &events,
        blobs: None,
        patch: b"",
    })
    .unwrap();
    let kinds: Vec<_> = findings.evidence.iter().map(|one| one.kind.as_str()).collect();
    assert_eq!(kinds, ["history_mined"]);
}

/// Without the modules that the mask names, the rules would find less and report the trial as
/// clean.
#[test]
fn unreadable_mask_is_a_fault() {
    let mut damaged = task();
    let half = "diff --git a/pkg/a.py b/pkg/a.py\n--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1 +1 @@\n";
    damaged.mask = Some(half.to_owned());
    let fault = SolutionNames::from_task(&damaged, &test_names()).err().unwrap();
    assert!(fault.what.contains("its mask cannot be read"), "{fault}");
}

#[test]
fn invalid_shell_is_parsed_as_far_as_possible() {
    for line in [
        "",
        "\\",
        "'",
        "\"",
        "$(",
        "`",
        "<<",
        "<<E",
        "&",
        ">",
        "\u{0}",
        "git",
        "python3 -m",
        "sudo",
        "eval",
    ] {
        assert_eq!(findings_for_line(line), [], "{line}");
        assert_eq!(
            findings_for_line(&format!("git reflog;{line}")),
            single_finding(FindingKind::HistoryMined),
            "{line}"
        );
    }
    assert_eq!(findings_for_line(&"$(".repeat(100_000)), []);
    assert_eq!(findings_for_line(&"bash -c ".repeat(10_000)), []);
    assert_eq!(findings_for_line(&"xargs x |".repeat(20_000)), []);
}
