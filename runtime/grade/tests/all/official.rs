//! Compares the official procedures in a sandbox with the strict policy: where they can be fooled,
//! and where both agree.

use std::sync::{Mutex, PoisonError};

use proctor_grade::{
    ExpectedEvidence, GradeOptions, GradingResult, expected_strict_gold_evidence, freeze_ids,
    grade, needs_frozen_ids,
    procedure::{OfficialRun, run_official},
};
use proctor_setup::HiddenCopies;
use proctor_types::{Benchmark, Commands, Integrity, Task, Verdict};
use serde_json::{Value, json};

use crate::bench::{
    F2P, P2P, ROMAN_SOURCE, connect_agent, gold, package_with_cheat, patch, python, task,
    write_source_files,
};

/// Allows one test at a time. An agent without isolation uses the host's `/tmp`, where the
/// procedures write to the same fixed paths as the harnesses.
static TMP_LOCK: Mutex<()> = Mutex::new(());

/// Returns the combined verdict on a patch. Each policy runs in a separate sandbox and tree.
fn combined_verdict(change_task: impl Fn(&mut Task), patch: &str) -> Verdict {
    combined_verdict_with(change_task, |_| (), patch)
}

fn combined_verdict_with(
    change_task: impl Fn(&mut Task),
    change_workdir: impl Fn(&std::path::Path),
    patch: &str,
) -> Verdict {
    let (graded, run) = grade_separately(change_task, change_workdir, patch);
    graded.merge_official(run, &ExpectedEvidence::default()).verdict
}

fn grade_separately(
    change_task: impl Fn(&mut Task),
    change_workdir: impl Fn(&std::path::Path),
    patch: &str,
) -> (GradingResult, OfficialRun) {
    let _tmp = TMP_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let in_a_sandbox = |official: bool| {
        let place = tempfile::tempdir().unwrap();
        let workdir = place.path().join("testbed");
        write_source_files(&workdir);
        change_workdir(&workdir);
        let mut task = task(workdir.to_str().unwrap(), python().to_str().unwrap(), &[]);
        change_task(&mut task);
        runtime.block_on(async {
            let handle = connect_agent(place.path()).await;
            let mut options = GradeOptions::default();
            let (mut graded, mut run) = (None, None);
            if official {
                run = run_official(&handle, &task, patch.as_bytes(), &GradeOptions::default())
                    .await
                    .unwrap();
            } else {
                if needs_frozen_ids(&task) {
                    // Leftovers do not matter here, so this needs no separate sandbox.
                    options.frozen_ids = Some(
                        freeze_ids(&handle, &task, &HiddenCopies::default(), None).await.unwrap(),
                    );
                }
                graded = Some(grade(&handle, &task, patch.as_bytes(), &options).await.unwrap());
            }
            let _ = handle.shutdown().await;
            (graded, run)
        })
    };
    (in_a_sandbox(false).0.unwrap(), in_a_sandbox(true).1.unwrap())
}

fn benchmark(name: &str, details: Value) -> Option<Benchmark> {
    serde_json::from_value(json!({"name": name, "details": details})).unwrap()
}

pub fn make_swe_bench_task(task: &mut Task) {
    let details = json!({
        "test_cmd": "python -m pytest -rA -p no:cacheprovider", "log_parser": "parse_log_pytest",
        "test_directives": ["tests/test_roman.py", "tests/test_kept.py"],
    });
    task.benchmark = benchmark("swe-bench", details);
}

/// All tests run, as in most profiles. The agent did not see the tests that fail.
fn make_swe_smith_task(task: &mut Task) {
    let details = json!({
        "test_cmd": "python -m pytest --disable-warnings --color=no --tb=no --verbose",
        "test_directives": [],
    });
    task.benchmark = benchmark("swe-smith", details);
    task.hidden = vec!["tests/test_roman.py".into()];
}

pub fn make_featurebench_task(task: &mut Task) {
    let details = json!({"test_cmd": "python -m pytest -rA -p no:cacheprovider --color=no"});
    task.benchmark = benchmark("featurebench", details);
    task.fail_to_pass = vec!["tests/test_roman.py".into()];
    task.pass_to_pass = vec!["tests/test_kept.py".into()];
}

fn policy_results(verdict: &Verdict) -> (bool, bool) {
    (verdict.policies["official"].resolved, verdict.policies["strict"].resolved)
}

#[test]
fn gold_and_noop_get_the_same_verdict_from_both_procedures() {
    for change in [make_swe_bench_task, make_swe_smith_task, make_featurebench_task] {
        let verdict = combined_verdict(change, &gold());
        assert_eq!(policy_results(&verdict), (true, true), "{verdict:#?}");
        assert_eq!(verdict.passed_rate, 1.0);
        assert_eq!(verdict.fail_to_pass.passed.len(), F2P.len());
        assert_eq!(verdict.pass_to_pass.passed.len(), P2P.len());
        assert_eq!(policy_results(&combined_verdict(change, "")), (false, false));
        // The patch applies but is wrong.
        let wrong = patch(&[("roman/__init__.py", Some(&package_with_cheat("WRONG = 1")))]);
        assert_eq!(policy_results(&combined_verdict(change, &wrong)), (false, false));
    }
}

/// Forged lines followed by exit status zero: the harnesses resolve the task.
#[test]
fn process_that_exits_early_resolves_only_officially() {
    let lines: String = F2P.iter().chain(&P2P).map(|id| format!("PASSED {id}\\n")).collect();
    let cheat = format!("import os\nos.write(1, b\"{lines}\")\nos._exit(0)\n");
    let forged = patch(&[("roman/__init__.py", Some(&package_with_cheat(&cheat)))]);
    // With capturing, pytest redirects descriptor 1, but the per-file harness ignores the output.
    let verdict = combined_verdict(make_featurebench_task, &forged);
    assert_eq!(policy_results(&verdict), (true, false), "{verdict:#?}");
    let uncaptured = |task: &mut Task| {
        make_swe_bench_task(task);
        let details = &mut task.benchmark.as_mut().unwrap().details;
        details.test_cmd = Commands::One("python -m pytest -rA -s".into()).into();
    };
    let verdict = combined_verdict(uncaptured, &forged);
    assert_eq!(policy_results(&verdict), (true, false), "{verdict:#?}");
}

/// Tests an expected failure, and lines that are printed when the interpreter exits. If only the
/// official policy resolves the task, the verdict is not clean, unless the two policies also
/// disagree about gold.
#[test]
fn task_resolved_only_officially_is_not_clean() {
    // A failure of an unexpected test explains the exit status.
    let lines: String = F2P.iter().map(|id| format!("PASSED {id}\\n")).collect();
    let lines = format!("{lines}FAILED tests/test_none.py::test_none\\n");
    let kept = "def kept():\n    return 'kept'\n\n\n";
    let code = |text: &str| patch(&[("roman/__init__.py", Some(&format!("{kept}{text}")))]);
    let expected_failure = code("def to_roman(n):\n    import pytest\n    pytest.xfail('later')\n");
    let at_the_end = format!(
        "import atexit, os\natexit.register(os.write, 1, b'\\n{lines}')\n\n\ndef to_roman(n):\n    return ''\n"
    );
    let is_seen = |verdict: &Verdict| {
        assert_eq!(policy_results(verdict), (true, false), "{verdict:#?}");
        assert!(verdict.integrity != Integrity::Clean, "{verdict:#?}");
        assert!(verdict.evidence.iter().any(|e| e.kind == "official_only"), "{verdict:#?}");
    };
    for cheat in [&expected_failure, &code(&at_the_end)] {
        is_seen(&combined_verdict(make_swe_bench_task, cheat));
    }
    // The row itself expects a test that is marked as an expected failure.
    let marked = |task: &mut Task| {
        make_swe_bench_task(task);
        let details = &mut task.benchmark.as_mut().unwrap().details;
        let files = ["roman", "kept", "marked"].map(|name| format!("tests/test_{name}.py"));
        details.test_directives = Vec::from(files).into();
        task.pass_to_pass.push("tests/test_marked.py::test_marked".into());
    };
    let text = "import pytest\n\n\n@pytest.mark.xfail\ndef test_marked():\n    assert False\n";
    let with_file = |workdir: &std::path::Path| {
        std::fs::write(workdir.join("tests/test_marked.py"), text).unwrap();
    };
    let (of_gold, run) = grade_separately(marked, with_file, &gold());
    let expected = expected_strict_gold_evidence(&of_gold).unwrap();
    is_seen(&of_gold.clone().merge_official(run.clone(), &ExpectedEvidence::default()).verdict);
    let verdict = of_gold.merge_official(run, &expected).verdict;
    assert_eq!(policy_results(&verdict), (true, false), "{verdict:#?}");
    assert!(verdict.evidence.iter().all(|e| e.kind != "official_only"), "{verdict:#?}");
    let (graded, run) = grade_separately(marked, with_file, &expected_failure);
    is_seen(&graded.merge_official(run, &expected).verdict);
}

/// The code under test removes tests. This would fool a grader that relies on the tests collected
/// in the graded run, but not one that uses frozen ids.
#[test]
fn test_file_has_the_tests_of_the_unmasked_source() {
    let parametrized = "import pytest\nimport roman\nfrom roman import to_roman\n\n\n\
        @pytest.mark.parametrize('n', getattr(roman, 'CASES', [1, 2, 3]))\n\
        def test_each(n):\n    assert to_roman(n) == 'I' * n\n\n\n\
        def test_kept():\n    assert roman.kept() == 'kept'\n\n\n\
        @pytest.mark.skipif(True, reason='here')\ndef test_never():\n    pass\n";
    let change = |task: &mut Task| {
        make_featurebench_task(task);
        task.fail_to_pass = vec!["tests/test_each.py".into()];
    };
    let with_file = |workdir: &std::path::Path| {
        std::fs::write(workdir.join("tests/test_each.py"), parametrized).unwrap();
    };
    let fewer = patch(&[("roman/__init__.py", Some(&package_with_cheat("CASES = []")))]);
    let one = patch(&[(
        "roman/__init__.py",
        Some(
            "CASES = [1]\n\n\ndef kept():\n    return 'kept'\n\n\ndef to_roman(n):\n    return 'I'\n",
        ),
    )]);
    for (patch, official, strict) in
        [(gold(), true, true), (fewer, true, false), (one, true, false)]
    {
        let verdict = combined_verdict_with(change, with_file, &patch);
        assert_eq!(policy_results(&verdict), (official, strict), "{verdict:#?}");
    }
}

/// No patch can resolve a task whose original source fails its tests, so the result is a fault
/// instead of a score of zero.
#[test]
fn test_file_failing_on_the_unmasked_source_is_a_fault() {
    let place = tempfile::tempdir().unwrap();
    let workdir = place.path().join("testbed");
    write_source_files(&workdir);
    std::fs::write(workdir.join("tests/test_bad.py"), "def test_bad():\n    assert False\n")
        .unwrap();
    let mut task = task(workdir.to_str().unwrap(), python().to_str().unwrap(), &[]);
    make_featurebench_task(&mut task);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut frozen = |file: &str| {
        task.fail_to_pass = vec![file.into()];
        runtime.block_on(async {
            let own = tempfile::tempdir().unwrap();
            let handle = connect_agent(own.path()).await;
            let frozen = freeze_ids(&handle, &task, &HiddenCopies::default(), None).await;
            let _ = handle.shutdown().await;
            frozen
        })
    };
    assert_eq!(frozen("tests/test_roman.py").unwrap().fail_to_pass.len(), F2P.len());
    for file in ["tests/test_bad.py", "tests/test_absent.py"] {
        let fault = frozen(file).unwrap_err();
        assert!(fault.what.contains(&format!("no test of {file} passes")), "{fault}");
    }
}

/// The agent may see and change the test, but both policies restore it.
#[test]
fn visible_test_is_restored_by_both_procedures() {
    let white = |task: &mut Task| {
        make_featurebench_task(task);
        task.hidden.clear();
    };
    assert_eq!(policy_results(&combined_verdict(white, &gold())), (true, true));
    let easy = "def test_four():\n    pass\n";
    let verdict = combined_verdict(white, &patch(&[("tests/test_roman.py", Some(easy))]));
    assert_eq!(policy_results(&verdict), (false, false), "{verdict:#?}");
}

/// FeatureBench does not restore regression tests, and a conftest can change results.
#[test]
fn conftest_that_passes_everything_resolves_only_officially() {
    let conftest = "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    out = yield\n    report = out.get_result()\n    report.outcome = \"passed\"\n    report.longrepr = None\n\n\n@pytest.fixture\ndef given():\n    return 1\n";
    let cheat = patch(&[("tests/conftest.py", Some(conftest))]);
    let verdict = combined_verdict(make_featurebench_task, &cheat);
    assert_eq!(policy_results(&verdict), (true, false), "{verdict:#?}");
}

#[test]
fn patch_that_does_not_apply_is_not_resolved() {
    let bad = gold().replace("Roman numerals", "Greek numerals");
    for change in [make_swe_bench_task, make_swe_smith_task, make_featurebench_task] {
        let verdict = combined_verdict(change, &bad);
        assert_eq!(policy_results(&verdict), (false, false), "{verdict:#?}");
        assert!(verdict.policies["official"].why.contains("cannot apply"), "{verdict:#?}");
    }
}

/// SWE-smith removes its hidden tests before it applies a patch, so a patch that changes such a
/// file does not apply. SWE-bench writes the tests after it applies the patch, so the change does
/// no harm in SWE-bench.
#[test]
fn file_at_a_hidden_test_path_breaks_only_one_harness() {
    let own = "diff --git a/tests/test_roman.py b/tests/test_roman.py\nnew file mode 100644\n\
               --- /dev/null\n+++ b/tests/test_roman.py\n@@ -0,0 +1,2 @@\n+def test_four():\n+    pass\n";
    let patch = gold() + own;
    let verdict = combined_verdict(make_swe_smith_task, &patch);
    assert_eq!(policy_results(&verdict), (false, true), "{verdict:#?}");
    let hidden = |task: &mut Task| {
        make_swe_bench_task(task);
        task.hidden = vec!["tests/test_roman.py".into()];
    };
    assert_eq!(policy_results(&combined_verdict(hidden, &patch)), (true, true));
}

/// Changes that a patch makes to visible tests are also reverted.
#[test]
fn swe_smith_restores_all_expected_tests() {
    let easy = "def test_kept():\n    assert False\n\n\ndef test_helper():\n    assert False\n";
    let patch = gold() + &patch(&[("tests/test_kept.py", Some(easy))]);
    let verdict = combined_verdict(make_swe_smith_task, &patch);
    assert_eq!(policy_results(&verdict), (true, true), "{verdict:#?}");
}

/// Disables output capturing, so that tests can print to the log.
fn disable_output_capture(task: &mut Task) {
    make_swe_bench_task(task);
    let details = &mut task.benchmark.as_mut().unwrap().details;
    details.test_cmd = Commands::One("python -m pytest -rA -s".into()).into();
}

fn solution_with_code_before(code: &str) -> String {
    patch(&[("roman/__init__.py", Some(&format!("import os\n{code}\n{ROMAN_SOURCE}")))])
}

/// SWE-bench 5.0.2 replaces invalid bytes before it writes the log that it reads.
#[test]
fn invalid_utf8_does_not_invalidate_the_official_run() {
    let patch = solution_with_code_before("os.write(1, b'\\xff\\xfe caf\\xe9\\n')");
    let verdict = combined_verdict(disable_output_capture, &patch);
    assert_eq!(policy_results(&verdict), (true, true), "{verdict:#?}");
}

#[test]
fn end_of_long_output_is_read() {
    let patch =
        solution_with_code_before("for _ in range(140): os.write(1, b'x' * 1048575 + b'\\n')");
    let (_, run) = grade_separately(disable_output_capture, |_| (), &patch);
    assert!(run.verdict.is_resolved, "{:#?}", run.verdict.reason);
    assert!(
        run.verdict.reason.contains("bytes of output beyond 128 MiB were discarded"),
        "{:#?}",
        run.verdict.reason
    );
}

#[test]
fn official_run_has_the_image_variables() {
    let patch = solution_with_code_before(
        "assert os.environ.get('FROM_IMAGE') == VALUE and 'LANG' not in os.environ",
    );
    let _tmp = TMP_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // An image may set no variables. Without an image, the official run has Proctor's own
    // variables.
    for (is_image, env, expected) in
        [(true, Some("yes"), true), (true, None, true), (false, None, false)]
    {
        let value = env.map_or("None".to_owned(), |env| format!("'{env}'"));
        let patch = patch.replace("VALUE", &value);
        let place = tempfile::tempdir().unwrap();
        let workdir = place.path().join("testbed");
        write_source_files(&workdir);
        let mut task = task(workdir.to_str().unwrap(), python().to_str().unwrap(), &[]);
        make_swe_bench_task(&mut task);
        task.environment.image = is_image.then(|| "image".to_owned());
        let run = runtime.block_on(async {
            let handle = connect_agent(place.path()).await;
            if let Some(env) = env {
                handle.set_image_env([("FROM_IMAGE".to_owned(), env.to_owned())].into());
            }
            let options = GradeOptions::default();
            let run = run_official(&handle, &task, patch.as_bytes(), &options).await.unwrap();
            let _ = handle.shutdown().await;
            run.unwrap()
        });
        assert_eq!(run.verdict.is_resolved, expected, "{}", String::from_utf8_lossy(&run.log));
    }
}
