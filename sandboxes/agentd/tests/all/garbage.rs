//! Tests that a protocol violation ends the agent with a specific error, and without a panic, a
//! hang or a signal.

#![expect(clippy::unwrap_used, reason = "a failure here fails a test")]

use std::process::{Command, Stdio};

use proctor_wire::{BODY_LIMIT, Frame, FrameKind, Request, channel, hello};

use crate::support::{Agent, is_running, shell_request, wait_until};

/// Sends the bytes and returns the exit code and the error output. If `sends_hello` is set, sends a
/// valid hello first.
fn run_agent_on(bytes: &[u8], sends_hello: bool) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentd"));
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut agent = Agent::spawn(command.arg("serve").stderr(Stdio::from(log.reopen().unwrap())));
    if sends_hello {
        agent.send_raw(&hello());
    }
    agent.send_raw(bytes);
    agent.hang_up();
    let code = agent.wait_for_exit().code();
    (code, std::fs::read_to_string(log.path()).unwrap())
}

#[test]
fn protocol_violations_end_the_agent_with_a_specific_error() {
    let ping = Frame::json(FrameKind::Open, 2, &Request::Ping).unwrap();
    let write = Frame::new(
        FrameKind::Open,
        2,
        *br#"{"do":"run","argv":["/bin/cat"],"cwd":"/","env":{},"stdin":true,"results":false,
            "time_limit_ms":null,"user":null,"reap_all":false}"#,
    );
    let flood = Frame::data(2, channel::STDIN, &vec![0; BODY_LIMIT - 1]);
    let mut unknown = ping.clone().encode();
    unknown[4] = 99;
    let mut long = ping.clone().encode();
    long[0] = 0xff;
    let cases: [(&[Frame], &[u8], &str); 12] = [
        (&[], &unknown, "unknown frame kind 99"),
        (&[], &long, "exceeds the limit"),
        (&[Frame::new(FrameKind::Open, 2, *b"{}")], b"", "invalid Open frame body"),
        (&[Frame::new(FrameKind::Open, 2, *b"\xff")], b"", "invalid Open frame body"),
        (&[Frame { stream: 3, ..ping.clone() }], b"", "open even streams"),
        (&[Frame { stream: 0, ..ping.clone() }], b"", "open even streams"),
        (&[Frame::new(FrameKind::Reply, 2, *b"{}")], b"", "only an agent may send this"),
        (&[Frame::data(2, channel::STDIN, b"x")], b"", "never opened"),
        (&[write.clone(), write.clone()], b"", "opened twice"),
        (&[write.clone(), Frame::data(2, channel::STDOUT, b"x")], b"", "not a channel"),
        (&[write.clone(), Frame::new(FrameKind::Credit, 2, *b"123")], b"", "exactly 4 bytes"),
        (&[write.clone(), Frame::new(FrameKind::Data, 2, *b"")], b"", "no channel"),
    ];
    for (frames, tail, words) in cases {
        let mut bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        bytes.extend_from_slice(tail);
        let (code, said) = run_agent_on(&bytes, true);
        assert_eq!(code, Some(76), "{words}: {said}");
        assert!(said.contains(words), "{said:?} does not say {words:?}");
    }
    // Send a command more data than the credit allows. The command does not read it.
    let stop = Frame::new(
        FrameKind::Open,
        2,
        *br#"{"do":"run","argv":["/bin/sleep","7060"],"cwd":"/","env":{},"stdin":true,
            "results":false,"time_limit_ms":null,"user":null,"reap_all":false}"#,
    );
    let bytes: Vec<u8> =
        [&stop, &flood, &flood, &flood].into_iter().flat_map(Frame::encode).collect();
    let (code, said) = run_agent_on(&bytes, true);
    assert_eq!(code, Some(76), "{said}");
    assert!(said.contains("more data than credited"), "{said}");
    assert!(!is_running("7060"));
}

#[test]
fn wrong_hello_ends_the_agent_with_a_specific_error() {
    let (code, said) = run_agent_on(b"GET / HTTP/1.1\r\n\r\n", false);
    assert_eq!(code, Some(76));
    assert!(said.contains("does not begin with a Proctor hello"), "{said}");
    let (code, said) = run_agent_on(b"PRCT\0\x63", false);
    assert_eq!(code, Some(76));
    assert!(said.contains("version 99"), "{said}");
}

#[test]
fn truncated_stream_counts_as_ended() {
    let ping = Frame::json(FrameKind::Open, 2, &Request::Ping).unwrap().encode();
    for cut in [0, 1, 8, 9, ping.len() - 1, ping.len()] {
        assert_eq!(run_agent_on(&ping[..cut], true).0, Some(0), "{cut}");
    }
}

/// A small random generator with a fixed seed, so that failures are reproducible.
struct RandomBytes(u64);

impl RandomBytes {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn random_bytes_never_panic_or_hang_the_agent() {
    let mut noise = RandomBytes(0x9e37_79b9_7f4a_7c15);
    for round in 0..150 {
        let mut bytes = Vec::new();
        if round % 3 == 0 {
            bytes.extend((0..noise.next() % 4000).map(|_| noise.next() as u8));
        } else {
            // Send almost valid frames: the headers are valid, but the bodies and stream numbers
            // are random.
            for _ in 0..noise.next() % 20 {
                let body: Vec<u8> = match noise.next() % 4 {
                    0 => br#"{"do":"ping"}"#.to_vec(),
                    1 => br#"{"do":"stat","path":"/tmp"}"#.to_vec(),
                    2 => br#"{"do":"read","path":"/etc/passwd","offset":9,"limit":99999}"#.to_vec(),
                    _ => (0..noise.next() % 40).map(|_| noise.next() as u8).collect(),
                };
                bytes.extend((body.len() as u32).to_be_bytes());
                bytes.push((noise.next() % 9) as u8);
                bytes.extend(((noise.next() % 6) as u32).to_be_bytes());
                bytes.extend(body);
            }
        }
        let (code, said) = run_agent_on(&bytes, round % 7 != 0 || bytes.is_empty());
        assert!(matches!(code, Some(0 | 76)), "round {round}: {code:?} {said} {bytes:?}");
        assert!(!said.contains("panicked"), "round {round}: {said}");
    }
}

#[test]
fn protocol_violation_kills_the_sandbox() {
    let mut agent = Agent::start();
    agent.open_stream(&Request::Run(shell_request("setsid sleep 7070 & sleep 7071")));
    assert!(wait_until(|| is_running("7070") && is_running("7071")));
    agent.send_raw(&[0xff; 64]);
    assert_eq!(agent.wait_for_exit().code(), Some(76));
    assert!(!is_running("7070") && !is_running("7071"));
}
