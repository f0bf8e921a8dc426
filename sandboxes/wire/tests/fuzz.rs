//! Fuzzes the parsers for the channel with arbitrary bytes (docs/design/agentd.md).

use fuzz::{assert_error_text, fuzz};
use proctor_wire::{
    AcceptedConnection, Frame, FrameKind, HELLO_BYTES, RawPath, Refusal, Reply, Request, WireError,
    check_hello, fingerprint, roots,
};
use serde::{Serialize, de::DeserializeOwned};

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/seeds");

#[test]
fn channel_accepts_or_rejects_any_bytes() {
    fuzz(format!("{SEEDS}/frames"), |bytes| {
        decode_channel(bytes).map_err(check_error_text).is_ok()
    });
}

fn check_error_text(error: WireError) {
    assert_error_text(&error.to_string(), "");
}

/// Reads a hello and then frames. Encoding a frame must result in the bytes it was decoded from.
fn decode_channel(bytes: &[u8]) -> Result<(), WireError> {
    let Some((hello, mut rest)) = bytes.split_first_chunk::<HELLO_BYTES>() else {
        return Err(WireError::NotAHello);
    };
    check_hello(hello)?;
    while let Some((frame, used)) = Frame::decode(rest)? {
        assert!(used > 0 && used <= rest.len(), "{used} of {} bytes", rest.len());
        assert_eq!(frame.encode(), rest[..used]);
        rest = &rest[used..];
        match frame.kind {
            FrameKind::Open => check_body_round_trip::<Request>(&frame)?,
            FrameKind::Reply => check_body_round_trip::<Result<Reply, Refusal>>(&frame)?,
            FrameKind::Accepted => check_body_round_trip::<AcceptedConnection>(&frame)?,
            FrameKind::Data | FrameKind::Credit | FrameKind::End | FrameKind::Cancel => {}
        }
    }
    Ok(())
}

/// If a body can be parsed, it must survive a round trip.
fn check_body_round_trip<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(
    frame: &Frame,
) -> Result<(), WireError> {
    let read: T = frame.parse()?;
    let sent = Frame::json(frame.kind, frame.stream, &read)?;
    assert_eq!(sent.parse::<T>()?, read);
    Ok(())
}

#[test]
fn fingerprints_and_paths_accept_any_bytes() {
    fuzz(format!("{SEEDS}/lines"), |bytes| {
        for line in bytes.split(|byte| *byte == b'\n') {
            fingerprint::hash_line(line);
            let path = RawPath::new(line);
            assert_eq!(RawPath::parse(&path.to_escaped()), Some(path));
            let _ = RawPath::parse(&String::from_utf8_lossy(line));
            assert!(roots::repository_root(line).is_none_or(|folder| line.starts_with(folder)));
            assert!(line.starts_with(roots::package_root(line, "p/q/m")));
        }
        true
    });
}
