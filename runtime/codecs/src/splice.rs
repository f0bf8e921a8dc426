//! Changes single fields of a JSON object and leaves all other bytes unchanged.
//!
//! Parsing and reserializing a body would keep its meaning, but not its whitespace, escapes and
//! number formats. Prefix caching requires identical bytes, and so does the promise to pass data on
//! unchanged.

use serde_json::{Map, Value};

use super::fields::Fields;

/// Changes `bytes`, which parse to `old_fields`, so that they parse to `new_fields`. Only the
/// values of changed top-level fields are rewritten. New fields are appended.
///
/// Returns `None` if `bytes` is not a JSON object.
pub fn splice_fields(
    bytes: &[u8],
    old_fields: &Map<String, Value>,
    new_fields: &Map<String, Value>,
) -> Option<Vec<u8>> {
    let removes = old_fields.keys().any(|key| !new_fields.contains_key(key));
    let spans = value_spans(bytes)?;
    // Parsers treat duplicate keys differently: a policy might check one value while the provider
    // uses the other.
    if removes || spans.len() != old_fields.len() {
        return Some(rewrite(bytes, old_fields, new_fields, &spans));
    }
    let mut out = Vec::with_capacity(bytes.len() + 64);
    let mut at = 0;
    for (key, start, end) in &spans {
        if let Some(value) = new_fields.get(key)
            && old_fields.get(key) != Some(value)
        {
            out.extend_from_slice(&bytes[at..*start]);
            out.extend_from_slice(value.to_string().as_bytes());
            at = *end;
        }
    }
    let close = bytes.iter().rposition(|byte| *byte == b'}')?;
    out.extend_from_slice(&bytes[at..close]);
    let mut first = spans.is_empty();
    for (key, value) in new_fields.iter().filter(|(key, _)| !old_fields.contains_key(*key)) {
        if !first {
            out.push(b',');
        }
        first = false;
        out.extend_from_slice(Value::from(key.as_str()).to_string().as_bytes());
        out.push(b':');
        out.extend_from_slice(value.to_string().as_bytes());
    }
    out.extend_from_slice(&bytes[close..]);
    Some(out)
}

/// Rewrites the whole object, because removing fields moves the commas.
fn rewrite(
    bytes: &[u8],
    old_fields: &Map<String, Value>,
    new_fields: &Map<String, Value>,
    spans: &[(String, usize, usize)],
) -> Vec<u8> {
    let mut out = vec![b'{'];
    for (key, value) in new_fields {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(Value::from(key.as_str()).to_string().as_bytes());
        out.push(b':');
        // If a key is duplicated, the last value counts, as in the parser.
        let kept = spans.iter().rev().find(|(name, ..)| name == key);
        match kept.filter(|_| old_fields.get(key) == Some(value)) {
            Some((_, start, end)) => out.extend_from_slice(&bytes[*start..*end]),
            None => out.extend_from_slice(value.to_string().as_bytes()),
        }
    }
    out.push(b'}');
    out
}

/// Returns each top-level key with the position of its value.
fn value_spans(bytes: &[u8]) -> Option<Vec<(String, usize, usize)>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let base = text.as_ptr() as usize;
    let placed = Fields::parse(text).ok()?;
    let placed = placed.iter().map(|(key, value)| {
        // The value is borrowed from `text`, so its position can be computed from its address.
        let start = value.as_ptr() as usize - base;
        (key.to_owned(), start, start + value.len())
    });
    Some(placed.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::splice_fields;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("an object")
    }

    fn splice(text: &str, change: impl FnOnce(&mut Map<String, Value>)) -> String {
        let old = object(serde_json::from_str(text).expect("JSON"));
        let mut new = old.clone();
        change(&mut new);
        let bytes = splice_fields(text.as_bytes(), &old, &new).expect("an object");
        let parsed: Value = serde_json::from_slice(&bytes).expect("JSON again");
        assert_eq!(object(parsed), new);
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn splice_rewrites_only_the_changed_value() {
        let text = "{ \"model\" : \"a\",\n\t\"t\": 1.50e0, \"m\": [ {\"model\":\"\\u00e9\"} ] }\n";
        assert_eq!(splice(text, |_| {}), text);
        let told = splice(text, |new| {
            new.insert("model".into(), "b".into());
        });
        assert_eq!(told, text.replacen("\"a\"", "\"b\"", 1));
        let told = splice(text, |new| {
            new.insert("x".into(), json!({"y": true}));
        });
        assert_eq!(told, text.replacen("] }", "] ,\"x\":{\"y\":true}}", 1));
        assert_eq!(splice("{}", |new| drop(new.insert("x".into(), 1.into()))), "{\"x\":1}");
    }

    #[test]
    fn splice_removes_only_the_removed_field() {
        let text = "{\"a\": 1.0, \"b\":  [ 2 ],\"c\":3}";
        let told = splice(text, |new| drop(new.shift_remove("a")));
        assert_eq!(told, "{\"b\":[ 2 ],\"c\":3}");
    }

    #[test]
    fn splice_keeps_one_of_duplicate_keys() {
        assert_eq!(splice("{\"a\": 1, \"a\": 2.0}", |_| {}), "{\"a\":2.0}");
    }

    #[test]
    fn splice_rejects_non_objects() {
        let new = object(json!({"a": 1}));
        assert_eq!(splice_fields(b"[1]", &Map::new(), &new), None);
    }
}
