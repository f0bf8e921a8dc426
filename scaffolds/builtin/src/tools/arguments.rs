//! Parses the arguments of tool calls in the forms in which servers encode them.
//!
//! Some servers encode the object twice, don't escape line breaks in strings, send each value of a
//! nullable type as a string, send integers as `60.0`, or decode a string that contains JSON. None
//! of this is the model's mistake. If a strict parser accepts the arguments, they are not changed.

use proctor_types::ToolCall;
use serde_json::{Map, Value, json};

/// Parses the arguments as JSON. Empty text means an empty object, because several endpoints send
/// it for a tool without parameters.
///
/// # Errors
/// Returns the strict parser's error.
pub(super) fn parse(call: &ToolCall) -> serde_json::Result<Value> {
    let text = call.arguments.as_str();
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    let value: Value = serde_json::from_str(text).or_else(|error| {
        serde_json::from_str(&escape_control_characters(text)).map_err(|_: serde_json::Error| error)
    })?;
    let inner = match &value {
        Value::String(inner) => serde_json::from_str::<Map<String, Value>>(inner).ok(),
        _ => None,
    };
    Ok(inner.map_or(value, Value::Object))
}

/// Escapes control characters in the strings of a JSON text.
fn escape_control_characters(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let (mut in_string, mut is_escaped) = (false, false);
    for one in text.chars() {
        if in_string && (one as u32) < 0x20 {
            out.push_str(&format!("\\u{:04x}", one as u32));
            is_escaped = false;
            continue;
        }
        if one == '"' && !is_escaped {
            in_string = !in_string;
        }
        is_escaped = in_string && one == '\\' && !is_escaped;
        out.push(one);
    }
    out
}

/// Converts values to the types that the schema requires: strings that contain another type, and
/// whole numbers that are written as `60.0`. Returns `None` if nothing changes.
pub(super) fn coerce_types(schema: &Value, arguments: &Value) -> Option<Value> {
    let mut fields = arguments.as_object()?.clone();
    let mut changed = false;
    for (name, value) in &mut fields {
        changed |= coerce_value(&schema["properties"][name.as_str()], value);
    }
    changed.then_some(Value::Object(fields))
}

/// Converts a value and the items of a list. Returns whether anything changed.
fn coerce_value(schema: &Value, value: &mut Value) -> bool {
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return false,
    };
    let mut changed = false;
    let decoded = match &*value {
        Value::String(text) if !kinds.contains(&"string") => decode_text(text),
        _ => None,
    };
    if let Some(decoded) = decoded {
        *value = decoded;
        changed = true;
    }
    if let Value::Array(items) = value {
        for item in items {
            changed |= coerce_value(&schema["items"], item);
        }
    } else if kinds.contains(&"integer")
        && let Some(whole) = read_whole_float(value)
    {
        *value = whole.into();
        changed = true;
    }
    changed
}

/// Reads a value that a server sent as a string.
fn decode_text(text: &str) -> Option<Value> {
    let plain = text.trim();
    // Some servers send Python's `True`, `False` and `None`.
    let read = match plain.to_lowercase().as_str() {
        "none" | "null" => Some(Value::Null),
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => serde_json::from_str::<Value>(plain).ok(),
    };
    read.filter(|read| !read.is_string())
}

/// Reads a float without a fraction as an integer. JSON Schema counts `60.0` as an integer, and
/// endpoints that store all numbers as doubles, such as Gemini, write it.
fn read_whole_float(value: &Value) -> Option<i64> {
    // The largest integer up to which a double represents every integer exactly.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    let number = value.as_f64().filter(|_| value.is_f64())?;
    (number.fract() == 0.0 && number.abs() <= MAX_EXACT).then_some(number as i64)
}

/// Encodes the values of these fields as JSON text, unless they are text or null. If the content of
/// a file is JSON, some servers decode the string that the model wrote.
pub(super) fn encode_texts(fields: &[&str], mut arguments: Value) -> Value {
    for name in fields {
        let Some(value) = arguments.get_mut(*name) else { continue };
        if !value.is_string() && !value.is_null() {
            *value = Value::String(value.to_string());
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use proctor_types::ToolCall;
    use serde_json::{Value, json};

    use super::{coerce_types, encode_texts, parse};

    fn parse_text(arguments: &str) -> Option<Value> {
        let call = ToolCall { id: "a".into(), name: "f".into(), arguments: arguments.into() };
        parse(&call).ok()
    }

    #[test]
    fn parse_accepts_arguments_as_servers_encode_them() {
        let wanted = json!({"command": "a\n\t\"b\" \\"});
        let sound = wanted.to_string();
        let raw = "{\"command\": \"a\n\t\\\"b\\\" \\\\\"}";
        for text in [sound.as_str(), &json!(sound).to_string(), raw] {
            assert_eq!(parse_text(text), Some(wanted.clone()), "{text}");
        }
        assert_eq!(parse_text(" "), Some(json!({})));
        assert_eq!(
            parse_text("\"ls\""),
            Some(json!("ls")),
            "a string without an object stays a string"
        );
        assert_eq!((parse_text("not JSON"), parse_text("{\"a\": \"\n")), (None, None));
    }

    #[test]
    fn encode_texts_restores_decoded_texts() {
        let came = json!({"path": {}, "text": {"I": 1, "IV": [4]}, "old": "x", "new": null});
        let wanted = json!({"path": {}, "text": "{\"I\":1,\"IV\":[4]}", "old": "x", "new": null});
        let fields = ["text", "old", "new", "none"];
        assert_eq!(encode_texts(&fields, came), wanted);
        assert_eq!(encode_texts(&fields, json!({"text": 10})), json!({"text": "10"}));
        assert_eq!(encode_texts(&fields, json!("no object")), json!("no object"));
    }

    #[test]
    fn coerce_types_converts_string_values() {
        let schema = json!({"properties": {"command": {"type": "string"}, "timeout": {"type": ["integer", "null"]},
            "lines": {"type": ["array", "null"]}, "ignore_case": {"type": "boolean"}}});
        let came =
            json!({"command": "60", "timeout": "60", "lines": "[1, 2]", "ignore_case": "True"});
        let wanted = json!({"command": "60", "timeout": 60, "lines": [1, 2], "ignore_case": true});
        assert_eq!(coerce_types(&schema, &came), Some(wanted));
        for none in ["null", "None"] {
            let came = json!({"timeout": none});
            assert_eq!(coerce_types(&schema, &came), Some(json!({"timeout": null})), "{none}");
        }
        for came in [json!({"timeout": "soon"}), json!({"timeout": 5}), json!({"other": "5"})] {
            assert_eq!(coerce_types(&schema, &came), None, "{came}");
        }
    }

    #[test]
    fn coerce_types_reads_whole_floats_as_integers() {
        let schema = json!({"properties": {"timeout": {"type": ["integer", "null"]}, "share": {"type": "number"},
            "lines": {"type": ["array", "null"], "items": {"type": "integer"}}}});
        for (came, wanted) in [
            (json!({"timeout": 60.0}), json!({"timeout": 60})),
            (json!({"timeout": "60.0"}), json!({"timeout": 60})),
            (json!({"lines": [1.0, -1.0]}), json!({"lines": [1, -1]})),
            (json!({"lines": ["1", 20.0]}), json!({"lines": [1, 20]})),
            (json!({"lines": "[1.0, 20]"}), json!({"lines": [1, 20]})),
        ] {
            assert_eq!(coerce_types(&schema, &came), Some(wanted), "{came}");
        }
        for came in [
            json!({"timeout": 0.5}),
            json!({"timeout": 1e300}),
            json!({"share": 1.0}),
            json!({"lines": [1.5]}),
        ] {
            assert_eq!(coerce_types(&schema, &came), None, "{came}");
        }
    }
}
