//! Calls of one turn that a server merged into one.
//!
//! Some servers number all calls of a turn with the same index and give them no ids. The next
//! server on the route then joins their arguments: `{"command": "ls"}{"command": "pwd"}`.

use proctor_types::{ModelResponse, ToolCall};
use serde_json::{Map, Value};

/// Splits the merged calls of a response. Returns whether there were any.
pub(crate) fn split_merged_calls(response: &mut ModelResponse) -> bool {
    if !response.tool_calls.iter().any(is_merged) {
        return false;
    }
    let calls = std::mem::take(&mut response.tool_calls);
    response.tool_calls = calls.into_iter().flat_map(split_call).collect();
    true
}

/// Whether a call's arguments are several objects for the same tool.
pub(crate) fn is_merged(call: &ToolCall) -> bool {
    split_objects(&call.arguments).is_some()
}

/// Returns one call for each different object in the arguments. The first call keeps the id.
fn split_call(call: ToolCall) -> Vec<ToolCall> {
    let Some(objects) = split_objects(&call.arguments) else { return vec![call] };
    let calls = objects.into_iter().enumerate().map(|(number, object)| ToolCall {
        id: match number {
            0 => call.id.clone(),
            _ => format!("{}_{number}", call.id),
        },
        name: call.name.clone(),
        arguments: object.to_owned(),
    });
    calls.collect()
}

/// Returns the different objects of which the arguments consist, if there are several objects and
/// all have the same keys. Other keys may belong to another tool, whose name is lost. If a server
/// sent the arguments twice, all objects are the same.
fn split_objects(arguments: &str) -> Option<Vec<&str>> {
    let mut objects =
        serde_json::Deserializer::from_str(arguments).into_iter::<Map<String, Value>>();
    let (mut parts, mut keys) = (Vec::new(), None);
    let (mut start, mut count) = (0, 0);
    while let Some(object) = objects.next() {
        let object = object.ok().filter(|object| !object.is_empty())?;
        let mut names: Vec<String> = object.keys().cloned().collect();
        names.sort_unstable();
        if *keys.get_or_insert_with(|| names.clone()) != names {
            return None;
        }
        let end = objects.byte_offset();
        let part = arguments[start..end].trim();
        if !parts.contains(&part) {
            parts.push(part);
        }
        (start, count) = (end, count + 1);
    }
    (count > 1).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::split_merged_calls;
    use crate::codec::neutral::{CollectedResponse, Delta};

    /// Returns the ids and arguments of the calls into which a call is split.
    fn split(arguments: &str) -> Option<Vec<(String, String)>> {
        let mut response = CollectedResponse::from_deltas(vec![
            Delta::Call { index: 0, id: "c".to_owned(), name: "shell".to_owned() },
            Delta::Arguments { index: 0, text: arguments.to_owned() },
        ])
        .to_model_response();
        let has_merged_calls = split_merged_calls(&mut response);
        let calls = response.tool_calls.into_iter().map(|call| (call.id, call.arguments));
        has_merged_calls.then(|| calls.collect())
    }

    #[test]
    fn objects_with_the_same_keys_are_separate_calls() {
        let list = r#"{"command": "ls", "timeout": null}"#;
        let print = r#"{"timeout": 9, "command": "}{"}"#;
        let call = |id: &str, arguments: &str| (id.to_owned(), arguments.to_owned());
        for joined in [format!("{list}{print}"), format!("{list}\n {print}\n")] {
            assert_eq!(split(&joined), Some(vec![call("c", list), call("c_1", print)]));
        }
        let doubled = format!("{list}{list}");
        assert_eq!(split(&doubled), Some(vec![call("c", list)]), "the same call was sent twice");
    }

    #[test]
    fn other_arguments_are_not_split() {
        for arguments in [
            "",
            "{}",
            r#"{"command": "ls"}"#,
            r#"{"command": "echo {}{}"}"#,
            r#"{"command": "ls"}{"path": "a"}"#,
            r#"{"command": "ls"}{}"#,
            r#"{"command": "ls"}{"command": "p"#,
            r#"{"command": "ls"}""#,
            r#"{"command": "ls"}, {"command": "pwd"}"#,
        ] {
            assert_eq!(split(arguments), None, "{arguments}");
        }
    }
}
