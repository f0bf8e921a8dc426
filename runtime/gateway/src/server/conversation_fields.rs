//! Separates the conversation from the other fields of a request.

use serde_json::{Map, Value};

/// The conversation fields, taken out of a request. In the request, `null` replaces each of them,
/// so that the fields keep their order.
#[derive(Debug)]
pub(super) struct ConversationFields(Vec<(&'static str, Value)>);

impl ConversationFields {
    /// Names of the fields in the four formats.
    pub(super) const FIELDS: [&str; 4] = ["messages", "input", "contents", "system"];

    /// Moves these fields out of `request`. A Responses input that contains tools stays in
    /// `request`, because the gateway may have to remove some of these tools.
    pub(super) fn take_from(request: &mut Map<String, Value>) -> Self {
        let mut said = Vec::new();
        for name in Self::FIELDS {
            if let Some(value) = request.get_mut(name).filter(|value| !contains_tools(value)) {
                said.push((name, value.take()));
            }
        }
        Self(said)
    }

    /// Swaps the fields between this object and `request`.
    pub(super) fn swap(&mut self, request: &mut Map<String, Value>) {
        for (name, value) in &mut self.0 {
            if let Some(other) = request.get_mut(*name) {
                std::mem::swap(value, other);
            }
        }
    }
}

fn contains_tools(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().any(|item| item.get("tools").is_some()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ConversationFields;

    #[test]
    fn swap_restores_the_fields_in_their_order() {
        let whole =
            json!({"model": "m", "messages": [{"role": "user"}], "system": "s", "stream": true});
        let Value::Object(mut request) = whole.clone() else { panic!("an object") };
        let mut said = ConversationFields::take_from(&mut request);
        let rest = json!({"model": "m", "messages": null, "system": null, "stream": true});
        assert_eq!(Value::Object(request.clone()).to_string(), rest.to_string());
        said.swap(&mut request);
        assert_eq!(Value::Object(request.clone()).to_string(), whole.to_string());
        said.swap(&mut request);
        assert_eq!(Value::Object(request).to_string(), rest.to_string());
    }

    #[test]
    fn input_that_contains_tools_stays() {
        let whole = json!({"input": [{"type": "x", "tools": [{"type": "web_search"}]}]});
        let Value::Object(mut request) = whole.clone() else { panic!("an object") };
        ConversationFields::take_from(&mut request);
        assert_eq!(Value::Object(request), whole);
    }
}
