//! Tests what `report`, `resume` and `grade` do if a run's files were changed, truncated, lost or
//! swapped.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use fake_llm::{FakeLlm, Script};
use proctor_record::RunDir;
use proctor_types::{ArmId, TaskId, TrialId};
use serde_json::Value;

use crate::stage::{Stage, events, find_arm, find_files};

/// A run of one task with two trials: `gold` is resolved, and `noop` is not.
struct RunFixture {
    stage: Stage,
    complete_run: PathBuf,
    copy_count: u32,
}

impl RunFixture {
    fn new() -> Self {
        let stage = Stage::new();
        let demo =
            fs::read_to_string(crate::stage::repository_root().join("configs/tasks/demo.jsonl"))
                .unwrap();
        let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
        // Copy the source code, because one of the tests changes it.
        let source = stage.path("numerals");
        let shipped = crate::stage::repository_root().join("configs/tasks/numerals");
        let copied = Command::new("cp").arg("-a").arg(shipped).arg(&source).status().unwrap();
        assert!(copied.success());
        task["source"]["path"] = source.to_str().unwrap().into();
        let tasks = stage.write_file("task.jsonl", &format!("{task}\n"));
        let config = stage.write_file(
            "run.toml",
            &format!(
                "tasks = [\"{}\"]\n[[arms]]\nname = \"gold\"\nscaffold = \"gold\"\n\
                 [[arms]]\nname = \"noop\"\nscaffold = \"noop\"\n",
                tasks.display()
            ),
        );
        let complete_run = stage.path("whole");
        stage.run(["run", config.to_str().unwrap(), "--out", complete_run.to_str().unwrap()], 0);
        Self { stage, complete_run, copy_count: 0 }
    }

    /// Returns a copy of the complete run, which a test may corrupt.
    fn copy_run(&mut self) -> PathBuf {
        self.copy_count += 1;
        let to = self.stage.path(&format!("copy-{}", self.copy_count));
        let copied =
            Command::new("cp").arg("-a").arg(&self.complete_run).arg(&to).status().unwrap();
        assert!(copied.success());
        to
    }

    fn run_proctor(&self, args: &[&str], run: &Path) -> (Output, String) {
        let args = args.iter().map(|arg| if *arg == "RUN" { run.to_str().unwrap() } else { arg });
        let output = self.stage.proctor(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{said}");
        (output, said)
    }

    fn report(&self, run: &Path) -> Value {
        self.stage.report(run)
    }
}

/// Returns the path of a file in the only trial of an arm.
fn trial_file(run: &Path, name: &str, file: &str) -> PathBuf {
    let plan: Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    let arms = plan["arms"].as_array().unwrap();
    let id = arms.iter().find(|arm| arm["name"] == name).unwrap()["id"].as_str().unwrap();
    let task = plan["tasks"][0]["task"]["id"].as_str().unwrap();
    run.join("trials").join(&id[..12]).join(task).join("1").join(file)
}

fn flip_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x01;
    fs::write(path, bytes).unwrap();
}

type Corruption = fn(path: &Path, other: &Path);

const CORRUPTIONS: [(&str, Corruption); 7] = [
    ("flipped byte", |path, _| flip_byte(path)),
    ("truncated tail", |path, _| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 4]).unwrap();
    }),
    ("truncated middle", |path, _| {
        let bytes = fs::read(path).unwrap();
        let third = bytes.len() / 3;
        fs::write(path, [&bytes[..third], &bytes[2 * third..]].concat()).unwrap();
    }),
    ("lost file", |path, _| fs::remove_file(path).unwrap()),
    ("swapped files", |path, other| {
        let (mine, theirs) = (fs::read(path).unwrap(), fs::read(other).unwrap());
        fs::write(path, theirs).unwrap();
        fs::write(other, mine).unwrap();
    }),
    ("emptied file", |path, _| fs::write(path, "").unwrap()),
    ("old modification time restored", |path, _| {
        let keeper = path.with_extension("keeper");
        assert!(Command::new("cp").arg("-p").arg(path).arg(&keeper).status().unwrap().success());
        flip_byte(path);
        assert!(Command::new("touch").arg("-r").arg(&keeper).arg(path).status().unwrap().success());
        fs::remove_file(keeper).unwrap();
    }),
];

fn assert_complete(report: &Value) {
    for (name, resolved) in [("gold", 1), ("noop", 0)] {
        let arm = find_arm(report, name);
        assert_eq!(
            (&arm["resolved"], &arm["complete"]),
            (&resolved.into(), &true.into()),
            "{report:#}"
        );
    }
}

/// Asserts that the `gold` arm has no verdict and the other arm has kept its own.
fn assert_gold_missing(report: &Value) {
    let gold = find_arm(report, "gold");
    assert_eq!((&gold["graded"], &gold["complete"]), (&0.into(), &false.into()), "{report:#}");
    assert_eq!(report["tasks"][0]["resolved"], Value::Null);
    assert_eq!(
        find_arm(report, "noop")["complete"],
        true,
        "a corrupt trial does not affect the other"
    );
}

#[test]
fn corrupt_derived_files_are_restored_from_the_journal() {
    let mut runs = RunFixture::new();
    for name in ["patch.diff", "outcome.json", "verdict.json"] {
        for (what, harm) in CORRUPTIONS {
            let run = runs.copy_run();
            assert_complete(&runs.report(&run));
            // The patch of `noop` is empty, so it cannot be corrupted, and swapping the two patches
            // leaves it empty.
            let (path, other) = (trial_file(&run, "gold", name), trial_file(&run, "noop", name));
            let before = fs::read(&path).unwrap();
            harm(&path, &other);
            let (output, said) = runs.run_proctor(&["report", "RUN", "--format", "json"], &run);
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_complete(&report);
            assert!(said.contains(&path.display().to_string()), "{name}, {what}: {said}");
            assert!(report["tasks"][0]["damage"][0].as_str().unwrap().contains(name), "{report:#}");

            let (output, said) = runs.run_proctor(&["resume", "RUN"], &run);
            assert_eq!(output.status.code(), Some(0), "{name}, {what}: {said}");
            assert!(
                said.contains(&path.display().to_string()) && said.contains("restored"),
                "{said}"
            );
            let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
            let after = fs::read(&path).unwrap();
            assert_eq!(
                (json(&after), after == before || name != "patch.diff"),
                (json(&before), true)
            );
            let report = runs.report(&run);
            assert_complete(&report);
            assert!(report["tasks"][0].get("damage").is_none(), "{report:#}");
        }
    }
}

#[test]
fn corrupt_journal_is_reported_and_finished_trials_are_kept() {
    let mut runs = RunFixture::new();
    for (what, harm) in CORRUPTIONS {
        let run = runs.copy_run();
        assert_complete(&runs.report(&run));
        let (path, other) = (
            trial_file(&run, "gold", "trajectory.jsonl"),
            trial_file(&run, "noop", "trajectory.jsonl"),
        );
        harm(&path, &other);
        let damaged = fs::read(&path).ok();
        let named = path.display().to_string();
        let report = runs.report(&run);
        if what == "swapped files" {
            assert_eq!(find_arm(&report, "gold")["complete"], false);
            assert_eq!(find_arm(&report, "noop")["complete"], false);
        } else {
            assert_gold_missing(&report);
        }
        for command in [["resume", "RUN"], ["grade", "RUN"], ["report", "RUN"]] {
            let (output, said) = runs.run_proctor(&command, &run);
            let all = said + &String::from_utf8_lossy(&output.stdout);
            assert!(all.contains(&named) && all.contains("from a copy"), "{what}: {all}");
            if what == "flipped byte" {
                assert!(all.contains(&format!("{named}:")), "{all}");
            }
            let expected = if command[0] == "report" { 0 } else { 3 };
            assert_eq!(output.status.code(), Some(expected), "{command:?}, {what}: {all}");
        }
        assert_eq!(fs::read(&path).ok(), damaged, "{what}: left unchanged");
        assert!(
            find_files(&run, "trajectory.jsonl")
                .iter()
                .all(|path| !path.to_string_lossy().contains("tries"))
        );
        if what == "swapped files" {
            continue;
        }
        // Once the file is restored from a copy, the trial has its verdict again, without being
        // graded again.
        fs::copy(trial_file(&runs.complete_run, "gold", "trajectory.jsonl"), &path).unwrap();
        let report = runs.report(&run);
        assert_eq!(find_arm(&report, "gold")["resolved"], 1, "{what}: {report:#}");
    }
}

#[test]
fn lost_patch_is_not_graded_as_an_empty_one() {
    let mut runs = RunFixture::new();
    for (what, harm) in CORRUPTIONS {
        let run = runs.copy_run();
        let path = trial_file(&run, "gold", "patch.diff");
        fs::remove_file(trial_file(&run, "gold", "blobs.pack")).unwrap();
        harm(&path, &trial_file(&run, "noop", "patch.diff"));
        fs::remove_file(trial_file(&run, "gold", "verdict.json")).unwrap();
        let report = runs.report(&run);
        assert_eq!(find_arm(&report, "gold")["complete"], false, "{what}: {report:#}");
        for command in [["resume", "RUN"], ["grade", "RUN"]] {
            let (output, said) = runs.run_proctor(&command, &run);
            assert_eq!(output.status.code(), Some(3), "{what}: {said}");
            assert!(said.contains(&path.display().to_string()), "{what}: {said}");
        }
        assert_eq!(find_arm(&runs.report(&run), "gold")["graded"], 0, "{what}");
    }
}

#[test]
fn forged_verdict_is_ignored() {
    let mut runs = RunFixture::new();
    let run = runs.copy_run();
    let path = trial_file(&run, "noop", "verdict.json");
    let forged =
        fs::read_to_string(&path).unwrap().replace("\"resolved\": false", "\"resolved\": true");
    fs::write(&path, &forged).unwrap();
    let (output, said) = runs.run_proctor(&["report", "RUN"], &run);
    let all = said + &String::from_utf8_lossy(&output.stdout);
    assert!(all.contains(&path.display().to_string()), "{all}");
    assert_complete(&runs.report(&run));
    // Without the earlier grading, nothing confirms the verdict, so the trial is graded again.
    fs::remove_dir_all(trial_file(&run, "noop", "grade")).unwrap();
    assert_eq!(find_arm(&runs.report(&run), "noop")["complete"], false);
    assert_eq!(runs.run_proctor(&["resume", "RUN"], &run).0.status.code(), Some(0));
    assert_complete(&runs.report(&run));
}

#[test]
fn corrupt_plan_is_read_from_its_copy() {
    let mut runs = RunFixture::new();
    let run = runs.copy_run();
    let plan = run.join("run.json");
    let whole = fs::read_to_string(&plan).unwrap();
    let changes: [fn(&Path); 5] = [
        |plan| {
            let text = fs::read_to_string(plan).unwrap();
            fs::write(plan, text.replacen("\"attempts\": 1", "\"attempts\": 3", 1)).unwrap();
        },
        |plan| {
            let text = fs::read_to_string(plan).unwrap();
            fs::write(plan, text.replacen("\"cpus\": 1.0", "\"cpus\": 2.0", 1)).unwrap();
        },
        |plan| {
            let text = fs::read_to_string(plan).unwrap();
            let mut plan_as_json: Value = serde_json::from_str(&text).unwrap();
            plan_as_json["tasks"][0]["task"]["fail_to_pass"] = serde_json::json!([]);
            fs::write(plan, serde_json::to_string_pretty(&plan_as_json).unwrap()).unwrap();
        },
        |plan| fs::write(plan, "").unwrap(),
        |plan| fs::remove_file(plan).unwrap(),
    ];
    for change in changes {
        change(&plan);
        let (output, said) = runs.run_proctor(&["report", "RUN", "--format", "json"], &run);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_complete(&report);
        let told = said + &report["remarks"].to_string();
        assert!(told.contains("run.json"), "{told}");
        let (output, said) = runs.run_proctor(&["resume", "RUN"], &run);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(fs::read_to_string(&plan).unwrap(), whole, "restored");
    }
    // The compressed copy is also verified. Otherwise, `run.json` could not be restored the next
    // time.
    let copy = run.join("run.json.gz");
    let spoils: [fn(&Path); 2] = [flip_byte, |copy| fs::remove_file(copy).unwrap()];
    for spoil in spoils {
        spoil(&copy);
        let (output, _) = runs.run_proctor(&["report", "RUN", "--verify"], &run);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("run.json.gz"), "{told}");
        let (output, said) = runs.run_proctor(&["resume", "RUN"], &run);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let (output, _) = runs.run_proctor(&["report", "RUN", "--verify"], &run);
        assert_eq!(output.status.code(), Some(0), "{said}");
    }
    // If there is no copy, `resume` does not guess, and it does not tell the user to move anything.
    fs::write(&plan, whole.replacen("\"attempts\": 1", "\"attempts\": 3", 1)).unwrap();
    fs::remove_file(run.join("run.json.gz")).unwrap();
    for command in [["report", "RUN"], ["resume", "RUN"], ["grade", "RUN"]] {
        let (output, said) = runs.run_proctor(&command, &run);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("run.json") && said.contains("from a copy"), "{said}");
        assert!(!said.contains("move"), "{said}");
    }
}

#[test]
fn lost_blob_is_detected_when_it_is_read() {
    let mut runs = RunFixture::new();
    let verify = ["report", "RUN", "--verify"];
    let run = runs.copy_run();
    assert_eq!(runs.run_proctor(&verify, &run).0.status.code(), Some(0));
    // The manifest of the first snapshot is a shared blob to which both trials refer.
    let journal = trial_file(&run, "gold", "trajectory.jsonl");
    let first = events(&journal, "snapshot_taken").remove(0);
    let hash = first["snapshot"].as_str().unwrap();
    fs::remove_file(run.join("blobs").join(&hash[..2]).join(&hash[2..])).unwrap();
    let (output, said) = runs.run_proctor(&verify, &run);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&hash[2..]) && text.contains("incomplete"), "{text}");
    // `report` shows recorded results without reading this blob, but grading needs it.
    assert_complete(&runs.report(&run));
    let (output, said) = runs.run_proctor(&["grade", "RUN"], &run);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(&hash[2..]), "{said}");
    // The journal contains the size of the pack. So `report` notices a truncated pack without
    // reading it, and names the command that shows the details.
    for left in [0, 20] {
        let run = runs.copy_run();
        let pack = trial_file(&run, "gold", "blobs.pack");
        let bytes = fs::read(&pack).unwrap();
        fs::write(&pack, &bytes[..left]).unwrap();
        let plain = runs.report(&run);
        let (output, _) =
            runs.run_proctor(&["report", "RUN", "--verify", "--format", "json"], &run);
        let verified: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(plain["tasks"], verified["tasks"], "{left} bytes");
        assert!(plain["tasks"][0]["damage"].to_string().contains("blobs.pack"), "{plain:#}");
        assert_ne!(output.status.code(), Some(0));
    }
    // Corruption is reported even if it affects no score.
    let run = runs.copy_run();
    flip_byte(&trial_file(&run, "gold", "grade/log.txt"));
    let (output, said) = runs.run_proctor(&verify, &run);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("grade/log.txt"));
}

const TOOL_SCRIPT: &str = r#"
[[conversation]]
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "seq 1 400; echo é > new.txt" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "seq 400 900" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "rm new.txt; seq 1 400" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "submit"
arguments = {}
"#;

#[test]
fn requests_are_reproduced_byte_for_byte_and_stored_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fake =
        runtime.block_on(FakeLlm::start(toml::from_str::<Script>(TOOL_SCRIPT).unwrap())).unwrap();
    let stage = Stage::new();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n[[arms]]\nname = \"a\"\nscaffold = \"tools\"\n\
             model = \"fake\"\n[models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n",
            fake.base_url()
        ),
    );
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    let journal = find_files(&out.join("trials"), "trajectory.jsonl").remove(0);
    let started = events(&journal, "trial_started").remove(0);
    let id = TrialId {
        task: TaskId::new(started["task"].as_str().unwrap()),
        arm: ArmId::new(started["arm"].as_str().unwrap()),
        attempt: 1,
    };
    let run = RunDir::open_read_only(&out).unwrap();
    let blobs = run.trial_blobs(&run.trial_dir(&id));
    let kept: Vec<_> = events(&journal, "model_attempted")
        .iter()
        .map(|event| blobs.get(event["request"].as_str().unwrap()).unwrap())
        .collect();
    let received: Vec<_> = fake.requests().into_iter().map(|seen| seen.bytes).collect();
    assert_eq!(kept.len(), 4);
    assert!(kept == received, "the kept bytes differ from those that were sent");
    // The output of each tool is stored in the tool's event, and not in the requests too.
    let asked = events(&journal, "model_asked");
    assert_eq!(asked[1]["ask"]["as_returned"], serde_json::json!([1]));
    assert_eq!(asked[1]["ask"]["new"]["messages"][1]["content"], "");
    let all: usize = kept.iter().map(Vec::len).sum();
    let pack = fs::metadata(journal.with_file_name("blobs.pack")).unwrap().len();
    assert!((pack as usize) < all / 2, "{pack} of {all}");
    stage.run(["report", out.to_str().unwrap(), "--verify"], 0);
}

/// Replaces a regular file with a folder, a FIFO, a link to a device, or a dangling link.
fn replace_with_special_file(kind: &str, path: &Path) {
    fs::remove_file(path).unwrap();
    match kind {
        "folder" => fs::create_dir(path).unwrap(),
        "pipe" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        "device" => symlink("/dev/zero", path).unwrap(),
        _ => symlink(path.with_extension("nowhere"), path).unwrap(),
    }
}

/// If a grading file was replaced with a special file, readers must not block. The next grading
/// moves the special file aside.
#[test]
fn next_grading_moves_special_files_aside() {
    let mut runs = RunFixture::new();
    for (name, kind) in [
        ("grade/journal.jsonl", "pipe"),
        ("grade/journal.jsonl", "dangling link"),
        ("grade/log.txt", "pipe"),
        ("grade/log.txt", "device"),
        ("grade/results.jsonl", "folder"),
        ("grade/results.jsonl", "dangling link"),
    ] {
        let run = runs.copy_run();
        let path = trial_file(&run, "gold", name);
        replace_with_special_file(kind, &path);
        let (output, said) = runs.run_proctor(&["report", "RUN", "--verify"], &run);
        let said = said + &String::from_utf8_lossy(&output.stdout);
        let journal = name.ends_with("journal.jsonl");
        assert_eq!(output.status.code(), Some(if journal { 3 } else { 1 }), "{name}: {said}");
        assert!(said.contains(&path.display().to_string()), "{name}, {kind}: {said}");
        // Every command notices that the grading journal is missing. Only the next `grade` notices
        // that other files are missing.
        let command = if journal { "resume" } else { "grade" };
        let (output, said) = runs.run_proctor(&[command, "RUN"], &run);
        assert_eq!(output.status.code(), Some(0), "{name}, {kind}: {said}");
        assert!(path.is_file() && !path.is_symlink(), "{name}, {kind}: {said}");
        let aside = path.with_file_name(format!("{}.damaged", &name["grade/".len()..]));
        assert!(fs::symlink_metadata(&aside).is_ok(), "{name}, {kind}: the original is kept");
        assert_complete(&runs.report(&run));
        assert_eq!(runs.run_proctor(&["report", "RUN", "--verify"], &run).0.status.code(), Some(0));
    }
}

/// These files contain cached results of earlier checks, and the log that a page shows. Losing them
/// costs only time or the log.
#[test]
fn special_files_next_to_the_record_do_not_block_readers() {
    let mut runs = RunFixture::new();
    for kind in ["pipe", "device", "dangling link"] {
        let run = runs.copy_run();
        assert_complete(&runs.report(&run));
        replace_with_special_file(kind, &run.join("checked.jsonl"));
        replace_with_special_file(kind, &trial_file(&run, "gold", "grade/log.txt"));
        assert_complete(&runs.report(&run));
        let pages = runs.stage.path(&format!("pages-{}", runs.copy_count));
        let view = ["view", "RUN", "--static", pages.to_str().unwrap()];
        let (output, said) = runs.run_proctor(&view, &run);
        assert_eq!(output.status.code(), Some(0), "{kind}: {said}");
    }
}

/// If a directory or a pipe replaces a file of the record, the commands report the corruption and
/// show everything else.
#[test]
fn special_files_in_the_record_are_reported_as_corruption() {
    let mut runs = RunFixture::new();
    for (name, kind) in [
        ("outcome.json", "folder"),
        ("verdict.json", "folder"),
        ("patch.diff", "folder"),
        ("trajectory.jsonl", "folder"),
        ("run.json", "folder"),
        ("report.json", "folder"),
        ("verdict.json", "pipe"),
        ("trajectory.jsonl", "pipe"),
        ("run.json", "pipe"),
        ("outcome.json", "dangling link"),
        ("verdict.json", "dangling link"),
        ("patch.diff", "device"),
    ] {
        let run = runs.copy_run();
        let path = match name {
            "run.json" | "report.json" => run.join(name),
            _ => trial_file(&run, "gold", name),
        };
        replace_with_special_file(kind, &path);
        let lost = name == "trajectory.jsonl";
        let (output, said) = runs.run_proctor(&["report", "RUN", "--verify"], &run);
        let said = said + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(if lost { 3 } else { 1 }), "{name}: {said}");
        assert!(said.contains(&path.display().to_string()) && !said.contains("os error"), "{said}");
        let (output, said) = runs.run_proctor(&["resume", "RUN"], &run);
        assert_eq!(output.status.code(), Some(if lost { 3 } else { 0 }), "{name}: {said}");
        assert_eq!(path.is_file(), !lost, "{name}");
        if !lost {
            assert_complete(&runs.report(&run));
        }
    }
}

/// Labels are not part of the record. If the labels file is unreadable, the commands report the
/// problem but do not fail.
#[test]
fn unreadable_labels_are_reported_and_do_not_stop_commands() {
    let mut runs = RunFixture::new();
    for kind in ["mkdir", "mkfifo"] {
        let run = runs.copy_run();
        let labels = run.join("labels.jsonl");
        assert!(Command::new(kind).arg(&labels).status().unwrap().success());
        assert_complete(&runs.report(&run));
        for command in [&["report", "RUN"][..], &["report", "RUN", "--verify"], &["resume", "RUN"]]
        {
            let (output, said) = runs.run_proctor(command, &run);
            assert_eq!(output.status.code(), Some(0), "{kind}: {said}");
            let line = format!("invalid label: {}: ", labels.display());
            assert!(said.contains(&line), "{kind}: {said}");
        }
    }
}

/// A power failure can leave NUL bytes after the last event. No event is lost in that case, and the
/// bytes are reported.
#[test]
fn data_after_the_last_event_is_reported() {
    let mut runs = RunFixture::new();
    let run = runs.copy_run();
    let journal = trial_file(&run, "gold", "trajectory.jsonl");
    let mut bytes = fs::read(&journal).unwrap();
    bytes.extend([0; 4]);
    fs::write(&journal, bytes).unwrap();
    for command in [&["report", "RUN"][..], &["report", "RUN", "--verify"]] {
        let (output, said) = runs.run_proctor(command, &run);
        let said = said + &String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("the last event is followed by other data"), "{said}");
        assert!(said.contains("no score depends on it"), "{said}");
    }
    assert_complete(&runs.report(&run));
}

/// If a trial cannot be graded, its earlier verdict is kept. The verdict is valid again once the
/// record is complete.
#[test]
fn ungradable_trial_keeps_its_verdict() {
    let mut runs = RunFixture::new();
    let run = runs.copy_run();
    let packs = find_files(&run, "blobs.pack");
    assert!(!packs.is_empty(), "no blobs are packed");
    for pack in &packs {
        fs::rename(pack, pack.with_extension("away")).unwrap();
    }
    let (output, said) = runs.run_proctor(&["grade", "RUN"], &run);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("not graded again: "), "{said}");
    assert!(trial_file(&run, "gold", "verdict.json").is_file(), "{said}");
    for pack in &packs {
        fs::rename(pack.with_extension("away"), pack).unwrap();
    }
    assert_complete(&runs.report(&run));
}

/// If grading fails, the earlier verdict is kept, and a message says so.
#[test]
fn failed_grading_keeps_the_earlier_verdict() {
    let mut runs = RunFixture::new();
    let run = runs.copy_run();
    let added = runs.stage.path("numerals/added.py");
    fs::write(&added, "changed = True\n").unwrap();
    let (output, said) = runs.run_proctor(&["grade", "RUN"], &run);
    fs::remove_file(&added).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the task's source has changed since the run was planned"), "{said}");
    assert!(said.contains("the earlier verdict is kept"), "{said}");
    assert_complete(&runs.report(&run));
    let (output, said) = runs.run_proctor(&["grade", "RUN"], &run);
    assert!(output.status.success() && !said.contains("not graded again"), "{said}");
}

/// `grade` only grades trials that have submitted work. Other trials are left to `resume`, which
/// may send paid requests.
#[test]
fn grade_runs_no_trials_and_out_keeps_the_run_unchanged() {
    let mut runs = RunFixture::new();
    let run = runs.copy_run();
    fs::remove_dir_all(trial_file(&run, "noop", "")).unwrap();
    let (output, said) = runs.run_proctor(&["report", "RUN", "--verify"], &run);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &said;
    assert!(!output.status.success() && text.contains("report.json has a verdict"), "{text}");
    let (output, said) = runs.run_proctor(&["grade", "RUN"], &run);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("gold: grading the recorded patch"), "{said}");
    assert!(!said.contains("started") && !trial_file(&run, "noop", "").exists(), "{said}");

    let run = runs.copy_run();
    let before = fs::read(trial_file(&run, "gold", "grade/journal.jsonl")).unwrap();
    let out = runs.stage.path("graded");
    let (output, said) = runs.run_proctor(&["grade", "RUN", "--out", out.to_str().unwrap()], &run);
    assert!(output.status.success(), "{said}");
    assert_complete(&runs.report(&out));
    assert_eq!(fs::read(trial_file(&run, "gold", "grade/journal.jsonl")).unwrap(), before);
    assert_ne!(fs::read(trial_file(&out, "gold", "grade/journal.jsonl")).unwrap(), before);
}

/// If a trial's directory is renamed, the trial is missing from the run. It runs again, which may
/// cost money, only after the user has confirmed.
#[test]
fn moved_trial_runs_again_only_after_confirmation() {
    let mut runs = RunFixture::new();
    let run = runs.copy_run();
    // Remove the report too, so that only the renamed directory shows that the trial existed.
    fs::remove_file(run.join("report.json")).unwrap();
    let place = trial_file(&run, "gold", "").parent().unwrap().join("1");
    let moved = place.with_file_name("first");
    fs::rename(&place, &moved).unwrap();
    let name = moved.strip_prefix(&run).unwrap().to_str().unwrap();
    let (output, _) = runs.run_proctor(&["report", "RUN"], &run);
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<String>();
    assert!(text.contains(name), "{text}");
    let remarks = runs.report(&run)["remarks"].to_string();
    assert!(remarks.contains(name), "{remarks}");
    for args in [&["resume", "RUN"][..], &["resume", "RUN", "--join"]] {
        let (output, said) = runs.run_proctor(args, &run);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let said = said.split_whitespace().collect::<String>();
        assert!(said.contains(name) && said.contains("--confirm"), "{said}");
        assert!(!place.exists(), "nothing has run");
    }
    let (output, said) = runs.run_proctor(&["resume", "RUN", "--confirm", "--jobs", "1"], &run);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_complete(&runs.report(&run));
    assert!(moved.join("verdict.json").exists(), "the moved record is unchanged");

    // A directory without a trial does not require a confirmation.
    let run = runs.copy_run();
    fs::create_dir(run.join("trials/notes")).unwrap();
    let (output, said) = runs.run_proctor(&["resume", "RUN"], &run);
    assert!(output.status.success() && said.contains("trials/notes"), "{said}");
}

#[test]
fn report_counts_a_copied_run_once() {
    let mut runs = RunFixture::new();
    let (whole, copy) = (runs.complete_run.clone(), runs.copy_run());
    for command in ["report", "compare"] {
        let args = [command, whole.to_str().unwrap(), "RUN"];
        let (output, said) = runs.run_proctor(&args, &copy);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("is a copy of") && said.contains("2 trials"), "{said}");
    }
    // If another run has trials of the same tasks and arms, they count as additional trials.
    let again = runs.stage.path("again");
    let config = runs.stage.path("run.toml");
    let out = again.to_str().unwrap();
    runs.stage.run(["run", config.to_str().unwrap(), "--out", out], 0);
    let (output, said) = runs.run_proctor(&["report", out, "RUN"], &whole);
    assert!(output.status.success(), "{said}");
}
