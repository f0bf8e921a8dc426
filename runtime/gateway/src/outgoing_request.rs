//! A request to the endpoint, and the interface of the client that made it.

use std::future::{Future, ready};

use bytes::Bytes;
use http::HeaderMap;
use proctor_types::{Fault, ModelResponse, RequestClass, Usage};

use crate::{
    RequestBounds, TrialGateway,
    codec::{
        neutral::{CollectedResponse, Delta},
        sse,
    },
    tokens,
};

/// An outgoing request.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutgoingRequest {
    pub class: RequestClass,
    /// Whether the request is sent after a limit was reached. Such a request is not a step and is
    /// counted separately.
    pub is_grace: bool,
    /// The exact bytes, in the endpoint's format.
    pub body: Bytes,
    pub is_streaming: bool,
    /// The client's headers, if both sides use the same format.
    pub headers: HeaderMap,
    /// The request's output limit, in tokens.
    pub max_output: Option<u64>,
    /// Whether the request offers tools.
    pub offers_tools: bool,
    /// Whether a sub-agent of the client made the request.
    pub is_from_sub_agent: bool,
    /// Whether the request contains the whole conversation of the previous one.
    pub continues: bool,
}

impl OutgoingRequest {
    /// Returns the amounts that the request reserves.
    pub(crate) fn bounds(&self) -> RequestBounds {
        RequestBounds {
            class: self.class,
            input_estimate: tokens::max_input_tokens(self.body.len()),
            max_output: self.max_output,
        }
    }
}

/// The caller of a request. The default implementations suit an in-process caller.
pub(crate) trait Client: Send {
    /// Whether the caller has stopped waiting for the response.
    fn is_disconnected(&self) -> bool {
        false
    }

    /// Whether part of a response was sent to the caller, so that the gateway cannot start another
    /// response.
    fn has_started_response(&self) -> bool {
        false
    }

    /// Waits for `future` and keeps the client's connection alive in the meantime.
    fn wait_for<T: Send>(
        &mut self,
        future: impl Future<Output = T> + Send,
    ) -> impl Future<Output = T> + Send {
        future
    }

    /// Called when the head of a successful response arrives.
    fn on_head(&mut self, _: &HeaderMap) {}

    /// Called for each event of a stream, with the event's deltas. The last argument says whether
    /// this event ends the response, so that nothing relevant follows.
    fn on_event(
        &mut self,
        _: &sse::Event,
        _: &[Delta],
        _is_end: bool,
    ) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Called when a response arrives without streaming.
    fn on_response(&mut self, _raw: &[u8], _: &[Delta]) {}

    /// Called once the response is charged. The client may build the rest of its response but must
    /// not send it yet.
    fn on_settled(&mut self, _: &CollectedResponse, _: &Usage) {}

    /// Records how the request ended, before the end of the response is sent.
    fn record(
        &mut self,
        _: &TrialGateway,
        _: RequestEnd<'_>,
    ) -> impl Future<Output = Result<(), Fault>> + Send {
        ready(Ok(()))
    }

    /// Sends the rest of the response.
    fn finish(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// How a request ended.
#[derive(Debug, Default)]
pub(crate) struct RequestEnd<'a> {
    pub step: Option<u64>,
    /// The complete response, with its usage and cost.
    pub response: Option<&'a ModelResponse>,
    pub error: Option<String>,
    pub usage: Option<Usage>,
    pub cost_usd: Option<f64>,
    pub is_delivered: bool,
    /// Whether the bytes that were sent contain the key, split across events.
    pub has_split_key: bool,
}
