//! Reads names and ids from a response's bytes. A router names the provider that it chose. An
//! endpoint names the response, the model and the server's configuration.

use proctor_types::{Responder, replace_control_chars};
use serde::Deserialize;
use serde_json::Value;

/// Number of stream events to read. One event is not enough, because some endpoints' first event
/// contains no names.
const MAX_EVENTS: usize = 8;

/// Maximum length of a name in characters.
const MAX_NAME_CHARS: usize = 120;

/// Fields of all formats. The rest of a response is skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponseFields {
    id: Value,
    /// Gemini's field.
    #[serde(rename = "responseId")]
    response_id: Value,
    model: Value,
    /// Gemini's field.
    #[serde(rename = "modelVersion")]
    model_version: Value,
    provider: Value,
    system_fingerprint: Value,
    /// The first event of a Messages stream contains the response.
    message: Option<NestedFields>,
    /// The first event of a Responses stream also contains the response.
    response: Option<NestedFields>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NestedFields {
    id: Value,
    model: Value,
    provider: Value,
}

/// The names in a response.
#[derive(Debug, Default)]
pub(crate) struct ResponseNames {
    /// The response's id at the endpoint. For a stream, the id in its first event.
    pub id: Option<String>,
    /// The model and provider, or `None` if the response names neither.
    pub responder: Option<Responder>,
}

/// Reads the names in a response. `model` is the name that the codec found. It is used if the
/// response has no other model name.
pub(crate) fn read_names(raw: &[u8], model: &str) -> ResponseNames {
    let text = String::from_utf8_lossy(raw);
    let (mut id, mut found) = (None, Responder::default());
    for (number, object) in json_objects(&text).take(MAX_EVENTS).enumerate() {
        let own = add_names(&mut found, object);
        if number == 0 {
            id = own;
        }
    }
    found.model = found.model.or_else(|| clean_name(&model.into()));
    ResponseNames { id, responder: (!found.is_unknown()).then_some(found) }
}

/// Returns the JSON objects of a response as text: the document, or the data of each stream event.
pub(crate) fn json_objects(response: &str) -> impl DoubleEndedIterator<Item = &str> {
    let text = response.trim_start_matches('\u{feff}').trim_start();
    let document = text.starts_with('{').then_some(text);
    let stream = if document.is_some() { "" } else { text };
    let events = stream.split(['\n', '\r']).filter_map(|line| line.strip_prefix("data:"));
    document.into_iter().chain(events.filter(|data| data.trim_start().starts_with('{')))
}

/// Adds the names that an object contains, unless they are already known. Returns the object's id.
fn add_names(responder: &mut Responder, object: &str) -> Option<String> {
    let named = serde_json::from_str::<ResponseFields>(object).ok()?;
    let nested = [named.message, named.response].into_iter().flatten();
    let nested: Vec<NestedFields> = nested.collect();
    let ids = [&named.id, &named.response_id].into_iter().chain(nested.iter().map(|one| &one.id));
    let id = ids.filter_map(Value::as_str).next().map(ToOwned::to_owned);
    let of = |own: [&Value; 2], inner: fn(&NestedFields) -> &Value| {
        own.into_iter().chain(nested.iter().map(inner)).find_map(clean_name)
    };
    let none = Value::Null;
    let model = of([&named.model, &named.model_version], |one| &one.model);
    let provider = of([&named.provider, &none], |one| &one.provider);
    responder.model = responder.model.take().or(model);
    responder.provider = responder.provider.take().or(provider);
    responder.fingerprint =
        responder.fingerprint.take().or_else(|| clean_name(&named.system_fingerprint));
    id
}

fn clean_name(value: &Value) -> Option<String> {
    let text: String = value.as_str()?.trim().chars().take(MAX_NAME_CHARS).collect();
    let text = replace_control_chars(&text).into_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use proctor_types::Responder;

    use super::read_names;

    #[test]
    fn responder_is_found_in_every_format() {
        let named = |model: &str, provider: Option<&str>, fingerprint: Option<&str>| Responder {
            model: Some(model.into()),
            provider: provider.map(Into::into),
            fingerprint: fingerprint.map(Into::into),
        };
        let responder = |raw: &[u8], model: &str| read_names(raw, model).responder;
        for (raw, wanted) in [
            (
                r#"{"model": "m", "provider": "A", "system_fingerprint": "fp1", "choices": []}"#,
                named("m", Some("A"), Some("fp1")),
            ),
            // Azure's first event contains no names; comments keep the connection open.
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

    #[test]
    fn response_id_is_found_in_every_format() {
        for (raw, wanted) in [
            (r#"{"id": "chatcmpl-1", "choices": []}"#, Some("chatcmpl-1")),
            (
                ": ping\n\ndata: {\"id\": \"chatcmpl-2\"}\r\n\r\ndata: {\"id\": \"b\"}\n\n",
                Some("chatcmpl-2"),
            ),
            ("event: message_start\ndata: {\"message\": {\"id\": \"msg_3\"}}\n\n", Some("msg_3")),
            ("data: {\"response\": {\"id\": \"resp_4\"}}\n\n", Some("resp_4")),
            ("data: {\"candidates\": [], \"responseId\": \"g5\"}\n\n", Some("g5")),
            ("data: {\"id\": 7}\n\n", None),
            ("<html>", None),
        ] {
            assert_eq!(read_names(raw.as_bytes(), "").id.as_deref(), wanted, "{raw}");
        }
    }
}
