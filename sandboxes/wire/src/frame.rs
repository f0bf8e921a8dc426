//! Frames, which consist of a length, a kind, a stream and a body.

use std::fmt;

/// The protocol version. Increment it with every change that an older version would misread,
/// including changes to text fingerprints.
pub const VERSION: u16 = 3;

/// Maximum length of a frame's body in bytes.
pub const BODY_LIMIT: usize = 1 << 20;

/// How many bytes of data each side may send on a new stream before it receives more credit.
pub const INITIAL_CREDIT: u32 = 1 << 20;

/// Length of a hello in bytes.
pub const HELLO_BYTES: usize = 6;

const MAGIC: &[u8; 4] = b"PRCT";
const HEADER_BYTES: usize = 9;

/// The channels of a stream. The first byte in the body of a data or end frame is one of them.
pub mod channel {
    /// Host to agent: standard input, or the content of a file to write.
    pub const STDIN: u8 = 0;
    /// Agent to host: standard output, a file's content, or a snapshot's blobs.
    pub const STDOUT: u8 = 1;
    /// Agent to host: standard error.
    pub const STDERR: u8 = 2;
    /// Agent to host: the content of the results pipe.
    pub const RESULTS: u8 = 3;
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Host to agent: opens a stream. The body is a [`crate::Request`] as JSON.
    Open,
    /// Both directions: data on a channel. The body is the channel and then the bytes, which use up
    /// credit.
    Data,
    /// Both directions: grants credit. The body is the number of additional bytes that the other
    /// side may send, as a big-endian `u32`.
    Credit,
    /// Both directions: no more data follows on this channel.
    End,
    /// Agent to host: ends a request and closes its stream. The body is a [`crate::Reply`] or a
    /// [`crate::Refusal`] as JSON.
    Reply,
    /// Host to agent: cancels a request. If it is a running command, the agent kills the command.
    Cancel,
    /// Agent to host: opens a stream for a new connection. The body is an
    /// [`crate::AcceptedConnection`] as JSON.
    Accepted,
}

impl FrameKind {
    fn code(self) -> u8 {
        self as u8 + 1
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Open, Self::Data, Self::Credit, Self::End, Self::Reply, Self::Cancel, Self::Accepted]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// One frame: `length:u32 kind:u8 stream:u32 body`, big-endian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// The stream's number, chosen by the side that opens the stream.
    pub stream: u32,
    /// The body, at most [`BODY_LIMIT`] bytes.
    pub body: Vec<u8>,
}

/// How the other side violated the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// The stream does not start with a hello.
    NotAHello,
    /// The two sides use different protocol versions.
    VersionMismatch {
        /// The version that the other side sent.
        peer_version: u16,
    },
    /// A frame's body is longer than [`BODY_LIMIT`].
    TooLong {
        /// The length that the header specifies.
        length: usize,
    },
    /// This version does not know the frame's kind.
    UnknownKind {
        /// The byte that specifies the kind.
        code: u8,
    },
    /// The body is invalid for the frame's kind.
    InvalidBody {
        /// The kind of the frame.
        kind: FrameKind,
        /// What is wrong with the body, at most 400 characters.
        reason: String,
    },
    /// The frame's stream is not open, or the frame contains more data than the credit allows.
    InvalidStream {
        /// The stream's number.
        stream: u32,
        /// What is wrong with the frame.
        reason: &'static str,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAHello => write!(f, "the stream does not begin with a Proctor hello"),
            Self::VersionMismatch { peer_version: theirs } => {
                write!(f, "the other side uses protocol version {theirs}, this side {VERSION}")
            }
            Self::TooLong { length } => {
                write!(f, "a frame of {length} bytes exceeds the limit of {BODY_LIMIT}")
            }
            Self::UnknownKind { code } => write!(f, "unknown frame kind {code}"),
            Self::InvalidBody { kind, reason: why } => {
                write!(f, "invalid {kind:?} frame body: {why}")
            }
            Self::InvalidStream { stream, reason: why } => write!(f, "stream {stream}: {why}"),
        }
    }
}

impl std::error::Error for WireError {}

/// Maximum length of a parser's error message, in characters.
const MAX_ERROR_CHARS: usize = 400;

impl WireError {
    /// Creates an error from the parser's message. Truncates the message, because it may quote the
    /// whole body.
    fn invalid_body(kind: FrameKind, error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        Self::InvalidBody { kind, reason: clean.take(MAX_ERROR_CHARS).collect() }
    }
}

/// Returns this side's hello.
pub fn hello() -> [u8; HELLO_BYTES] {
    let version = VERSION.to_be_bytes();
    [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], version[0], version[1]]
}

/// Checks the other side's hello.
pub fn check_hello(bytes: &[u8; HELLO_BYTES]) -> Result<(), WireError> {
    if &bytes[..4] != MAGIC {
        return Err(WireError::NotAHello);
    }
    match u16::from_be_bytes([bytes[4], bytes[5]]) {
        VERSION => Ok(()),
        theirs => Err(WireError::VersionMismatch { peer_version: theirs }),
    }
}

impl Frame {
    /// Creates a frame with an arbitrary body.
    pub fn new(kind: FrameKind, stream: u32, body: impl Into<Vec<u8>>) -> Self {
        Self { kind, stream, body: body.into() }
    }

    /// Creates a data frame: the channel, then the bytes.
    pub fn data(stream: u32, channel: u8, bytes: &[u8]) -> Self {
        let mut body = Vec::with_capacity(bytes.len() + 1);
        body.push(channel);
        body.extend_from_slice(bytes);
        Self { kind: FrameKind::Data, stream, body }
    }

    /// Creates a frame whose body is JSON.
    pub fn json(
        kind: FrameKind,
        stream: u32,
        value: &impl serde::Serialize,
    ) -> Result<Self, WireError> {
        let body =
            serde_json::to_vec(value).map_err(|error| WireError::invalid_body(kind, &error))?;
        if body.len() > BODY_LIMIT {
            return Err(WireError::TooLong { length: body.len() });
        }
        Ok(Self { kind, stream, body })
    }

    /// Parses a JSON body.
    pub fn parse<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, WireError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| WireError::invalid_body(self.kind, &error))
    }

    /// Encodes the frame. The body must not exceed [`BODY_LIMIT`].
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.body.len() <= BODY_LIMIT);
        let mut out = Vec::with_capacity(HEADER_BYTES + self.body.len());
        out.extend_from_slice(&(self.body.len() as u32).to_be_bytes());
        out.push(self.kind.code());
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.extend_from_slice(&self.body);
        out
    }

    /// Decodes the frame at the start of `buffer`. Returns it with its encoded length, or
    /// `Ok(None)` if more bytes are needed. Checks the length before the body arrives, so that a
    /// false length cannot make a reader allocate memory.
    pub fn decode(buffer: &[u8]) -> Result<Option<(Self, usize)>, WireError> {
        let Some(header) = buffer.get(..HEADER_BYTES) else { return Ok(None) };
        let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if length > BODY_LIMIT {
            return Err(WireError::TooLong { length });
        }
        let kind =
            FrameKind::from_code(header[4]).ok_or(WireError::UnknownKind { code: header[4] })?;
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let Some(body) = buffer.get(HEADER_BYTES..HEADER_BYTES + length) else { return Ok(None) };
        Ok(Some((Self { kind, stream, body: body.to_vec() }, HEADER_BYTES + length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_name_the_protocol_version() {
        let page = include_str!("../../../docs/design/agentd.md");
        assert!(page.contains(&format!("the version is {VERSION}\n")), "docs/design/agentd.md");
    }

    #[test]
    fn frames_round_trip_and_incomplete_frames_wait() {
        let frame = Frame::data(2, channel::STDOUT, b"hello");
        let bytes = frame.encode();
        for cut in 0..bytes.len() {
            assert_eq!(Frame::decode(&bytes[..cut]), Ok(None));
        }
        assert_eq!(Frame::decode(&bytes), Ok(Some((frame, bytes.len()))));
    }

    #[test]
    fn invalid_hellos_and_frames_return_specific_errors() {
        assert_eq!(check_hello(b"HTTP/1"), Err(WireError::NotAHello));
        assert_eq!(check_hello(b"PRCT\0\x09"), Err(WireError::VersionMismatch { peer_version: 9 }));
        assert!(matches!(Frame::decode(&[0xff; 16]), Err(WireError::TooLong { .. })));
        assert!(matches!(
            Frame::decode(&[0, 0, 0, 0, 99, 0, 0, 0, 0]),
            Err(WireError::UnknownKind { code: 99 })
        ));
    }
}
