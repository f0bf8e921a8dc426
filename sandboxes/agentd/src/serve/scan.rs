//! Scans the sandbox for hidden content, which is described by fingerprints.

use proctor_wire::{Refusal, RefusalKind, Reply, SECRETS_LIMIT, ScanRequest, Secrets};

use super::{refusal::new_refusal, server::Server, stream::Stream};

/// Reads the fingerprints from the host, then scans.
pub fn scan(server: &Server, stream: &Stream, request: &ScanRequest) -> Result<Reply, Refusal> {
    let mut text = Vec::new();
    while let Some(piece) = stream.next_input(&server.outbox)? {
        if text.len() + piece.len() > SECRETS_LIMIT {
            let what = format!("the secrets exceed {SECRETS_LIMIT} bytes");
            return Err(new_refusal(RefusalKind::TooLarge, what));
        }
        text.extend_from_slice(&piece);
    }
    let secrets: Secrets = serde_json::from_slice(&text)
        .map_err(|error| new_refusal(RefusalKind::BadRequest, format!("secrets: {error}")))?;
    drop(text);
    proctor_scan::scan(request, secrets, &|| stream.is_cancelled()).map(Reply::Scan)
}
