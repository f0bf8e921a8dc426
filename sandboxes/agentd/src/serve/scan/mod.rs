//! Looks for hidden content by its fingerprints, in files, archives, bytecode and repositories.

mod ar;
mod bytecode;
mod content;
mod embedded;
mod encoded;
mod expand;
mod modules;
mod numbered;
mod pack;
mod secrets;
mod tar;
mod text;
mod walk;
mod zip;

use std::time::Instant;

use proctor_wire::{Refusal, RefusalKind, Reply, SECRETS_LIMIT, ScanRequest, Secrets};

use self::{secrets::Index, walk::Walk};
use super::{dispatch::Server, refusal::refuse, stream::Stream};

/// Reads the secrets from the host, walks the roots, and answers with what was found and what was
/// not looked into. Content that is damaged is counted, never an error.
pub fn scan(server: &Server, stream: &Stream, request: &ScanRequest) -> Result<Reply, Refusal> {
    let started = Instant::now();
    let mut text = Vec::new();
    while let Some(piece) = stream.next_input(&server.outbox)? {
        if text.len() + piece.len() > SECRETS_LIMIT {
            let what = format!("secrets of more than {SECRETS_LIMIT} bytes");
            return Err(refuse(RefusalKind::TooLarge, what));
        }
        text.extend_from_slice(&piece);
    }
    let secrets: Secrets = serde_json::from_slice(&text)
        .map_err(|error| refuse(RefusalKind::BadRequest, format!("secrets: {error}")))?;
    drop(text);
    let index = Index::new(secrets);
    let mut walk = Walk::new(stream, request, &index);
    for root in &request.roots {
        walk.root(root)?;
    }
    let mut reply = walk.finish();
    reply.took_us = started.elapsed().as_micros() as u64;
    Ok(Reply::Scan(reply))
}
