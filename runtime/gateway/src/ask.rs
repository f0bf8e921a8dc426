//! In-process calls: turns an [`ModelRequest`] into a request, and the response into an [`ModelResponse`].

use std::sync::PoisonError;

use bytes::Bytes;
use proctor_types::{
    Api, Event, Fault, Layer, Message, ModelRequest, ModelRequestRecord, ModelResponse,
    RequestClass,
};
use serde_json::{Map, Value};

use crate::{
    RequestError, TrialGateway,
    codec::{self, Losses},
    request,
    request_path::{Client, OutgoingRequest, RequestFailure},
};

/// An in-process caller receives the response only when it is complete.
struct Caller;

impl Client for Caller {}

impl TrialGateway {
    /// Sends the request and retries it as the policy allows. Each `Ok` is one step.
    ///
    /// Limits on steps, tokens and cost are checked before each attempt, never during one: the
    /// first response that reaches a limit is delivered. Time limits cancel requests in flight.
    pub async fn ask(&self, ask: &ModelRequest) -> Result<ModelResponse, RequestError> {
        self.send_ask(ask, false).await
    }

    /// Requests one response after the trial has reached a limit on counts. The response is not a
    /// step and is counted separately. Time limits and shared limits still apply.
    pub async fn ask_after_limit(&self, ask: &ModelRequest) -> Result<ModelResponse, RequestError> {
        self.send_ask(ask, true).await
    }

    /// Sends a streaming request, so that progress is visible. A repair turns streaming off for
    /// endpoints that reject it.
    async fn send_ask(
        &self,
        ask: &ModelRequest,
        grace: bool,
    ) -> Result<ModelResponse, RequestError> {
        let kept =
            self.sent_conversation().lock().unwrap_or_else(PoisonError::into_inner).update(ask);
        self.record_request(ask, kept).await?;
        let request = self.build_request(ask, grace)?;
        self.serve(&request, &mut Caller).await.map_err(|failure| match failure {
            RequestFailure::Refused(error) => error,
            // An in-process caller never disconnects and receives no partial response.
            RequestFailure::Interrupted { .. } | RequestFailure::Disconnected { .. } => {
                RequestError::Cancelled
            }
        })
    }

    /// Records the request without the messages it repeats from the previous one.
    async fn record_request(&self, ask: &ModelRequest, kept: usize) -> Result<(), Fault> {
        let messages = ask.messages.get(kept..).unwrap_or_default().to_vec();
        let tools = if kept == 0 { ask.tools.clone() } else { Vec::new() };
        let new = ModelRequest { messages, tools };
        let ask = ModelRequestRecord { kept, new, as_returned: Vec::new() };
        self.sink().record_event(self.meter().steps(), Event::ModelAsked { ask }).await
    }

    fn build_request(&self, ask: &ModelRequest, grace: bool) -> Result<OutgoingRequest, Fault> {
        let (model, endpoint) = (&self.route().model, &self.route().endpoint);
        let limit_field = endpoint.output_limit_field();
        let (body, max_output) = if model.api == Api::Chat {
            let rest = request::chat_fields(model, limit_field, &ask.tools, true);
            let written = self.sent_conversation().lock().unwrap_or_else(PoisonError::into_inner);
            (written.body(&model.name, &rest), codec::output_limit(Api::Chat, &rest))
        } else {
            let fault =
                |why: String| Fault::new(Layer::Model, format!("model {}: {why}", model.name));
            let mut neutral = request::neutral_request(model, ask);
            neutral.stream = true;
            let mut losses = Losses::default();
            let mut body = codec::write_request(model.api, &neutral, &mut losses).map_err(fault)?;
            if model.api == Api::Messages && model.cache != Some(false) {
                request::add_cache_breakpoints(&mut body);
            }
            codec::overlay::apply_parameters(model.api, model, limit_field, &mut body);
            (Value::Object(body.clone()).to_string().into(), codec::output_limit(model.api, &body))
        };
        Ok(OutgoingRequest {
            class: if grace { RequestClass::Side } else { RequestClass::Main },
            grace,
            body,
            stream: true,
            max_output,
            tools: !ask.tools.is_empty(),
            ..OutgoingRequest::default()
        })
    }
}

/// The previous conversation, serialized for a chat request. Messages that a request repeats are
/// neither serialized nor recorded again.
#[derive(Debug, Default)]
pub(crate) struct SentConversation {
    messages: Vec<Message>,
    json: Vec<u8>,
    /// End offset of each message in `json`.
    ends: Vec<usize>,
}

impl SentConversation {
    /// Updates the conversation to match this request. Returns how many messages it repeats.
    pub(crate) fn update(&mut self, ask: &ModelRequest) -> usize {
        let same = self.messages.iter().zip(&ask.messages).take_while(|(old, new)| old == new);
        let kept = same.count();
        self.messages.truncate(kept);
        self.ends.truncate(kept);
        self.json.truncate(self.ends.last().copied().unwrap_or_default());
        for message in ask.messages.get(kept..).unwrap_or_default() {
            if !self.json.is_empty() {
                self.json.push(b',');
            }
            self.json.extend_from_slice(codec::message::to_chat(message).to_string().as_bytes());
            self.ends.push(self.json.len());
            self.messages.push(message.clone());
        }
        kept
    }

    /// Returns the complete request body. `rest` has the fields that follow the messages.
    pub(crate) fn body(&self, model: &str, rest: &Map<String, Value>) -> Bytes {
        let model = Value::from(model).to_string();
        let rest = Value::Object(rest.clone()).to_string();
        let mut body = Vec::with_capacity(self.json.len() + model.len() + rest.len() + 32);
        body.extend_from_slice(b"{\"model\":");
        body.extend_from_slice(model.as_bytes());
        body.extend_from_slice(b",\"messages\":[");
        body.extend_from_slice(&self.json);
        body.push(b']');
        let fields = rest.strip_prefix('{').unwrap_or_default();
        if fields != "}" {
            body.push(b',');
        }
        body.extend_from_slice(fields.as_bytes());
        body.into()
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{Message, ModelRequest};
    use serde_json::{Map, Value, json};

    use super::SentConversation;

    fn ask(texts: &[&str]) -> ModelRequest {
        let user = |text: &&str| Message::User { content: (*text).to_owned() };
        ModelRequest { messages: texts.iter().map(user).collect(), tools: Vec::new() }
    }

    #[test]
    fn sent_conversation_reuses_repeated_messages() {
        let mut written = SentConversation::default();
        let said = |written: &SentConversation, rest: Value| {
            let rest: Map<String, Value> = rest.as_object().cloned().expect("an object");
            serde_json::from_slice::<Value>(&written.body("m", &rest)).expect("JSON")
        };
        let user = |text: &str| json!({"role": "user", "content": text});
        assert_eq!(said(&written, json!({})), json!({"model": "m", "messages": []}));
        for (texts, kept) in [
            (&["a", "b"][..], 0),
            (&["a", "b", "c"], 2),
            // A notice appended to the last message does not appear in later requests.
            (&["a", "b", "c and so on"], 2),
            (&["a", "b", "c", "d"], 2),
            (&["a"], 1),
            (&["z", "b"], 0),
        ] {
            assert_eq!(written.update(&ask(texts)), kept, "{texts:?}");
            let messages: Vec<_> = texts.iter().map(|text| user(text)).collect();
            let wanted = json!({"model": "m", "messages": messages, "x": 1});
            assert_eq!(said(&written, json!({"x": 1})), wanted);
        }
    }
}
