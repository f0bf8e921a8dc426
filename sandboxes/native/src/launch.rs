//! Starts a sandbox's helper and sends it the layout.

use std::{
    io::{self, ErrorKind, Read as _},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream as Pair, process::CommandExt as _},
    },
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    time::{Duration, Instant},
};

use proctor_types::{Fault, FaultLayer};
use proctor_wire::{LayoutReport, MAX_LAYOUT_BYTES, SandboxLayout};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::{sleep, timeout},
};

/// Time limit for creating a sandbox, which normally takes milliseconds.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The helper of a sandbox that has been created. The next message on the stream is the agent's
/// hello.
pub(crate) struct LaunchedSandbox {
    pub(crate) helper: Helper,
    pub(crate) stream: UnixStream,
    pub(crate) notes: Vec<String>,
}

/// The helper's process. It uses none of the runtime's descriptors, because a run may have hundreds
/// of sandboxes and the limit is often a thousand descriptors.
///
/// Not tokio's `Child`, which needs an open descriptor per process to detect its exit.
pub(crate) struct Helper(Child);

impl Helper {
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
    }

    /// Waits until the helper has exited, for at most `timeout`. Returns whether it has. Polls,
    /// which is cheap enough because this is called only when a sandbox closes.
    pub(crate) async fn wait_for_exit(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut pause = Duration::from_micros(200);
        loop {
            match self.0.try_wait() {
                Ok(None) if Instant::now() < deadline => sleep(pause).await,
                Ok(ended) => return ended.is_some(),
                // Other code has already reaped the process.
                Err(_) => return true,
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.kill();
            // The process exits soon after the kill. Its process id cannot be reused until it is
            // reaped here.
            let _ = self.0.wait();
        }
    }
}

/// Starts `agentd sandbox` and waits until its sandbox exists.
pub(crate) async fn launch(agent: &Path, layout: &SandboxLayout) -> Result<LaunchedSandbox, Fault> {
    timeout(LAUNCH_TIMEOUT, start(agent, layout)).await.unwrap_or_else(|_| {
        Err(Fault::new(FaultLayer::Sandbox, "creating the sandbox took more than a minute"))
    })
}

async fn start(agent: &Path, layout: &SandboxLayout) -> Result<LaunchedSandbox, Fault> {
    let (mut helper, stream) = spawn(agent).await.map_err(|error| {
        let what = format!("cannot start the sandbox's helper {}: {error}", agent.display());
        Fault::new(FaultLayer::Sandbox, what)
            .hint("the cache folder must be on a file system that is not mounted noexec")
    })?;
    let mut stream = stream;
    match exchange_layout(&mut stream, layout).await {
        Ok(LayoutReport::Ready { notes }) => {
            // From now on, the helper writes no errors. It learns from the closed channel that the
            // runtime has ended.
            drop(helper.0.stderr.take());
            Ok(LaunchedSandbox { helper, stream, notes })
        }
        Ok(LayoutReport::Failed { step, why, hint }) => {
            let fault = Fault::new(
                FaultLayer::Sandbox,
                format!("cannot create the sandbox: {step}: {why}"),
            );
            Err(match hint {
                Some(hint) => fault.hint(hint),
                None => fault,
            })
        }
        Err(error) => {
            helper.kill();
            let said = helper.0.stderr.take().map_or_else(Vec::new, read_stderr);
            let said = String::from_utf8_lossy(&said);
            let what = match said.trim() {
                "" => format!("lost contact with the sandbox's helper: {error}"),
                said => format!("lost contact with the sandbox's helper: {error}; stderr: {said}"),
            };
            Err(Fault::new(FaultLayer::Sandbox, what))
        }
    }
}

/// Returns what a killed helper wrote to the pipe. Does not wait for the end of the stream, because
/// the helper's children may keep the other end open a moment longer.
fn read_stderr(mut pipe: ChildStderr) -> Vec<u8> {
    let mut said = vec![0; 4096];
    let read = match rustix::io::ioctl_fionbio(&pipe, true) {
        Ok(()) => pipe.read(&mut said).unwrap_or(0),
        Err(_) => 0,
    };
    said.truncate(read);
    said
}

async fn spawn(agent: &Path) -> io::Result<(Helper, UnixStream)> {
    let mut tries = 0;
    loop {
        let (ours, theirs) = Pair::pair()?;
        let spawned = Command::new(agent)
            // All processes in the sandbox can read the command line of its first process, so don't
            // reveal the host's path there.
            .arg0("agentd")
            .arg("sandbox")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Use a separate process group, because the runtime handles interrupts from the
            // terminal and sandboxes must not receive them.
            .process_group(0)
            .spawn();
        match spawned {
            Ok(child) => {
                let helper = Helper(child);
                ours.set_nonblocking(true)?;
                return Ok((helper, UnixStream::from_std(ours)?));
            }
            // Another process was forked while the file was being written, and that process still
            // has the file open.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && tries < 50 => {
                tries += 1;
                sleep(Duration::from_millis(5)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn exchange_layout(
    stream: &mut UnixStream,
    layout: &SandboxLayout,
) -> io::Result<LayoutReport> {
    let body = serde_json::to_vec(layout)?;
    if body.len() > MAX_LAYOUT_BYTES {
        return Err(io::Error::other("the layout is too long"));
    }
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&body);
    stream.write_all(&bytes).await?;
    let length = stream.read_u32().await? as usize;
    if length > MAX_LAYOUT_BYTES {
        return Err(io::Error::other("the report is too long"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body)?)
}
