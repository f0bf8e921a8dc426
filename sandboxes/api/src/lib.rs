//! What a sandbox is: a place where commands run, reached through its room agent and nothing else.
//!
//! A [`Backend`] builds environments and opens sandboxes; a [`Sandbox`] is one open room; a
//! [`Room`] is the host's end of the channel to its agent. Every back end passes the one
//! conformance kit.

mod agent;
pub mod attacks;
mod backend;
mod command;
pub mod conformance;
mod enforcement;
pub mod host_base;
mod machine;
mod room;

pub use agent::{AGENT, agent_digest};
pub use backend::{Backend, Base, LayerSpec, Prepared, RoomSpec, Sandbox, SourceTree};
pub use command::{Captured, Command, Completed};
pub use enforcement::{Enforcement, mend_of};
pub use machine::Machine;
pub use proctor_wire as wire;
pub use room::{Incoming, Room, RoomError, RoomStream};
