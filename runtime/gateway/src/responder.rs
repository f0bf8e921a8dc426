//! Finds out who served a response, from its bytes: a router names the provider that it chose, an
//! endpoint names the model and its server's configuration.

use proctor_types::{Responder, harmless};
use serde::Deserialize;
use serde_json::Value;

/// Number of stream events to read: some endpoints' first event names nothing.
const EVENTS: usize = 8;

/// Maximum characters of a name.
const SHOWN: usize = 120;

/// Fields of any format; the rest of a response is skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    model: Value,
    /// Gemini's field.
    #[serde(rename = "modelVersion")]
    model_version: Value,
    provider: Value,
    system_fingerprint: Value,
    /// The first event of a Messages stream contains the response.
    message: Option<Nested>,
    /// So does that of a Responses stream.
    response: Option<Nested>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Nested {
    model: Value,
    provider: Value,
}

/// `model` is what the codec read. `None`: the response names nothing.
pub(crate) fn responder(raw: &[u8], model: &str) -> Option<Responder> {
    let text = String::from_utf8_lossy(raw);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let mut found = Responder::default();
    if text.starts_with('{') {
        add(&mut found, text);
    } else {
        let lines = text.split(['\n', '\r']).filter_map(|line| line.strip_prefix("data:"));
        for data in lines.filter(|data| data.trim_start().starts_with('{')).take(EVENTS) {
            add(&mut found, data);
        }
    }
    found.model = found.model.or_else(|| word(&model.into()));
    (!found.is_unknown()).then_some(found)
}

/// Adds an object's names. The first name wins.
fn add(found: &mut Responder, object: &str) {
    let Ok(named) = serde_json::from_str::<Named>(object) else { return };
    let nested = [named.message, named.response].into_iter().flatten();
    let nested: Vec<Nested> = nested.collect();
    let of = |own: [&Value; 2], inner: fn(&Nested) -> &Value| {
        own.into_iter().chain(nested.iter().map(inner)).find_map(word)
    };
    let none = Value::Null;
    let model = of([&named.model, &named.model_version], |one| &one.model);
    let provider = of([&named.provider, &none], |one| &one.provider);
    found.model = found.model.take().or(model);
    found.provider = found.provider.take().or(provider);
    found.fingerprint = found.fingerprint.take().or_else(|| word(&named.system_fingerprint));
}

fn word(value: &Value) -> Option<String> {
    let text: String = value.as_str()?.trim().chars().take(SHOWN).collect();
    let text = harmless(&text).into_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use proctor_types::Responder;

    use super::responder;

    #[test]
    fn every_format_names_who_answered_where_it_can() {
        let named = |model: &str, provider: Option<&str>, fingerprint: Option<&str>| Responder {
            model: Some(model.into()),
            provider: provider.map(Into::into),
            fingerprint: fingerprint.map(Into::into),
        };
        for (raw, wanted) in [
            (
                r#"{"model": "m", "provider": "A", "system_fingerprint": "fp1", "choices": []}"#,
                named("m", Some("A"), Some("fp1")),
            ),
            // Azure's first event names nothing; comments keep the connection open.
            (
                ": ping\n\ndata: {\"model\": \"\", \"choices\": []}\r\n\r\n\
                 data:{\"model\": \"m\", \"system_fingerprint\": null, \"choices\": []}\n\n\
                 data: {\"model\": \"m\", \"system_fingerprint\": \"fp2\"}\n\ndata: [DONE]\n\n",
                named("m", None, Some("fp2")),
            ),
            (
                "event: message_start\ndata: {\"type\": \"message_start\", \
                 \"message\": {\"model\": \"claude\", \"provider\": \"B\", \"content\": []}}\n\n",
                named("claude", Some("B"), None),
            ),
            (
                "event: response.created\ndata: {\"type\": \"response.created\", \
                 \"response\": {\"model\": \"r\"}}\n\n",
                named("r", None, None),
            ),
            (
                "data: {\"candidates\": [], \"modelVersion\": \"gemini-2\"}\n\n",
                named("gemini-2", None, None),
            ),
        ] {
            assert_eq!(responder(raw.as_bytes(), ""), Some(wanted), "{raw}");
        }
        assert_eq!(responder(b"data: {\"choices\": []}\n\n", ""), None);
        assert_eq!(responder(b"\xff\xfe", "m"), Some(named("m", None, None)));
        assert_eq!(responder(b"{\"model\": 3, \"provider\": {\"x\": 1}}", ""), None);
    }
}
