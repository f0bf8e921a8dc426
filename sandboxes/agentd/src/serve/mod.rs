//! Serves requests over a byte stream with one reader thread, one writer thread, and a thread per
//! open stream.

mod beneath;
mod dispatch;
mod entries;
mod eviction;
mod files;
mod forward;
mod outbox;
mod proc_file;
mod processes;
mod reaper;
mod refusal;
mod remove;
mod run;
mod scan;
mod search;
mod server;
mod snapshot;
mod spawn;
mod start;
mod stream;
mod users;

pub use snapshot::remember_upper;
pub use start::{serve, serve_stdio};
