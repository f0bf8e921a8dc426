//! Applies the arm's parameters to a request in any format. The arm's parameters are what an
//! experiment varies, so they override the scaffold's parameters. If the arm does not set a
//! parameter, the scaffold's value stays.

use proctor_types::{Api, ModelSpec};
use serde_json::{Map, Value, json};

/// Applies the parameters of `model` to `body`. `limit_field` is the endpoint's name for the output
/// limit in chat completions. Returns the fields that the format cannot express.
pub fn apply_parameters(
    api: Api,
    model: &ModelSpec,
    limit_field: &'static str,
    body: &mut Map<String, Value>,
) -> Vec<&'static str> {
    let mut lost = Vec::new();
    let place = match api {
        Api::Gemini => Some("generationConfig"),
        _ => None,
    };
    let (limit, top_p) = match api {
        Api::Chat => (limit_field, "top_p"),
        Api::Responses => ("max_output_tokens", "top_p"),
        Api::Messages => ("max_tokens", "top_p"),
        Api::Gemini => ("maxOutputTokens", "topP"),
    };
    if api == Api::Chat {
        // Keep only one limit, under the name that the endpoint supports.
        let other =
            if limit_field == "max_tokens" { "max_completion_tokens" } else { "max_tokens" };
        let named = model.extra_body.contains_key(other);
        if !named && let Some(asked) = body.shift_remove(other) {
            body.entry(limit_field).or_insert(asked);
        }
    }
    // Use the lower of the two limits, so that a side request with a small limit stays small.
    let asked = object_at(body, place).and_then(|map| map.get(limit)).and_then(Value::as_u64);
    let most = match (model.max_output_tokens, asked) {
        (Some(most), Some(asked)) => Some(most.min(asked)),
        (most, _) => most,
    };
    let mut fields = vec![
        (limit, json!(most)),
        ("temperature", json!(model.temperature)),
        (top_p, json!(model.top_p)),
    ];
    match api {
        Api::Chat | Api::Gemini => fields.push(("seed", json!(model.seed))),
        _ if model.seed.is_some() => lost.push("seed"),
        _ => {}
    }
    for (field, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
        ensure_object(body, place).insert(field.into(), value);
    }
    if let Some(effort) = &model.reasoning_effort {
        let effort = Value::from(effort.as_str());
        match api {
            Api::Chat => drop(body.insert("reasoning_effort".into(), effort)),
            Api::Responses => {
                drop(ensure_object(body, Some("reasoning")).insert("effort".into(), effort))
            }
            Api::Messages => {
                ensure_object(body, Some("output_config")).insert("effort".into(), effort);
            }
            Api::Gemini => {
                let config = ensure_object(body, place);
                ensure_object(config, Some("thinkingConfig"))
                    .insert("thinkingLevel".into(), effort);
            }
        }
    }
    body.extend(model.extra_body.clone());
    lost
}

fn object_at<'a>(
    body: &'a Map<String, Value>,
    location: Option<&str>,
) -> Option<&'a Map<String, Value>> {
    match location {
        None => Some(body),
        Some(name) => body.get(name)?.as_object(),
    }
}

/// Returns the object at `location`. Creates it if it is missing.
fn ensure_object<'a>(
    body: &'a mut Map<String, Value>,
    location: Option<&str>,
) -> &'a mut Map<String, Value> {
    let Some(name) = location else { return body };
    let value = body.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was set to an object above"),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proctor_types::{Api, ModelSpec};
    use serde_json::{Value, json};

    use super::apply_parameters;

    fn apply_to_body(api: Api, limit_field: &'static str, model: Value, mut body: Value) -> Value {
        let mut spec = json!({"base_url": "http://h/v1", "name": "m"});
        spec.as_object_mut().expect("an object").extend(model.as_object().expect("one").clone());
        let model: ModelSpec = serde_json::from_value(spec).expect("a model");
        apply_parameters(api, &model, limit_field, body.as_object_mut().expect("an object"));
        body
    }

    #[test]
    fn apply_without_parameters_changes_nothing() {
        for api in [Api::Chat, Api::Responses, Api::Messages, Api::Gemini] {
            let body = json!({"temperature": 1, "max_tokens": 5, "x": {}});
            assert_eq!(apply_to_body(api, "max_tokens", json!({}), body.clone()), body);
        }
    }

    #[test]
    fn parameters_are_translated_to_each_format() {
        let arm = json!({"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 100,
            "reasoning_effort": "low", "extra_body": {"k": 1}});
        for (api, body, wanted) in [
            (
                Api::Chat,
                json!({"temperature": 1, "max_completion_tokens": 9}),
                json!({"temperature": 0.5, "max_tokens": 9, "top_p": 0.9,
                       "reasoning_effort": "low", "k": 1}),
            ),
            (
                Api::Responses,
                json!({"reasoning": {"summary": "auto", "effort": "high"}}),
                json!({"reasoning": {"summary": "auto", "effort": "low"},
                       "max_output_tokens": 100, "temperature": 0.5, "top_p": 0.9, "k": 1}),
            ),
            (
                Api::Messages,
                json!({"max_tokens": 32000}),
                json!({"max_tokens": 100, "temperature": 0.5, "top_p": 0.9,
                       "output_config": {"effort": "low"}, "k": 1}),
            ),
            (
                Api::Gemini,
                json!({"generationConfig": {"temperature": 1, "topK": 64}}),
                json!({"generationConfig": {"temperature": 0.5, "topK": 64,
                    "maxOutputTokens": 100, "topP": 0.9,
                    "thinkingConfig": {"thinkingLevel": "low"}}, "k": 1}),
            ),
        ] {
            assert_eq!(apply_to_body(api, "max_tokens", arm.clone(), body), wanted, "{api}");
        }
    }
}
