//! Rejects invalid settings in a model's table before a run starts. If a parameter were silently
//! dropped, the report would describe an arm that did not run.

use proctor_types::{Api, ModelSpec};

use crate::request;

/// The highest temperature that a Messages request may have.
const MESSAGES_MAX_TEMPERATURE: f64 = 1.0;

/// A setting that is not allowed, because requests to the model cannot express it or the gateway
/// sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSetting {
    /// Path of the key within the model's table.
    pub key: Vec<&'static str>,
    pub problem: String,
    pub hint: String,
}

/// Rejects parameters that the model's wire format cannot express, and fields of `extra_body` that
/// the gateway sets itself.
pub fn check_settings(model: &ModelSpec) -> Result<(), InvalidSetting> {
    let api = model.api;
    if model.seed.is_some() && matches!(api, Api::Messages | Api::Responses) {
        return Err(InvalidSetting {
            key: vec!["seed"],
            problem: format!("has no effect: requests with `api = \"{api}\"` have no seed"),
            hint: "remove the key".into(),
        });
    }
    let hot = model.temperature.filter(|temperature| *temperature > MESSAGES_MAX_TEMPERATURE);
    if let (Some(temperature), Api::Messages) = (hot, api) {
        return Err(InvalidSetting {
            key: vec!["temperature"],
            problem: format!("{temperature} is out of range for `api = \"{api}\"`"),
            hint: format!("use a number from 0 to {MESSAGES_MAX_TEMPERATURE}"),
        });
    }
    match request::reserved_override(model) {
        None => Ok(()),
        Some(field) => Err(InvalidSetting {
            key: vec!["extra_body", field],
            problem: "cannot be set, because the gateway sets it".into(),
            hint: format!("remove `{field}` from `extra_body`"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{Api, ModelSpec};
    use serde_json::json;

    use super::check_settings;

    fn setting_error(api: Api, key: &str, value: serde_json::Value) -> Option<String> {
        let mut model = json!({"base_url": "http://h/v1", "name": "m", "api": api});
        model[key] = value;
        let model: ModelSpec = serde_json::from_value(model).expect("a model");
        check_settings(&model).err().map(|wrong| wrong.key.join("."))
    }

    #[test]
    fn check_settings_rejects_settings_that_the_format_lacks() {
        for api in [Api::Chat, Api::Responses, Api::Messages, Api::Gemini] {
            let seedless = matches!(api, Api::Responses | Api::Messages);
            assert_eq!(
                setting_error(api, "seed", json!(7)),
                seedless.then(|| "seed".into()),
                "{api}"
            );
            let hot = (api == Api::Messages).then(|| "temperature".into());
            assert_eq!(setting_error(api, "temperature", json!(1.5)), hot, "{api}");
            assert_eq!(setting_error(api, "temperature", json!(1.0)), None, "{api}");
            let stream = setting_error(api, "extra_body", json!({"stream": true}));
            assert_eq!(stream.as_deref(), Some("extra_body.stream"), "{api}");
        }
    }
}
