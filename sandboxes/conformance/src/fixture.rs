//! The environment of a check: a shared sandbox, and functions that open more if the check needs
//! them.

use std::{
    fmt,
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use proctor_sandbox_api::{
    Backend, Command, CommandOutput, Enforcement, Mount, PreparedEnvironment, Sandbox,
    SandboxError, SandboxHandle, SandboxRequest, wire::RawPath,
};
use proctor_types::{Fault, SandboxSpec};

static FOLDER_COUNTER: AtomicU64 = AtomicU64::new(0);

/// Why a check did not pass.
#[derive(Debug)]
pub enum CheckError {
    /// The limit to check is not enforced. Contains its entry in the sandbox's enforcement.
    Skipped(String),
    Failed(String),
}

pub type Outcome = Result<(), CheckError>;

pub struct Fixture<'a> {
    pub backend: &'a dyn Backend,
    pub environment: &'a PreparedEnvironment,
    /// The sandbox that most checks share. A broken one is replaced.
    pub handle: Arc<SandboxHandle>,
    pub enforcement: Enforcement,
}

impl Fixture<'_> {
    /// Runs a shell command in the shared sandbox, with a time limit of one minute.
    pub async fn run_shell(&self, line: &str) -> Result<CommandOutput, CheckError> {
        run_shell(&self.handle, line).await
    }

    /// Creates an empty directory in the shared sandbox and returns its path.
    pub async fn create_folder(&self) -> Result<String, CheckError> {
        let number = FOLDER_COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = format!("/tmp/kit-{number}");
        expect_success(&self.run_shell(&format!("mkdir {path}")).await?)?;
        Ok(path)
    }

    /// Opens a sandbox that only this check uses.
    pub async fn open(&self, limits: SandboxSpec) -> Result<Box<dyn Sandbox>, CheckError> {
        self.open_with_mounts(limits, Vec::new()).await
    }

    /// Like [`Fixture::open`], but mounts host directories.
    pub async fn open_with_mounts(
        &self,
        limits: SandboxSpec,
        mounts: Vec<Mount>,
    ) -> Result<Box<dyn Sandbox>, CheckError> {
        let environment = self.environment.clone();
        let spec =
            SandboxRequest { environment, limits, mounts, purpose: "conformance kit".to_owned() };
        Ok(self.backend.open(&spec).await?)
    }

    /// Skips the check if `limit` is listed as not enforced.
    pub fn skip_unless_enforced(&self, limit: &str) -> Outcome {
        match self.enforcement.not_enforced.iter().find(|entry| entry.starts_with(limit)) {
            Some(entry) => Err(CheckError::Skipped(entry.clone())),
            None => Ok(()),
        }
    }
}

pub async fn run_shell(handle: &SandboxHandle, line: &str) -> Result<CommandOutput, CheckError> {
    Ok(handle.run(Command::shell(line).time_limit(Duration::from_secs(60))).await?)
}

/// Returns a command's standard output. The check fails if the command did.
pub fn expect_success(output: &CommandOutput) -> Result<String, CheckError> {
    match output.success() {
        true => Ok(output.stdout.text()),
        false => Err(check_failed(format!("{:?}, stderr: {}", output.exit, output.stderr.text()))),
    }
}

pub fn check_failed(reason: impl Into<String>) -> CheckError {
    CheckError::Failed(reason.into())
}

pub fn raw_path(text: &str) -> RawPath {
    RawPath::from(text)
}

/// Waits up to ten seconds until no process is left in the sandbox.
pub async fn wait_until_empty(handle: &SandboxHandle) -> Outcome {
    let mut left = 0;
    for _ in 0..100 {
        left = handle.ping().await?.0;
        if left == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let who = run_shell(handle, "grep -H . /proc/[0-9]*/cmdline | tr '\\0' ' '").await?;
    Err(check_failed(format!("{left} processes are left: {}", who.stdout.text())))
}

impl From<SandboxError> for CheckError {
    fn from(error: SandboxError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<Fault> for CheckError {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault.to_string())
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped(why) => write!(f, "skipped: {why}"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// Fails the check with a message if the condition is false.
macro_rules! ensure {
    ($holds:expr, $($seen:tt)+) => {
        let holds: bool = $holds;
        if !holds {
            return Err($crate::fixture::check_failed(format!($($seen)+)));
        }
    };
}
pub(crate) use ensure;
