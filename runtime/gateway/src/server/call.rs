//! One request of a client, from its bytes to its end.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use proctor_types::{Answer, Api, RequestClass, Usage};
use serde_json::{Map, Value};

use super::{client::Client, listen::Shared, refusal::Refusal, route::Named, send::Sent, withhold};
use crate::{
    AskError, RequestFacts, Reserve, Served,
    codec::{self, Losses, Part, Role},
    tokens,
    trial::Attempts,
};

/// No status of HTTP's: what the record says where nobody was there to be told one.
pub(super) const GONE: u16 = 499;

pub(super) struct Call {
    pub shared: Arc<Shared>,
    pub number: u64,
    /// What the client speaks.
    pub api: Api,
    pub path: String,
    pub headers: HeaderMap,
    pub named: Option<Named>,
    pub stream: bool,
    pub body: Bytes,
    pub client: Client,
}

/// A request as it leaves.
#[derive(Default)]
pub(super) struct Outgoing {
    pub class: RequestClass,
    /// The client's request, without what is withheld.
    pub asked: Map<String, Value>,
    pub body: Bytes,
    /// The client did not ask for usage, and the endpoint was.
    pub hides_usage: bool,
    pub max_output: Option<u64>,
    /// It offers tools.
    pub tools: bool,
    pub losses: Losses,
}

/// How a request came to its end, for the record.
#[derive(Default)]
pub(super) struct End {
    pub status: u16,
    pub error: Option<String>,
    pub response: Bytes,
    pub answer: Option<Answer>,
    pub delivered: bool,
    pub usage: Option<Usage>,
    pub cost_usd: Option<f64>,
}

impl Call {
    pub(super) async fn run(mut self) {
        let mut outgoing = match self.prepare() {
            Ok(outgoing) => outgoing,
            Err(refusal) => return self.refuse(&Outgoing::default(), &refusal).await,
        };
        if let Err(error) = self.drive(&mut outgoing).await {
            let ends = !matches!(error, AskError::Rejected { .. });
            // A side request may be refused before the trial is over, but never at a limit that the
            // main conversation has not met too.
            if ends {
                self.shared.stop(&error);
            }
            let mut refusal = Refusal::of(&error);
            if let AskError::Rejected { body, .. } = &error
                && self.api == self.shared.trial.line().model.api
            {
                refusal = refusal.exactly(body);
            }
            self.refuse(&outgoing, &refusal).await;
        }
    }

    /// Asks the model until an attempt brings an answer.
    async fn drive(&mut self, outgoing: &mut Outgoing) -> Result<(), AskError> {
        let trial = Arc::clone(&self.shared.trial);
        let reserve = Reserve {
            class: outgoing.class,
            input_estimate: tokens::ceiling(outgoing.body.len()),
            max_output: outgoing.max_output,
        };
        let mut attempts = Attempts::default();
        loop {
            trial.check_halts(outgoing.tools)?;
            let admission = self.client.wait_for(trial.admit(reserve)).await?;
            trial.check_halts(outgoing.tools)?;
            match self.send(outgoing, admission, &attempts).await? {
                Sent::Served => return Ok(()),
                Sent::Again(trouble) => {
                    // Nobody waits for another attempt, and none is paid for.
                    if self.client.gone() {
                        let why = trouble.why;
                        let error = Some(format!("the client went away; before that: {why}"));
                        let end = End { status: GONE, error, ..End::default() };
                        return self.record(outgoing, end).await;
                    }
                    let again = trial.again(&mut attempts, &trouble);
                    self.client.wait_for(again).await?;
                }
            }
        }
    }

    fn prepare(&self) -> Result<Outgoing, Refusal> {
        let shared = &self.shared;
        let (model, endpoint) = {
            let line = shared.trial.line();
            (&line.model, &line.endpoint)
        };
        let parsed: Value = serde_json::from_slice(&self.body)
            .map_err(|error| Refusal::bad(format!("the body is not JSON: {error}")))?;
        let Value::Object(original) = parsed else {
            return Err(Refusal::bad("the body is not a JSON object"));
        };
        let mut asked = original.clone();
        let mut losses = Losses::default();
        if let Some(policy) = shared.policy.withheld(self.api) {
            withhold::apply(policy, self.api, &mut asked, &mut losses);
        }
        let translated = self.api != model.api;
        let mut unsaid = Losses::default();
        let read = if translated { &mut losses } else { &mut unsaid };
        let mut request = codec::read_request(self.api, &asked, read).map_err(Refusal::bad)?;
        if let Some(named) = &self.named {
            request.model.clone_from(&named.model);
        }
        request.stream = self.stream;
        let class = self.classify(&request);
        let tools = !request.tools.is_empty();
        let mut hides_usage = false;
        let mut fields = if translated {
            request.model.clone_from(&model.name);
            codec::request_for(model.api, &request, &mut losses).map_err(Refusal::bad)?
        } else {
            let mut same = asked.clone();
            if same.contains_key("model") || self.named.is_none() {
                same.insert("model".into(), model.name.as_str().into());
            }
            same
        };
        let limit_field = endpoint.output_limit_field();
        for field in codec::overlay::lay(model.api, model, limit_field, &mut fields) {
            losses.dropped(format!("the arm's {field}"));
        }
        if model.api == Api::Chat && self.stream {
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
            Value::Object(fields.clone()).to_string().into()
        } else {
            let spliced = codec::splice::onto(&self.body, &original, &fields);
            spliced.ok_or_else(|| Refusal::bad("the body is not a JSON object"))?.into()
        };
        let max_output = codec::output_limit(model.api, &fields);
        // What an answer repeats of its request is small; the conversation is not, and a stream may
        // stay open for long.
        asked.retain(|field, _| {
            !["messages", "input", "contents", "system"].contains(&field.as_str())
        });
        Ok(Outgoing { class, asked, body, hides_usage, max_output, tools, losses })
    }

    fn classify(&self, request: &codec::Request) -> RequestClass {
        let system = request.turns.iter().filter(|turn| turn.role == Role::System);
        let system = system.flat_map(|turn| &turn.parts).filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        self.shared.rules.classify(&RequestFacts {
            path: &self.path,
            model: &request.model,
            headers: &self.headers,
            system: &system.collect::<Vec<_>>().join("\n"),
            tools: !request.tools.is_empty(),
            max_tokens: request.max_output,
        })
    }

    /// Refuses, for the record first.
    async fn refuse(&mut self, outgoing: &Outgoing, refusal: &Refusal) {
        let end = End {
            status: refusal.status.as_u16(),
            error: Some(refusal.message.clone()),
            response: refusal.text(self.api).into(),
            ..End::default()
        };
        let refusal = match self.record(outgoing, end).await {
            Ok(()) => refusal.clone(),
            Err(error) => Refusal::of(&error),
        };
        self.client.refuse(&refusal).await;
    }

    /// Keeps the request with its end. No record, no result: an error ends the trial.
    pub(super) async fn record(&self, outgoing: &Outgoing, end: End) -> Result<(), AskError> {
        let line = self.shared.trial.line();
        let served = Served {
            number: self.number,
            client: self.api,
            upstream: line.model.api,
            path: self.path.clone(),
            class: outgoing.class,
            streamed: self.stream,
            status: end.status,
            error: end.error.map(|error| line.endpoint.redact_text(&error)),
            request: line.endpoint.redact(self.body.clone()),
            response: end.response,
            losses: outgoing.losses.clone().into_vec(),
            answer: end.answer,
            delivered: end.delivered,
            usage: end.usage,
            cost_usd: end.cost_usd,
            seconds: self.client.seconds(),
            first_byte_seconds: self.client.first_byte,
        };
        self.shared.trial.sink().served(served).await.map_err(|fault| {
            let error = AskError::Fault(fault);
            self.shared.stop(&error);
            error
        })
    }
}
