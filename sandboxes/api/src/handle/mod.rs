//! The host's end of the channel to one sandbox agent.

mod call;
mod capture;
mod diagnostics;
mod error;
mod files;
mod forward;
mod image;
mod inbox;
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

pub use diagnostics::{Exhaustion, FailureDiagnostics};
pub use error::SandboxError;
pub use forward::{IncomingConnection, Listener};
pub use layer::{LayerState, WrittenPathLister};
pub use link::SandboxHandle;
pub use running::{CommandEvent, RunningCommand};
pub use snapshot::{BlobSink, SnapshotError};
pub use stream::SandboxStream;
