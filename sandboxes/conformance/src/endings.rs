//! How sandboxes end: closed, dropped, or by garbage; and that pending work is notified.

use std::{sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use proctor_sandbox_api::{Command, Completed, SandboxError, SandboxHandle};
use proctor_types::SandboxSpec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    Failed,
    fixture::{Fixture, Outcome, ensure, must, sh, wrong},
    kit::{Check, list},
};

pub fn checks() -> Vec<Check> {
    list![
        full connections_from_inside_come_out,
        full streams_pass_both_ways_at_once,
        full sandboxes_open_at_once,
        full sweeping_spares_the_living,
        quick closed_sandbox_is_broken,
        full closing_twice_is_closing_once,
        full closing_ends_what_is_pending,
        full dropped_sandbox_ends,
        full shut_down_sandbox_is_broken,
        full garbage_ends_the_sandbox,
    ]
}

const SOON: Duration = Duration::from_secs(15);

async fn connections_from_inside_come_out(fixture: &Fixture<'_>) -> Outcome {
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
        // Held until the other side is finished with it.
        Ok::<_, Failed>(incoming)
    };
    let (inside, outside) = tokio::join!(inside, outside);
    outside?;
    let text = must(&inside?)?;
    ensure!(text == "3000000\n", "{text:?}");
    Ok(())
}

/// Neither side reads before it has written more than any buffer holds, and the host's end is
/// dropped as soon as it has written: nothing blocks forever and nothing is lost.
async fn streams_pass_both_ways_at_once(fixture: &Fixture<'_>) -> Outcome {
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
            return Err(wrong(error.to_string()));
        }
        ensure!(all.len() == 3_000_000, "{} bytes came out", all.len());
        Ok::<_, Failed>(())
    };
    let (inside, outside) = tokio::join!(inside, outside);
    outside?;
    let text = must(&inside?)?;
    ensure!(text == "3000000\n", "{text:?}");
    Ok(())
}

async fn sandboxes_open_at_once(fixture: &Fixture<'_>) -> Outcome {
    let all = (0..3).map(|n| async move {
        let mut sandbox = fixture.open(SandboxSpec::default()).await?;
        let done =
            sh(sandbox.handle(), &format!("echo {n} > /tmp/own; sleep 0.5; cat /tmp/own")).await;
        sandbox.close().await?;
        let text = must(&done?)?;
        ensure!(text == format!("{n}\n"), "{text:?}");
        Ok(())
    });
    try_join_all(all).await.map(drop)
}

async fn sweeping_spares_the_living(fixture: &Fixture<'_>) -> Outcome {
    fixture.backend.sweep().await?;
    must(&fixture.sh("true").await?).map(drop)
}

/// Waits until requests fail as broken, and asserts that every later one fails the same way.
async fn must_break(handle: &SandboxHandle) -> Outcome {
    let waiting = async {
        while handle.ping().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.map_err(|_| wrong("the sandbox still answers"))?;
    let first = handle.ping().await;
    let later = handle.run(Command::new(["true"])).await.map(drop);
    match (first, later) {
        (Err(SandboxError::Broken { why: first }), Err(SandboxError::Broken { why: later })) => {
            ensure!(first == later && !first.is_empty(), "{first:?}, then {later:?}");
            Ok(())
        }
        other => Err(wrong(format!("not broken: {other:?}"))),
    }
}

async fn closed_sandbox_is_broken(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    let handle = Arc::clone(sandbox.handle());
    must(&sh(&handle, "true").await?)?;
    sandbox.close().await?;
    must_break(&handle).await
}

async fn closing_twice_is_closing_once(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    sandbox.close().await?;
    sandbox.close().await?;
    Ok(())
}

fn pending(
    handle: &Arc<SandboxHandle>,
) -> tokio::task::JoinHandle<Result<Completed, SandboxError>> {
    let handle = Arc::clone(handle);
    tokio::spawn(async move { handle.run(Command::shell("setsid sleep 1000 & sleep 1000")).await })
}

async fn closing_ends_what_is_pending(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    let running = pending(sandbox.handle());
    tokio::time::sleep(Duration::from_millis(300)).await;
    sandbox.close().await?;
    let ended = tokio::time::timeout(SOON, running).await;
    match ended {
        Ok(Ok(Err(SandboxError::Broken { .. }))) => Ok(()),
        other => Err(wrong(format!("a pending command: {other:?}"))),
    }
}

async fn dropped_sandbox_ends(fixture: &Fixture<'_>) -> Outcome {
    let sandbox = fixture.open(SandboxSpec::default()).await?;
    let handle = Arc::clone(sandbox.handle());
    let running = pending(&handle);
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(sandbox);
    let ended = tokio::time::timeout(SOON, running).await;
    ensure!(matches!(ended, Ok(Ok(Err(SandboxError::Broken { .. })))), "pending: {ended:?}");
    must_break(&handle).await
}

async fn shut_down_sandbox_is_broken(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    let handle = Arc::clone(sandbox.handle());
    handle.shutdown().await?;
    let broken = must_break(&handle).await;
    sandbox.close().await?;
    broken
}

async fn garbage_ends_the_sandbox(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    let handle = Arc::clone(sandbox.handle());
    let running = pending(&handle);
    tokio::time::sleep(Duration::from_millis(300)).await;
    handle.send_garbage(b"\xff\xff\xff\xffGET / HTTP/1.1\r\n\r\n");
    let ended = tokio::time::timeout(SOON, running).await;
    let broken = must_break(&handle).await;
    sandbox.close().await?;
    // The agent may still report that it killed the command.
    let over = match &ended {
        Ok(Ok(Err(SandboxError::Broken { .. }))) => true,
        Ok(Ok(Ok(done))) => done.exited.signal == Some(9),
        _ => false,
    };
    ensure!(over, "pending: {ended:?}");
    broken
}
