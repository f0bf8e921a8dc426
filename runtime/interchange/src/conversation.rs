//! Converts a trial's journal to a conversation: the messages, responses and call results.

use proctor_types::{Answer, Envelope, Event, Message, ToolSpec, Usage};
use serde_json::{Map, Value, json};

use crate::Fidelity;

/// One turn of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Turn {
    Told(Told),
    Answered(Box<Answered>),
}

/// A message from the task or the scaffold to the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    pub(crate) is_system: bool,
    pub(crate) text: String,
    pub(crate) at: f64,
}

/// A model response and its calls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answered {
    pub(crate) answer: Answer,
    pub(crate) calls: Vec<Call>,
    /// Whether this is the response after the limit, which is not a step and whose calls were not
    /// run.
    pub(crate) is_grace: bool,
    pub(crate) at: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The arguments, as a string if they are not valid JSON.
    pub(crate) arguments: Value,
    pub(crate) output: Option<Output>,
}

impl Turn {
    /// Returns the time in seconds since the epoch, or 0 if an imported file has no times.
    pub(crate) fn at(&self) -> f64 {
        match self {
            Self::Told(told) => told.at,
            Self::Answered(answered) => answered.at,
        }
    }
}

impl Answered {
    /// Returns the calls as sent, in chat format. Omits commands in the response text.
    pub(crate) fn wire_calls(&self) -> Vec<Value> {
        let calls = self.answer.tool_calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        calls.collect()
    }

    /// Returns those calls with their outputs.
    pub(crate) fn wire_outputs(&self) -> impl Iterator<Item = (&Call, &Output)> {
        let named = |call: &&Call| self.answer.tool_calls.iter().any(|one| one.id == call.id);
        self.calls.iter().filter(named).filter_map(|call| Some((call, call.output.as_ref()?)))
    }
}

impl Call {
    /// Returns the arguments as an object, which some formats require.
    pub(crate) fn object(&self, fidelity: &mut Fidelity) -> Map<String, Value> {
        if let Value::Object(arguments) = &self.arguments {
            return arguments.clone();
        }
        fidelity.leave_out("arguments that are not a JSON object: kept as text", 1);
        Map::from_iter([("text".to_owned(), self.arguments.clone())])
    }
}

/// Converts tools to chat format.
pub(crate) fn as_functions(tools: Vec<ToolSpec>) -> Vec<Value> {
    tools.into_iter().map(|tool| json!({ "type": "function", "function": tool })).collect()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Output {
    pub(crate) shown: String,
    pub(crate) exit_status: Option<i32>,
    pub(crate) seconds: f64,
}

/// All turns of a trial, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Conversation {
    pub(crate) turns: Vec<Turn>,
    /// The tools offered in the first request.
    pub(crate) tools: Vec<ToolSpec>,
}

impl Conversation {
    pub(crate) fn answers(&self) -> impl Iterator<Item = &Answered> {
        self.turns.iter().filter_map(|turn| match turn {
            Turn::Answered(answered) => Some(answered.as_ref()),
            Turn::Told(_) => None,
        })
    }

    /// Returns the first message to the agent.
    pub(crate) fn first_words(&self) -> Option<&str> {
        self.turns.iter().find_map(|turn| match turn {
            Turn::Told(told) if !told.is_system => Some(told.text.as_str()),
            _ => None,
        })
    }

    /// Counts what a record contains but the imported file lacked.
    pub(crate) fn count_gaps(&self, fidelity: &mut Fidelity) {
        let count = |is_missing: &dyn Fn(&Answered) -> bool| {
            self.answers().filter(|answered| is_missing(answered)).count() as u64
        };
        fidelity.lacks("times of responses", count(&|one| one.at == 0.0));
        fidelity.lacks("tokens of responses", count(&|one| one.answer.usage == Usage::default()));
        fidelity.lacks("prices of responses", count(&|one| one.answer.cost_usd.is_none()));
        let calls = self.answers().flat_map(|answered| &answered.calls);
        let without = calls
            .filter(|call| call.output.as_ref().is_none_or(|output| output.exit_status.is_none()));
        fidelity.lacks("exit statuses of tool calls", without.count() as u64);
    }

    pub(crate) fn of(events: &[Envelope]) -> Self {
        let mut all = Self::default();
        // Number of messages already in the conversation. A repeated request repeats some of them.
        let mut known = 0;
        for Envelope { event, t_wall, .. } in events {
            match event {
                Event::ModelAsked { ask } => {
                    if all.tools.is_empty() {
                        all.tools.clone_from(&ask.new.tools);
                    }
                    for (index, message) in ask.new.messages.iter().enumerate() {
                        let is_known = ask.kept + index < known || ask.as_returned.contains(&index);
                        if let (false, Some(told)) = (is_known, told(message, *t_wall)) {
                            all.turns.push(Turn::Told(told));
                        }
                    }
                    known = known.max(ask.kept + ask.new.messages.len());
                }
                Event::ModelAnswered { answer } => all.answered(answer, false, *t_wall),
                Event::GraceAnswered { answer } => all.answered(answer, true, *t_wall),
                Event::ToolCalled { call_id, name, arguments } => {
                    all.called(call_id, name, arguments);
                }
                Event::ToolReturned { call_id, shown, exit_status, seconds, .. } => {
                    let output = Output {
                        shown: shown.clone(),
                        exit_status: *exit_status,
                        seconds: *seconds,
                    };
                    all.returned(call_id, output);
                }
                _ => {}
            }
        }
        all
    }

    fn answered(&mut self, answer: &Answer, is_grace: bool, at: f64) {
        let calls = answer.tool_calls.iter().map(|call| Call {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: serde_json::from_str(&call.arguments)
                .unwrap_or_else(|_| call.arguments.as_str().into()),
            output: None,
        });
        let calls = calls.collect();
        let answered = Answered { answer: answer.clone(), calls, is_grace, at };
        self.turns.push(Turn::Answered(Box::new(answered)));
    }

    /// Adds a call. If the response does not list it, it is part of the text, like the commands of
    /// `bash`.
    fn called(&mut self, id: &str, name: &str, arguments: &Value) {
        let last = self.turns.iter_mut().rev().find_map(|turn| match turn {
            Turn::Answered(answered) => Some(answered),
            Turn::Told(_) => None,
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

    /// Adds a result. The call may belong to an earlier response, because a client sends results
    /// with its next request.
    fn returned(&mut self, id: &str, output: Output) {
        let calls = self.turns.iter_mut().rev().filter_map(|turn| match turn {
            Turn::Answered(answered) => Some(&mut answered.calls),
            Turn::Told(_) => None,
        });
        let mut waiting = calls.flatten().filter(|call| call.id == id && call.output.is_none());
        if let Some(call) = waiting.next() {
            call.output = Some(output);
        }
    }
}

/// Converts a message to a turn. Responses and tool results are skipped, because they have their
/// own events.
fn told(message: &Message, at: f64) -> Option<Told> {
    let (is_system, text) = match message {
        Message::System { content } => (true, content),
        Message::User { content } => (false, content),
        Message::Assistant { .. } | Message::Tool { .. } => return None,
    };
    Some(Told { is_system, text: text.clone(), at })
}
