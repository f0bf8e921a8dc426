//! Scans a sandbox for hidden content.

use super::{
    SandboxError, SandboxHandle,
    call::{Call, Input},
    inbox::Event,
};
use crate::wire::{
    Refusal, RefusalKind, Reply, Request, SECRETS_LIMIT, ScanReply, ScanRequest, Secrets,
};

impl SandboxHandle {
    /// Scans for the content that `secrets` describes. Only hashes of that content are sent to the
    /// sandbox.
    ///
    /// # Errors
    /// Fails if the secrets exceed [`SECRETS_LIMIT`], or if the scan exceeds its entry limit.
    pub async fn scan(
        &self,
        request: ScanRequest,
        secrets: &Secrets,
    ) -> Result<ScanReply, SandboxError> {
        let refused = |why, what: String| SandboxError::Refused(Refusal { why, what });
        let text = serde_json::to_vec(secrets).map_err(|error| {
            refused(RefusalKind::BadRequest, format!("cannot encode the secrets: {error}"))
        })?;
        if text.len() > SECRETS_LIMIT {
            let what = format!(
                "the secrets take up {} bytes, but the limit is {SECRETS_LIMIT} bytes",
                text.len()
            );
            return Err(refused(RefusalKind::TooLarge, what));
        }
        let mut call = Call::open(&self.link, &Request::Scan(request))?;
        let mut input = Input::from_bytes(&text);
        loop {
            match call.next_event(&mut input).await? {
                Event::Reply(Ok(Reply::Scan(reply))) => return Ok(reply),
                Event::Reply(Err(refusal)) => return Err(SandboxError::Refused(refusal)),
                Event::End => {}
                Event::Data(..) | Event::Reply(_) => {
                    return Err(call.close_with_protocol_error("expected the reply to a scan"));
                }
            }
        }
    }
}
