//! Tests that `proctor fork` and `proctor shell` restore a trial's files after a step, byte for
//! byte.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use serde_json::Value;

use crate::{
    interruptions::{Fixture, count_events, find_journal},
    resume::wait_for,
    stage::{events, has_docker},
};

/// A command that lists everything that a snapshot of the work directory contains: kinds, modes,
/// targets and contents.
const LIST_FILES: &str = "find . -mindepth 1 -printf '%P %y %m %l\\n' | sort; find . -type f | sort | xargs -d '\\n' sha256sum";

const CREATE_FILES: &str = "mkdir -p empty made && chmod 750 empty && printf 'a\\0b' > made/data && chmod 600 made/data && ln -s data made/link && echo '*.log' > .gitignore && echo kept > run.log && rm numerals/tally.py";

fn script() -> String {
    let shell = |command: &str| {
        let command = Value::from(command);
        format!(
            "[[conversation.turn.tool_calls]]\nname = \"shell\"\narguments = {{ command = {command} }}\n"
        )
    };
    let turn = "[[conversation.turn]]\n";
    format!(
        "[[rule]]\nlast = \"Look again\"\nanswer = {{ tool_calls = [{{ name = \"shell\", arguments = {{ command = {listing} }} }}] }}\n\
         [[rule]]\nmodel = \"other\"\nturn = 0\nanswer = {{ content = {block} }}\n\
         [[rule]]\nmodel = \"other\"\nturn = 1\nanswer = {{ content = \"```bash\\nproctor-submit\\n```\" }}\n\
         [[conversation]]\n{turn}{}{turn}{}{turn}{}{turn}{}\
         {turn}[[conversation.turn.tool_calls]]\nname = \"submit\"\narguments = {{}}\n",
        shell("echo first > first.txt"),
        shell(CREATE_FILES),
        shell(LIST_FILES),
        shell("rm -r made empty; echo late > late.txt"),
        listing = Value::from(LIST_FILES),
        block = Value::from(format!("```bash\n{LIST_FILES}\n```")),
    )
}

/// Returns what a step's first listing command printed.
fn step_listing(journal: &Path) -> String {
    let shown = events(journal, "tool_returned");
    let mut texts = shown.iter().map(|one| one["shown"].as_str().unwrap().to_owned());
    texts.rfind(|text| text.contains("run.log")).unwrap()
}

fn start_fork(
    fixture: &Fixture,
    parent: &Path,
    name: &str,
    settings: &[&str],
) -> (PathBuf, String) {
    let out = fixture.stage.path(name);
    let mut args = vec![
        "fork",
        parent.to_str().unwrap(),
        "--trial",
        "demo__roman-1/asks/1",
        "--step",
        "2",
        "--out",
        out.to_str().unwrap(),
    ];
    settings.iter().for_each(|set| args.extend(["--set", set]));
    let output = fixture.stage.run(args, 0);
    (out.clone(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn run_shell(fixture: &Fixture, args: &[&str], input: &str) -> Output {
    let mut command = fixture.stage.proctor([&["shell"], args].concat());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn to_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn check_fork_matches_parent(kind: &'static str) {
    let bench = Fixture::new(&script(), "0", kind);
    let (child, parent) = bench.start("tools");
    bench.wait_for_success(child);
    let of_parent = find_journal(&parent).unwrap();
    let tree = events(&of_parent, "snapshot_taken")
        .into_iter()
        .find(|one| one["step"] == 2)
        .unwrap()["snapshot"]
        .clone();
    let wanted = step_listing(&of_parent);
    assert!(wanted.contains("empty d 750") && wanted.contains("made/link l 777 data"), "{wanted}");

    // The conversation is copied, so the fork requests none of the parent's responses again. The
    // hint appears only once.
    let asked = bench.fake.requests().len();
    let hint = "hint=Look again at all files.";
    let (child, said) = start_fork(&bench, &parent, "child", &[hint, "budget.steps=4"]);
    let of_child = find_journal(&child).unwrap();
    assert!(said.contains("resumed after step 2"), "{said}");
    assert_eq!(bench.fake.requests().len() - asked, 2, "only steps 3 and 4 are requested");
    assert_eq!(step_listing(&of_child), wanted, "the tree is not that of the step");
    let origin = &events(&of_child, "trial_forked")[0];
    assert_eq!((&origin["from"]["step"], &origin["snapshot"]), (&2.into(), &tree));
    assert_eq!(origin["from"]["conversation"], true);
    let last = bench.fake.requests().pop().unwrap();
    let messages = last.body["messages"].as_array().unwrap();
    let hints = messages.iter().filter(|one| one["content"] == "Look again at all files.");
    assert_eq!(hints.count(), 1, "{messages:#?}");
    let report = bench.stage.report(&child);
    assert_eq!(report["arms"][0]["forked_from"]["step"], 2);
    assert_eq!(report["arms"][0]["outcomes"]["budget_steps"], 1);
    assert_eq!(report["arms"][0]["steps"]["max"], 4);
    assert_ne!(report["arms"][0]["arm"], bench.stage.report(&parent)["arms"][0]["arm"]);
    bench.stage.run(["report", child.to_str().unwrap(), "--verify"], 0);

    // A fork with another scaffold gets only the files, and a message says so.
    let url = format!("models.other.base_url={}", bench.fake.base_url());
    let sets = ["scaffold=bash", "model=other", &url, "models.other.name=other"];
    let (alone, said) = start_fork(&bench, &parent, "alone", &sets);
    assert!(said.contains("only the files are copied"), "{said}");
    let of_alone = find_journal(&alone).unwrap();
    assert_eq!(step_listing(&of_alone), wanted);
    let origin = &events(&of_alone, "trial_forked")[0]["from"];
    assert_eq!(origin["conversation"], false);
    assert!(
        origin["files_alone_because"].as_str().unwrap().contains("different tools"),
        "{origin}"
    );
    assert_eq!(bench.stage.report(&alone)["arms"][0]["steps"]["max"], 2);

    // A shell session gets the same files as the fork.
    let run = parent.to_str().unwrap();
    let trial = ["--trial", "demo__roman-1/asks/1"];
    let seen = run_shell(&bench, &[&[run], &trial[..], &["--step", "2"]].concat(), LIST_FILES);
    assert_eq!(to_text(&seen.stdout).trim_end(), wanted, "{}", to_text(&seen.stderr));
    let end =
        run_shell(&bench, &[&[run], &trial[..]].concat(), "pwd; cat late.txt; ls made; exit 7\n");
    assert_eq!(to_text(&end.stdout), "/testbed\nlate\n", "{}", to_text(&end.stderr));
    assert_eq!(end.status.code(), Some(7));
}

#[test]
fn fork_restores_the_step_byte_for_byte() {
    check_fork_matches_parent("native");
}

#[test]
fn docker_fork_restores_the_step_byte_for_byte() {
    if has_docker("docker_fork_restores_the_step_byte_for_byte") {
        check_fork_matches_parent("docker");
    }
}

#[test]
fn shell_opens_a_task_and_a_graded_tree() {
    let bench = Fixture::new(&script(), "0", "native");
    let task = ["demo__roman-1", "--tasks", "configs/tasks/demo.jsonl"];
    let seen = run_shell(&bench, &task, "pwd; cat >/dev/null; echo shown\necho not shown\n");
    assert!(seen.status.success(), "{}", to_text(&seen.stderr));
    // As in any shell, `cat` reads the rest of the input.
    assert_eq!(to_text(&seen.stdout), "/testbed\nshown\n");
    let hidden = run_shell(&bench, &task, "test ! -e tests/test_roman.py\n");
    assert_eq!(hidden.status.code(), Some(0), "what the task hides is absent");

    let (child, out) = bench.start("tools");
    bench.wait_for_success(child);
    // Unique parts of the names are enough.
    let graded = [out.to_str().unwrap(), "--trial", "roman/ask/1", "--graded"];
    let seen = run_shell(&bench, &graded, "test -e tests/test_roman.py && cat late.txt\n");
    assert_eq!(to_text(&seen.stdout), "late\n", "{}", to_text(&seen.stderr));
}

#[test]
fn fork_reports_unknown_trials_and_steps() {
    let bench = Fixture::new(&script(), "0", "native");
    let (child, out) = bench.start("tools");
    bench.wait_for_success(child);
    let run = out.to_str().unwrap();
    let to = bench.stage.path("x");
    for (trial, step, said) in [
        ("demo__roman-1/asks/1", "9", "its last step is 5"),
        ("demo__roman-1/nobody/1", "1", "such as `demo__roman-1/asks/1`"),
    ] {
        let args = ["fork", run, "--trial", trial, "--step", step, "--out", to.to_str().unwrap()];
        let output = bench.stage.run(args, 2);
        let text = to_text(&output.stderr);
        assert!(text.contains(said), "{text}");
    }
    let seen = run_shell(&bench, &[run], "pwd\n");
    assert_eq!(seen.status.code(), Some(2));
}

/// Kills the runtime during a fork. `resume` continues from the fork's own steps and requests no
/// response again.
#[test]
fn killed_fork_is_resumed() {
    let shell = |command: &str| {
        format!(
            "[[conversation.turn]]\n[[conversation.turn.tool_calls]]\nname = \"shell\"\n\
             arguments = {{ command = \"{command}\" }}\n"
        )
    };
    let script = format!(
        "[[conversation]]\n{}{}{}[[conversation.turn]]\n[[conversation.turn.tool_calls]]\n\
         name = \"submit\"\narguments = {{}}\n",
        shell("echo one > one.txt"),
        shell("echo two > two.txt"),
        shell("sleep SLOW; echo three >> three.txt"),
    );
    let bench = Fixture::new(&script, "3", "native");
    let (child, parent) = bench.start("tools");
    bench.wait_for_success(child);
    let asked = bench.fake.requests().len();
    let out = bench.stage.path("child");
    let trial = ["--trial", "demo__roman-1/asks/1", "--step", "2", "--out", out.to_str().unwrap()];
    let args = [&["fork", parent.to_str().unwrap()], &trial[..], &["--set", "budget.steps=9"]];
    let mut fork = bench.stage.proctor(args.concat());
    let mut fork = fork.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the slow command", || (count_events(&out, "tool_called") == 3).then_some(()));
    fork.kill().unwrap();
    fork.wait().unwrap();
    bench.wait_for_success(bench.resume(&out));
    assert_eq!(bench.fake.requests().len() - asked, 2, "steps 3 and 4, each once");
    let journal = find_journal(&out).unwrap();
    assert_eq!(events(&journal, "trial_resumed").len(), 2, "once as a fork, once after the kill");
    assert_eq!(events(&journal, "trial_forked").len(), 1);
    let patch = std::fs::read_to_string(journal.with_file_name("patch.diff")).unwrap();
    assert_eq!(patch.matches("+three").count(), 1, "{patch}");
    assert_eq!(bench.stage.report(&out)["arms"][0]["steps"]["max"], 4);
}
