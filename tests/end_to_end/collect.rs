//! Tests `proctor collect`, which turns a small project into a dataset and rejects sources that are
//! not a project.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
};

use fake_llm::{FakeLlm, Script};
use serde_json::Value;

use crate::stage::Stage;

/// Writes a project. Its first test file tests a module that the other test files do not need.
fn write_project(stage: &Stage) -> String {
    let write = |path: &str, text: &str| {
        let path = stage.path("project").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let (mut area, mut tests) = (String::from("from .lengths import checked\n\n"), String::new());
    for side in 3..=13 {
        area.push_str(&format!(
            "\ndef area_of_{side}(length):\n    \"\"\"The area of a regular polygon with {side} sides.\n\n    \
             A negative length is a ValueError.\n    \"\"\"\n    length = checked(length)\n    \
             # The triangles between the centre and each side.\n    count = {side}\n    \
             angle = math.pi / count\n    height = length / 2 / math.tan(angle)\n    \
             return count * length * height / 2\n\n"
        ));
        if side == 13 {
            continue;
        }
        tests.push_str(&format!(
            "def test_{side}():\n    assert area_of_{side}(2) > 1.7\n    \
             with pytest.raises(ValueError, match='must not be negative'):\n        \
             area_of_{side}(-1)\n\n"
        ));
    }
    // Add a function that only a fixture uses, and tests whose ids look like paths.
    tests.push_str(
        "@pytest.fixture\ndef made():\n    return area_of_13(2)\n\ndef test_made(made):\n    assert made\n\n\
         @pytest.mark.parametrize(\"text\", [\"a::b\", \"c[d\"])\ndef test_text(text):\n    \
         assert area_of_3(len(text)) > 0\n",
    );
    let names: Vec<String> = (3..=13).map(|side| format!("area_of_{side}")).collect();
    let names = names.join(", ");
    write("shapes/__init__.py", &format!("from .area import {names}\n"));
    write("shapes/area.py", &format!("import math\n\n{area}"));
    write(
        "shapes/lengths.py",
        "def checked(length):\n    if length < 0:\n        raise ValueError(f'{length} must not be negative')\n    \
         return length\n",
    );
    write("tests/test_area.py", &format!("import pytest\nfrom shapes import {names}\n\n{tests}"));
    for number in 1..=4 {
        write(
            &format!("tests/test_other_{number}.py"),
            "def test_it():\n    import shapes.area\n    assert shapes.area.math\n",
        );
    }
    write(
        "tests/test_order.py",
        "seen = []\n\ndef test_first():\n    seen.append(1)\n\ndef test_second():\n    assert seen\n\n\
         def test_third():\n    assert seen\n\ndef test_fourth():\n    assert seen\n\n\
         def test_fails():\n    assert not 1\n",
    );
    // Only pytest's own output reveals that the tests need these two packages.
    write("tests/conftest.py", "import anyio, six\n");
    // Turn every warning into an error. This includes pytest's own warning about anyio, which
    // contains a plug-in.
    write("pytest.ini", "[pytest]\naddopts = --timeout=60\nfilterwarnings = error\n");
    // As in a release, the tree contains the package's metadata, in addition to the installed
    // metadata.
    let metadata =
        "name = \"shapes\"\nversion = \"1\"\n\n[tool.setuptools]\npackages = [\"shapes\"]\n";
    write("pyproject.toml", &format!("[project]\n{metadata}"));
    write("shapes.egg-info/PKG-INFO", "Metadata-Version: 2.1\nName: shapes\nVersion: 1\n");
    stage.path("project").display().to_string()
}

#[test]
fn collect_creates_verified_tasks_and_gives_a_reason_for_each_rejected_file() {
    let stage = Stage::new();
    let project = write_project(&stage);
    let collect = |out: &str| {
        let out = stage.path(out).display().to_string();
        let output = stage.run(["collect", &project, "--out", &out], 0);
        String::from_utf8(output.stdout).unwrap()
    };
    let summary = collect("first");
    assert!(summary.contains("| tests/test_area.py |"), "{summary}");
    let read = |name: &str| fs::read_to_string(stage.path("first").join(name)).unwrap();
    let tasks: Vec<Value> =
        read("tasks.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [task, scratch] = &tasks[..] else { panic!("one task per level: {summary}") };
    assert_eq!(task["meets_minima"], true, "{summary}");
    assert_eq!(task["fail_to_pass"].as_array().unwrap().len(), 13);
    for id in ["test_text[a::b]", "test_text[c[d]", "test_made"] {
        let id = format!("tests/test_area.py::{id}");
        assert!(task["fail_to_pass"].as_array().unwrap().contains(&id.as_str().into()), "{id}");
    }
    assert_eq!(task["hidden"], serde_json::json!(["tests/test_area.py"]));
    let mask = task["mask"].as_str().unwrap();
    assert!(
        mask.contains("-def area_of_3(length):")
            && mask.contains("-def area_of_13(")
            && mask.contains("-from .area import"),
        "{mask}"
    );
    // If only the feature needs a helper, the helper is removed too. The statement names such
    // helpers without their bodies.
    assert!(mask.contains("-def checked(length):"), "{mask}");
    let statement = task["statement"].as_str().unwrap();
    assert!(
        statement.contains("def area_of_12(length):") && statement.contains("`checked`"),
        "{statement}"
    );
    assert!(!statement.contains("math.tan"), "{statement}");
    // The statement shows the types that were observed in test runs, and the exception that the
    // hidden helper raises.
    assert!(
        statement
            .contains("# Seen in tests: length: int; returns float.\n    # Raises ValueError.\n"),
        "{statement}"
    );
    // The statement also shows a message that the tests require. The code with that message was
    // removed together with the helper.
    let required = "(`area_of_10`, `area_of_11`, `area_of_12`, `area_of_3` and 6 more) matches the regular expression \
                    `must not be negative`.\n";
    let reports: Vec<Value> =
        read("solvability.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (task, report) in [task, scratch].into_iter().zip(&reports) {
        let statement = task["statement"].as_str().unwrap();
        assert!(statement.contains(required), "{statement}");
        assert_eq!((&report["task"], &report["left_out"]), (&task["id"], &serde_json::json!([])));
        let coverage = |kind: &str, what: &str| {
            let all = report["requirements"].as_array().unwrap();
            let found = all.iter().find(|it| it["kind"] == kind && it["what"] == what);
            found.unwrap_or_else(|| panic!("{kind} {what}: {report}"))["coverage"].clone()
        };
        assert_eq!(coverage("pattern", "must not be negative"), "added");
        assert_eq!(coverage("raised", "ValueError"), "statement");
        assert_eq!(coverage("call", "area_of_3"), "statement");
    }
    assert!(
        summary.contains("## Solvability") && summary.contains("| removed tests | 0 | | 0 | |")
    );
    assert!(!summary.contains("not graded `clean`"), "{summary}");
    let rows: Vec<Value> = read("featurebench.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let row = &rows[0];
    assert_eq!(row["FAIL_TO_PASS"], serde_json::json!(["tests/test_area.py"]));
    assert_eq!(row["PASS_TO_PASS"].as_array().unwrap().len(), 5);
    let settings = row["repo_settings"].as_str().unwrap();
    assert!(settings.contains("pytest-timeout"), "the harness passes it to pytest: {settings}");
    assert_eq!(read("rejects.jsonl").lines().count(), 10, "five files, both levels: {summary}");

    // On level 2, the tests import `agent_code`. A copy of the library with that name passes the
    // tests, but the library under its own name does not.
    assert_eq!(scratch["fail_to_pass"].as_array().unwrap().len(), 13, "{summary}");
    let test_patch = scratch["test_patch"].as_str().unwrap();
    assert!(test_patch.contains("+from agent_code import area_of_3, "), "{test_patch}");
    let statement = scratch["statement"].as_str().unwrap();
    assert!(statement.contains("def area_of_12(length):") && !statement.contains("math.tan"));
    assert!(scratch["gold"].as_str().unwrap().contains("agent_code/shapes/lengths.py"));
    let loaded = stage.path("first").join("featurebench.jsonl");
    let loaded = stage.run(["tasks", "list", "--tasks", loaded.to_str().unwrap()], 0);
    let listed = String::from_utf8(loaded.stdout).unwrap();
    assert!(rows.len() == 2 && listed.contains(".lv1") && listed.contains(".lv2"), "{listed}");
    let report: Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(report["stages"]["verified"], 1);
    // There are so few tasks that each lite set contains the whole level.
    assert_eq!((&report["stages"]["lite"], &report["level_2"]["lite"]), (&1.into(), &1.into()));
    assert_eq!(read("lite.jsonl"), read("tasks.jsonl"));
    assert_eq!(task["categories"], serde_json::json!(["lite"]));
    assert_eq!(report["tasks"][0]["leak_score"], 0.0);
    // One task from each level was attacked, with the pack and with attacks that are specific to
    // the task.
    let attacked = &report["attacked"];
    assert_eq!(attacked["tasks"], serde_json::json!([task["id"], scratch["id"]]));
    assert!(attacked["attacks"].as_u64().unwrap() > 30, "{attacked}");
    for (task, cheats) in [(task, 1), (scratch, 2)] {
        assert_eq!(task["cheats"].as_array().unwrap().len(), cheats, "{summary}");
    }
    let unused = report["unused"].to_string();
    assert!(
        unused.contains("its results vary")
            && unused.contains("it does not pass: failed (assert not 1)"),
        "{unused}"
    );

    let setup = task["environment"]["setup"].to_string();
    assert!(setup.contains("'six==") && setup.contains("'pytest-timeout=="), "{setup}");
    assert!(setup.contains("--editable ."), "{setup}");
    // In both formats, the rows pin the build dependencies.
    for lines in [&setup, settings] {
        assert!(
            lines.contains("'setuptools==") && lines.contains("PIP_BUILD_CONSTRAINT="),
            "{lines}"
        );
    }

    // The rows are a valid dataset. A second collection reuses earlier results and creates
    // identical rows.
    let rows = stage.path("first").join("tasks.jsonl");
    stage.run(["tasks", "list", "--tasks", rows.to_str().unwrap()], 0);
    assert_eq!(collect("second"), summary);
    // A sample of the test files also reuses the results. It may contain no file with a task.
    let sample = stage.path("sample").display().to_string();
    let limited = ["collect", &project, "--out", &sample, "--limit", "2"];
    let output = stage.proctor(limited).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}", output.status);
    let sample = fs::read_to_string(stage.path("sample/report.json")).unwrap();
    let sample: Value = serde_json::from_str(&sample).unwrap();
    assert_eq!(sample["stages"]["test_files"], 2, "{sample}");
    // If the command is killed while it runs tests or creates tasks, the next call continues with
    // the existing results.
    let out = stage.path("anew").display().to_string();
    let anew = || {
        let mut anew = stage.proctor(["collect", &project, "--out", &out]);
        anew.env("PROCTOR_CACHE", stage.path("cache"));
        anew
    };
    for at in ["running them again", ", level 1: "] {
        let mut killed = anew().stderr(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(killed.stderr.take().unwrap()).lines();
        let until = told.map_while(Result::ok).find(|line| line.contains(at));
        killed.kill().unwrap();
        assert!(until.is_some() && !killed.wait().unwrap().success(), "{at}");
        assert!(!stage.path("anew").exists(), "{at}");
    }
    let output = anew().output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("6 of 6 done") && !told.contains("tracing"), "{told}");
    assert!(told.contains("rejected: 10 (reasons in ") && !told.contains("no tasks created\n"));
    for name in [
        "tasks.jsonl",
        "lite.jsonl",
        "featurebench.jsonl",
        "rejects.jsonl",
        "solvability.jsonl",
        "tops.jsonl",
        "report.json",
        "summary.md",
    ] {
        for again in ["second", "anew"] {
            let text = fs::read_to_string(stage.path(again).join(name)).unwrap();
            assert_eq!(text, read(name), "{again}: {name}");
        }
    }
}

#[test]
fn collect_reports_unusable_sources_with_hints() {
    let stage = Stage::new();
    fs::create_dir(stage.path("empty")).unwrap();
    let told = |origin: &str| {
        let output = stage.run(["collect", origin], 2);
        String::from_utf8(output.stderr).unwrap().replace("\n ", " ")
    };
    let empty = stage.path("empty").display().to_string();
    assert!(told(&empty).contains("has no Python package"));
    fs::create_dir_all(stage.path("spaced/jaraco/text")).unwrap();
    stage.write_file("spaced/jaraco/text/__init__.py", "");
    let spaced = stage.path("spaced").display().to_string();
    assert!(told(&spaced).contains("jaraco.text in a namespace"));
    // The hint for a commit must not suggest a release.
    assert!(!told("git+https://h.test/o/n@main").contains("boltons"));
    assert!(told("git+https://h.test/o/n@main").contains("may move"));
    assert!(told("no-such-thing").contains("proctor collect boltons=="));
    // The package index does not have this release.
    let newer = told("boltons==99");
    assert!(newer.contains("no release 99") && newer.contains("boltons=="), "{newer}");
    assert!(told("boltons==24.0").contains("did you mean boltons==24.0.0?"));
    assert!(told("proctor-no-such-project==1").contains("fix the name"));
    let mut alone = stage.proctor(["collect", "boltons==25.0.0"]);
    let alone = alone.env("PIP_INDEX_URL", "http://127.0.0.1:9/simple").output().unwrap();
    assert_eq!(alone.status.code(), Some(1), "{}", String::from_utf8_lossy(&alone.stderr));
    // A dry run does not change the tasks of an earlier collection.
    fs::create_dir(stage.path("made")).unwrap();
    let tasks = stage.write_file("made/tasks.jsonl", "{}\n");
    let made = stage.path("made").display().to_string();
    let output = stage.run(["collect", &empty, "--dry-run", "--out", &made], 2);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("would overwrite") && said.contains("--out"), "{said}");
    assert_eq!(fs::read_to_string(tasks).unwrap(), "{}\n");
}

#[test]
fn collect_requests_each_description_once() {
    let stage = Stage::new();
    let project = write_project(&stage);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script = Script::parse(
        r#"
[[rule]]
when = '### `shapes/area.py::area_of_3`'
answer = { content = '{"tested_object_ids": ["shapes/area.py::area_of_3"], "reasoning": "named"}' }
[[rule]]
when = 'Describe the feature.'
answer = { content = "Areas of regular polygons with any number of sides, of which only the length is known." }
[default]
content = '{"tested_object_ids": []}'
"#,
    );
    let fake = runtime.block_on(FakeLlm::start(script.unwrap())).unwrap();
    // Responses are cached by the model's name, and the cache outlives this run, so use a unique
    // name.
    let name = format!("fake-{}", stage.dir.path().file_name().unwrap().display());
    let model =
        format!("[models.\"a fake\"]\nbase_url = \"{}\"\nname = \"{name}\"\n", fake.base_url());
    let config =
        stage.write_file("models.toml", &(model + "price = { input = 9.0, output = 9.0 }\n"));
    let collect = |out: &str| {
        let out = stage.path(out);
        let args = ["collect", &project, "--dry-run", "--llm", "a fake", "--config"];
        let paths = [config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let output = stage.run([&args[..], &paths[..]].concat(), 0);
        let said = String::from_utf8(output.stderr).unwrap();
        let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
        (said, read("tops.jsonl"), read("report.json"), read("model.jsonl"))
    };
    let (said, tops, report, record) = collect("first");
    let asked = fake.requests().len();
    assert!(asked >= 3, "eleven functions, five at a time: {asked}");
    assert!(said.contains(&format!("{name}: {asked} requests answered, ")), "{said}");
    let bill = said.lines().find(|line| line.contains("requests answered")).unwrap();
    assert!(!bill.contains("$0.0000"), "{bill}");
    assert_eq!(record.matches("\"model_answered\"").count(), asked, "{record}");
    let rows: Vec<Value> = tops.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = rows.iter().find(|row| row["file"] == "tests/test_area.py").unwrap();
    let candidates = row["candidates"].as_array().unwrap();
    let found: Vec<&Value> = candidates.iter().filter(|it| it["top"] == true).collect();
    assert_eq!(found.len(), 1, "{row}");
    assert_eq!(found[0]["object"], "shapes/area.py::area_of_3");
    assert_eq!(serde_json::from_str::<Value>(&report).unwrap()["model"], name);
    // A second collection sends no requests.
    let (said, again, report_again, _) = collect("second");
    assert_eq!(fake.requests().len(), asked, "{said}");
    assert!(said.contains(&format!("{name}: no requests")), "{said}");
    assert_eq!((again, report_again), (tops, report));
    // The model's description of the feature is also used when tasks are created.
    let out = stage.path("whole");
    let args = ["collect", &project, "--attack", "0", "--llm", "a fake", "--config"];
    let paths = [config.to_str().unwrap(), "--out", out.to_str().unwrap()];
    stage.run([&args[..], &paths[..]].concat(), 0);
    let text = fs::read_to_string(out.join("tasks.jsonl")).unwrap();
    let tasks: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(tasks.len(), 2, "one task per level: {text}");
    for task in &tasks {
        let statement = task["statement"].as_str().unwrap();
        assert!(statement.contains("\n\nAreas of regular polygons with any"), "{statement}");
        assert!(statement.contains("\n# ") || statement.starts_with("# "), "{statement}");
        // The tests import the other functions, so the level 2 statement lists them as part of the
        // library.
        let asked = statement.split("## Other names in the library").next().unwrap();
        assert!(!asked.contains("def area_of_4"), "only one function: {statement}");
    }
    // An unknown model is rejected.
    let output = stage.run(["collect", &project, "--llm", "nobody/none"], 2);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("nobody/none: no such model or vendor"), "{said}");
}

#[test]
fn collect_replaces_a_pytest_too_old_for_the_interpreter() {
    let stage = Stage::new();
    let poetry = "[tool.poetry]\nname = \"old\"\nversion = \"1\"\n[tool.poetry.dev-dependencies]\npytest = \"~4.6\"\n";
    fs::create_dir_all(stage.path("old/tests")).unwrap();
    stage.write_file("old/pyproject.toml", poetry);
    // Use a string that is unique to this test: results are cached by the content of the tree, and
    // the cache outlives the test.
    let own = format!("# {}\ndef one():\n    return 1\n", stage.dir.path().display());
    stage.write_file("old/old.py", &own);
    stage.write_file(
        "old/tests/test_old.py",
        "import old\n\ndef test_one():\n    assert old.one() == 1\n",
    );
    let (project, out) = (stage.path("old"), stage.path("out"));
    let paths = [project.to_str().unwrap(), "--dry-run", "--out", out.to_str().unwrap()];
    let output = stage.run([&["collect"][..], &paths].concat(), 0);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("instead of the project's own"), "{said}");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(out.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["stages"]["steady_tests"], 1, "{said}");
}
