//! The sandbox agent as bytes, built by `build.rs`.
//!
//! A crate of its own, as its build starts a nested cargo and needs `libc.a`: only who starts an agent
//! waits for that. Everyone else asks a back end for the agent's name.

/// The static `agentd` for this machine's architecture.
pub static AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agentd"));

/// A stable name of the carried agent: SHA-256 of its bytes, hex.
pub fn agent_digest() -> String {
    proctor_types::sha256_hex(AGENT)
}
