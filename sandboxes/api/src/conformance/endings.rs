//! How rooms end: by closing, by dropping, by garbage; and that pending work learns of it.

use std::{sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use proctor_types::SandboxSpec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    Failed,
    ground::{Ground, Outcome, ensure, must, sh, wrong},
    kit::{Check, list},
};
use crate::{Command, Completed, Room, RoomError};

pub fn checks() -> Vec<Check> {
    list![
        full connections_from_inside_come_out,
        full streams_pass_both_ways_at_once,
        full rooms_open_at_once,
        full sweeping_spares_the_living,
        quick closed_room_is_broken,
        full closing_twice_is_closing_once,
        full closing_ends_what_is_pending,
        full dropped_room_ends,
        full shut_down_room_is_broken,
        full garbage_ends_the_room,
    ]
}

const SOON: Duration = Duration::from_secs(15);

async fn connections_from_inside_come_out(ground: &Ground<'_>) -> Outcome {
    let port = ground.room.listen(0).await?;
    let program = format!(
        "import socket\ns = socket.create_connection(('127.0.0.1', {port}))\n\
         s.sendall(b'ask'); s.shutdown(socket.SHUT_WR)\n\
         n = 0\nwhile True:\n    b = s.recv(65536)\n    if not b: break\n    n += len(b)\nprint(n)"
    );
    let command = Command::new(["python3", "-c", &program]).time_limit(Duration::from_secs(20));
    let inside = ground.room.run(command);
    let outside = async {
        let mut incoming = ground.room.accept().await?;
        let mut asked = Vec::new();
        while let Some(bytes) = incoming.receive().await? {
            asked.extend(bytes);
        }
        ensure!(asked == b"ask" && incoming.port == port, "{asked:?}");
        incoming.send(&vec![b'x'; 3_000_000]).await?;
        incoming.finish();
        // Held until the other side is through with it.
        Ok::<_, Failed>(incoming)
    };
    let (inside, outside) = tokio::join!(inside, outside);
    outside?;
    let text = must(&inside?)?;
    ensure!(text == "3000000\n", "{text:?}");
    Ok(())
}

/// Neither side reads before it has written more than any buffer holds, and the host's end is dropped
/// as soon as it has written: nothing waits for ever and nothing is lost.
async fn streams_pass_both_ways_at_once(ground: &Ground<'_>) -> Outcome {
    let port = ground.room.listen(0).await?;
    let program = format!(
        "import socket\ns = socket.create_connection(('127.0.0.1', {port}))\n\
         s.sendall(b'y' * 3000000); s.shutdown(socket.SHUT_WR)\n\
         n = 0\nwhile True:\n    b = s.recv(65536)\n    if not b: break\n    n += len(b)\nprint(n)"
    );
    let command = Command::new(["python3", "-c", &program]).time_limit(Duration::from_secs(20));
    let inside = ground.room.run(command);
    let outside = async {
        let (mut reader, mut writer) = tokio::io::split(ground.room.accept().await?.into_stream());
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

async fn rooms_open_at_once(ground: &Ground<'_>) -> Outcome {
    let all = (0..3).map(|n| async move {
        let mut sandbox = ground.open(SandboxSpec::default()).await?;
        let done =
            sh(sandbox.room(), &format!("echo {n} > /tmp/own; sleep 0.5; cat /tmp/own")).await;
        sandbox.close().await?;
        let text = must(&done?)?;
        ensure!(text == format!("{n}\n"), "{text:?}");
        Ok(())
    });
    try_join_all(all).await.map(drop)
}

async fn sweeping_spares_the_living(ground: &Ground<'_>) -> Outcome {
    ground.backend.sweep().await?;
    must(&ground.sh("true").await?).map(drop)
}

/// Waits until requests fail as broken, and holds that every later one fails the same way.
async fn must_break(room: &Room) -> Outcome {
    let waiting = async {
        while room.ping().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.map_err(|_| wrong("the room still answers"))?;
    let first = room.ping().await;
    let later = room.run(Command::new(["true"])).await.map(drop);
    match (first, later) {
        (Err(RoomError::Broken { why: first }), Err(RoomError::Broken { why: later })) => {
            ensure!(first == later && !first.is_empty(), "{first:?}, then {later:?}");
            Ok(())
        }
        other => Err(wrong(format!("not broken: {other:?}"))),
    }
}

async fn closed_room_is_broken(ground: &Ground<'_>) -> Outcome {
    let mut sandbox = ground.open(SandboxSpec::default()).await?;
    let room = Arc::clone(sandbox.room());
    must(&sh(&room, "true").await?)?;
    sandbox.close().await?;
    must_break(&room).await
}

async fn closing_twice_is_closing_once(ground: &Ground<'_>) -> Outcome {
    let mut sandbox = ground.open(SandboxSpec::default()).await?;
    sandbox.close().await?;
    sandbox.close().await?;
    Ok(())
}

fn pending(room: &Arc<Room>) -> tokio::task::JoinHandle<Result<Completed, RoomError>> {
    let room = Arc::clone(room);
    tokio::spawn(async move { room.run(Command::shell("setsid sleep 1000 & sleep 1000")).await })
}

async fn closing_ends_what_is_pending(ground: &Ground<'_>) -> Outcome {
    let mut sandbox = ground.open(SandboxSpec::default()).await?;
    let running = pending(sandbox.room());
    tokio::time::sleep(Duration::from_millis(300)).await;
    sandbox.close().await?;
    let ended = tokio::time::timeout(SOON, running).await;
    match ended {
        Ok(Ok(Err(RoomError::Broken { .. }))) => Ok(()),
        other => Err(wrong(format!("a pending command: {other:?}"))),
    }
}

async fn dropped_room_ends(ground: &Ground<'_>) -> Outcome {
    let sandbox = ground.open(SandboxSpec::default()).await?;
    let room = Arc::clone(sandbox.room());
    let running = pending(&room);
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(sandbox);
    let ended = tokio::time::timeout(SOON, running).await;
    ensure!(matches!(ended, Ok(Ok(Err(RoomError::Broken { .. })))), "pending: {ended:?}");
    must_break(&room).await
}

async fn shut_down_room_is_broken(ground: &Ground<'_>) -> Outcome {
    let mut sandbox = ground.open(SandboxSpec::default()).await?;
    let room = Arc::clone(sandbox.room());
    room.shutdown().await?;
    let broken = must_break(&room).await;
    sandbox.close().await?;
    broken
}

async fn garbage_ends_the_room(ground: &Ground<'_>) -> Outcome {
    let mut sandbox = ground.open(SandboxSpec::default()).await?;
    let room = Arc::clone(sandbox.room());
    let running = pending(&room);
    tokio::time::sleep(Duration::from_millis(300)).await;
    room.send_garbage(b"\xff\xff\xff\xffGET / HTTP/1.1\r\n\r\n");
    let ended = tokio::time::timeout(SOON, running).await;
    let broken = must_break(&room).await;
    sandbox.close().await?;
    // The agent may still say that it killed the command.
    let over = match &ended {
        Ok(Ok(Err(RoomError::Broken { .. }))) => true,
        Ok(Ok(Ok(done))) => done.exited.signal == Some(9),
        _ => false,
    };
    ensure!(over, "pending: {ended:?}");
    broken
}
