//! Lets workers on several machines share work through files in one directory. This needs no server
//! and no kernel locks. Every decision is a single `link` or `rename`, and both are atomic on NFS,
//! Lustre and local file systems.
//!
//! - [`Membership`]: a worker's file in `workers/`, whose modification time is its heartbeat by the
//!   file server's clock.
//! - [`Claims`]: the owner of each key, as a chain of files in `claims/`. The newest file of a
//!   chain names the owner.
//! - [`Pool`]: a limit that workers share, as a chain of states in `shares/`. A worker replaces the
//!   newest state.
//!
//! A worker is presumed dead when its heartbeat is older than its lease, or immediately if it ran
//! on this machine and its process is gone. Its claims and reservations are then free.

mod claim_chain;
mod claims;
mod clock;
mod disk;
mod files;
mod members;
mod pool;
mod process;
mod register;

pub use claims::{Claim, ClaimResult, Claims};
pub use clock::server_time;
pub use members::{Member, Membership, find_live_member, live_members, members};
pub use pool::{Amounts, Limits, Pool, PoolReservation, ReservationError};

/// The directory of heartbeats.
pub const WORKERS: &str = "workers";
/// The directory of claims.
pub const CLAIMS: &str = "claims";
/// The directory of shared limits.
pub const SHARES: &str = "shares";
