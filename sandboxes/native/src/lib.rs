//! The native back end. Builds sandboxes from namespaces, an overlay and cgroups, without a daemon.
//!
//! The runtime never forks into a sandbox itself. It executes the sandbox agent as a small helper
//! (`agentd sandbox`), sends it a layout over a socket, and then uses the same socket as the
//! channel. See `docs/design/native.md`.

mod agent;
mod archive;
mod base;
mod cache_entries;
mod cgroup;
mod cleanup;
mod ids;
mod launch;
mod layer;
mod mapped_removal;
mod mounts;
mod native;
mod owned_groups;
mod registry;
mod sandbox;
mod setup;
mod share;
mod tree;

pub use cleanup::wait_for_dropped_sandboxes;
pub use native::Native;
