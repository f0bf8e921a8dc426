//! The protocol of the channel between the runtime and the sandbox agent.
//!
//! ```text
//! stream  = hello frame*                     ; each side sends its hello first
//! hello   = "PRCT" version:u16               ; big-endian, as are all numbers
//! frame   = length:u32 kind:u8 stream:u32 body   ; length counts the body only, <= BODY_LIMIT
//! kind    = 1 open     host -> agent  body = JSON Request; opens an even stream, never 0
//!         | 2 data     both           body = channel:u8 bytes
//!         | 3 credit   both           body = bytes:u32; the other side may send that many more
//!         | 4 end      both           body = channel:u8; no more data on that channel
//!         | 5 reply    agent -> host  body = JSON Result<Reply, Refusal>; closes the stream
//!         | 6 cancel   host -> agent  body empty; the agent still replies
//!         | 7 accepted agent -> host  body = JSON AcceptedConnection; opens an odd stream
//! ```
//!
//! A stream starts with [`INITIAL_CREDIT`] bytes of credit in each direction. Any protocol
//! violation closes the channel with a [`WireError`]. No byte sequence may make a reader panic or
//! hang.

#![warn(missing_docs)]

mod defense;
mod escapes;
pub mod fingerprint;
mod frame;
mod layout;
mod path;
mod request;
pub mod roots;
mod scan;

pub use defense::Defense;
pub use frame::{
    BODY_LIMIT, Frame, FrameKind, HELLO_BYTES, INITIAL_CREDIT, VERSION, WireError, channel,
    check_hello, hello,
};
pub use layout::{
    BindMount, HiddenPaths, IdMap, IdRange, LayoutReport, MAX_LAYOUT_BYTES, Removal, SandboxLayout,
    UpperLayer,
};
pub use path::RawPath;
pub use request::*;
pub use scan::*;
