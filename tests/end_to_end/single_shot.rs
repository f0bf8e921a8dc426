//! Tests the scaffold `single-shot` with a model that responds with the gold patch, in every
//! setting of FEA-Bench, on a repository that this file creates.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use proctor_answers::natural;
use proctor_patch::{Body, Patch, Side};
use serde_json::{Value, json};

use crate::stage::{Stage, events, find_arm, find_files};

/// A string that is in the gold patch but not in any hint.
const SECRET: &str = "only_in_the_gold_7731";

/// A path, and the file's text before and after; `None` if the file does not exist.
type FileChange = (&'static str, Option<&'static str>, Option<&'static str>);

/// The files of the repository. They include cases that the reference code drops or corrupts: an
/// edit that only appends, an empty file, a last line without a line feed, carriage returns, and a
/// path that looks like a test.
const FILES: [FileChange; 8] = [
    ("pytest.ini", Some("[pytest]\npythonpath = .\n"), Some("[pytest]\npythonpath = .\n")),
    ("README.md", Some("# kit\n\nWays to count words.\n"), Some("# kit\n\nWays to count words.\n")),
    ("kit/__init__.py", Some(""), Some("from kit.count import count, most\n")),
    (
        "kit/count.py",
        Some("def count(text):\n    return len(text.split())\n"),
        Some(
            "def count(text):\n    return len(text.split())\n\n\ndef most(text):\n    \"\"\"The word that comes most.\"\"\"\n    only_in_the_gold_7731 = text.split()\n    return max(only_in_the_gold_7731, key=only_in_the_gold_7731.count)\n",
        ),
    ),
    ("kit/checkpoint.py", Some("STATE = 1\nEND = 2"), Some("STATE = 5\nEND = 2")),
    ("kit/dos.py", Some("A = 1\r\nB = 2\r\n"), Some("A = 1\r\nB = 3\r\n")),
    (
        "kit/least.py",
        None,
        Some("def least(text):\n    return min(text.split(), key=text.split().count)\n"),
    ),
    (
        "tests/test_kit.py",
        Some("from kit.count import count\n\n\ndef test_count():\n    assert count('a b') == 2\n"),
        Some(
            "from kit import count, most\nfrom kit.checkpoint import STATE\nfrom kit.dos import B\nfrom kit.least import least\n\n\ndef test_count():\n    assert count('a b') == 2\n\n\ndef test_most():\n    assert most('a b a') == 'a' and least('a b a') == 'b'\n    assert (STATE, B) == (5, 3)\n",
        ),
    ),
];

fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "core.autocrlf=false",
        ])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Creates a repository with a squashed pull request. Returns the base commit.
fn create_repository(folder: &Path) -> String {
    fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "-q", "-b", "main", "."]);
    let commit = |message: &str, side: &dyn Fn(&FileChange) -> Option<String>| {
        for file in &FILES {
            if let Some(text) = side(file) {
                let path = folder.join(file.0);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        git(folder, &["add", "-A"]);
        git(folder, &["commit", "-q", "-m", message]);
    };
    for number in 0..30 {
        let path = folder.join(format!("kit/other_{number}.py"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("VALUE_{number} = 'filler about nothing'\n")).unwrap();
    }
    let own = |text: Option<&str>| text.map(str::to_owned);
    commit("kit", &|file| own(file.1));
    let base = git(folder, &["rev-parse", "HEAD"]);
    let message = "Count the most frequent word (#7)\n\nThe count module should tell which word comes most, a checkpoint state and dos.";
    commit(message, &|file| own(file.2));
    base
}

/// Returns the gold patch in the format of natural responses.
fn natural_gold() -> String {
    let side = |text: Option<&str>| text.map(|text| (0o100_644, text.as_bytes().to_vec()));
    let code = FILES.iter().filter(|file| !file.0.starts_with("tests/"));
    let sides: BTreeMap<String, _> = code
        .map(|(path, before, after)| ((*path).to_owned(), (side(*before), side(*after))))
        .collect();
    format!("I add it.\n```\n{}```\n", natural::format_answer(&sides).unwrap())
}

/// Converts a gold patch to the format of natural responses, which contains the lines of each hunk
/// before and after.
fn to_natural(gold: &str) -> String {
    let mut out = String::new();
    for file in &Patch::parse(gold.as_bytes()).files {
        let name = file.path().to_string();
        let Body::Text(hunks) = &file.body else { panic!("{name} has no hunks") };
        for hunk in hunks {
            out.push_str("<edit>\n");
            for (word, other) in [("before", Side::New), ("after", Side::Old)] {
                out.push_str(&format!("[start of the snippet {word} editing in {name}]\n"));
                for line in hunk.lines.iter().filter(|line| line.side != other) {
                    out.push_str(std::str::from_utf8(&line.bytes).unwrap().trim_end_matches('\n'));
                    out.push('\n');
                }
                out.push_str(&format!("[end of the snippet {word} editing in {name}]\n"));
            }
            out.push_str("</edit>\n");
        }
    }
    out
}

/// Runs a task of another benchmark with files that BM25 finds. If the single response is the gold
/// patch, the task must be resolved in both formats.
pub fn check_one_response_resolves(stage: &Stage, tasks: &str, gold: &str) {
    let arms = "[[arms]]\nname = \"shot\"\nscaffold = \"single-shot\"\nmodel = \"m\"\n\
                settings = { retrieval = \"bm25\" }\n[matrix]\n\"settings.format\" = [\"natural\", \"patch\"]\n";
    let patch = format!("<patch>\n{gold}</patch>");
    let report =
        run_in_folder(stage, "one-answer", arms, tasks, &script(&to_natural(gold), &patch));
    assert_eq!(report["arms"].as_array().unwrap().len(), 2);
    for arm in report["arms"].as_array().unwrap() {
        let rates =
            (&arm["applied_rate"], &arm["resolved_rate"], &arm["single_shot"]["whole_rate"]);
        assert_eq!(rates, (&json!(1.0), &json!(1.0), &json!(1.0)), "{report:#}");
        assert_eq!(arm["outcomes"], json!({"submitted": 1}), "{report:#}");
    }
    for shown in find_files(&stage.path("one-answer").join("trials"), "single-shot.json") {
        let shown: Value = serde_json::from_slice(&fs::read(shown).unwrap()).unwrap();
        let context = &shown["context"];
        assert!(!context["retrieved"].as_array().unwrap().is_empty(), "{context:#}");
        assert!(context["always"].as_array().unwrap().is_empty(), "{context:#}");
    }
}

/// Returns a script with a response for each form of the prompt.
fn script(natural_response: &str, patch: &str) -> String {
    let rule = |last: &str, content: &str| json!({"last": last, "answer": {"content": content}});
    let probe = "FILE: kit/count.py\nSIGNATURE: def most(text):\n";
    json!({
        "rule": [
            rule("generating a single patch file", patch),
            rule("series of edits in the format", natural_response),
            rule("FILE: path/from", probe),
        ],
        "default": {"content": "Yes."}
    })
    .to_string()
}

/// Writes the tasks. Returns their path as a command-line argument, and the gold patch.
fn write_tasks(stage: &Stage) -> (String, String) {
    let base = create_repository(&stage.path("clones/acme__kit"));
    let row = json!({
        "instance_id": "acme__kit-7", "pull_number": 7, "repo": "acme/kit", "version": null, "base_commit": base,
        "environment_setup_commit": base, "FAIL_TO_PASS": ["tests/test_kit.py::test_most"],
        "PASS_TO_PASS": ["tests/test_kit.py::test_count"]
    });
    let file = stage.write_file("rows.jsonl", &format!("{row}\n"));
    let setup = "python3 -m venv /venv\n/venv/bin/pip install -q pytest==8.4.2\n";
    let setup = stage.write_file("setup.sh", setup);
    let repos = stage.path("clones");
    let tasks =
        format!("{}#repos={}&base=host&setup={}", file.display(), repos.display(), setup.display());
    let shown =
        stage.run(["tasks", "show", "acme__kit-7", "--tasks", &tasks, "--json", "--gold"], 0);
    let task: Value = serde_json::from_slice(&shown.stdout).unwrap();
    (tasks, task["gold"].as_str().unwrap().to_owned())
}

fn run(stage: &Stage, arms: &str, tasks: &str, script: &str) -> Value {
    run_in_folder(stage, "run", arms, tasks, script)
}

fn run_in_folder(stage: &Stage, folder: &str, arms: &str, tasks: &str, script: &str) -> Value {
    let script = stage.write_file("script.json", script);
    let config = stage.write_file(
        &format!("{folder}.toml"),
        &format!(
            "tasks = [{tasks:?}]\njobs = 2\n[sandbox]\nkind = \"native\"\n{arms}\n\
             [models.m]\nbase_url = \"script:{}\"\nname = \"m\"\ncontext_window = 100000\n",
            script.display()
        ),
    );
    let out = stage.path(folder);
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    stage.report(&out)
}

#[test]
fn gold_resolves_in_every_cell_of_fea_bench() {
    let stage = Stage::new();
    let (tasks, gold) = write_tasks(&stage);
    assert!(gold.contains(SECRET));
    let arms = "[[arms]]\nname = \"shot\"\nscaffold = \"single-shot\"\nmodel = \"m\"\n\
                [matrix]\n\"settings.hints\" = [\"detailed\", \"brief\"]\n\
                \"settings.retrieval\" = [\"oracle\", \"bm25\"]\n\"settings.format\" = [\"natural\", \"patch\"]\n\
                [[matrix.include]]\nname = \"probe\"\nscaffold = \"single-shot\"\nmodel = \"m\"\n\
                \"settings.format\" = \"probe\"\n";
    let report =
        run(&stage, arms, &tasks, &script(&natural_gold(), &format!("<patch>\n{gold}</patch>")));
    let cells: Vec<&Value> =
        report["arms"].as_array().unwrap().iter().filter(|arm| arm["name"] != "probe").collect();
    assert_eq!(cells.len(), 8, "{report:#}");
    for cell in cells {
        let (name, single) = (&cell["name"], &cell["single_shot"]);
        assert_eq!(
            (&cell["applied_rate"], &cell["resolved_rate"]),
            (&json!(1.0), &json!(1.0)),
            "{name}: {report:#}"
        );
        assert_eq!(single["whole_rate"], 1.0, "{name}: {single:#}");
        if name.as_str().unwrap().contains("oracle") {
            assert_eq!(
                (&single["recall"], &single["recall_all"]),
                (&json!(1.0), &json!(1.0)),
                "{name}"
            );
        }
    }
    let probe = find_arm(&report, "probe");
    assert_eq!(probe["resolved"], 0);
    assert_eq!(probe["single_shot"]["probe"], json!({"gold": 2, "names": 1, "signatures": 1}));
    // The prompt shows nothing from the gold patch, and the sampling parameters are recorded.
    let run = stage.path("run");
    for journal in find_files(&run.join("trials"), "trajectory.jsonl") {
        for asked in events(&journal, "model_asked") {
            assert!(!asked.to_string().contains(SECRET), "{}", journal.display());
        }
    }
    let plan: Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    for arm in plan["arms"].as_array().unwrap() {
        assert_eq!(
            (&arm["model"]["temperature"], &arm["model"]["top_p"]),
            (&json!(0.2), &json!(0.95))
        );
    }
    let text = stage.run(["report", run.to_str().unwrap()], 0);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("%Apply") && text.contains("given only the request"), "{text}");
}

#[test]
fn single_shot_unusable_response_has_a_reason() {
    let stage = Stage::new();
    let (tasks, gold) = write_tasks(&stage);
    // This patch removes a line that does not exist. The fuzz that the benchmark allows in `patch`
    // does not help, and other files have already been changed by then.
    let wrong = gold.replace("-STATE = 1", "-STATE = 9");
    let arms = "[[arms]]\nname = \"natural\"\nscaffold = \"single-shot\"\nmodel = \"m\"\n\
                [[arms]]\nname = \"patch\"\nscaffold = \"single-shot\"\nmodel = \"m\"\nsettings = { format = \"patch\" }\n";
    let report = run(&stage, arms, &tasks, &script("I would add a function.", &wrong));
    for (name, why) in [("natural", "the response has no edits"), ("patch", "does not apply")] {
        let (arm, task) = (find_arm(&report, name), |task: &&Value| {
            task["arm"] == find_arm(&report, name)["arm"]
        });
        assert_eq!((&arm["applied"], &arm["resolved"]), (&json!(0), &json!(0)), "{report:#}");
        let trial = report["tasks"].as_array().unwrap().iter().find(task).unwrap();
        assert_eq!(trial["outcome"], "scaffold_exited", "{trial:#}");
        assert!(trial["why"].as_str().unwrap().contains(why), "{trial:#}");
    }
    // If a patch fails, it leaves no changes.
    for patch in find_files(&stage.path("run"), "patch.diff") {
        assert_eq!(fs::read_to_string(&patch).unwrap(), "", "{}", patch.display());
    }
    let config = fs::read_to_string(stage.path("run.toml")).unwrap();
    let mistaken = stage.write_file("mistaken.toml", &config.replace("format = ", "formt = "));
    let output = stage.run(["run", mistaken.to_str().unwrap(), "--dry-run"], 2);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("settings.formt") && said.contains("did you mean `format`?"), "{said}");
}

#[test]
fn single_shot_truncated_refused_and_empty_responses_have_outcomes() {
    let stage = Stage::new();
    let (tasks, _) = write_tasks(&stage);
    let gold = natural_gold();
    // The first response contains the whole gold patch and then half of an edit. The second
    // response contains only half of an edit.
    let half = &gold[gold.find("<edit>").unwrap()..];
    let half = &half[..half.find("[end of the snippet after").unwrap()];
    // The responses are so long that they cannot have been ended by a server's default limit.
    let usage = json!({"input": 100, "output": 40_000});
    let answers = [
        (
            "cut",
            json!({"content": format!("{gold}{half}"), "finish_reason": "length", "usage": usage}),
        ),
        ("cut-early", json!({"content": half, "finish_reason": "length", "usage": usage})),
        ("refusal", json!({"content": "", "refusal": "I will not write code."})),
        ("empty", json!({"content": "", "usage": {"input": 100, "output": 1}})),
    ];
    let rules: Vec<Value> = answers
        .iter()
        .map(|(model, answer)| json!({"model": model, "last": "series of edits in the format", "answer": answer}))
        .collect();
    let script = json!({"rule": rules, "default": {"content": "Yes."}}).to_string();
    let script = stage.write_file("script.json", &script);
    let arms: String = answers
        .iter()
        .map(|(name, _)| {
            let count = if *name == "cut" { "tokenizer = \"cl100k_base\"\n" } else { "" };
            format!(
                "[[arms]]\nname = {name:?}\nscaffold = \"single-shot\"\nmodel = {name:?}\n\
                 [models.{name}]\nbase_url = \"script:{}\"\nname = {name:?}\n{count}",
                script.display()
            )
        })
        .collect();
    let config = format!("tasks = [{tasks:?}]\njobs = 2\n[sandbox]\nkind = \"native\"\n{arms}");
    let config = stage.write_file("run.toml", &config);
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    let report = stage.report(&out);
    // For each model: the outcome, its cause, a part of its text, the finish reason, and whether
    // the response still resolves the task.
    let expected = [
        ("cut", "scaffold_exited", "finished", "the part before it was applied", None),
        (
            "cut-early",
            "scaffold_exited",
            "empty_turn",
            "truncated at the output limit",
            Some("gave_up"),
        ),
        ("refusal", "model_refused", "", "I will not write code.", Some("refused")),
        ("empty", "scaffold_exited", "empty_turn", "the response has no edits", Some("gave_up")),
    ];
    for (name, outcome, cause, why, reason) in expected {
        let arm = find_arm(&report, name);
        let of = |trial: &&Value| trial["arm"] == arm["arm"];
        let trial = report["tasks"].as_array().unwrap().iter().find(of).unwrap();
        assert_eq!(trial["outcome"], outcome, "{trial:#}");
        assert_eq!(trial["cause"].as_str().unwrap_or_default(), cause, "{trial:#}");
        assert!(trial["why"].as_str().unwrap().contains(why), "{trial:#}");
        assert_eq!(trial["reason"].as_str(), reason, "{trial:#}");
        assert_eq!(trial["resolved"], reason.is_none(), "{trial:#}");
        assert_eq!(trial["score_valid"], true, "{trial:#}");
        let answer = &trial["single_shot"]["answer"];
        let counts = (&answer["applied"], &answer["whole"]);
        let applied = json!(name == "cut");
        match outcome {
            "model_refused" => assert!(answer.is_null(), "{trial:#}"),
            _ => assert_eq!(counts, (&applied, &json!(false)), "{trial:#}"),
        }
    }
    let said: Vec<Value> = find_files(&out.join("trials"), "single-shot.json")
        .iter()
        .map(|file| serde_json::from_slice(&fs::read(file).unwrap()).unwrap())
        .collect();
    assert_eq!(said.len(), 4);
    let counted: std::collections::BTreeSet<_> =
        said.iter().map(|one| one["tokenizer"].as_str().unwrap()).collect();
    assert_eq!(counted, ["cl100k_base", "o200k_base"].into());
}
