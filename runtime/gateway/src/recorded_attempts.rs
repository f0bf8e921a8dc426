//! The attempts of a trial's earlier tries.
//!
//! Many checks compare a response with earlier ones. A resumed try continues the conversation of
//! earlier tries, so the gateway first replays their recorded attempts. It applies the same checks
//! as when the responses arrived. Each check then has the same state as without the interruption.

use proctor_types::{Event, Fault, RequestClass, Usage};
use serde_json::{Map, Value};

use crate::{
    TrialGateway, codec,
    judge::{Judgement, judge},
    outgoing_request::OutgoingRequest,
    repair::NO_STREAM,
    tool_support::offered_tools,
};

/// A recorded attempt to which the endpoint responded with a success status.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedAttempt {
    /// Number of the attempt at its request, counted from 1.
    pub number: u32,
    /// Blob hash of the request's exact bytes.
    pub request: String,
    /// Blob hash of the response.
    pub response: String,
    /// The usage that the attempt was charged.
    pub usage: Option<Usage>,
    /// Whether the request asked for a stream.
    pub is_streaming: bool,
    /// Whether the request contains the whole conversation of the previous one.
    pub continues: bool,
    /// Whether the gateway accepted the response.
    pub is_accepted: bool,
}

/// The recorded attempts of a trial's main conversation, in order.
#[derive(Debug, Clone, Default)]
pub struct RecordedAttempts {
    attempts: Vec<RecordedAttempt>,
    /// Attempts at the last request, if the record contains no response to it.
    unanswered: Vec<RecordedAttempt>,
    /// Whether the last request contains the whole conversation of the previous request.
    continues: bool,
    /// Number of messages in the last request.
    message_count: usize,
}

impl RecordedAttempts {
    /// Adds what an event of the trial's journal says about its attempts.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::ModelAsked { ask } => {
                self.continues = ask.continues(self.message_count);
                self.message_count = ask.kept + ask.new.messages.len();
            }
            Event::ModelAttempted {
                attempt,
                status: Some(200..=299),
                error,
                usage,
                repairs,
                request: Some(request),
                body: Some(response),
                ..
            } => self.unanswered.push(RecordedAttempt {
                number: *attempt,
                request: request.clone(),
                response: response.clone(),
                usage: *usage,
                is_streaming: !repairs.iter().any(|name| name == NO_STREAM),
                continues: self.continues,
                is_accepted: error.is_none(),
            }),
            Event::ModelAnswered { .. } => self.attempts.append(&mut self.unanswered),
            // These responses are not part of the main conversation.
            Event::GraceAnswered { .. }
            | Event::RequestServed { class: RequestClass::Side, .. } => {
                self.unanswered.clear();
            }
            // A fork may use another endpoint.
            Event::TrialForked { .. } => *self = Self::default(),
            Event::TrialResumed { .. } => {
                // The gateway of the resumed try has not sent any messages yet.
                self.message_count = 0;
                // An accepted response that was never delivered is lost.
                self.unanswered.retain(|attempt| !attempt.is_accepted);
            }
            _ => {}
        }
    }

    /// Returns the attempts that the gateway replays. Leaves out an accepted response that was never
    /// delivered, because the gateway requests it again.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &RecordedAttempt> {
        let failed = self.unanswered.iter().filter(|attempt| !attempt.is_accepted);
        self.attempts.iter().chain(failed)
    }
}

/// Maximum total length of the requests and responses that are replayed, newest first. Each request
/// contains the whole conversation, so reading all requests of a long trial would take minutes.
const MAX_REPLAYED_BYTES: usize = 64 << 20;

impl TrialGateway {
    /// Replays the latest attempts of the trial's earlier tries. `read` returns the content of a blob.
    /// Skips attempts whose blobs are unreadable: without them, the checks are only weaker.
    ///
    /// # Errors
    /// Fails if a built-in table cannot be read.
    pub async fn replay_attempts(
        &self,
        recorded: &RecordedAttempts,
        read: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync,
    ) -> Result<(), Fault> {
        let mut latest = Vec::new();
        let mut bytes = 0;
        for attempt in recorded.iter().rev() {
            let (Some(request), Some(response)) = (read(&attempt.request), read(&attempt.response))
            else {
                continue;
            };
            bytes += request.len() + response.len();
            latest.push((attempt, request, response));
            if bytes > MAX_REPLAYED_BYTES {
                break;
            }
        }
        for (attempt, request, response) in latest.into_iter().rev() {
            self.replay_attempt(attempt, request, response).await?;
        }
        Ok(())
    }

    async fn replay_attempt(
        &self,
        recorded: &RecordedAttempt,
        request: Vec<u8>,
        response: Vec<u8>,
    ) -> Result<(), Fault> {
        let result = self.read_recorded_response(response).await;
        if result.response.reported_stop.is_none() {
            return Ok(());
        }
        let api = self.route().model.api;
        // Run this off the async threads, because parsing a long conversation takes many
        // milliseconds.
        let reading = tokio::task::spawn_blocking(move || {
            let fields: Map<String, Value> = serde_json::from_slice(&request).unwrap_or_default();
            OutgoingRequest {
                max_output: codec::output_limit(api, &fields),
                offers_tools: !offered_tools(&request).is_empty(),
                body: request.into(),
                ..OutgoingRequest::default()
            }
        });
        let Ok(request) = reading.await else { return Ok(()) };
        let request = OutgoingRequest {
            is_streaming: recorded.is_streaming,
            continues: recorded.continues,
            ..request
        };
        let is_judged = matches!(judge(&result, &self.route().endpoint), Judgement::Answered)
            && self.find_unknown_stop(&request, &result.response)?.is_none();
        if is_judged {
            // The record says whether the response was accepted. Only what the checks learn from it
            // matters here.
            let filtered =
                if recorded.is_accepted { self.route().policy.rejected_attempts } else { 0 };
            self.retry_reason(&result, filtered, recorded.number, &request).await?;
        }
        if recorded.is_accepted {
            // Only scaffolds that run on the host are resumed. They receive whole responses.
            self.note_accepted_response(&request, &result, recorded.usage.as_ref(), false);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{
        ArmId, ForkOrigin, Message, ModelRequest, ModelRequestRecord, ModelResponse, Spending,
        TaskId,
    };

    use super::*;

    fn asked(kept: usize, new: usize) -> Event {
        let messages = vec![Message::User { content: "go".into() }; new];
        let new = ModelRequest { messages, tools: Vec::new() };
        Event::ModelAsked { ask: ModelRequestRecord { kept, new, as_returned: Vec::new() } }
    }

    fn attempted(response: &str, error: Option<&str>) -> Event {
        Event::ModelAttempted {
            attempt: 1,
            status: Some(200),
            error: error.map(ToOwned::to_owned),
            wait_seconds: 0.0,
            queued_seconds: 0.0,
            shared_seconds: 0.0,
            seconds: None,
            lost_seconds: 0.0,
            first_byte_seconds: None,
            usage: None,
            cost_usd: None,
            responder: None,
            repairs: Vec::new(),
            request: Some("request".into()),
            body: Some(response.into()),
        }
    }

    fn answer() -> ModelResponse {
        ModelResponse {
            native: None,
            content: String::new(),
            tool_calls: Vec::new(),
            extra: Map::new(),
            finish_reason: None,
            refused: false,
            usage: Usage::default(),
            cost_usd: None,
        }
    }

    /// Returns the responses that the gateway replays, and whether each one's request continued the
    /// conversation.
    fn replayed(events: &[Event]) -> Vec<(String, bool)> {
        let mut recorded = RecordedAttempts::default();
        events.iter().for_each(|event| recorded.apply(event));
        recorded.iter().map(|one| (one.response.clone(), one.continues)).collect()
    }

    #[test]
    fn attempts_of_the_main_conversation_are_replayed() {
        let answered = || Event::ModelAnswered { answer: answer() };
        let grace = || Event::GraceAnswered { answer: answer() };
        let resumed =
            || Event::TrialResumed { snapshot: String::new(), whole_steps: 1, stands_to: u64::MAX };
        let first = [asked(0, 2), attempted("a", None), answered()];
        let of = |more: Vec<Event>| replayed(&[first.to_vec(), more].concat());
        let a = ("a".to_owned(), true);
        assert_eq!(of(Vec::new()), std::slice::from_ref(&a));
        // A failed attempt belongs to the history, also if its request was never answered.
        let failed = vec![asked(2, 2), attempted("b", Some("corrupt"))];
        assert_eq!(of(failed), [a.clone(), ("b".to_owned(), true)]);
        let lost = vec![asked(2, 2), attempted("b", None)];
        assert_eq!(of(lost.clone()), std::slice::from_ref(&a), "the response was not delivered");
        let again = vec![resumed(), asked(0, 4), attempted("c", None), answered()];
        let c = ("c".to_owned(), true);
        assert_eq!(of([lost, again].concat()), [a.clone(), c]);
        let other = vec![asked(1, 1), attempted("b", None), answered()];
        assert_eq!(of(other)[1], ("b".to_owned(), true), "the last message may change");
        let other = vec![asked(0, 1), attempted("b", None), answered()];
        assert_eq!(of(other)[1], ("b".to_owned(), false), "the conversation is another one");
        assert_eq!(of(vec![asked(2, 2), attempted("b", None), grace()]), [a]);
        let from = ForkOrigin {
            run: "r".into(),
            task: TaskId("t".into()),
            arm: ArmId("a".into()),
            name: "a".into(),
            attempt: 1,
            step: 1,
            tree: String::new(),
            conversation: true,
            files_alone_because: None,
            hint: None,
        };
        let forked = Event::TrialForked {
            from,
            snapshot: String::new(),
            spent: Spending::default(),
            outside: None,
        };
        assert!(of(vec![forked]).is_empty(), "the fork may use another endpoint");
    }
}
