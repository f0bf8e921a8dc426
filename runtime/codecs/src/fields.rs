//! The fields of a JSON object as raw text. Each field is parsed only when it is read.
//!
//! Each chunk of a stream repeats the same id, model and time. Parsing them every time would be
//! wasted work.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

#[derive(Debug, Default)]
pub struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Fails if `text` is not a JSON object.
    pub fn parse(text: &'a str) -> serde_json::Result<Self> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let fields = reader.deserialize_map(FieldsVisitor)?;
        reader.end()?;
        Ok(Self(fields))
    }

    /// Returns a field's value; `null` if it is absent. If the name occurs twice, the last value
    /// counts, as in serde_json.
    pub fn value(&self, name: &str) -> serde_json::Result<Value> {
        self.raw(name).map_or(Ok(Value::Null), serde_json::from_str)
    }

    /// Returns a field's string, borrowed from the text unless it contains escapes; an empty string
    /// if the field is absent or not a string.
    pub fn text(&self, name: &str) -> serde_json::Result<Cow<'a, str>> {
        match self.raw(name) {
            Some(raw) if raw.starts_with('"') => serde_json::from_str(raw).map(|Text(text)| text),
            _ => Ok(Cow::Borrowed("")),
        }
    }

    /// Whether a field is `null` or absent.
    pub fn is_null(&self, name: &str) -> bool {
        self.raw(name).is_none_or(|raw| raw == "null")
    }

    /// Returns a field's value as unparsed text.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, raw)| raw.get())
    }

    /// Yields every field in order, including duplicates.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(key, raw)| (key.as_ref(), raw.get()))
    }
}

/// A string, borrowed from the text unless it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(8);
        while let Some(Text(key)) = map.next_key()? {
            fields.push((key, map.next_value()?));
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Fields;

    #[test]
    fn fields_match_serde_json() {
        let text = "{\"a\": [1, {\"b\": 2}], \"\\u0063\":\"\\n\", \"a\" :null, \"d\":1.50}";
        let whole: Value = serde_json::from_str(text).expect("JSON");
        let fields = Fields::parse(text).expect("an object");
        for name in ["a", "c", "d", "e"] {
            assert_eq!(fields.value(name).expect("a value"), whole[name], "{name}");
        }
        assert_eq!(fields.text("c").expect("a string"), "\n");
        assert_eq!(fields.text("d").expect("no string"), "");
        assert!(fields.is_null("a") && fields.is_null("e") && !fields.is_null("d"));
        assert_eq!(fields.iter().count(), 4);
        assert_eq!(fields.iter().last(), Some(("d", "1.50")));
    }

    #[test]
    fn fields_rejects_non_objects() {
        for text in ["[1]", "{", "{} {}", "", "{\"a\":}"] {
            assert!(Fields::parse(text).is_err(), "{text}");
        }
        assert_eq!(Fields::parse("{}").expect("an object").value("a").expect("none"), json!(null));
    }
}
