//! Finds JSON in mixed output.

use serde_json::{Deserializer, Value};

/// Returns the first object that starts at the beginning of a line and satisfies `predicate`.
/// Runners print the object on standard output, where package managers and tests may print other
/// text.
pub(super) fn find_object(text: &str, predicate: &dyn Fn(&Value) -> bool) -> Option<Value> {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let mut from = 0;
    for start in starts {
        // Skip lines inside an object that was already parsed.
        if start < from || !text[start..].trim_start_matches([' ', '\t']).starts_with('{') {
            continue;
        }
        let mut values = Deserializer::from_str(&text[start..]).into_iter::<Value>();
        let Some(Ok(value)) = values.next() else { continue };
        if predicate(&value) {
            return Some(value);
        }
        from = start + values.byte_offset();
    }
    None
}

/// Yields the objects in text with one object per line. Other lines are skipped.
pub(super) fn json_lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines()
        .map(str::trim)
        .filter(|line| line.starts_with('{'))
        .filter_map(|line| serde_json::from_str(line).ok())
}

pub(super) fn str_field<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

pub(super) fn count_field(value: &Value, key: &str) -> Option<usize> {
    usize::try_from(value.get(key)?.as_u64()?).ok()
}

pub(super) fn array_field<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_object_skips_noise_and_nested_objects() {
        let fits = |value: &Value| value.get("wanted").is_some();
        let found = |text: &str| find_object(text, &fits).map(|value| value["wanted"].clone());
        assert_eq!(
            found("> npm test\n{broken\n{\"a\": 1}\n  {\"wanted\": 2} trailing"),
            Some(2.into())
        );
        assert_eq!(found("{\"a\":\n{\"wanted\": 1}\n}\n{\"wanted\": 2}"), Some(2.into()));
        assert_eq!(found("x {\"wanted\": 1}"), None);
        assert_eq!(found("{\"wanted\": 1"), None);
    }
}
