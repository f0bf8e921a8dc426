//! A session with scripted responses and a real sandbox, which is `agentd serve` as a child
//! process.
//!
//! Records everything that a scaffold does in its session, so that tests can compare the complete
//! history.

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
use proctor_scaffold_api::{FinishedToolCall, Session, Stop, TaskBrief, Traffic};
use proctor_types::{BudgetKind, Message, ModelRequest, ModelResponse, ToolCall, Usage};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// What a scaffold did in its session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionAction {
    Asked(ModelRequest),
    Called { id: String, name: String, arguments: Value },
    Returned(FinishedToolCall),
    Noted(Map<String, Value>),
    Patched(String),
    EndedStep,
}

pub struct ScriptedSession {
    pub brief: TaskBrief,
    handle: Arc<SandboxHandle>,
    responses: VecDeque<ModelResponse>,
    pub actions: Vec<SessionAction>,
    pub folder: TempDir,
    agent: tokio::process::Child,
}

/// Returns the path of the embedded agent as an executable file.
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

impl ScriptedSession {
    /// Creates a session with an empty work directory. After the scripted responses, the limit on
    /// steps is reached.
    pub async fn new(responses: Vec<ModelResponse>) -> Self {
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
        let brief = TaskBrief {
            task: "demo__task-1".into(),
            statement: "Make f return 2.".into(),
            workdir: folder.path().to_str().unwrap().into(),
            env: vec![("TASK_VARIABLE".into(), "set".into())],
            user: None,
            command_timeout: Duration::from_secs(30),
            announced_budget: None,
            model: None,
            context_window: None,
            listed_context_window: None,
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
        Self { brief, handle, responses: responses.into(), actions: Vec::new(), folder, agent }
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

    pub fn tool_results(&self) -> Vec<&FinishedToolCall> {
        self.actions
            .iter()
            .filter_map(
                |did| if let SessionAction::Returned(done) = did { Some(done) } else { None },
            )
            .collect()
    }

    pub fn model_requests(&self) -> Vec<&ModelRequest> {
        self.actions
            .iter()
            .filter_map(|did| if let SessionAction::Asked(ask) = did { Some(ask) } else { None })
            .collect()
    }

    pub fn notes(&self) -> Vec<&Map<String, Value>> {
        self.actions
            .iter()
            .filter_map(|did| if let SessionAction::Noted(note) = did { Some(note) } else { None })
            .collect()
    }

    /// Kills the agent, which breaks the sandbox.
    pub async fn break_sandbox(&mut self) {
        self.agent.kill().await.unwrap();
    }
}

/// Creates a response that consists of text.
pub fn text_response(content: &str) -> ModelResponse {
    ModelResponse {
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

/// Creates a response with tool calls. Each call is a tool's name and the arguments as text.
pub fn tool_call_response(calls: &[(&str, &str)]) -> ModelResponse {
    let tool_calls = calls
        .iter()
        .enumerate()
        .map(|(index, (name, arguments))| ToolCall {
            id: format!("call-{index}"),
            name: (*name).into(),
            arguments: (*arguments).into(),
        })
        .collect();
    ModelResponse { tool_calls, finish_reason: Some("tool_calls".into()), ..text_response("") }
}

#[async_trait]
impl Session for ScriptedSession {
    fn brief(&self) -> &TaskBrief {
        &self.brief
    }

    fn sandbox(&self) -> &Arc<SandboxHandle> {
        &self.handle
    }

    async fn ask(&mut self, ask: &ModelRequest) -> Result<ModelResponse, Stop> {
        self.actions.push(SessionAction::Asked(ask.clone()));
        self.responses.pop_front().ok_or(Stop::Budget(BudgetKind::Steps))
    }

    async fn record_tool_call(
        &mut self,
        call_id: &str,
        name: &str,
        arguments: Value,
    ) -> Result<(), Stop> {
        self.actions.push(SessionAction::Called {
            id: call_id.into(),
            name: name.into(),
            arguments,
        });
        Ok(())
    }

    async fn record_tool_result(&mut self, result: FinishedToolCall) -> Result<(), Stop> {
        self.actions.push(SessionAction::Returned(result));
        Ok(())
    }

    async fn note(&mut self, note: Map<String, Value>) -> Result<(), Stop> {
        self.actions.push(SessionAction::Noted(note));
        Ok(())
    }

    async fn wait_for_end(&mut self) {
        std::future::pending().await
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    async fn store_evidence(&mut self, _: &str, _: &[u8]) -> Result<(), Stop> {
        Ok(())
    }

    async fn apply_patch(&mut self, patch: &str) -> Result<(), Stop> {
        self.actions.push(SessionAction::Patched(patch.into()));
        Ok(())
    }

    async fn end_step(&mut self) -> Result<(), Stop> {
        self.actions.push(SessionAction::EndedStep);
        Ok(())
    }

    fn count_tokens(&self, messages: &[Message]) -> u64 {
        messages.len() as u64 * 10
    }

    fn exceeds_context_window(
        &self,
        counted_tokens: u64,
        estimated_tokens: u64,
        window: u64,
    ) -> bool {
        counted_tokens + estimated_tokens >= window
    }
}
