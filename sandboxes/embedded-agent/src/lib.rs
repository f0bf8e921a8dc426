//! Embeds the sandbox agent as bytes.
//!
//! Only crates that start an agent depend on this crate, because building it needs `libc.a` and a
//! nested cargo. Other crates get the agent's digest from their back end.

use std::sync::LazyLock;

/// Changes with the agent's sources, so that cargo re-expands the macro.
const _: &str = env!("AGENT_SOURCES");

const AGENT: &[u8] = proctor_agent_build::agent!();

/// The length of the agent in bytes; 0 if this build contains no agent.
pub const AGENT_BYTES: usize = AGENT.len();

/// Returns the static `agentd` program for the target architecture.
pub fn agent() -> &'static [u8] {
    AGENT
}

/// Returns the agent's SHA-256 in hex, which identifies the agent in caches.
pub fn agent_digest() -> &'static str {
    static DIGEST: LazyLock<String> = LazyLock::new(|| proctor_types::sha256_hex(AGENT));
    &DIGEST
}

#[cfg(test)]
mod tests {
    use super::{AGENT_BYTES, agent, agent_digest};

    #[test]
    fn agent_is_an_elf_file_of_the_declared_length() {
        assert_eq!(agent().len(), AGENT_BYTES);
        assert_eq!(&agent()[..4], b"\x7fELF");
        assert_eq!(agent_digest().len(), 64);
    }
}
