//! One client request: turns its bytes into an outgoing request.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use proctor_types::{Api, Fault, FaultLayer, ModelResponse, RequestClass, SubAgentConversation};
use serde_json::{Map, Value};

use super::{
    client::Connection, client_reply::ClientReply, conversation_fields::ConversationFields,
    error_response::ErrorResponse, route::GeminiTarget, state::ServerState, stored_responses,
    traffic::ToolResult, withhold,
};
use crate::{
    RequestError, RequestFacts, TrialGateway,
    codec::{self, Losses, Part, Role},
    outgoing_request::{OutgoingRequest, RequestEnd},
    request_path::RequestFailure,
};

pub(super) struct ClientRequest {
    pub server: Arc<ServerState>,
    pub number: u64,
    /// The client's format.
    pub api: Api,
    pub path: String,
    pub headers: HeaderMap,
    pub path_target: Option<GeminiTarget>,
    pub is_streaming: bool,
    pub body: Bytes,
    pub class: RequestClass,
    /// The conversation of the sub-agent that made the request, if a sub-agent made it.
    pub conversation: Option<SubAgentConversation>,
    pub losses: Losses,
    pub connection: Connection,
    pub reply: ClientReply,
    /// Tool results that are not recorded yet.
    pub tool_results: Vec<ToolResult>,
    /// Items of the request's input, if the client may continue the response by its id.
    pub input_items: Vec<Value>,
    /// Why the request got no response. `None` if a limit is the reason.
    pub rejection: Option<RequestError>,
}

impl ClientRequest {
    /// Handles the request. `parsed_body` is its parsed body.
    pub(super) async fn run(mut self, parsed_body: serde_json::Result<Value>) {
        let outgoing = match self.prepare_request(parsed_body) {
            Ok(outgoing) => outgoing,
            Err(refusal) => {
                // Whatever the client does next, the trial must not count against the model, so
                // stop it with a fault.
                let what = format!(
                    "the gateway cannot forward a request from the agent: {}",
                    refusal.message
                );
                let hint = "the model's API does not support this request: use an endpoint with \
                            the agent's own API, or another agent";
                self.rejection = Some(Fault::new(FaultLayer::Model, what).hint(hint).into());
                return self.reject(&refusal).await;
            }
        };
        self.class = outgoing.class;
        let trial = Arc::clone(&self.server.trial);
        if let Err(fault) = self.record_tool_results(&trial).await {
            let error = RequestError::Fault(fault);
            self.stop_trial_on(&error);
            return self.reject(&ErrorResponse::from_error(&error)).await;
        }
        let failure = match trial.serve(&outgoing, &mut self).await {
            Ok(ModelResponse { .. }) => return,
            Err(failure) => failure,
        };
        match failure {
            RequestFailure::NoResponse(error) => {
                self.stop_trial_on(&error);
                if self.class == RequestClass::Main {
                    self.rejection =
                        matches!(error, RequestError::Rejected { .. }).then(|| error.clone());
                }
                let mut refusal = ErrorResponse::from_error(&error);
                if let RequestError::Rejected { body, .. } = &error
                    && self.api == trial.route().model.api
                {
                    refusal = refusal.with_exact_body(body);
                }
                self.reject(&refusal).await;
            }
            RequestFailure::Disconnected { reason: why } => {
                self.note_lost_response(&why);
                let error = Some(format!("the client disconnected; before that: {why}"));
                self.record_end_or_stop(RequestEnd { error, ..RequestEnd::default() }).await;
            }
            RequestFailure::Interrupted { reason: why, cause: cut, charge: charged } => {
                let refusal = match &cut {
                    Some(cut) => {
                        self.stop_trial_on(cut);
                        ErrorResponse::from_error(cut)
                    }
                    None => {
                        self.note_lost_response(&why);
                        ErrorResponse::bad_request(why.clone())
                    }
                };
                let (usage, cost_usd, has_split_key) =
                    (charged.usage, charged.cost_usd, charged.has_split_key);
                let end = RequestEnd {
                    error: Some(why),
                    usage,
                    cost_usd,
                    has_split_key,
                    ..RequestEnd::default()
                };
                self.record_end_or_stop(end).await;
                self.connection.send_error(&refusal).await;
                self.connection.close();
            }
        }
    }

    /// Notes that the response to a main request did not arrive completely and that the gateway did
    /// not retry the request. If the client retries the request, nothing is lost. If the client
    /// exits instead, this note shows that the endpoint was the cause.
    fn note_lost_response(&self, reason: &str) {
        if self.class == RequestClass::Main {
            let what = format!("the agent's last request got no complete response: {reason}");
            let fault = Fault::new(FaultLayer::Model, what)
                .hint("a retry may succeed; if this happens often, check the endpoint's log");
            self.server.tracker.note_lost_response(RequestError::Fault(fault));
        }
    }

    /// Stops the trial, unless the endpoint rejected only this request. If a limit rejects a side
    /// request, the trial stops too, because the main conversation has reached the same limit.
    fn stop_trial_on(&self, error: &RequestError) {
        if !matches!(error, RequestError::Rejected { .. }) {
            self.server.stop(error);
        }
    }

    /// Records how the request ended. If this fails, stops the trial, because every result must be
    /// recorded.
    async fn record_end_or_stop(&mut self, end: RequestEnd<'_>) -> Option<ErrorResponse> {
        let trial = Arc::clone(&self.server.trial);
        let fault = self.record_end(&trial, end).await.err()?;
        let error = RequestError::Fault(fault);
        self.server.stop(&error);
        Some(ErrorResponse::from_error(&error))
    }

    /// Records the error response, then sends it.
    async fn reject(&mut self, error: &ErrorResponse) {
        self.server.tracker.count_rejection(self.rejection.as_ref());
        self.reply.set_error(error.status.as_u16(), error.text(self.api));
        let end = RequestEnd { error: Some(error.message.clone()), ..RequestEnd::default() };
        let worse = self.record_end_or_stop(end).await;
        self.connection.send_error(worse.as_ref().unwrap_or(error)).await;
    }

    /// Records the results of the client's tools under the finished step, before the request that
    /// contains them.
    async fn record_tool_results(&mut self, trial: &TrialGateway) -> Result<(), Fault> {
        let step = trial.meter().steps();
        let endpoint = &trial.route().endpoint;
        for mut returned in std::mem::take(&mut self.tool_results) {
            returned.shown_text = endpoint.redact_text(&returned.shown_text);
            returned.call.arguments = endpoint.redact_text(&returned.call.arguments);
            for event in returned.events() {
                trial.sink().record_event(step, event).await?;
            }
        }
        Ok(())
    }

    fn prepare_request(
        &mut self,
        parsed_body: serde_json::Result<Value>,
    ) -> Result<OutgoingRequest, ErrorResponse> {
        let shared = Arc::clone(&self.server);
        let (model, endpoint) = {
            let route = shared.trial.route();
            (&route.model, &route.endpoint)
        };
        let asked = parsed_body.map_err(|error| {
            ErrorResponse::bad_request(format!("the body is not JSON: {error}"))
        })?;
        let Value::Object(mut asked) = asked else {
            return Err(ErrorResponse::bad_request("the body is not a JSON object"));
        };
        // The conversation makes up most of the body and does not change here. Take it out while
        // the rest is copied and compared.
        let mut said = ConversationFields::take_from(&mut asked);
        let original = asked.clone();
        let mut losses = Losses::default();
        if let Some(policy) = shared.policy.withhold_policy(self.api) {
            withhold::withhold_tools(policy, self.api, &mut asked, &mut losses);
        }
        said.swap(&mut asked);
        let translated = self.api != model.api;
        if translated && self.api == Api::Responses {
            shared.stored_responses.expand(&mut asked);
            if asked.get("store") != Some(&Value::Bool(false)) {
                self.input_items = stored_responses::input_items(asked.get("input"));
            }
        }
        let mut unsaid = Losses::default();
        let read = if translated { &mut losses } else { &mut unsaid };
        let mut request =
            codec::read_request(self.api, &asked, read).map_err(ErrorResponse::bad_request)?;
        if let Some(named) = &self.path_target {
            request.model.clone_from(&named.model);
        }
        request.is_streaming = self.is_streaming;
        if translated {
            for name in ["previous_response_id", "conversation"] {
                if asked.get(name).is_some_and(|id| !id.is_null()) {
                    let why = format!("{name}: unknown response id; send the whole input");
                    return Err(ErrorResponse::bad_request(why));
                }
            }
            shared.trial.native_turns().restore(&mut request);
        }
        let class = self.classify(&request);
        if class == RequestClass::Main {
            self.conversation = self.find_sub_agent(&request);
        }
        // Collect tool results even from a compaction request, because no later request repeats
        // them.
        if shared.records_calls {
            self.tool_results = shared.tracker.new_tool_results(&request);
        }
        let tools = !request.tools.is_empty();
        let mut hides_usage = false;
        said.swap(&mut asked);
        drop(said);
        let mut fields = if translated {
            request.model.clone_from(&model.name);
            codec::write_request(model.api, &request, &mut losses)
                .map_err(ErrorResponse::bad_request)?
        } else {
            let mut same = asked.clone();
            if same.contains_key("model") || self.path_target.is_none() {
                same.insert("model".into(), model.name.as_str().into());
            }
            same
        };
        let limit_field = endpoint.output_limit_field();
        for field in codec::overlay::apply_parameters(model.api, model, limit_field, &mut fields) {
            losses.add_dropped(format!("the arm's {field}"));
        }
        if model.api == Api::Chat && self.is_streaming {
            let options = fields.entry("stream_options").or_insert_with(|| Map::new().into());
            if options.is_null() {
                *options = Map::new().into();
            }
            if options["include_usage"] != true {
                options["include_usage"] = true.into();
                hides_usage = true;
            }
        }
        let body = if translated {
            serde_json::to_vec(&fields)
                .map_err(|error| ErrorResponse::bad_request(error.to_string()))?
                .into()
        } else {
            let spliced = codec::splice::splice_fields(&self.body, &original, &fields);
            spliced
                .ok_or_else(|| ErrorResponse::bad_request("the body is not a JSON object"))?
                .into()
        };
        let max_output = codec::output_limit(model.api, &fields);
        // A response repeats only small parts of its request. Drop the conversation, because a
        // stream may stay open for a long time.
        asked.retain(|field, _| !ConversationFields::FIELDS.contains(&field.as_str()));
        self.reply.set_request(asked, hides_usage);
        self.losses = losses;
        let headers = if translated {
            HeaderMap::new()
        } else {
            shared.policy.request_headers(&self.headers)
        };
        let stream = self.is_streaming;
        let sub_agent = self.conversation.is_some();
        Ok(OutgoingRequest {
            class,
            is_grace: false,
            body,
            is_streaming: stream,
            headers,
            max_output,
            offers_tools: tools,
            is_from_sub_agent: sub_agent,
            continues: false,
        })
    }

    /// Returns the sub-agent's conversation, if the manifest's rules identify one.
    fn find_sub_agent(&self, request: &codec::Request) -> Option<SubAgentConversation> {
        let opening = || {
            let first = request.turns.iter().take_while(|turn| turn.role != Role::Assistant);
            let users = first.filter(|turn| turn.role == Role::User);
            let texts = users.flat_map(|turn| &turn.parts).filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                _ => None,
            });
            texts.collect::<Vec<_>>().join("\n")
        };
        let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        let tools = (tools.as_slice(), &self.server.has_sub_agent_tool);
        crate::rules::find_sub_agent(&self.server.rules, &self.headers, tools, opening)
    }

    fn classify(&self, request: &codec::Request) -> RequestClass {
        let system = request.turns.iter().filter(|turn| turn.role == Role::System);
        let system = system.flat_map(|turn| &turn.parts).filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        crate::classify_request(
            &self.server.rules,
            &RequestFacts {
                path: &self.path,
                model: &request.model,
                headers: &self.headers,
                system: &system.collect::<Vec<_>>().join("\n"),
                offers_tools: !request.tools.is_empty(),
                max_tokens: request.max_output,
            },
        )
    }
}
