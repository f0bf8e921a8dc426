//! Converts a trial's journal to a conversation: messages, responses and the results of calls.

use proctor_types::{Envelope, Event, Message, ModelResponse, ToolSpec, Usage};
use serde_json::{Map, Value, json};

use crate::Fidelity;

/// One turn of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Turn {
    Message(InputMessage),
    Response(Box<ResponseTurn>),
}

/// A message that the task or the scaffold sent to the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InputMessage {
    pub(crate) is_system: bool,
    pub(crate) text: String,
    pub(crate) time: f64,
}

/// A model's response, with its calls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResponseTurn {
    pub(crate) response: ModelResponse,
    pub(crate) calls: Vec<Call>,
    /// Whether the response arrived after a limit was reached. Such a response is not a step, and
    /// its calls were not run.
    pub(crate) is_grace: bool,
    pub(crate) time: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The arguments. If they are not valid JSON, they are kept as a string.
    pub(crate) arguments: Value,
    pub(crate) output: Option<CallOutput>,
}

impl Turn {
    /// Returns the time in seconds since the Unix epoch, or 0 if the trial was imported from a file
    /// without times.
    pub(crate) fn time(&self) -> f64 {
        match self {
            Self::Message(told) => told.time,
            Self::Response(answered) => answered.time,
        }
    }
}

impl ResponseTurn {
    /// Returns the calls in chat format, as the model sent them. Commands inside the response text
    /// are left out.
    pub(crate) fn chat_calls(&self) -> Vec<Value> {
        let calls = self.response.tool_calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        calls.collect()
    }

    /// Returns the calls that [`Self::chat_calls`] returns, with their outputs.
    pub(crate) fn chat_outputs(&self) -> impl Iterator<Item = (&Call, &CallOutput)> {
        let is_listed = |call: &&Call| self.response.tool_calls.iter().any(|one| one.id == call.id);
        self.calls.iter().filter(is_listed).filter_map(|call| Some((call, call.output.as_ref()?)))
    }
}

impl Call {
    /// Returns the arguments as an object, because some formats require one.
    pub(crate) fn arguments_object(&self, fidelity: &mut Fidelity) -> Map<String, Value> {
        if let Value::Object(arguments) = &self.arguments {
            return arguments.clone();
        }
        fidelity.record_omission("arguments that are not a JSON object: kept as text", 1);
        Map::from_iter([("text".to_owned(), self.arguments.clone())])
    }
}

/// Converts tools to chat format.
pub(crate) fn tools_as_functions(tools: Vec<ToolSpec>) -> Vec<Value> {
    tools.into_iter().map(|tool| json!({ "type": "function", "function": tool })).collect()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallOutput {
    pub(crate) text: String,
    pub(crate) exit_status: Option<i32>,
    pub(crate) seconds: f64,
}

/// All turns of a trial, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Conversation {
    pub(crate) turns: Vec<Turn>,
    /// The tools that the first request offered.
    pub(crate) tools: Vec<ToolSpec>,
}

impl Conversation {
    pub(crate) fn responses(&self) -> impl Iterator<Item = &ResponseTurn> {
        self.turns.iter().filter_map(|turn| match turn {
            Turn::Response(answered) => Some(answered.as_ref()),
            Turn::Message(_) => None,
        })
    }

    /// Returns the first message to the agent.
    pub(crate) fn first_message(&self) -> Option<&str> {
        self.turns.iter().find_map(|turn| match turn {
            Turn::Message(told) if !told.is_system => Some(told.text.as_str()),
            _ => None,
        })
    }

    /// Counts the data that is missing from the imported file, although every record should contain
    /// it.
    pub(crate) fn count_missing_data(&self, fidelity: &mut Fidelity) {
        let count = |is_missing: &dyn Fn(&ResponseTurn) -> bool| {
            self.responses().filter(|answered| is_missing(answered)).count() as u64
        };
        fidelity.record_missing("times of responses", count(&|one| one.time == 0.0));
        fidelity.record_missing(
            "tokens of responses",
            count(&|one| one.response.usage == Usage::default()),
        );
        fidelity
            .record_missing("prices of responses", count(&|one| one.response.cost_usd.is_none()));
        let calls = self.responses().flat_map(|answered| &answered.calls);
        let without = calls
            .filter(|call| call.output.as_ref().is_none_or(|output| output.exit_status.is_none()));
        fidelity.record_missing("exit statuses of tool calls", without.count() as u64);
    }

    pub(crate) fn from_events(events: &[Envelope]) -> Self {
        let mut all = Self::default();
        // Number of messages that the conversation already contains. A retried request sends some
        // of them again.
        let mut known = 0;
        for Envelope { event, t_wall, .. } in events {
            match event {
                Event::ModelAsked { ask } => {
                    if all.tools.is_empty() {
                        all.tools.clone_from(&ask.new.tools);
                    }
                    for (index, message) in ask.new.messages.iter().enumerate() {
                        let is_known = ask.kept + index < known || ask.as_returned.contains(&index);
                        if let (false, Some(told)) = (is_known, input_message(message, *t_wall)) {
                            all.turns.push(Turn::Message(told));
                        }
                    }
                    known = known.max(ask.kept + ask.new.messages.len());
                }
                Event::ModelAnswered { answer } => all.add_response(answer, false, *t_wall),
                Event::GraceAnswered { answer } => all.add_response(answer, true, *t_wall),
                Event::ToolCalled { call_id, name, arguments } => {
                    all.add_call(call_id, name, arguments);
                }
                Event::ToolReturned { call_id, shown, exit_status, seconds, .. } => {
                    let output = CallOutput {
                        text: shown.clone(),
                        exit_status: *exit_status,
                        seconds: *seconds,
                    };
                    all.add_output(call_id, output);
                }
                _ => {}
            }
        }
        all
    }

    fn add_response(&mut self, response: &ModelResponse, is_grace: bool, time: f64) {
        let calls = response.tool_calls.iter().map(|call| Call {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: serde_json::from_str(&call.arguments)
                .unwrap_or_else(|_| call.arguments.as_str().into()),
            output: None,
        });
        let calls = calls.collect();
        let answered = ResponseTurn { response: response.clone(), calls, is_grace, time };
        self.turns.push(Turn::Response(Box::new(answered)));
    }

    /// Adds a call. If the response does not list the call, the call was part of the response text,
    /// like the commands of `bash`.
    fn add_call(&mut self, id: &str, name: &str, arguments: &Value) {
        let last = self.turns.iter_mut().rev().find_map(|turn| match turn {
            Turn::Response(answered) => Some(answered),
            Turn::Message(_) => None,
        });
        if let Some(last) = last
            && !last.calls.iter().any(|call| call.id == id)
        {
            last.calls.push(Call {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: arguments.clone(),
                output: None,
            });
        }
    }

    /// Adds a result. Its call may belong to an earlier response, because clients send results with
    /// their next request.
    fn add_output(&mut self, id: &str, output: CallOutput) {
        let calls = self.turns.iter_mut().rev().filter_map(|turn| match turn {
            Turn::Response(answered) => Some(&mut answered.calls),
            Turn::Message(_) => None,
        });
        let mut waiting = calls.flatten().filter(|call| call.id == id && call.output.is_none());
        if let Some(call) = waiting.next() {
            call.output = Some(output);
        }
    }
}

/// Converts a message to a turn. Responses and tool results are skipped, because they have their
/// own events.
fn input_message(message: &Message, time: f64) -> Option<InputMessage> {
    let (is_system, text) = match message {
        Message::System { content } => (true, content),
        Message::User { content } => (false, content),
        Message::Assistant { .. } | Message::Tool { .. } => return None,
    };
    Some(InputMessage { is_system, text: text.clone(), time })
}
