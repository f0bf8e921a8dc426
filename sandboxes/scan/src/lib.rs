//! Scans files, archives, bytecode and repositories for hidden content, based on fingerprints. The
//! sandbox agent scans inside a sandbox; the host scans directories that it mounts into sandboxes.

mod ar;
mod bytecode;
mod content;
mod embedded;
mod encoded;
mod expand;
mod line_numbers;
mod modules;
mod pack;
mod secrets;
mod tar;
mod text;
mod walk;
mod windows;
mod zip;

pub use windows::WindowSet;

use std::time::Instant;

use proctor_wire::{Refusal, ScanReply, ScanRequest, Secrets};

use self::{secrets::SecretIndex, walk::Walk};

/// Walks the roots, and returns what was found and what was skipped. Corrupt content never causes
/// an error; it is counted.
///
/// # Errors
/// Fails if there are more entries than the limit, or if `is_cancelled` returned `true`.
pub fn scan(
    request: &ScanRequest,
    secrets: Secrets,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<ScanReply, Refusal> {
    let started = Instant::now();
    let index = SecretIndex::new(secrets);
    let mut walk = Walk::new(is_cancelled, request, &index);
    for root in &request.roots {
        walk.walk_root(root)?;
    }
    let mut reply = walk.finish();
    reply.took_us = started.elapsed().as_micros() as u64;
    Ok(reply)
}
