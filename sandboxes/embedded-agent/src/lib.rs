//! The sandbox agent as bytes, built and packed by `build.rs`.
//!
//! A crate of its own, as its build starts a nested cargo and needs `libc.a`: only who starts an agent
//! waits for that. Everyone else asks a back end for the agent's name.

use std::sync::LazyLock;

/// By LZMA: a third of the agent's bytes, where deflating leaves two fifths.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agentd.lzma"));

/// The length of the agent in bytes, without unpacking it.
pub const AGENT_BYTES: usize = include!(concat!(env!("OUT_DIR"), "/agentd.length"));

/// The static `agentd` for this machine's architecture. The first call unpacks it, in about 0.2 s.
///
/// # Panics
/// The packed bytes are damaged, which only a damaged build brings about.
pub fn agent() -> &'static [u8] {
    static AGENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut agent = Vec::with_capacity(AGENT_BYTES);
        #[expect(clippy::expect_used, reason = "build.rs packed these bytes")]
        lzma_rs::lzma_decompress(&mut &PACKED[..], &mut agent).expect("the agent unpacks");
        agent
    });
    &AGENT
}

/// A stable name of the carried agent: SHA-256 of its packed bytes, hex. Nothing is unpacked for it, so
/// that a runtime whose cache holds the agent pays nothing at its start.
pub fn agent_digest() -> &'static str {
    static DIGEST: LazyLock<String> = LazyLock::new(|| proctor_types::sha256_hex(PACKED));
    &DIGEST
}

#[cfg(test)]
mod tests {
    use super::{AGENT_BYTES, agent, agent_digest};

    #[test]
    fn the_agent_unpacks_to_a_program_of_its_length() {
        assert_eq!(agent().len(), AGENT_BYTES);
        assert_eq!(&agent()[..4], b"\x7fELF");
        assert_eq!(agent_digest().len(), 64);
    }
}
