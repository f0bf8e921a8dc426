//! A session with scripted responses in a real sandbox: `agentd serve` as a child process.
//!
//! Records everything that a scaffold does to its session, so that tests can compare complete
//! histories.

use std::{
    collections::VecDeque,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use proctor_embedded_agent as embedded;
use proctor_sandbox_api::SandboxHandle;
use proctor_scaffold_api::{Brief, Session, Stop, ToolDone, Traffic};
use proctor_types::{Answer, Ask, BudgetKind, Message, ToolCall, Usage};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// What a scaffold did to its session, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Did {
    Asked(Ask),
    Called { id: String, name: String, arguments: Value },
    Returned(ToolDone),
    Noted(Map<String, Value>),
    Patched(String),
    EndedStep,
}

pub struct Scripted {
    pub brief: Brief,
    handle: Arc<SandboxHandle>,
    answers: VecDeque<Answer>,
    pub did: Vec<Did>,
    pub folder: TempDir,
    agent: tokio::process::Child,
}

/// The embedded agent as an executable file.
fn agent() -> &'static Path {
    static PATH: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PATH.get_or_init(|| {
        assert!(!embedded::agent().is_empty(), "no agent is embedded");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agentd");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(embedded::agent()).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, path)
    });
    path
}

impl Scripted {
    /// Creates a session in an empty work directory. After the script ends, the step budget is
    /// reached.
    pub async fn new(answers: Vec<Answer>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut agent = tokio::process::Command::new(agent())
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (reader, writer) = (agent.stdout.take().unwrap(), agent.stdin.take().unwrap());
        let handle = SandboxHandle::connect(reader, writer).await.unwrap();
        let brief = Brief {
            task: "demo__task-1".into(),
            statement: "Make f return 2.".into(),
            workdir: folder.path().to_str().unwrap().into(),
            env: vec![("TASK_VARIABLE".into(), "set".into())],
            user: None,
            command_limit: Duration::from_secs(30),
            announced: None,
            model: None,
            context_window: None,
            listed_window: None,
            max_output_tokens: None,
            gold: None,
            solution: None,
            replay: None,
            model_endpoint: None,
            material: None,
            tokenizer: None,
            settings: Map::new(),
            fork: None,
        };
        Self { brief, handle, answers: answers.into(), did: Vec::new(), folder, agent }
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }

    pub fn returned(&self) -> Vec<&ToolDone> {
        self.did
            .iter()
            .filter_map(|did| if let Did::Returned(done) = did { Some(done) } else { None })
            .collect()
    }

    pub fn asked(&self) -> Vec<&Ask> {
        self.did
            .iter()
            .filter_map(|did| if let Did::Asked(ask) = did { Some(ask) } else { None })
            .collect()
    }

    pub fn noted(&self) -> Vec<&Map<String, Value>> {
        self.did
            .iter()
            .filter_map(|did| if let Did::Noted(note) = did { Some(note) } else { None })
            .collect()
    }

    /// Kills the agent. The sandbox is broken afterwards.
    pub async fn break_sandbox(&mut self) {
        self.agent.kill().await.unwrap();
    }
}

/// Builds a text response.
pub fn says(content: &str) -> Answer {
    Answer {
        content: content.into(),
        tool_calls: Vec::new(),
        extra: Map::new(),
        native: None,
        finish_reason: Some("stop".into()),
        refused: false,
        usage: Usage { input: 100, output: 10, ..Usage::default() },
        cost_usd: None,
    }
}

/// Builds a response with tool calls, given as names and argument texts.
pub fn calls(calls: &[(&str, &str)]) -> Answer {
    let tool_calls = calls
        .iter()
        .enumerate()
        .map(|(index, (name, arguments))| ToolCall {
            id: format!("call-{index}"),
            name: (*name).into(),
            arguments: (*arguments).into(),
        })
        .collect();
    Answer { tool_calls, finish_reason: Some("tool_calls".into()), ..says("") }
}

#[async_trait]
impl Session for Scripted {
    fn brief(&self) -> &Brief {
        &self.brief
    }

    fn handle(&self) -> &Arc<SandboxHandle> {
        &self.handle
    }

    async fn ask(&mut self, ask: &Ask) -> Result<Answer, Stop> {
        self.did.push(Did::Asked(ask.clone()));
        self.answers.pop_front().ok_or(Stop::Budget(BudgetKind::Steps))
    }

    async fn tool_called(
        &mut self,
        call_id: &str,
        name: &str,
        arguments: Value,
    ) -> Result<(), Stop> {
        self.did.push(Did::Called { id: call_id.into(), name: name.into(), arguments });
        Ok(())
    }

    async fn tool_returned(&mut self, done: ToolDone) -> Result<(), Stop> {
        self.did.push(Did::Returned(done));
        Ok(())
    }

    async fn note(&mut self, note: Map<String, Value>) -> Result<(), Stop> {
        self.did.push(Did::Noted(note));
        Ok(())
    }

    async fn ending(&mut self) {
        std::future::pending().await
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    async fn keep(&mut self, _: &str, _: &[u8]) -> Result<(), Stop> {
        Ok(())
    }

    async fn apply_patch(&mut self, patch: &str) -> Result<(), Stop> {
        self.did.push(Did::Patched(patch.into()));
        Ok(())
    }

    async fn end_step(&mut self) -> Result<(), Stop> {
        self.did.push(Did::EndedStep);
        Ok(())
    }

    fn count_tokens(&self, messages: &[Message]) -> u64 {
        messages.len() as u64 * 10
    }

    fn overflows(&self, counted: u64, estimated: u64, window: u64) -> bool {
        counted + estimated >= window
    }
}
