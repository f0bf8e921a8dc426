//! Tests the host's side of the channel against a scripted agent.

use std::{sync::Arc, time::Duration};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::{SandboxError, SandboxHandle};
use crate::{
    Command,
    wire::{
        BODY_LIMIT, CommandExit, Frame, FrameKind, HELLO_BYTES, INITIAL_CREDIT, RawPath, Refusal,
        Reply, channel, hello,
    },
};

/// The agent's side of the channel, controlled by the test.
struct FakeAgent {
    stream: DuplexStream,
    buffer: Vec<u8>,
}

impl FakeAgent {
    async fn next_frame(&mut self) -> Frame {
        loop {
            if let Some((frame, length)) = Frame::decode(&self.buffer).unwrap() {
                self.buffer.drain(..length);
                return frame;
            }
            let mut chunk = vec![0; 1 << 16];
            let read = self.stream.read(&mut chunk).await.unwrap();
            assert!(read > 0, "the host closed the channel");
            self.buffer.extend_from_slice(&chunk[..read]);
        }
    }

    async fn send(&mut self, frame: Frame) {
        self.stream.write_all(&frame.encode()).await.unwrap();
    }

    async fn reply(&mut self, stream: u32, reply: Reply) {
        let answer: Result<Reply, Refusal> = Ok(reply);
        self.send(Frame::json(FrameKind::Reply, stream, &answer).unwrap()).await;
    }
}

async fn connect_pair() -> (Arc<SandboxHandle>, FakeAgent) {
    let (host, mut agent) = duplex(4 << 20);
    agent.write_all(&hello()).await.unwrap();
    let (reader, writer) = tokio::io::split(host);
    let handle = SandboxHandle::connect(reader, writer).await.unwrap();
    let mut theirs = [0; HELLO_BYTES];
    agent.read_exact(&mut theirs).await.unwrap();
    assert_eq!(theirs, hello());
    (handle, FakeAgent { stream: agent, buffer: Vec::new() })
}

fn spawn_run(
    handle: &Arc<SandboxHandle>,
) -> tokio::task::JoinHandle<Result<crate::CommandOutput, SandboxError>> {
    let handle = Arc::clone(handle);
    tokio::spawn(async move { handle.run(Command::shell("true")).await })
}

fn broken_reason<T: std::fmt::Debug>(result: Result<T, SandboxError>) -> String {
    match result {
        Err(SandboxError::Broken { reason: why }) => why,
        other => panic!("not broken: {other:?}"),
    }
}

#[tokio::test]
async fn command_gets_default_variables() {
    let (handle, _agent) = connect_pair().await;
    let variables = [("OMP_NUM_THREADS", "2"), ("MAKEFLAGS", "-j2")];
    handle
        .set_default_env(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    let command = handle.with_default_env(Command::shell("true").env("MAKEFLAGS", "-k"));
    assert_eq!(command.env["OMP_NUM_THREADS"], RawPath::from("2"));
    assert_eq!(command.env["MAKEFLAGS"], RawPath::from("-k"));
}

#[tokio::test]
async fn connect_rejects_other_protocols() {
    for (bytes, sign) in [
        (&b"HTTP/1.1 200"[..], "does not begin with a Proctor hello"),
        (b"PRCT\0\x63", "uses protocol version 99"),
        (b"PRC", "no hello from the sandbox agent"),
    ] {
        let (host, mut agent) = duplex(1 << 16);
        agent.write_all(bytes).await.unwrap();
        agent.shutdown().await.unwrap();
        let (reader, writer) = tokio::io::split(host);
        let why = broken_reason(SandboxHandle::connect(reader, writer).await.map(drop));
        assert!(why.contains(sign), "{why}");
    }
}

#[tokio::test]
async fn requests_fail_with_the_same_error_after_the_end() {
    let (handle, mut agent) = connect_pair().await;
    let pending = spawn_run(&handle);
    agent.next_frame().await;
    drop(agent);
    let first = broken_reason(pending.await.unwrap());
    assert_eq!(first, "the stream ended");
    assert_eq!(broken_reason(handle.ping().await), first);
    assert_eq!(handle.broken_reason(), Some(first));
}

#[tokio::test]
async fn agent_protocol_violations_end_the_channel() {
    let data = |stream, channel| Frame::data(stream, channel, b"x").encode();
    let exited = serde_json::to_vec(&Ok::<_, Refusal>(Reply::Done)).unwrap();
    let mut long = (BODY_LIMIT as u32 + 1).to_be_bytes().to_vec();
    long.extend([2, 0, 0, 0, 2]);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![0xff; 64], "exceeds the limit"),
        (long, "exceeds the limit"),
        (vec![0, 0, 0, 0, 77, 0, 0, 0, 2], "unknown frame kind 77"),
        (data(4, channel::STDOUT), "not open"),
        (data(2, 9), "not a channel"),
        (Frame::new(FrameKind::Data, 2, []).encode(), "no channel"),
        (
            Frame::new(FrameKind::Open, 2, *b"{}").encode(),
            "only the host may send messages of this kind",
        ),
        (Frame::new(FrameKind::Credit, 2, [1]).encode(), "exactly 4 bytes"),
        (Frame::new(FrameKind::Reply, 2, *b"{nonsense").encode(), "invalid Reply frame body"),
        (Frame::new(FrameKind::Reply, 2, exited).encode(), "expected the reply to a command"),
        (
            Frame::new(FrameKind::Accepted, 4, *b"{\"port\":1}").encode(),
            "expected a new odd stream",
        ),
        (data(2, channel::RESULTS), "unrequested results"),
    ];
    for (bytes, sign) in cases {
        let (handle, mut agent) = connect_pair().await;
        let pending = spawn_run(&handle);
        assert_eq!(agent.next_frame().await.stream, 2);
        agent.stream.write_all(&bytes).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(5), pending).await;
        let first = broken_reason(ended.expect("the request must not hang").unwrap());
        assert!(first.contains(sign), "{first:?} does not say {sign:?}");
    }
}

#[tokio::test]
async fn random_bytes_cause_no_panic_or_hang() {
    for seed in 0..200u64 {
        let (handle, mut agent) = connect_pair().await;
        let pending = spawn_run(&handle);
        agent.next_frame().await;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        let bytes: Vec<u8> = (0..400)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Small numbers, so that some frames are almost valid.
                if state & 3 == 0 { (state >> 32) as u8 } else { (state >> 40) as u8 & 7 }
            })
            .collect();
        agent.stream.write_all(&bytes).await.unwrap();
        drop(agent);
        let ended = tokio::time::timeout(Duration::from_secs(5), pending).await;
        broken_reason(ended.expect("the request must not hang").unwrap());
    }
}

#[tokio::test]
async fn data_without_credit_ends_the_channel() {
    let (handle, mut agent) = connect_pair().await;
    // Open a stream whose owner does not read. The host then grants no new credit for it.
    let file = RawPath::from("/f");
    let request = handle.read(&file, u64::MAX);
    let mut request = Box::pin(request);
    let polled = tokio::time::timeout(Duration::from_millis(50), &mut request).await;
    assert!(polled.is_err());
    let stream = agent.next_frame().await.stream;
    let piece = vec![0; BODY_LIMIT - 1];
    for _ in 0..=INITIAL_CREDIT as usize / piece.len() {
        agent.send(Frame::data(stream, channel::STDOUT, &piece)).await;
    }
    for _ in 0..100 {
        if handle.broken_reason().is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(handle.broken_reason().unwrap_or_default().contains("more data than credited"));
}

#[tokio::test]
async fn credit_is_enforced_in_both_directions() {
    let (handle, mut agent) = connect_pair().await;
    let writing = {
        let handle = Arc::clone(&handle);
        tokio::spawn(
            async move { handle.write(&RawPath::from("/f"), &vec![7; 3 << 20], None).await },
        )
    };
    let stream = agent.next_frame().await.stream;
    let mut received = 0;
    while received < INITIAL_CREDIT as usize {
        let frame = agent.next_frame().await;
        assert_eq!(frame.kind, FrameKind::Data);
        received += frame.body.len() - 1;
    }
    assert_eq!(received, INITIAL_CREDIT as usize, "no byte beyond the credit");
    let more = tokio::time::timeout(Duration::from_millis(100), agent.next_frame()).await;
    assert!(more.is_err(), "sent without credit: {:?}", more.unwrap().kind);
    agent.send(Frame::new(FrameKind::Credit, stream, (2u32 << 20).to_be_bytes())).await;
    while received < 3 << 20 {
        received += agent.next_frame().await.body.len() - 1;
    }
    assert_eq!(agent.next_frame().await.kind, FrameKind::End);
    agent.reply(stream, Reply::Done).await;
    writing.await.unwrap().unwrap();
}

#[tokio::test]
async fn dropped_request_is_cancelled_and_late_data_is_ignored() {
    let (handle, mut agent) = connect_pair().await;
    let pending = spawn_run(&handle);
    let stream = agent.next_frame().await.stream;
    pending.abort();
    let frame = agent.next_frame().await;
    assert_eq!((frame.kind, frame.stream), (FrameKind::Cancel, stream));
    agent.send(Frame::data(stream, channel::STDOUT, b"late")).await;
    agent.reply(stream, Reply::Exited(CommandExit::default())).await;
    // The host grants credit even for data that nothing reads, so that the agent never blocks.
    assert_eq!(agent.next_frame().await.kind, FrameKind::Credit);
    let later = spawn_run(&handle);
    let stream = agent.next_frame().await.stream;
    agent
        .reply(stream, Reply::Exited(CommandExit { code: Some(0), ..CommandExit::default() }))
        .await;
    assert!(later.await.unwrap().unwrap().success());
}

#[tokio::test]
async fn oversized_request_is_rejected_and_sandbox_survives() {
    let (handle, mut agent) = connect_pair().await;
    let long = "x".repeat(BODY_LIMIT);
    let refused = handle.run(Command::new(["echo", &long])).await;
    assert!(matches!(refused, Err(SandboxError::Refused(_))));
    let later = spawn_run(&handle);
    let frame = agent.next_frame().await;
    assert_eq!(frame.kind, FrameKind::Open, "nothing was sent for the rejected request");
    agent.reply(frame.stream, Reply::Exited(CommandExit::default())).await;
    later.await.unwrap().unwrap();
}
