//! Tests that if the runtime is killed during a trial, the trial continues from the last step in
//! its record, with the same files and conversation, and without requesting a recorded response
//! again.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use fake_llm::{FakeLlm, Script};
use serde_json::Value;

use crate::{
    resume::wait_for,
    stage::{Stage, events, find_files, has_docker, repository_root},
};

/// A script that creates files of every kind, makes an edit that is undone after the kills, and
/// runs a command that a kill interrupts.
const TOOLS_SCRIPT: &str = r#"
[[conversation]]
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "mkdir -p empty made/deep && chmod 750 empty && printf 'a\\0b' > made/data && chmod 600 made/data && ln -s ../made/data made/link && echo '*.log' > .gitignore && echo kept > run.log && rm tests/test_tally.py numerals/tally.py; echo done" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "edit"
arguments = { command = "create", path = "made/edited.txt", file_text = "one\n" }
[[conversation.turn.tool_calls]]
name = "edit"
arguments = { command = "replace", path = "made/edited.txt", old_str = "one", new_str = "two" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "echo first >> log.txt; echo gone > half.txt; sleep SLOW; rm half.txt; echo second >> log.txt" }
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "wc -l < log.txt >> log.txt" }
[[conversation.turn]]
delay_seconds = SLOW.0
[[conversation.turn.tool_calls]]
name = "edit"
arguments = { command = "undo", path = "made/edited.txt" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "cat made/edited.txt >> log.txt; rm -r empty; mkdir empty; sleep SLOW" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "submit"
arguments = {}
"#;

const BASH_SCRIPT: &str = r#"
[[conversation]]
[[conversation.turn]]
content = "```bash\necho one > one.txt\n```"
[[conversation.turn]]
content = "no command at all"
[[conversation.turn]]
content = "```bash\necho a >> one.txt; sleep SLOW; echo b >> one.txt\n```"
[[conversation.turn]]
content = "```bash\nproctor-submit\n```"
"#;

pub struct Fixture {
    pub stage: Stage,
    pub fake: FakeLlm,
    kind: &'static str,
    _runtime: tokio::runtime::Runtime,
}

impl Fixture {
    pub fn new(script: &str, slow_seconds: &str, kind: &'static str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let script: Script = toml::from_str(&script.replace("SLOW", slow_seconds)).unwrap();
        let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
        Self { stage: Stage::new(), fake, kind, _runtime: runtime }
    }

    /// Starts a run that has one trial.
    pub fn start(&self, scaffold: &str) -> (Child, PathBuf) {
        self.start_with_lines(scaffold, "")
    }

    /// Like [`Fixture::start`], but adds lines at the top of the configuration.
    fn start_with_lines(&self, scaffold: &str, lines: &str) -> (Child, PathBuf) {
        let out = self.stage.path("run");
        let config = self.stage.write_file(
            "run.toml",
            &format!(
                "tasks = [\"configs/tasks/demo.jsonl\"]\n{lines}[sandbox]\nkind = \"{}\"\n\
                 [budget]\nsteps = 30\n\
                 [[arms]]\nname = \"asks\"\nscaffold = \"{scaffold}\"\nmodel = \"fake\"\n\
                 [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n",
                self.kind,
                self.fake.base_url()
            ),
        );
        let child = self.spawn(&["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        (child, out)
    }

    pub fn resume(&self, out: &Path) -> Child {
        self.spawn(&["resume", out.to_str().unwrap()])
    }

    fn spawn(&self, args: &[&str]) -> Child {
        let log = fs::File::options().create(true).append(true).open(self.stage.path("log"));
        let mut command = self.stage.proctor(args);
        command.stdout(Stdio::null()).stderr(log.unwrap()).spawn().unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.stage.path("log")).unwrap()
    }

    pub fn wait_for_success(&self, mut child: Child) {
        assert_eq!(child.wait().unwrap().code(), Some(0), "{}", self.log());
    }

    /// Returns how often each response was requested, according to the log of the model.
    pub fn request_counts(&self) -> Vec<usize> {
        let mut asked = Vec::new();
        for seen in self.fake.requests() {
            let messages = seen.body["messages"].as_array().unwrap();
            let turn = messages.iter().filter(|one| one["role"] == "assistant").count();
            asked.resize(asked.len().max(turn + 1), 0);
            asked[turn] += 1;
        }
        asked
    }
}

pub fn find_journal(out: &Path) -> Option<PathBuf> {
    find_files(&out.join("trials"), "trajectory.jsonl").into_iter().next()
}

/// Counts the complete lines with this kind of event. The last line may still be incomplete.
pub fn count_events(out: &Path, kind: &str) -> usize {
    let Some(text) = find_journal(out).and_then(|path| fs::read_to_string(path).ok()) else {
        return 0;
    };
    text.lines().filter(|line| line.contains(&format!("\"kind\":\"{kind}\""))).count()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn last_event(journal: &Path, kind: &str) -> Value {
    events(journal, kind).pop().unwrap()
}

/// Runs the trial without interrupting it.
fn run_undisturbed(script: &str, scaffold: &str, kind: &'static str) -> (Fixture, PathBuf) {
    let bench = Fixture::new(script, "0", kind);
    let (child, out) = bench.start(scaffold);
    bench.wait_for_success(child);
    (bench, out)
}

fn assert_same_result(fixture: &Fixture, out: &Path, undisturbed_run: &Path) {
    let (journal, other) = (find_journal(out).unwrap(), find_journal(undisturbed_run).unwrap());
    let patch = |journal: &Path| fs::read(journal.with_file_name("patch.diff")).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&patch(&journal)),
        String::from_utf8_lossy(&patch(&other)),
        "{}",
        fixture.log()
    );
    // The hash of a snapshot covers what patches leave out: modes, empty directories and ignored
    // files.
    let tree = |journal: &Path| last_event(journal, "snapshot_taken")["snapshot"].clone();
    assert_eq!(tree(&journal), tree(&other));
    let answers = |journal: &Path| -> Vec<Value> {
        events(journal, "model_answered").iter().map(|one| one["step"].clone()).collect()
    };
    assert_eq!(answers(&journal), answers(&other));
    let (ended, plain_end) =
        (last_event(&journal, "trial_ended"), last_event(&other, "trial_ended"));
    for spent in ["steps", "input_tokens", "output_tokens"] {
        let of = |ended: &Value| ended["outcome"]["spent"][spent].clone();
        assert_eq!(of(&ended), of(&plain_end), "{spent}");
    }
    assert_eq!(events(&journal, "trial_ended").len(), 1);
    assert_eq!(events(&journal, "trial_started").len(), 1);
    assert!(!journal.with_file_name("tries").exists(), "the trial must continue in the same try");
    let report = fixture.stage.report(out);
    assert_eq!(report["tasks"][0]["outcome"], "submitted");
    assert_eq!(report["arms"][0]["complete"], true);
    let shown = fixture.stage.run(["report", out.to_str().unwrap(), "--verify"], 0);
    assert!(!String::from_utf8_lossy(&shown.stderr).contains("damage"));
}

fn check_kills_at_several_times(kind: &'static str) {
    let (_plain_bench, plain) = run_undisturbed(TOOLS_SCRIPT, "tools", kind);
    let bench = Fixture::new(TOOLS_SCRIPT, "4", kind);
    let (child, out) = bench.start("tools");
    // Kill the runtime during a command that has done half of its work.
    wait_for("the slow command", || (count_events(&out, "tool_called") == 4).then_some(()));
    kill(child);
    // The command runs again, with the files as they were before it. The next kill happens while a
    // response is in flight.
    let child = bench.resume(&out);
    wait_for("the slow answer", || (bench.fake.requests().len() == 4).then_some(()));
    kill(child);
    // Kill the runtime during a command, immediately after it has reverted an edit that an earlier
    // process made.
    let child = bench.resume(&out);
    wait_for("the undo", || (count_events(&out, "model_answered") == 5).then_some(()));
    kill(child);
    bench.wait_for_success(bench.resume(&out));
    assert_eq!(
        bench.request_counts(),
        [1, 1, 1, 2, 1, 1],
        "only requests in flight are sent twice"
    );
    let journal = find_journal(&out).unwrap();
    assert_eq!(events(&journal, "trial_resumed").len(), 3);
    let whole: Vec<Value> =
        events(&journal, "trial_resumed").iter().map(|one| one["whole_steps"].clone()).collect();
    assert_eq!(whole, [2, 3, 4], "{}", bench.log());
    assert_same_result(&bench, &out, &plain);
}

#[test]
fn killed_trial_resumes_after_its_last_step() {
    check_kills_at_several_times("native");
}

#[test]
fn docker_killed_trial_resumes_after_its_last_step() {
    if has_docker("docker_killed_trial_continues_after_its_last_step") {
        check_kills_at_several_times("docker");
    }
}

#[test]
fn killed_bash_trial_resumes_after_its_last_step() {
    let (_plain_bench, plain) = run_undisturbed(BASH_SCRIPT, "bash", "native");
    let bench = Fixture::new(BASH_SCRIPT, "3", "native");
    let (child, out) = bench.start("bash");
    wait_for("the slow command", || (count_events(&out, "tool_called") == 3).then_some(()));
    kill(child);
    bench.wait_for_success(bench.resume(&out));
    assert_eq!(bench.request_counts(), [1, 1, 1, 1]);
    assert_same_result(&bench, &out, &plain);
}

/// If the trial cannot be continued from its record, it loses its steps but still gets a score.
#[test]
fn trial_without_its_snapshots_starts_again() {
    let bench = Fixture::new(TOOLS_SCRIPT, "3", "native");
    let (child, out) = bench.start("tools");
    wait_for("the slow command", || (count_events(&out, "tool_called") == 4).then_some(()));
    kill(child);
    let pack = find_journal(&out).unwrap().with_file_name("blobs.pack");
    fs::remove_file(pack).unwrap();
    bench.wait_for_success(bench.resume(&out));
    let journals = find_files(&out.join("trials"), "trajectory.jsonl");
    assert_eq!(journals.len(), 2, "{}", bench.log());
    assert!(bench.log().contains("starting over"), "{}", bench.log());
    assert_eq!(bench.stage.report(&out)["tasks"][0]["outcome"], "submitted");
}

/// After one Ctrl-C, the current step finishes, and no further request is sent. Another test covers
/// a second Ctrl-C.
#[test]
fn interrupt_finishes_the_current_step() {
    let (_plain_bench, plain) = run_undisturbed(TOOLS_SCRIPT, "tools", "native");
    let bench = Fixture::new(TOOLS_SCRIPT, "2", "native");
    let (child, out) = bench.start("tools");
    wait_for("the slow command", || (count_events(&out, "tool_called") == 4).then_some(()));
    interrupt(&child);
    let mut child = child;
    assert_eq!(child.wait().unwrap().code(), Some(130), "{}", bench.log());
    assert_eq!(bench.request_counts(), [1, 1, 1]);
    assert_eq!((count_events(&out, "tool_returned"), count_events(&out, "trial_ended")), (5, 0));
    bench.wait_for_success(bench.resume(&out));
    assert_eq!(bench.request_counts(), [1; 6], "no request was in flight");
    let resumed = events(&find_journal(&out).unwrap(), "trial_resumed");
    assert_eq!((resumed.len(), &resumed[0]["whole_steps"]), (1, &3.into()));
    assert_same_result(&bench, &out, &plain);
}

fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}

/// After one Ctrl-C, grading in progress finishes, and queued grading doesn't start.
#[test]
fn interrupt_leaves_queued_grading_to_resume() {
    let stage = Stage::new();
    let demo = fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["source"]["path"] =
        repository_root().join("configs/tasks/numerals").to_str().unwrap().into();
    let named = |number: u32| {
        // Use different ids in each run of this test. Otherwise, the verdicts would come from the
        // cache.
        task["id"] = format!("demo__roman-{}-{number}", std::process::id()).into();
        format!("{task}\n")
    };
    let tasks: String = (0..12).map(named).collect();
    stage.write_file("tasks.jsonl", &tasks);
    // Reserve the whole machine for each grading sandbox.
    let cpus = std::thread::available_parallelism().unwrap();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"{}\"]\njobs = 12\n[sandbox]\ncpus = {cpus}\n\
             [[arms]]\nname = \"gold\"\nscaffold = \"gold\"\n",
            stage.path("tasks.jsonl").display()
        ),
    );
    let out = stage.path("run");
    let out_name = out.to_str().unwrap().to_owned();
    let mut command = stage.proctor(["run", config.to_str().unwrap(), "--out", &out_name]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let verdicts = || find_files(&out.join("trials"), "verdict.json").len();
    wait_for("the first verdict", || (verdicts() > 0).then_some(()));
    interrupt(&child);
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(130), "{said}");
    assert!(verdicts() < 12, "queued grading has run: {said}");
    stage.run(["resume", &out_name], 0);
    assert_eq!(stage.report(&out)["arms"][0]["graded"], 12);
}

/// A second Ctrl-C ends a run even if all its trials are waiting for an environment that another
/// process never finishes building.
#[test]
fn two_interrupts_end_a_run_that_waits_for_an_environment() {
    let bench = Fixture::new(TOOLS_SCRIPT, "0", "native");
    let cache = bench.stage.path("cache");
    let (first, _) = bench.start_with_lines("tools", "");
    bench.wait_for_success(first);
    // Build the layers in a separate cache, so that the test can lock and remove them.
    let config = bench.stage.path("run.toml");
    let start = |name: &str| {
        let out = bench.stage.path(name);
        let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let mut command = bench.stage.proctor(args);
        command.env("PROCTOR_CACHE", &cache).stderr(Stdio::null()).stdout(Stdio::null());
        (command.spawn().unwrap(), out)
    };
    bench.wait_for_success(start("built").0);
    let layers = cache.join("native/layers");
    let mut held = Vec::new();
    for entry in fs::read_dir(&layers).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".lock") {
            let file = fs::File::open(&path).unwrap();
            file.lock().unwrap();
            held.push(file);
        } else {
            fs::remove_file(path.join("layer.json")).unwrap();
        }
    }
    assert!(!held.is_empty());
    let (mut child, out) = start("waits");
    wait_for("the trial's claim", || fs::read_dir(out.join("claims")).ok()?.next().map(drop));
    sleep(Duration::from_secs(1));
    interrupt(&child);
    sleep(Duration::from_millis(500));
    // The run may already have ended after the first interrupt.
    if child.try_wait().unwrap().is_none() {
        interrupt(&child);
    }
    let begun = Instant::now();
    let code = wait_for("the end", || child.try_wait().unwrap());
    assert_eq!(code.code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

/// Without `--join`, a second runtime on the same run is rejected. With `--join`, the two runtimes
/// share the trials.
#[test]
fn two_runtimes_share_the_trials_of_a_run() {
    let script =
        "[default]\ndelay_seconds = 1.0\ntool_calls = [{ name = \"submit\", arguments = {} }]\n";
    let bench = Fixture::new(script, "0", "native");
    let (child, out) = bench.start_with_lines("tools", "attempts = 6\njobs = 1\n");
    wait_for("the first request", || (!bench.fake.requests().is_empty()).then_some(()));
    let refused = bench.stage.run(["resume", out.to_str().unwrap()], 2);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("--join") && said.contains(&child.id().to_string()), "{said}");
    let joined = bench.stage.proctor(["resume", out.to_str().unwrap(), "--join"]).output().unwrap();
    let said = String::from_utf8_lossy(&joined.stderr).into_owned();
    assert_eq!(joined.status.code(), Some(0), "{said}");
    bench.wait_for_success(child);
    assert!(said.contains("started") && said.contains("running on another worker"), "{said}");
    assert_eq!(bench.fake.requests().len(), 6, "each trial runs once");
    let journals = find_files(&out.join("trials"), "trajectory.jsonl");
    assert_eq!(journals.len(), 6);
    assert!(journals.iter().all(|journal| events(journal, "trial_ended").len() == 1));
    assert_eq!(bench.stage.report(&out)["arms"][0]["graded"], 6);
    assert!(!out.join("claims").exists() && !out.join("workers").exists());
}

/// A script with two complete steps. Between them, a command leaves time for a kill.
pub const SLOW_STEP_SCRIPT: &str = r#"
[[conversation]]
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "echo one > one.txt" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "echo two > two.txt; sleep SLOW" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "submit"
arguments = {}
"#;

/// Kills the runtime of a trial with `kill -9`. Another runtime that has joined the run takes over
/// the trial, and nothing is paid for again.
#[test]
fn joined_runtime_takes_over_a_killed_runtimes_trial() {
    // There are two attempts, and each runtime runs one trial at a time. The first runtime is in
    // the slow command of one attempt while the second runtime runs the other attempt.
    let bench = Fixture::new(SLOW_STEP_SCRIPT, "6", "native");
    let (first, out) = bench.start_with_lines("tools", "attempts = 2\njobs = 1\n");
    wait_for("the slow command", || (count_events(&out, "tool_called") == 2).then_some(()));
    let second = bench.spawn(&["resume", out.to_str().unwrap(), "--join"]);
    wait_for("the second runtime at the other trial", || {
        (find_files(&out.join("trials"), "trajectory.jsonl").len() == 2).then_some(())
    });
    kill(first);
    bench.wait_for_success(second);
    let journals = find_files(&out.join("trials"), "trajectory.jsonl");
    assert_eq!(journals.len(), 2, "{}", bench.log());
    for journal in &journals {
        assert_eq!(events(journal, "trial_ended").len(), 1, "one outcome: {}", bench.log());
        assert!(journal.with_file_name("outcome.json").exists());
        assert!(!journal.with_file_name("tries").exists(), "the same try must continue");
    }
    let resumed = journals.iter().filter(|journal| !events(journal, "trial_resumed").is_empty());
    assert_eq!(resumed.count(), 1, "{}", bench.log());
    // None of the recorded responses of either trial was requested again.
    assert!(bench.request_counts().iter().all(|times| *times == 2), "{:?}", bench.request_counts());
    let report = bench.stage.report(&out);
    assert_eq!(
        (&report["arms"][0]["graded"], &report["arms"][0]["complete"]),
        (&2.into(), &true.into())
    );
    assert!(!out.join("claims").exists(), "the last worker leaves nothing");
}
