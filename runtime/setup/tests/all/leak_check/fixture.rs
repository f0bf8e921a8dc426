//! Helpers that create a small task and its environment, with or without planted copies, and scan
//! the environment.

use std::{fs, path::Path, time::Duration};

use proctor_sandbox_api::{
    Backend, Base, LayerSpec, PreparedEnvironment, Sandbox, SandboxRequest, SourceTree,
    wire::RawPath,
};
use proctor_setup::{
    LayerFindings, LeakReport, Preparation, Purpose, ReadySandbox, prepare_for_agent,
};
use proctor_types::{Fault, OnFinding, SandboxSpec, Task, sha256_hex};
use serde_json::json;

const PLANT_SCRIPT: &str = include_str!("plant.py");

const VISIBLE_CODE: &str = "\"\"\"Numbers as people once wrote them.\"\"\"\n\n\
    SYMBOLS = [(1000, \"M\"), (900, \"CM\"), (500, \"D\"), (400, \"CD\"), (100, \"C\")]\n\n";

const HIDDEN_CODE: &str = "def from_roman(text):\n    \"\"\"Read a numeral in its one canonical form.\"\"\"\n    \
    total, rest = 0, text\n    for value, symbol in SYMBOLS:\n        \
    while rest.startswith(symbol):\n            total += value\n            \
    rest = rest[len(symbol):]\n    if rest or not canonical(total) == text:\n        \
    raise ValueError(f\"not a numeral: {text!r}\")\n    return total\n";

const HIDDEN_TEST: &str = "import pytest\nfrom numerals.roman import from_roman\n\n\n\
    @pytest.mark.parametrize(\"text,value\", [(\"MCM\", 1900), (\"CD\", 400)])\n\
    def test_reading(text, value):\n    assert from_roman(text) == value\n\n\n\
    def test_refusing():\n    for text in [\"\", \"IIII\", \"VX\"]:\n        \
    with pytest.raises(ValueError):\n            from_roman(text)\n";

pub fn numerals_task() -> Task {
    let kept: String = VISIBLE_CODE.lines().map(|line| format!(" {line}\n")).collect();
    let gone: String = HIDDEN_CODE.lines().map(|line| format!("-{line}\n")).collect();
    let (kept_lines, gone_lines) = (VISIBLE_CODE.lines().count(), HIDDEN_CODE.lines().count());
    let mask = format!(
        "diff --git a/numerals/roman.py b/numerals/roman.py\n--- a/numerals/roman.py\n\
         +++ b/numerals/roman.py\n@@ -1,{} +1,{kept_lines} @@\n{kept}{gone}",
        kept_lines + gone_lines
    );
    serde_json::from_value(json!({
        "schema_version": 1, "id": "leak_check", "statement": "", "environment": {"base": "host"},
        "workdir": "/testbed", "mask": mask, "hidden": ["tests/test_roman.py"],
        "fail_to_pass": ["tests/test_roman.py::test_reading"], "test_command": []
    }))
    .unwrap()
}

/// Builds the task's environment. Each line of `planted_copies` plants one copy and consists of the
/// copy's kind and path.
pub async fn build_environment(
    backend: &dyn Backend,
    base: Base,
    folder: &Path,
    planted_copies: &str,
) -> PreparedEnvironment {
    let tree = folder.join("source");
    for (path, text) in [
        ("numerals/__init__.py", ""),
        ("numerals/roman.py", &format!("{VISIBLE_CODE}{HIDDEN_CODE}")[..]),
        ("tests/test_roman.py", HIDDEN_TEST),
        // Add another file that starts with the same lines as the hidden test.
        (
            "tests/test_kept.py",
            "import pytest\nfrom numerals import roman\n\n\ndef test_it():\n    assert roman\n",
        ),
        ("plant.py", PLANT_SCRIPT),
        ("places.txt", planted_copies),
    ] {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let digest =
        sha256_hex(format!("{planted_copies}{PLANT_SCRIPT}{HIDDEN_CODE}{HIDDEN_TEST}").as_bytes());
    let source = SourceTree { folder: tree, digest, destination: RawPath::from("/testbed") };
    let spec = LayerSpec {
        base,
        source: Some(source),
        setup: vec!["python3 plant.py && rm plant.py places.txt".into()],
        workdir: RawPath::from("/testbed"),
        env: vec![],
        time_limit: Duration::from_secs(120),
    };
    backend.prepare(&spec).await.unwrap()
}

pub async fn open_sandbox(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
) -> Box<dyn Sandbox> {
    let spec = SandboxRequest {
        environment: environment.clone(),
        limits: SandboxSpec::default(),
        mounts: Vec::new(),
        purpose: "a test of the leak check".into(),
    };
    backend.open(&spec).await.unwrap()
}

/// Searches the environment's layer and returns the findings.
pub async fn search_environment(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    task: &Task,
) -> LayerFindings {
    let mut sandbox = open_sandbox(backend, environment).await;
    let mut leak_check = LayerFindings::search_environment(sandbox.handle(), task).await.unwrap();
    leak_check.search_workdir(sandbox.handle(), task).await.unwrap();
    sandbox.close().await.unwrap();
    leak_check
}

/// Opens a sandbox of the task, prepared for the given purpose.
pub async fn open_prepared_sandbox(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    task: &Task,
    findings: &LayerFindings,
    purpose: Purpose<'_>,
) -> Result<ReadySandbox, Fault> {
    let (limits, label) = (SandboxSpec::default(), "a test of the leak check".into());
    let limits = &limits;
    Preparation { backend, environment, task, findings, limits, mounts: &[], label }
        .open(purpose)
        .await
}

/// Prepares a sandbox for an agent, as a trial does, and returns the leak report.
pub async fn prepare_agent_sandbox(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    task: &Task,
    findings: &LayerFindings,
    on_finding: OnFinding,
) -> Result<LeakReport, Fault> {
    let purpose = Purpose::Driving(on_finding);
    let ReadySandbox { mut sandbox, hidden_copies: hidden } =
        open_prepared_sandbox(backend, environment, task, findings, purpose).await?;
    let report = prepare_for_agent(sandbox.handle(), task, findings, &hidden, on_finding).await;
    sandbox.close().await.unwrap();
    report
}
