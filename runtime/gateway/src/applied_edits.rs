//! Detects a gateway that edits the conversation before the model receives it.
//!
//! Anthropic's API can replace the results of earlier tool calls. It reports what it replaced as
//! `applied_edits`. If the request did not ask for this, a gateway added the setting.

use crate::{
    attempt_failure::AttemptFailure, checks::AppliedEditsCheck, codec::lenient_json,
    responder::json_objects,
};

/// The field that turns on the edits in a request, and reports them in a response.
const FIELD: &str = "context_management";

impl AppliedEditsCheck {
    /// Returns why a response must be requested again if its prompt was edited without a request to
    /// do so. `request` is JSON without whitespace, and `response` has the bytes of the response.
    pub(crate) fn find(&self, request: &[u8], response: &[u8]) -> Option<AttemptFailure> {
        let contains =
            |text: &[u8], word: &str| memchr::memmem::find(text, word.as_bytes()).is_some();
        if !contains(response, "applied_edits") || contains(request, &format!("\"{FIELD}\":")) {
            return None;
        }
        let text = String::from_utf8_lossy(response);
        let edit = json_objects(&text).find_map(first_edit)?;
        let why = format!(
            "a gateway edited the conversation (`applied_edits`: {edit}), although the request did not ask for it"
        );
        // The edits may also have removed parts of earlier prompts.
        Some(AttemptFailure {
            restarts_trial: true,
            ..AttemptFailure::corrupted_response(why, &self.hint)
        })
    }
}

/// Returns the name of the first edit that an object reports.
fn first_edit(object: &str) -> Option<String> {
    let object = lenient_json::parse(object.as_bytes()).ok()?;
    let places = [&object, &object["delta"], &object["message"]];
    let edit = places.into_iter().find_map(|place| place[FIELD]["applied_edits"].get(0))?;
    Some(edit["type"].as_str().map_or_else(|| edit.to_string(), ToOwned::to_owned))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::checks::EndpointChecks;

    #[test]
    fn edits_that_the_request_did_not_ask_for_are_detected() {
        let check = &EndpointChecks::shipped().expect("a valid table").applied_edits;
        let edits = json!({"applied_edits": [{"type": "clear_tool_uses_20250919"}]});
        let none = json!({"applied_edits": []});
        let document = json!({"content": [], "context_management": edits}).to_string();
        let event = json!({"type": "message_delta", "context_management": edits});
        let stream = format!("event: message_delta\ndata: {event}\n\n");
        for response in [document.as_str(), stream.as_str()] {
            let found = check.find(b"{\"messages\":[]}", response.as_bytes()).expect("an edit");
            assert!(found.reason.contains("clear_tool_uses_20250919"), "{}", found.reason);
            assert!(found.hint.is_some_and(|hint| hint.contains("applied_edits")));
            assert!(found.restarts_trial);
            let request = b"{\"context_management\":{\"edits\":[]},\"messages\":[]}";
            assert!(check.find(request, response.as_bytes()).is_none(), "the arm asked for it");
        }
        let empty = json!({"content": [], "context_management": none}).to_string();
        let quoted = json!({"content": [{"type": "text", "text": "`applied_edits`"}]}).to_string();
        for response in [empty, quoted, "{}".to_owned()] {
            assert!(check.find(b"{}", response.as_bytes()).is_none(), "{response}");
        }
    }
}
