//! Starting a helper and telling it its plan.

use std::{
    io::{self, ErrorKind},
    os::{fd::OwnedFd, unix::net::UnixStream as Pair},
    path::Path,
    process::Stdio,
    time::Duration,
};

use proctor_types::{Fault, Layer};
use proctor_wire::{LayoutReport, PLAN_LIMIT, SandboxLayout};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    process::{Child, ChildStderr, Command},
    time::{sleep, timeout},
};

/// Making a sandbox takes milliseconds; a machine that needs longer than this is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A helper whose sandbox is made; the channel's hello is next on the stream.
pub(crate) struct Launched {
    pub(crate) child: Child,
    pub(crate) stream: UnixStream,
    /// Held open as long as the sandbox may live: the helper ends the sandbox when it closes.
    pub(crate) lifeline: ChildStderr,
    pub(crate) notes: Vec<String>,
}

/// Starts `agentd sandbox` and waits until its sandbox is made.
pub(crate) async fn launch(agent: &Path, plan: &SandboxLayout) -> Result<Launched, Fault> {
    timeout(PATIENCE, start(agent, plan)).await.unwrap_or_else(|_| {
        Err(Fault::new(Layer::Sandbox, "the sandbox was not made within a minute"))
    })
}

async fn start(agent: &Path, plan: &SandboxLayout) -> Result<Launched, Fault> {
    let (mut child, stream) = spawn(agent).await.map_err(|error| {
        let what = format!("start the sandbox's helper {}: {error}", agent.display());
        Fault::new(Layer::Sandbox, what)
            .hint("the cache folder must be on a file system that allows programs to run")
    })?;
    let Some(mut lifeline) = child.stderr.take() else {
        return Err(Fault::new(Layer::Sandbox, "the helper has no error output"));
    };
    let mut stream = stream;
    match converse(&mut stream, plan).await {
        Ok(LayoutReport::Ready { notes }) => Ok(Launched { child, stream, lifeline, notes }),
        Ok(LayoutReport::Failed { step, why, hint }) => {
            let fault = Fault::new(Layer::Sandbox, format!("make the sandbox: {step}: {why}"));
            Err(match hint {
                Some(hint) => fault.hint(hint),
                None => fault,
            })
        }
        Err(error) => {
            let _ = child.start_kill();
            let mut said = Vec::new();
            let _ = timeout(Duration::from_secs(1), lifeline.read_to_end(&mut said)).await;
            let said = String::from_utf8_lossy(&said);
            let what =
                format!("the sandbox's helper ended before it reported: {error} {}", said.trim());
            Err(Fault::new(Layer::Sandbox, what))
        }
    }
}

async fn spawn(agent: &Path) -> io::Result<(Child, UnixStream)> {
    let mut tries = 0;
    loop {
        let (ours, theirs) = Pair::pair()?;
        let spawned = Command::new(agent)
            // Everybody in the sandbox may read the command line of its first process.
            .arg0("agentd")
            .arg("sandbox")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // An interrupt from the terminal is the runtime's to handle, not the sandboxes'.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        match spawned {
            Ok(child) => {
                ours.set_nonblocking(true)?;
                return Ok((child, UnixStream::from_std(ours)?));
            }
            // Just written, and a process forked meanwhile still holds the descriptor.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && tries < 50 => {
                tries += 1;
                sleep(Duration::from_millis(5)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn converse(stream: &mut UnixStream, plan: &SandboxLayout) -> io::Result<LayoutReport> {
    let body = serde_json::to_vec(plan)?;
    if body.len() > PLAN_LIMIT {
        return Err(io::Error::other("the plan is too long"));
    }
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&body);
    stream.write_all(&bytes).await?;
    let length = stream.read_u32().await? as usize;
    if length > PLAN_LIMIT {
        return Err(io::Error::other("the report is too long"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body)?)
}
