//! The journal of a trial as a conversation: who said what, and the result of each call.

use proctor_types::{Answer, Envelope, Event, Message, ToolSpec, Usage};
use serde_json::{Map, Value, json};

use crate::Fidelity;

/// One turn of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Turn {
    Told(Told),
    Answered(Box<Answered>),
}

/// What the task or the scaffold said to the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    pub(crate) is_system: bool,
    pub(crate) text: String,
    pub(crate) at: f64,
}

/// A response of the model, and its calls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answered {
    pub(crate) answer: Answer,
    pub(crate) calls: Vec<Call>,
    /// The response after the limit: not a step, and its calls were not run.
    pub(crate) is_grace: bool,
    pub(crate) at: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// A string if they are not JSON.
    pub(crate) arguments: Value,
    pub(crate) output: Option<Output>,
}

impl Turn {
    /// Seconds since the epoch; 0 if the source of an import has no times.
    pub(crate) fn at(&self) -> f64 {
        match self {
            Self::Told(told) => told.at,
            Self::Answered(answered) => answered.at,
        }
    }
}

impl Answered {
    /// The calls as sent, in chat format. A command within the text is not one of them.
    pub(crate) fn wire_calls(&self) -> Vec<Value> {
        let calls = self.answer.tool_calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        calls.collect()
    }

    /// The outputs of those calls.
    pub(crate) fn wire_outputs(&self) -> impl Iterator<Item = (&Call, &Output)> {
        let named = |call: &&Call| self.answer.tool_calls.iter().any(|one| one.id == call.id);
        self.calls.iter().filter(named).filter_map(|call| Some((call, call.output.as_ref()?)))
    }
}

impl Call {
    /// The arguments as the object that some formats require.
    pub(crate) fn object(&self, fidelity: &mut Fidelity) -> Map<String, Value> {
        if let Value::Object(arguments) = &self.arguments {
            return arguments.clone();
        }
        fidelity.leave_out("arguments that are not a JSON object: kept as text", 1);
        Map::from_iter([("text".to_owned(), self.arguments.clone())])
    }
}

/// The tools in chat format.
pub(crate) fn as_functions(tools: Vec<ToolSpec>) -> Vec<Value> {
    tools.into_iter().map(|tool| json!({ "type": "function", "function": tool })).collect()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Output {
    pub(crate) shown: String,
    pub(crate) exit_status: Option<i32>,
    pub(crate) seconds: f64,
}

/// All turns, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Conversation {
    pub(crate) turns: Vec<Turn>,
    /// What the first request offered.
    pub(crate) tools: Vec<ToolSpec>,
}

impl Conversation {
    pub(crate) fn answers(&self) -> impl Iterator<Item = &Answered> {
        self.turns.iter().filter_map(|turn| match turn {
            Turn::Answered(answered) => Some(answered.as_ref()),
            Turn::Told(_) => None,
        })
    }

    /// The first message to the agent.
    pub(crate) fn first_words(&self) -> Option<&str> {
        self.turns.iter().find_map(|turn| match turn {
            Turn::Told(told) if !told.is_system => Some(told.text.as_str()),
            _ => None,
        })
    }

    /// Counts what a record has but the source of an import lacked.
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
        // Messages of the conversation that are known; a repeated request repeats some.
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

    /// A call that the response does not list is part of its text, as commands of `bash` are.
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

    /// The call may belong to an earlier response: a client sends its results with its next
    /// request.
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

/// Responses and tool results are events of their own.
fn told(message: &Message, at: f64) -> Option<Told> {
    let (is_system, text) = match message {
        Message::System { content } => (true, content),
        Message::User { content } => (false, content),
        Message::Assistant { .. } | Message::Tool { .. } => return None,
    };
    Some(Told { is_system, text: text.clone(), at })
}
