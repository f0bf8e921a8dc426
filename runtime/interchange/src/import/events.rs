//! Converts a conversation to the events of a record. This is the reverse of `conversation.rs`.

use proctor_types::{
    EVENT_VERSION, Envelope, Event, Message, ModelRequest, ModelRequestRecord, Outcome,
    RequestClass, Spending, ToolSpec, TrialId,
};
use serde_json::{Value, json};

use super::imported_trial::ImportedTrial;
use crate::conversation::{InputMessage, ResponseTurn, Turn};

impl ImportedTrial {
    /// Returns the events and the outcome for a record. The caller must store the patch and add the
    /// last event, which contains the outcome.
    pub fn to_record(&self, id: &TrialId) -> (Vec<Envelope>, Outcome) {
        let turns = &self.conversation.turns;
        let first = turns.iter().map(Turn::time).find(|at| *at > 0.0).unwrap_or_default();
        let mut writer = EventWriter {
            first_time: first,
            latest_time: first,
            tools: &self.conversation.tools,
            ..EventWriter::default()
        };
        writer.write(writer.latest_time, Event::trial_started(id));
        if let Some(claim) = &self.claimed_result {
            let note = json!({ "imported": { "claim": claim } });
            let note = note.as_object().cloned().unwrap_or_default();
            writer.write(writer.latest_time, Event::Noted { note });
        }
        for turn in turns {
            match turn {
                Turn::Message(told) => writer.write_message(told),
                Turn::Response(answered) => writer.write_response(answered),
            }
        }
        if writer.has_unanswered_message {
            writer.write_request();
        }
        let mut spent = writer.spending;
        if let Some((input, output, cached, cost)) = self.totals {
            (spent.input_tokens, spent.output_tokens, spent.cached_tokens) =
                (input, output, cached);
            (spent.cost_usd, spent.unpriced) = (cost.unwrap_or_default(), cost.is_none());
        }
        let outcome = Outcome {
            spent,
            tool_calls: Some(writer.call_count),
            // If the source has no times, the wall time is unknown: the sum of the known durations
            // of tool calls is not the wall time.
            wall_seconds: if writer.first_time > 0.0 {
                writer.latest_time - writer.first_time
            } else {
                0.0
            },
            tool_seconds: writer.tool_seconds,
            ..Outcome::from_ending(1, self.ending.clone())
        };
        (writer.events, outcome)
    }
}

#[derive(Default)]
struct EventWriter<'a> {
    events: Vec<Envelope>,
    step: u64,
    /// The earliest and the latest time in the source. 0 if the source has no times.
    first_time: f64,
    latest_time: f64,
    tools: &'a [ToolSpec],
    /// The number of messages that were already sent, and the messages that the next request adds.
    sent_count: usize,
    new_messages: Vec<Message>,
    as_returned: Vec<usize>,
    /// Whether the last message has no response yet, and the time of that message.
    has_unanswered_message: bool,
    unanswered_since: f64,
    spending: Spending,
    call_count: u64,
    tool_seconds: f64,
}

impl EventWriter<'_> {
    fn write(&mut self, time: f64, event: Event) {
        let t_mono = (time - self.first_time).max(0.0);
        let (v, seq) = (EVENT_VERSION, self.events.len() as u64 + 1);
        let (step, t_wall) = (self.step, time);
        self.events.push(Envelope { v, seq, try_number: 1, step, t_mono, t_wall, event });
    }

    fn write_message(&mut self, message: &InputMessage) {
        // A request has only one time, so a message with a different time starts a new request.
        if self.has_unanswered_message && message.time != self.unanswered_since {
            self.write_request();
        }
        (self.has_unanswered_message, self.unanswered_since) = (true, message.time);
        let content = message.text.clone();
        self.new_messages.push(match message.is_system {
            true => Message::System { content },
            false => Message::User { content },
        });
    }

    fn write_request(&mut self) {
        let at = if self.has_unanswered_message { self.unanswered_since } else { self.latest_time };
        let messages = std::mem::take(&mut self.new_messages);
        let (kept, sent) = (self.sent_count, self.sent_count + messages.len());
        let tools = if kept == 0 { self.tools.to_vec() } else { Vec::new() };
        let as_returned = std::mem::take(&mut self.as_returned);
        let ask = ModelRequestRecord { kept, new: ModelRequest { messages, tools }, as_returned };
        self.write(at, Event::ModelAsked { ask });
        (self.sent_count, self.has_unanswered_message) = (sent, false);
    }

    fn write_response(&mut self, turn: &ResponseTurn) {
        let ResponseTurn { response: answer, calls, is_grace, time: at } = turn;
        self.write_request();
        self.latest_time = self.latest_time.max(*at);
        let (usage, cost) = (&answer.usage, answer.cost_usd);
        if *is_grace {
            self.spending.add_grace(usage, cost, true);
            return self.write(*at, Event::GraceAnswered { answer: answer.clone() });
        }
        self.step += 1;
        self.spending.add(RequestClass::Main, usage, cost, true);
        self.write(*at, Event::ModelAnswered { answer: answer.clone() });
        self.new_messages.push(answer.to_message());
        let mut now = *at;
        for call in calls {
            self.call_count += 1;
            let (call_id, name) = (call.id.clone(), call.name.clone());
            let arguments: Value = call.arguments.clone();
            self.write(now, Event::ToolCalled { call_id, name, arguments });
            let Some(output) = &call.output else { continue };
            now += output.seconds;
            self.tool_seconds += output.seconds;
            let returned = Event::ToolReturned {
                call_id: call.id.clone(),
                name: call.name.clone(),
                shown: output.text.clone(),
                full: None,
                exit_status: output.exit_status,
                seconds: output.seconds,
                malformed: false,
                edited: None,
            };
            self.write(now, returned);
            // If a command was part of a response's text, its output is sent as a message.
            if answer.tool_calls.iter().any(|one| one.id == call.id) {
                self.as_returned.push(self.new_messages.len());
                self.new_messages
                    .push(Message::Tool { call_id: call.id.clone(), content: String::new() });
            }
        }
        self.latest_time = self.latest_time.max(now);
    }
}
