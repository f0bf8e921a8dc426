//! The sandbox agent's bytes, built by `build.rs` and carried in the runtime.

/// The static `agentd` for this machine's architecture.
pub static AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agentd"));

/// A stable name of the carried agent: SHA-256 of its bytes, hex.
pub fn agent_digest() -> String {
    proctor_types::sha256_hex(AGENT)
}
