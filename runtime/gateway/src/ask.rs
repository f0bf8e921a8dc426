//! In-process calls: turns a [`ModelRequest`] into a request, and the response into a
//! [`ModelResponse`].

use std::sync::PoisonError;

use proctor_types::{
    Api, Event, Fault, FaultLayer, ModelRequest, ModelRequestRecord, ModelResponse, RequestClass,
};
use serde_json::Value;

use crate::{
    RequestError, TrialGateway,
    codec::{self, Losses},
    outgoing_request::{Client, OutgoingRequest},
    request,
    request_path::RequestFailure,
};

/// The [`Client`] for an in-process caller, which receives the response only when the response is
/// complete.
pub(crate) struct InProcessClient;

impl Client for InProcessClient {}

impl TrialGateway {
    /// Sends the request and retries it as the policy allows. Each `Ok` is one step.
    ///
    /// Limits on steps, tokens and cost are checked before each attempt, never during one. The
    /// response that reaches a limit is therefore still delivered. Time limits cancel requests in
    /// flight.
    pub async fn ask(&self, ask: &ModelRequest) -> Result<ModelResponse, RequestError> {
        self.send_model_request(ask, false).await
    }

    /// Requests one last response after the trial has reached a limit on steps, tokens or cost. The
    /// response is not a step and is counted separately. Time limits and shared limits still apply.
    pub async fn ask_after_limit(
        &self,
        model_request: &ModelRequest,
    ) -> Result<ModelResponse, RequestError> {
        self.send_model_request(model_request, true).await
    }

    /// Sends a streaming request, so that progress is visible. For endpoints that reject streaming,
    /// a repair turns streaming off.
    async fn send_model_request(
        &self,
        model_request: &ModelRequest,
        is_grace: bool,
    ) -> Result<ModelResponse, RequestError> {
        let (kept, before) = {
            let mut written =
                self.sent_conversation().lock().unwrap_or_else(PoisonError::into_inner);
            let before = written.message_count();
            (written.update(model_request), before)
        };
        let continues = self.record_request(model_request, kept, before).await?;
        let request = OutgoingRequest { continues, ..self.build_request(model_request, is_grace)? };
        self.serve(&request, &mut InProcessClient).await.map_err(|failure| match failure {
            RequestFailure::NoResponse(error) => error,
            // An in-process caller never disconnects and receives no partial response.
            RequestFailure::Interrupted { .. } | RequestFailure::Disconnected { .. } => {
                RequestError::Cancelled
            }
        })
    }

    /// Records the request without the messages that it repeats from the previous request, which had
    /// `message_count` messages. Returns whether the request continues the previous one.
    async fn record_request(
        &self,
        model_request: &ModelRequest,
        repeated_count: usize,
        message_count: usize,
    ) -> Result<bool, Fault> {
        let messages = model_request.messages.get(repeated_count..).unwrap_or_default().to_vec();
        let tools = if repeated_count == 0 { model_request.tools.clone() } else { Vec::new() };
        let new = ModelRequest { messages, tools };
        let ask = ModelRequestRecord { kept: repeated_count, new, as_returned: Vec::new() };
        let continues = ask.continues(message_count);
        self.sink().record_event(self.meter().steps(), Event::ModelAsked { ask }).await?;
        Ok(continues)
    }

    fn build_request(&self, ask: &ModelRequest, is_grace: bool) -> Result<OutgoingRequest, Fault> {
        let (model, endpoint) = (&self.route().model, &self.route().endpoint);
        let limit_field = endpoint.output_limit_field();
        let (body, max_output) = if model.api == Api::Chat {
            let rest = request::chat_fields(model, limit_field, &ask.tools, true);
            let written = self.sent_conversation().lock().unwrap_or_else(PoisonError::into_inner);
            (written.request_body(&model.name, &rest), codec::output_limit(Api::Chat, &rest))
        } else {
            let fault =
                |why: String| Fault::new(FaultLayer::Model, format!("model {}: {why}", model.name));
            let mut neutral = request::neutral_request(model, ask);
            neutral.is_streaming = true;
            let mut losses = Losses::default();
            let mut body = codec::write_request(model.api, &neutral, &mut losses).map_err(fault)?;
            if model.api == Api::Messages && model.cache != Some(false) {
                request::add_cache_breakpoints(&mut body);
            }
            codec::overlay::apply_parameters(model.api, model, limit_field, &mut body);
            (Value::Object(body.clone()).to_string().into(), codec::output_limit(model.api, &body))
        };
        Ok(OutgoingRequest {
            class: if is_grace { RequestClass::Side } else { RequestClass::Main },
            is_grace,
            body,
            is_streaming: true,
            max_output,
            offers_tools: !ask.tools.is_empty(),
            ..OutgoingRequest::default()
        })
    }
}
