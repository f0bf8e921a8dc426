//! Lets workers on several machines share work through files in one directory. This needs no server
//! and no kernel locks. Every decision is a single `link` or `rename`, and both are atomic on NFS,
//! Lustre and local file systems.
//!
//! - [`Membership`]: a worker's file in `workers/`, whose modification time is its heartbeat by the
//!   file server's clock.
//! - [`Claims`]: the ownership of keys. Each key has a chain of files in `claims/`, and the newest
//!   file names the key's owner.
//! - [`Pool`]: a limit that workers share. The limit has a sequence of states in `shares/`, and a
//!   worker changes it by adding a new state.
//!
//! A worker is presumed dead when its heartbeat is older than its lease, or immediately if it ran
//! on this machine and its process is gone. Other workers can then take over its claims, and its
//! reservations are released.

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
pub use members::{Member, Membership, find_live_member, find_live_members, read_members};
pub use pool::{Amounts, Limits, Pool, PoolReservation, ReservationError};

/// The subdirectory with the workers' files, which serve as heartbeats.
pub const WORKERS_DIR: &str = "workers";
/// The subdirectory with the claims.
pub const CLAIMS_DIR: &str = "claims";
/// The subdirectory with the shared limits.
pub const SHARES_DIR: &str = "shares";
