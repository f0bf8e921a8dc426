//! The host's end of the channel to one sandbox agent.

mod call;
mod capture;
mod error;
mod files;
mod forward;
mod image;
mod layer;
mod link;
mod queries;
mod run;
mod running;
mod scan;
mod snapshot;
mod stream;
#[cfg(test)]
mod tests;
mod witness;

pub use error::SandboxError;
pub use forward::{Incoming, Listener};
pub use layer::{LayerState, WrittenPaths};
pub use link::SandboxHandle;
pub use running::{Running, Said};
pub use snapshot::{BlobSink, SnapshotError};
pub use stream::SandboxStream;
pub use witness::{Exhausted, Witness};
