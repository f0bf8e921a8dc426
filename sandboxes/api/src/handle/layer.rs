//! Captures changes outside the work directory.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    BlobSink, SandboxError, SandboxHandle, SnapshotError,
    call::{Call, Input},
    inbox::Event,
    snapshot::BlobParser,
};
use crate::wire::{
    ContainerDiff, LayerDiff, LayerRequest, Refusal, RefusalKind, Reply, Request, channel,
};

/// Maximum size of a layer, in bytes of JSON.
const LAYER_LIMIT: usize = 256 << 20;

/// Lists the paths that were written in a sandbox. Needed if the agent cannot list them itself.
#[async_trait]
pub trait WrittenPathLister: Send + Sync {
    /// Lists the paths that were written since the sandbox was created.
    ///
    /// # Errors
    /// Fails with a human-readable reason why the list is unavailable.
    async fn list_written(&self) -> Result<ContainerDiff, String>;

    /// Like [`WrittenPathLister::list_written`], but without a time limit.
    ///
    /// # Errors
    /// Fails with a human-readable reason why the list is unavailable.
    async fn list_written_without_limit(&self) -> Result<ContainerDiff, String> {
        self.list_written().await
    }
}

/// The state of a sandbox outside its work directory.
#[derive(Debug, Clone, PartialEq)]
pub enum LayerState {
    /// Unchanged since the previous reply.
    Unchanged,
    /// The differences since the agent's start.
    Changed(LayerDiff),
    /// The reason why another sandbox could not restore this state.
    Unrestorable(String),
}

impl SandboxHandle {
    /// Sets the provider that lists written paths. Only the first call has an effect.
    pub fn set_written_path_lister(&self, lister: Arc<dyn WrittenPathLister>) {
        let _ = self.written_path_lister.set(lister);
    }

    /// Captures the state outside the work directory. Writes content to `sink` unless this channel
    /// has already sent it. The first request for a sandbox sets the baseline.
    ///
    /// # Errors
    /// If the sink fails, the request is cancelled, and the sink's error is returned.
    pub async fn capture_layer<S: BlobSink>(
        &self,
        request: LayerRequest,
        sink: &mut S,
    ) -> Result<LayerState, SnapshotError<S::Error>> {
        let written = match self.written_path_lister.get() {
            None => None,
            Some(lister) => Some(lister.list_written().await),
        };
        self.request_layer(request, written, sink).await
    }

    /// Like [`SandboxHandle::capture_layer`], but sets no time limit for listing the written paths.
    ///
    /// # Errors
    /// See [`SandboxHandle::capture_layer`].
    pub async fn capture_layer_without_limit<S: BlobSink>(
        &self,
        request: LayerRequest,
        sink: &mut S,
    ) -> Result<LayerState, SnapshotError<S::Error>> {
        let written = match self.written_path_lister.get() {
            None => None,
            Some(lister) => Some(lister.list_written_without_limit().await),
        };
        self.request_layer(request, written, sink).await
    }

    async fn request_layer<S: BlobSink>(
        &self,
        request: LayerRequest,
        written_paths: Option<Result<ContainerDiff, String>>,
        sink: &mut S,
    ) -> Result<LayerState, SnapshotError<S::Error>> {
        let file_limit = request.file_limit;
        let list = match written_paths {
            None => None,
            Some(written) => match written {
                Ok(written) => Some(serde_json::to_vec(&written).map_err(|error| {
                    let what = format!("cannot encode the list of written paths: {error}");
                    SandboxError::Refused(Refusal { why: RefusalKind::BadRequest, what })
                })?),
                Err(why) => return Ok(LayerState::Unrestorable(why)),
            },
        };
        let request = LayerRequest { listed: list.is_some(), ..request };
        let mut call = Call::open(&self.link, &Request::Layer(request))?;
        let mut input = match &list {
            Some(list) => Input::from_bytes(list),
            None => Input::empty(),
        };
        let (mut contents, mut json) = (BlobParser::default(), Vec::new());
        loop {
            match call.next_event(&mut input).await? {
                Event::Data(channel::STDOUT, more) => {
                    let taken = contents.feed(&more, file_limit, sink);
                    taken.map_err(SnapshotError::Sink)?;
                    if contents.is_too_long {
                        return Err(call
                            .close_with_protocol_error(
                                "a blob of the layer exceeds the file size limit",
                            )
                            .into());
                    }
                }
                Event::Data(channel::RESULTS, more) => {
                    if json.len() + more.len() > LAYER_LIMIT {
                        return Err(call.close_with_protocol_error("a layer is too large").into());
                    }
                    json.extend_from_slice(&more);
                }
                Event::Data(..) => {
                    return Err(call
                        .close_with_protocol_error("layer data on the wrong channel")
                        .into());
                }
                Event::End => {}
                Event::Reply(Ok(Reply::Layer(reply))) => {
                    if !contents.is_done() {
                        return Err(call
                            .close_with_protocol_error("truncated blob of a layer")
                            .into());
                    }
                    if let Some(why) = reply.unkept {
                        return Ok(LayerState::Unrestorable(why));
                    }
                    if reply.same {
                        return Ok(LayerState::Unchanged);
                    }
                    if json.is_empty() {
                        return Ok(LayerState::Changed(LayerDiff::default()));
                    }
                    let layer = serde_json::from_slice(&json);
                    let layer = layer.map_err(|error| {
                        call.close_with_protocol_error(&format!("invalid layer: {error}"))
                    })?;
                    return Ok(LayerState::Changed(layer));
                }
                Event::Reply(Ok(_)) => {
                    return Err(call
                        .close_with_protocol_error("expected the reply to a layer")
                        .into());
                }
                Event::Reply(Err(refusal)) => return Err(SandboxError::Refused(refusal).into()),
            }
        }
    }
}
