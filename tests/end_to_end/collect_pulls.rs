//! Tests `proctor collect-pulls`, which turns a small history into a dataset and rejects clones
//! without a usable history.

use std::{fs, path::Path, process::Command};

use fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};

use crate::stage::Stage;

/// A Git history. Its commits are one second apart, and the first has a fixed time, so that ids and
/// layers are the same in every run.
struct History<'a> {
    folder: &'a Path,
    second: u32,
}

impl History<'_> {
    fn git(&self, args: &[&str]) {
        let date = format!("2024-05-01T12:00:{:02}Z", self.second);
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
            .args(args)
            .current_dir(self.folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_DATE", &date)
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn commit(&mut self, message: &str, files: &[(&str, String)]) {
        for (path, text) in files {
            let path = self.folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        self.second += 1;
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }
}

const COINS: &str = "def count(coins):\n    return len(coins)\n";
const TOTAL: &str = "\n\ndef total(coins):\n    \"\"\"The worth of all coins.\"\"\"\n    worth = 0\n    for coin in coins:\n        worth += coin\n    return worth\n";
const PURSE: &str = "\n\nclass Purse:\n    \"\"\"Holds coins.\"\"\"\n\n    def __init__(self):\n        self.coins = []\n\n    async def put(self, coin):\n        \"\"\"One more.\"\"\"\n        self.coins.append(coin)\n";
const TEST: &str = "import coins\n\n\ndef test_count():\n    assert coins.count([1]) == 1\n";
const TEST_TOTAL: &str = "\n\ndef test_total():\n    assert coins.total([1, 2]) == 3\n";
const TEST_PURSE: &str = "\n\ndef test_purse():\n    assert coins.Purse().coins == []\n\n\ndef test_wrong():\n    assert coins.count([]) == 7\n";

fn create_history(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let mut history = History { folder, second: 0 };
    let test = "tests/test_coins.py";
    history.git(&["init", "-q", "-b", "main", "."]);
    history.commit(
        "first",
        &[
            ("coins/__init__.py", COINS.into()),
            (test, TEST.into()),
            ("README.md", "Coins\n".into()),
        ],
    );
    // Merge a branch that has a commit whose message ends with an issue number.
    history.git(&["checkout", "-q", "-b", "total"]);
    history.commit("Sum up (#2)", &[("coins/__init__.py", [COINS, TOTAL].concat())]);
    history.commit("And test", &[(test, [TEST, TEST_TOTAL].concat())]);
    history.git(&["checkout", "-q", "main"]);
    history.git(&[
        "merge",
        "-q",
        "--no-ff",
        "-m",
        "Merge pull request #3 from acme/total\n\nAdd `total`",
        "total",
    ]);
    history.commit("Note it (#4)", &[("README.md", "Coins and sums\n".into())]);
    history.commit(
        "Fix the count (#5)",
        &[
            ("coins/__init__.py", [COINS, TOTAL, "\n\ndef half(x):\n    return x / 2\n"].concat()),
            (test, [TEST, TEST_TOTAL, "\n"].concat()),
        ],
    );
    history.commit(
        "Add a purse (#6)",
        &[
            ("coins/__init__.py", [COINS, TOTAL, PURSE].concat()),
            (test, [TEST, TEST_TOTAL, TEST_PURSE].concat()),
        ],
    );
}

#[test]
fn merged_pull_requests_become_tasks_or_are_rejected_with_a_reason() {
    let stage = Stage::new();
    let clone = stage.path("acme__coins");
    create_history(&clone);
    let dump = json!({"number": 3, "title": "Add `total`", "body": "Closes #2.", "comments": [
        {"created_at": "2024-05-01T11:00:00Z", "body": "Please do."},
        {"created_at": "2024-05-01T13:00:00Z", "body": "Adds them up in a loop."}]});
    let dump = stage.write_file("pulls.jsonl", &dump.to_string());
    let collect = |out: &str, more: &[&str]| {
        let out = stage.path(out);
        let args = ["collect-pulls", clone.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let dump = ["--pulls", dump.to_str().unwrap()];
        let output = stage.run([&args[..], &dump, more].concat(), 0);
        String::from_utf8(output.stdout).unwrap()
    };
    let rows = |file: &str| -> Vec<Value> {
        let text = fs::read_to_string(stage.path(file)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };

    let summary = collect("dry", &["--dry-run"]);
    assert!(summary.contains("| merged pull requests | 4 |"), "{summary}");
    assert_eq!(rows("dry/candidates.jsonl").len(), 2, "{summary}");

    let summary = collect("out", &[]);
    let tasks = rows("out/tasks.jsonl");
    let [task] = &tasks[..] else { panic!("one task: {summary}") };
    assert_eq!(task["id"], "acme__coins-3");
    assert_eq!(task["fail_to_pass"], json!(["tests/test_coins.py::test_total"]));
    assert_eq!(task["pass_to_pass"], json!(["tests/test_coins.py::test_count"]));
    // Both kinds of hints need fields that exist only in the benchmark's row format.
    let component = &task["details"]["new_components"][0];
    assert_eq!(component["signature"], "def total(coins):");
    assert_eq!(component["doc"], "The worth of all coins.");
    assert_eq!(task["details"]["functions_added"], 1);
    assert!(task["created_at"].as_str().unwrap().ends_with('Z'), "{task}");
    let statement = task["statement"].as_str().unwrap();
    assert!(
        statement.contains("def total(coins):\n\"\"\"The worth of all coins.\"\"\""),
        "{statement}"
    );
    assert!(statement.contains("Please do.") && !statement.contains("in a loop"), "{statement}");
    let ended: Vec<(u64, String)> = rows("out/rejects.jsonl")
        .iter()
        .map(|row| {
            let text = format!("{}: {}", row["stage"], row["reason"]);
            (row["pull_number"].as_u64().unwrap(), text.replace('"', ""))
        })
        .collect();
    let expected = [
        (6, "run: tests/test_coins.py::test_wrong fails with its changes"),
        (5, "intent: its title contains \\Fix\\"),
        (4, "tests: it changes no tests"),
    ];
    for (number, why) in expected {
        assert!(ended.iter().any(|(other, said)| *other == number && said == why), "{ended:?}");
    }

    // Each format is a valid dataset with the same content.
    for form in ["feabench", "feabench-standard", "feabench-oracle"] {
        let tasks = format!("{}#base=host", stage.path("out").join(form).display());
        let tasks = tasks.replace('#', ".jsonl#");
        let shown = stage.run(["tasks", "show", "acme__coins-3", "--tasks", &tasks, "--json"], 0);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        assert_eq!(shown["statement"], task["statement"], "{form}");
        assert_eq!(shown["fail_to_pass"], task["fail_to_pass"], "{form}");
        assert_eq!(shown["benchmark"]["details"]["functions_added"], 1, "{form}");
    }
    let medium = &rows("out/feabench.jsonl")[0];
    assert_eq!(medium["issue_numbers"], json!(["2"]));
    assert_eq!(medium["readmes"]["README.md"], "Coins\n");
    assert_eq!(medium["files"]["coins/__init__.py"], COINS);
    assert_eq!(medium["new_components"]["coins/__init__.py"][0]["lines"], json!([5, 10]));

    // FEA-Bench's script computes the same numbers: 2 lines before, `total` on lines 5 to 10, and 8
    // added lines. For tasks, the files are read from the clone; Oracle rows contain them.
    let own = stage.path("out/tasks.jsonl").display().to_string();
    let oracle = stage.path("out/feabench-oracle.jsonl").display().to_string();
    let stats = stage.run(["tasks", "stats", "--format", "json", "--tasks", &own, &oracle], 0);
    let stats: Value = serde_json::from_slice(&stats.stdout).unwrap();
    for of in stats["datasets"].as_array().unwrap() {
        let figure = |name: &str| of[name].as_f64().unwrap();
        assert_eq!((figure("oracle_lines"), figure("added_component_lines")), (2.0, 6.0), "{of}");
        assert_eq!((figure("gold_lines"), figure("added_component_share")), (8.0, 0.75), "{of}");
        assert_eq!((figure("functions_added"), figure("classes_added")), (1.0, 0.0), "{of}");
        assert_eq!((figure("fail_to_pass"), figure("tests")), (1.0, 2.0), "{of}");
        assert_eq!(of["first_date"], "2024-05-01", "{of}");
    }

    // Pull requests that were tried earlier are not tried again.
    assert_eq!(collect("again", &[]), summary);

    let fast = collect("fast", &["--fast-validation"]);
    assert!(fast.contains("Fast validation: the first 2 candidates gave 1 task."), "{fast}");
    // The newest candidate gives no task, so the repository is skipped.
    let out = stage.path("left");
    let args = ["collect-pulls", clone.to_str().unwrap(), "--fast-validation", "--limit", "1"];
    let more = ["--pulls", dump.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let left = stage.run([&args[..], &more].concat(), 3);
    let left = String::from_utf8(left.stdout).unwrap();
    assert!(left.contains("Fast validation: the first 1 candidate gave 0 tasks."), "{left}");
}

#[test]
fn several_clones_become_one_dataset_and_failures_are_listed() {
    let stage = Stage::new();
    let (first, second) = (stage.path("acme__coins"), stage.path("acme__money"));
    create_history(&first);
    create_history(&second);
    let none = stage.path("empty");
    fs::create_dir(&none).unwrap();
    let out = stage.path("out");
    let paths = [&first, &none, &second].map(|path| path.to_str().unwrap().to_owned());
    let args = ["collect-pulls", &paths[0], &paths[1], &paths[2], "--dry-run"];
    let output = stage.run([&args[..], &["--out", out.to_str().unwrap()]].concat(), 0);
    let summary = String::from_utf8(output.stdout).unwrap();
    // The summary lists the last pull request of each clone, and how many pull requests are merged,
    // have tests, and are candidates. A dry run creates no tasks.
    for repo in ["acme/coins", "acme/money"] {
        assert!(summary.contains(&format!("| {repo} | 6 | 4 | 3 | 2 | 0 | 0 |")), "{summary}");
    }
    assert!(summary.contains("| all |  | 8 | 6 | 4 | 0 | 0 |"), "{summary}");
    assert!(
        summary.contains("| clone that failed | because |") && summary.contains("empty"),
        "{summary}"
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("warning: skipped "), "{said}");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(read("candidates.jsonl").lines().count(), 4);
    assert!(read("rejects.jsonl").contains("\"repo\":\"acme/money\""), "{}", read("rejects.jsonl"));
    let report: Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(report["repositories"].as_array().unwrap().len(), 2);
    assert_eq!(report["failed"].as_array().unwrap().len(), 1);
}

#[test]
fn collect_pulls_asks_the_model_once_about_each_pull_request() {
    let stage = Stage::new();
    let clone = stage.path("acme__coins");
    create_history(&clone);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script = Script::parse(
        r#"
[[rule]]
when = 'Add a purse'
answer = { content = 'No.\n{"new_feature": false, "reasoning": "nobody asked"}' }
[default]
content = '{"new_feature": true, "reasoning": "it is new"}'
"#,
    );
    let fake = runtime.block_on(FakeLlm::start(script.unwrap())).unwrap();
    let name = format!("fake-{}", stage.dir.path().file_name().unwrap().display());
    let model = format!("[models.fake]\nbase_url = \"{}\"\nname = \"{name}\"\n", fake.base_url());
    let config = stage.write_file("models.toml", &model);
    let collect = |out: &str| {
        let out = stage.path(out);
        let args = ["collect-pulls", clone.to_str().unwrap(), "--dry-run", "--llm", "fake"];
        let more = ["--config", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let output = stage.run([&args[..], &more].concat(), 0);
        (out, String::from_utf8(output.stderr).unwrap())
    };
    let (out, said) = collect("first");
    // The rules reject #5 because of its title, and accept #6.
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(read("candidates.jsonl").lines().count(), 2, "{said}");
    assert!(read("candidates.jsonl").contains("\"acme__coins-5\""), "{said}");
    let rejects = read("rejects.jsonl");
    let of_model = format!("{name} decided: nobody asked");
    assert!(rejects.contains(&of_model) && rejects.contains("\"intent\""), "{rejects}");
    assert_eq!(fake.requests().len(), 3);
    assert!(said.contains(&format!("{name}: 3 requests answered, ")), "{said}");
    let (_, said) = collect("second");
    assert!(fake.requests().len() == 3 && said.contains("no requests"), "{said}");
}

#[test]
fn collect_pulls_reports_clones_without_pull_requests() {
    let stage = Stage::new();
    let plain = stage.path("plain");
    fs::create_dir(&plain).unwrap();
    let told = |args: &[&str]| {
        let clone = plain.to_str().unwrap();
        let output = stage.run([&["collect-pulls", clone, "--dry-run"], args].concat(), 2);
        String::from_utf8(output.stderr).unwrap().replace("\n ", " ")
    };
    assert!(told(&["--since", "May"]).contains("2024-05-01"));
    assert!(told(&["--pulls", "no-such-file"]).contains("no-such-file"));
    let mut history = History { folder: &plain, second: 0 };
    history.git(&["init", "-q", "-b", "main", "."]);
    history.commit("first", &[("a.py", "x = 1\n".into())]);
    assert!(told(&[]).contains("no merged pull request in 1 commit"), "{}", told(&[]));
}
