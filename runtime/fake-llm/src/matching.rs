//! Selects the scripted response to a request.

use serde_json::Value;

use crate::{Answer, Script};

/// A response that matches, with its location in the script.
pub(crate) struct ScriptMatch<'a> {
    pub answer: &'a Answer,
    pub location: String,
}

/// The parts of a request that determine the response.
pub(crate) struct RequestKey {
    /// The text of all messages before the first assistant message.
    pub opening_text: String,
    /// The number of assistant messages.
    pub turn: usize,
    last_message: String,
    model: String,
}

impl RequestKey {
    pub(crate) fn new(request: &Value) -> Self {
        let none = Vec::new();
        let messages = request["messages"].as_array().unwrap_or(&none);
        let assistant = |message: &&Value| message["role"] == "assistant";
        let head: Vec<_> =
            messages.iter().take_while(|message| !assistant(message)).map(message_text).collect();
        Self {
            opening_text: head.join("\n"),
            turn: messages.iter().filter(assistant).count(),
            last_message: messages.last().map(message_text).unwrap_or_default(),
            model: request["model"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

/// Returns a message's text. If there are several text parts, they are joined.
pub(crate) fn message_text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

impl Script {
    pub(crate) fn find_match(&self, key: &RequestKey) -> Option<ScriptMatch<'_>> {
        let holds = |wanted: &Option<String>, text: &str| {
            wanted.as_deref().is_none_or(|wanted| text.contains(wanted))
        };
        let named =
            |wanted: &Option<String>| wanted.as_deref().is_none_or(|name| name == key.model);
        for (index, rule) in self.rules.iter().enumerate() {
            if holds(&rule.when, &key.opening_text)
                && holds(&rule.last, &key.last_message)
                && named(&rule.model)
                && rule.turn.is_none_or(|turn| turn == key.turn)
            {
                return Some(ScriptMatch {
                    answer: &rule.answer,
                    location: format!("rule {index}"),
                });
            }
        }
        for (index, one) in self.conversations.iter().enumerate() {
            if !holds(&one.when, &key.opening_text) || !named(&one.model) {
                continue;
            }
            let last = one.turns.len().saturating_sub(1);
            let turn = if one.repeat_last { key.turn.min(last) } else { key.turn };
            if let Some(answer) = one.turns.get(turn) {
                let place = format!("conversation {index} turn {turn}");
                return Some(ScriptMatch { answer, location: place });
            }
            // This conversation matches but has ended. Don't continue with a later conversation.
            break;
        }
        self.default.as_ref().map(|answer| ScriptMatch { answer, location: "default".into() })
    }
}
