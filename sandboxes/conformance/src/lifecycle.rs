//! Checks how sandboxes end (closed, dropped, or after a protocol violation), and that pending
//! requests then fail.

use std::{sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use proctor_sandbox_api::{Command, CommandOutput, SandboxError, SandboxHandle};
use proctor_types::SandboxSpec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    CheckError,
    check::{Check, list},
    fixture::{Fixture, Outcome, check_failed, ensure, expect_success, run_shell},
};

pub fn checks() -> Vec<Check> {
    list![
        full connections_from_inside_reach_the_host,
        full streams_are_bidirectional,
        full sandboxes_open_concurrently,
        full sweep_ignores_live_sandboxes,
        quick closed_sandbox_is_broken,
        full close_is_idempotent,
        full close_ends_pending_commands,
        full dropped_sandbox_ends,
        full shut_down_sandbox_is_broken,
        full garbage_ends_the_sandbox,
    ]
}

const WAIT_TIMEOUT: Duration = Duration::from_secs(15);

async fn connections_from_inside_reach_the_host(fixture: &Fixture<'_>) -> Outcome {
    let port = fixture.handle.listen(0).await?;
    let program = format!(
        "import socket\ns = socket.create_connection(('127.0.0.1', {port}))\n\
         s.sendall(b'ask'); s.shutdown(socket.SHUT_WR)\n\
         n = 0\nwhile True:\n    b = s.recv(65536)\n    if not b: break\n    n += len(b)\nprint(n)"
    );
    let command = Command::new(["python3", "-c", &program]).time_limit(Duration::from_secs(20));
    let inside = fixture.handle.run(command);
    let outside = async {
        let mut incoming = fixture.handle.accept().await?;
        let mut asked = Vec::new();
        while let Some(bytes) = incoming.receive().await? {
            asked.extend(bytes);
        }
        ensure!(asked == b"ask" && incoming.port == port, "{asked:?}");
        incoming.send(&vec![b'x'; 3_000_000]).await?;
        incoming.finish();
        // Keep the connection open until the other side is done.
        Ok::<_, CheckError>(incoming)
    };
    let (inside, outside) = tokio::join!(inside, outside);
    outside?;
    let text = expect_success(&inside?)?;
    ensure!(text == "3000000\n", "{text:?}");
    Ok(())
}

/// Each side first writes more than any buffer can hold and then reads, and the host drops its end
/// right after writing. Nothing may block forever, and no data may be lost.
async fn streams_are_bidirectional(fixture: &Fixture<'_>) -> Outcome {
    let port = fixture.handle.listen(0).await?;
    let program = format!(
        "import socket\ns = socket.create_connection(('127.0.0.1', {port}))\n\
         s.sendall(b'y' * 3000000); s.shutdown(socket.SHUT_WR)\n\
         n = 0\nwhile True:\n    b = s.recv(65536)\n    if not b: break\n    n += len(b)\nprint(n)"
    );
    let command = Command::new(["python3", "-c", &program]).time_limit(Duration::from_secs(20));
    let inside = fixture.handle.run(command);
    let outside = async {
        let (mut reader, mut writer) =
            tokio::io::split(fixture.handle.accept().await?.into_stream());
        let (mut all, sent) = (Vec::new(), vec![b'x'; 3_000_000]);
        let (read, written) = tokio::join!(reader.read_to_end(&mut all), async {
            writer.write_all(&sent).await?;
            writer.shutdown().await
        });
        if let Err(error) = read.and(written.map(|()| 0)) {
            return Err(check_failed(error.to_string()));
        }
        ensure!(all.len() == 3_000_000, "{} bytes arrived", all.len());
        Ok::<_, CheckError>(())
    };
    let (inside, outside) = tokio::join!(inside, outside);
    outside?;
    let text = expect_success(&inside?)?;
    ensure!(text == "3000000\n", "{text:?}");
    Ok(())
}

async fn sandboxes_open_concurrently(fixture: &Fixture<'_>) -> Outcome {
    let all = (0..3).map(|n| async move {
        let mut sandbox = fixture.open(SandboxSpec::default()).await?;
        let done =
            run_shell(sandbox.handle(), &format!("echo {n} > /tmp/own; sleep 0.5; cat /tmp/own"))
                .await;
        sandbox.close().await?;
        let text = expect_success(&done?)?;
        ensure!(text == format!("{n}\n"), "{text:?}");
        Ok(())
    });
    try_join_all(all).await.map(drop)
}

async fn sweep_ignores_live_sandboxes(fixture: &Fixture<'_>) -> Outcome {
    fixture.backend.sweep().await?;
    expect_success(&fixture.run_shell("true").await?).map(drop)
}

/// Waits until requests fail with a broken channel. Asserts that later requests fail with the same
/// error.
async fn assert_becomes_broken(handle: &SandboxHandle) -> Outcome {
    let waiting = async {
        while handle.ping().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, waiting)
        .await
        .map_err(|_| check_failed("the sandbox still responds"))?;
    let first = handle.ping().await;
    let later = handle.run(Command::new(["true"])).await.map(drop);
    match (first, later) {
        (
            Err(SandboxError::Broken { reason: first }),
            Err(SandboxError::Broken { reason: later }),
        ) => {
            ensure!(first == later && !first.is_empty(), "{first:?}, then {later:?}");
            Ok(())
        }
        other => Err(check_failed(format!("not broken: {other:?}"))),
    }
}

async fn closed_sandbox_is_broken(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    let handle = Arc::clone(sandbox.handle());
    expect_success(&run_shell(&handle, "true").await?)?;
    sandbox.close().await?;
    assert_becomes_broken(&handle).await
}

async fn close_is_idempotent(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    sandbox.close().await?;
    sandbox.close().await?;
    Ok(())
}

fn start_pending_command(
    handle: &Arc<SandboxHandle>,
) -> tokio::task::JoinHandle<Result<CommandOutput, SandboxError>> {
    let handle = Arc::clone(handle);
    tokio::spawn(async move { handle.run(Command::shell("setsid sleep 1000 & sleep 1000")).await })
}

async fn close_ends_pending_commands(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    let running = start_pending_command(sandbox.handle());
    tokio::time::sleep(Duration::from_millis(300)).await;
    sandbox.close().await?;
    let ended = tokio::time::timeout(WAIT_TIMEOUT, running).await;
    match ended {
        Ok(Ok(Err(SandboxError::Broken { .. }))) => Ok(()),
        other => Err(check_failed(format!("a pending command ended with {other:?}"))),
    }
}

async fn dropped_sandbox_ends(fixture: &Fixture<'_>) -> Outcome {
    let sandbox = fixture.open(SandboxSpec::default()).await?;
    let handle = Arc::clone(sandbox.handle());
    let running = start_pending_command(&handle);
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(sandbox);
    let ended = tokio::time::timeout(WAIT_TIMEOUT, running).await;
    ensure!(matches!(ended, Ok(Ok(Err(SandboxError::Broken { .. })))), "pending: {ended:?}");
    assert_becomes_broken(&handle).await
}

async fn shut_down_sandbox_is_broken(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    let handle = Arc::clone(sandbox.handle());
    handle.shutdown().await?;
    let broken = assert_becomes_broken(&handle).await;
    sandbox.close().await?;
    broken
}

async fn garbage_ends_the_sandbox(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    let handle = Arc::clone(sandbox.handle());
    let running = start_pending_command(&handle);
    tokio::time::sleep(Duration::from_millis(300)).await;
    handle.send_garbage(b"\xff\xff\xff\xffGET / HTTP/1.1\r\n\r\n");
    let ended = tokio::time::timeout(WAIT_TIMEOUT, running).await;
    let broken = assert_becomes_broken(&handle).await;
    sandbox.close().await?;
    // Before the channel closes, the agent may report that it killed the command.
    let over = match &ended {
        Ok(Ok(Err(SandboxError::Broken { .. }))) => true,
        Ok(Ok(Ok(done))) => done.exit.signal == Some(9),
        _ => false,
    };
    ensure!(over, "pending: {ended:?}");
    broken
}
