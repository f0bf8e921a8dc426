//! The host's end of the channel to one room agent.

mod call;
mod capture;
mod error;
mod files;
mod forward;
mod link;
mod look;
mod run;
mod scan;
mod snapshot;
mod stream;
#[cfg(test)]
mod tests;

pub use error::RoomError;
pub use forward::Incoming;
pub use link::Room;
pub use stream::RoomStream;
