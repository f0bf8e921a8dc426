//! Tests the model endpoint: a client in the sandbox calls the model over HTTP with a token,
//! without access to the API key.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use fake_llm::{FakeLlm, Script};
use proctor_record::{RunDir, read_journal};
use proctor_run::{Execution, FlakyTests, Plan, RegradePolicy};
use proctor_sandbox_api::{Backend, Command};
use proctor_scaffold_api::{
    Finish, ProgressSink, Scaffold, ScaffoldSource, Scaffolds, Session, SourceError, Stop,
};
use proctor_types::{
    Arm, BudgetKind, BudgetScope, CONFIG_VERSION, Ending, Event, FlakePolicy, RULES_VERSION,
    RUN_SCHEMA_VERSION, RecordedConfig, RunRecord, RunTask, SandboxKind, Task, TrialId, UserError,
};
use serde_json::{Map, Value, json};

use crate::not_run::not_run;

/// A scaffold that runs shell commands in the sandbox and collects their output. The endpoint's
/// address and token are environment variables.
struct ShellScaffold {
    lines: Vec<String>,
    outputs: Mutex<Vec<String>>,
}

#[async_trait]
impl Scaffold for ShellScaffold {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn factors(&self) -> Value {
        Value::Null
    }

    fn needs_model(&self) -> bool {
        true
    }

    fn model_endpoint(&self, _: &Map<String, Value>) -> Option<Value> {
        Some(json!({"rules": [{"class": "side", "max_tokens_up_to": 16}]}))
    }

    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        let proxy = session.brief().model_endpoint.clone().unwrap();
        let handle = Arc::clone(session.sandbox());
        for line in &self.lines {
            let command = Command::shell(line)
                .env("ENDPOINT", proxy.url.as_str())
                .env("TOKEN", proxy.token.as_str())
                .time_limit(Duration::from_secs(60));
            let done =
                handle.run(command).await.map_err(|error| error.to_fault("running a line"))?;
            let said = format!("{}{}", done.stdout.text(), done.stderr.text());
            self.outputs.lock().unwrap().push(said);
        }
        Ok(Finish::Submitted)
    }
}

/// A scaffold source with a single scaffold.
struct SingleScaffoldSource(Arc<ShellScaffold>);

#[async_trait(?Send)]
impl ScaffoldSource for SingleScaffoldSource {
    fn names(&self) -> &[&'static str] {
        &["lines"]
    }

    fn is_host_scaffold(&self, _: &str) -> bool {
        false
    }

    fn find_scaffold(&self, _: &str) -> Result<Option<Arc<dyn Scaffold>>, UserError> {
        Ok(Some(Arc::clone(&self.0) as Arc<dyn Scaffold>))
    }

    fn scaffolds_for_arms(&self, _: &[Arm]) -> Result<Scaffolds, UserError> {
        let scaffold = Arc::clone(&self.0) as Arc<dyn Scaffold>;
        Ok(Scaffolds::from([("lines".to_owned(), scaffold)]))
    }

    async fn build(&self, _: &BTreeSet<&str>, _: ProgressSink<'_>) -> Result<bool, SourceError> {
        Ok(false)
    }

    async fn scaffolds_with_bundles(
        &self,
        record: &RunRecord,
        _: ProgressSink<'_>,
    ) -> Result<Scaffolds, SourceError> {
        Ok(self.scaffolds_for_arms(&record.arms)?)
    }
}

/// Returns the API key. It is split in two, so that no file of this repository contains the key.
fn api_key() -> String {
    ["sk-planted-", "a91e0b77c2"].concat()
}

fn curl_request(authorization: &str, max_tokens: u32) -> String {
    let body = json!({
        "model": "any", "max_tokens": max_tokens,
        "messages": [{"role": "user", "content": "hello"}],
    });
    format!(
        "curl -sS -i {authorization} -H 'content-type: application/json' -d '{body}' \
         $ENDPOINT/v1/chat/completions"
    )
}

async fn check_model_endpoint(kind: SandboxKind, backend: Arc<dyn Backend>) {
    let dir = tempfile::tempdir().unwrap();
    let script: Script = toml::from_str("[default]\ncontent = \"said by the model\"\n").unwrap();
    let fake = FakeLlm::start(script).await.unwrap();
    let token = "-H \"authorization: Bearer $TOKEN\"";
    let lines = vec![
        curl_request("", 100),
        curl_request("-H 'authorization: Bearer guessed'", 100),
        format!("curl -sS -i {token} $ENDPOINT/v1/models"),
        curl_request(token, 8),
        // The client's changes after a response belong to the response's step.
        format!("{}; echo one > /testbed/one.txt", curl_request(token, 100)),
        curl_request(token, 100),
        "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'".into(),
        "printf 'sk-plan%s' ted-a91e0b77c2 > /tmp/control; grep -rlsa --devices=skip \
         'sk-plante[d]-a91e0b77c2' /etc /run /tmp /var /root /home /testbed /venv /dev/shm \
         /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/mountinfo"
            .into(),
        curl_request(token, 100),
        "echo never".into(),
    ];
    let scaffold = Arc::new(ShellScaffold { lines, outputs: Mutex::default() });

    let tasks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/tasks");
    let demo = std::fs::read_to_string(tasks.join("demo.jsonl")).unwrap();
    let task: Task = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    let arm: Arm = serde_json::from_value(json!({
        "id": "", "name": "a", "scaffold": "lines", "prompts": null,
        "model": {"base_url": fake.base_url(), "name": "m", "key_env": "PROCTOR_TEST_PLANTED_KEY"},
        "budget": {"steps": 2}, "network": {}, "sandbox": {},
    }))
    .unwrap();
    let arm = Arm { sandbox: proctor_types::SandboxSpec { kind, ..arm.sandbox.clone() }, ..arm };
    let arm = arm.with_computed_id();

    let run = RunDir::create(dir.path().join("run")).unwrap();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("proctor-cache");
    let id = TrialId { task: task.id.clone(), arm: arm.id.clone(), attempt: 1 };
    let digest = task.digest();
    let record = RunRecord {
        schema_version: RUN_SCHEMA_VERSION,
        rules: RULES_VERSION,
        proctor: env!("CARGO_PKG_VERSION").into(),
        created: 0,
        attempts: 1,
        jobs: 1,
        arms: vec![arm],
        tasks: vec![RunTask { task, digest, base_dir: tasks, source: None, host_bound: true }],
        config_version: CONFIG_VERSION,
        config: RecordedConfig::default(),
        host: json!({}),
        agent: backend.agent_digest(),
        certificate: None,
        flaky: FlakePolicy::default(),
        selection: None,
        absent: BTreeSet::new(),
        changes: Vec::new(),
    };
    run.write_run(&record).unwrap();
    let source = SingleScaffoldSource(Arc::clone(&scaffold));
    let execution = Execution {
        run,
        plan: Plan::from_record(&record),
        jobs: 1,
        backends: BTreeMap::from([(kind, backend)]),
        scaffolds: &source,
        cache: &cache,
        regrade_policy: RegradePolicy::GradeAgain,
        flaky_tests: FlakyTests::default(),
        say: &|_| {},
        on_preflight: &|_| {},
    };
    let ended = execution.start().await.unwrap().join().await.unwrap();
    assert!(ended.trials[0].end.is_ok());
    let run = RunDir::open_read_only(dir.path().join("run")).unwrap();
    let outcome = run.check_trial(&id).outcome.unwrap();

    let ending = Ending::Budget { budget: BudgetKind::Steps, scope: BudgetScope::Trial };
    assert_eq!(outcome.ending, ending);
    assert_eq!(outcome.spent.steps, 2, "a side request is not a step");
    let said = scaffold.outputs.lock().unwrap().clone();
    assert!(said[0].contains(" 401 ") && said[1].contains(" 401 "), "{} {}", said[0], said[1]);
    assert!(said[2].contains(" 200 "), "{}", said[2]);
    for answer in &said[3..6] {
        assert!(answer.contains("said by the model"), "{answer}");
    }
    let found: Vec<_> = said[7].lines().filter(|line| line.starts_with('/')).collect();
    assert_eq!(found, ["/tmp/control"], "{}", said[7]);
    assert!(said.len() <= 9 && !said.iter().any(|text| text.contains("never")), "{said:#?}");
    for text in &said {
        assert!(!text.contains(&api_key()), "{text}");
    }
    let seen = fake.requests();
    assert_eq!(seen.len(), 3, "rejected requests never reach the model");
    let bearer = format!("Bearer {}", api_key());
    assert!(seen.iter().all(|seen| seen.authorization.as_ref() == Some(&bearer)));
    let events = read_journal(run.trial_dir(&id).trajectory_path()).unwrap().events;
    let answers =
        events.iter().filter(|line| matches!(line.event, Event::ModelAnswered { .. })).count();
    assert_eq!(answers, 2);
    // As in a built-in loop, each step has a snapshot, which was taken when the next main request
    // arrived.
    let snapshots = events.iter().filter_map(|line| match &line.event {
        Event::SnapshotTaken { changed, .. } if line.step > 0 => Some((line.step, *changed)),
        _ => None,
    });
    let snapshots: Vec<_> = snapshots.collect();
    assert_eq!(snapshots[0], (1, 1), "{snapshots:?}");
    assert!(snapshots[1..].iter().all(|one| *one == (2, 0)), "{snapshots:?}");
    for file in list_files(dir.path()) {
        let content = std::fs::read(&file).unwrap();
        let held = content.windows(api_key().len()).any(|window| window == api_key().as_bytes());
        assert!(!held, "{} contains the key", file.display());
    }
}

fn list_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(list_files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

fn cache_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("proctor-cache/native")
}

/// Reruns the given test in a child process that has the key in its environment, because a process
/// cannot safely change its own environment.
fn rerun_with_key(name: &str) -> bool {
    if std::env::var_os("PROCTOR_TEST_PLANTED_KEY").is_some() {
        return true;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([format!("model_endpoint::{name}").as_str(), "--exact", "--nocapture"])
        .env("PROCTOR_TEST_PLANTED_KEY", api_key())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}{error}");
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_client_keeps_to_the_budget_and_never_sees_the_key() {
    if rerun_with_key("sandbox_client_keeps_to_the_budget_and_never_sees_the_key") {
        let native = proctor_native::Native::new(cache_dir()).unwrap();
        check_model_endpoint(SandboxKind::Native, Arc::new(native)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_client_keeps_to_the_budget_and_never_sees_the_key() {
    let name = "docker_client_keeps_to_the_budget_and_never_sees_the_key";
    match proctor_docker::Docker::connect().await {
        Ok(docker) => {
            if rerun_with_key(name) {
                check_model_endpoint(SandboxKind::Docker, Arc::new(docker)).await;
            }
        }
        Err(fault) => not_run(name, "DOCKER", fault),
    }
}
