//! A model's endpoint: its URL and key.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use proctor_types::{Api, Fault, FaultLayer, ModelResponse, ModelSpec};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use crate::secret::redact_key;

/// Keys shorter than this are not redacted, because replacing a key such as `x` would destroy the
/// body.
const MIN_SECRET_LENGTH: usize = 8;

/// The version of the Messages API that the codecs implement.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A URL with its key. `Debug` hides the key.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    base_url: String,
    host: String,
    key: SecretString,
    /// Environment variable that holds the key.
    key_env: Option<String>,
    /// The model's name at the endpoint.
    model: String,
    /// The `Authorization` header value, which contains the key and is marked as sensitive. If
    /// `None`, requests have no such header.
    bearer_header: Option<HeaderValue>,
}

impl Endpoint {
    pub(crate) fn new(
        model: &ModelSpec,
        key_lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Fault> {
        let wrong =
            |what: String| Fault::new(FaultLayer::Model, format!("model {}: {what}", model.name));
        let base = model.base_url.trim().trim_end_matches('/').to_owned();
        let form = "use https://HOST/v1 without `/chat/completions`";
        let url =
            Url::parse(&base).map_err(|error| wrong(format!("base_url: {error}")).hint(form))?;
        let host = match (url.scheme(), url.host_str()) {
            ("http" | "https", Some(host)) => host.to_ascii_lowercase(),
            _ => return Err(wrong("base_url: not an http(s) URL".into()).hint(form)),
        };
        if !url.username().is_empty() || url.password().is_some() {
            let hint = "put the key in an environment variable and set key_env to its name";
            return Err(wrong("base_url: contains a username or password".into()).hint(hint));
        }
        let (key_env, model) = (model.key_env.clone(), model.name.clone());
        let Some(name) = &key_env else {
            let key = SecretString::default();
            return Ok(Self { base_url: base, host, key, key_env, model, bearer_header: None });
        };
        let key = key_lookup(name).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
        let Some(key) = key else {
            let hint = format!(
                "run `export {name}=<your key>`, or remove key_env if the endpoint needs no key"
            );
            return Err(wrong(format!("the variable {name} is not set")).hint(hint));
        };
        let mut bearer = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| {
            wrong(format!("the variable {name} contains characters that are not allowed in a key"))
                .hint(format!("set {name} to the key only"))
        })?;
        bearer.set_sensitive(true);
        Ok(Self {
            base_url: base,
            host,
            key: key.into(),
            key_env,
            model,
            bearer_header: Some(bearer),
        })
    }

    /// Puts the key into the header that the API expects, replacing any other key.
    pub(crate) fn authorize(&self, api: Api, headers: &mut HeaderMap) {
        if api == Api::Messages && !headers.contains_key("anthropic-version") {
            headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
        }
        let key = self.key.expose_secret();
        let named = match api {
            Api::Chat | Api::Responses => None,
            Api::Messages => Some("x-api-key"),
            Api::Gemini => Some("x-goog-api-key"),
        };
        match (named, &self.bearer_header) {
            (_, None) => {}
            (None, Some(bearer)) => drop(headers.insert(header::AUTHORIZATION, bearer.clone())),
            (Some(name), Some(_)) => {
                // This cannot fail: the key is already part of a valid bearer value.
                if let Ok(mut value) = HeaderValue::try_from(key) {
                    value.set_sensitive(true);
                    headers.insert(name, value);
                }
            }
        }
    }

    /// Returns the URL of the API call. Gemini puts the model and the streaming mode in the path.
    pub(crate) fn request_url(&self, api: Api, model: &str, stream: bool) -> String {
        let base = &self.base_url;
        let action = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        match api {
            Api::Chat => format!("{base}/chat/completions"),
            Api::Responses => format!("{base}/responses"),
            Api::Messages => format!("{base}/messages"),
            Api::Gemini => format!("{base}/models/{model}:{action}"),
        }
    }

    /// Returns a hint for a status that retries do not fix.
    pub(crate) fn status_hint(&self, status: u16) -> String {
        let model = &self.model;
        match (status, &self.key_env) {
            (401, Some(key)) => format!("check the key in the variable {key}"),
            (401, None) => {
                "the endpoint needs a key: put it in an environment variable and set the model's \
                `key_env` to its name"
                    .into()
            }
            (402 | 429, Some(key)) => format!("add credit to the account of the key in {key}"),
            (402 | 429, None) => "add credit to the account".into(),
            (403, Some(key)) => format!("check that the key in {key} may use the model `{model}`"),
            (403, None) => format!("check that the model `{model}` can be used without a key"),
            (300..=399, _) => "set base_url to the URL that it redirects to".into(),
            _ => format!(
                "check base_url (it must not include /chat/completions) and the model name `{model}`"
            ),
        }
    }

    /// Returns a hint for a URL that is not an endpoint. Set `is_foreign_server` if another kind of
    /// server responded.
    pub(crate) fn address_hint(&self, is_foreign_server: bool) -> String {
        let base = &self.base_url;
        let bare = Url::parse(base).is_ok_and(|url| url.path().trim_matches('/').is_empty());
        match (is_foreign_server, bare) {
            (true, true) => {
                format!("base_url is wrong: most endpoints end in `/v1`: \"{base}/v1\"")
            }
            (true, false) => format!(
                "base_url is wrong: there is no API at \"{base}\"; most endpoints end in `/v1`"
            ),
            (false, _) => {
                format!(
                    "check that the endpoint is running and that base_url \"{base}\" is correct"
                )
            }
        }
    }

    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Whether the endpoint is a plain HTTP server on this machine. Requests to it bypass the
    /// shell's proxy settings.
    pub(crate) fn is_local(&self) -> bool {
        if !self.base_url.to_ascii_lowercase().starts_with("http:") {
            return false;
        }
        let ip = self.host.trim_matches(['[', ']']).parse::<IpAddr>();
        self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// OpenAI's own hosts reject `max_tokens` for reasoning models. Nearly all other hosts support
    /// only `max_tokens`.
    pub(crate) fn output_limit_field(&self) -> &'static str {
        let of =
            |domain: &str| self.host.strip_suffix(domain).is_some_and(|sub| sub.ends_with('.'));
        let openai = self.host == "api.openai.com" || of("openai.com") || of("openai.azure.com");
        if openai { "max_completion_tokens" } else { "max_tokens" }
    }

    /// Replaces the key in `bytes`, in any encoding, with `[key]`, because some endpoints repeat
    /// the key in an error message or a response. All parsed or forwarded data comes from the
    /// redacted bytes, so the key never reaches a scaffold or its sandbox.
    pub(crate) fn redact(&self, bytes: Bytes) -> Bytes {
        self.redact_if_present(&bytes).unwrap_or(bytes)
    }

    /// Like `redact`, but returns `None` if `bytes` does not contain the key.
    pub(crate) fn redact_if_present(&self, bytes: &[u8]) -> Option<Bytes> {
        redact_key(bytes, self.searchable_key()?).map(Into::into)
    }

    /// Returns the key if it is long enough to search for.
    fn searchable_key(&self) -> Option<&[u8]> {
        let key = self.key.expose_secret().as_bytes();
        (key.len() >= MIN_SECRET_LENGTH).then_some(key)
    }

    /// Like `redact`, but skips the first `clean_length` bytes, which are known not to contain the
    /// key.
    pub(crate) fn redact_after_prefix(&self, clean_length: usize, bytes: Bytes) -> Bytes {
        // A key may start in the clean part and end after it. Each character of an encoded key
        // takes up to `MAX_SPELLING_BYTES` bytes. A complete key in the clean part would have been
        // found before.
        const MAX_SPELLING_BYTES: usize = 16;
        let key = self.key.expose_secret().len();
        let from = clean_length.saturating_sub(key * MAX_SPELLING_BYTES);
        let Some(without) = self.redact_if_present(&bytes[from..]) else { return bytes };
        let mut whole = bytes.slice(..from).to_vec();
        whole.extend_from_slice(&without);
        whole.into()
    }

    /// Returns the headers without those that contain the key.
    pub(crate) fn redact_headers(&self, headers: HeaderMap) -> HeaderMap {
        let clean = |value: &HeaderValue| self.redact_if_present(value.as_bytes()).is_none();
        headers
            .iter()
            .filter(|(_, value)| clean(value))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect()
    }

    /// Whether a response contains the key, even if a stream split the key across events.
    pub(crate) fn has_key(&self, response: &ModelResponse) -> bool {
        self.searchable_key().is_some()
            && serde_json::to_vec(response)
                .is_ok_and(|bytes| self.redact_if_present(&bytes).is_some())
    }

    /// Redacts a response for the record. Used if the key was split across events.
    pub(crate) fn redact_response(&self, response: ModelResponse) -> ModelResponse {
        if self.searchable_key().is_none() {
            return response;
        }
        let Ok(bytes) = serde_json::to_vec(&response) else { return response };
        let Some(without) = self.redact_if_present(&bytes) else { return response };
        // A response that cannot be parsed after redaction is kept without its text.
        serde_json::from_slice(&without).unwrap_or(ModelResponse {
            content: String::new(),
            tool_calls: Vec::new(),
            extra: serde_json::Map::new(),
            native: None,
            ..response
        })
    }

    pub(crate) fn redact_text(&self, text: &str) -> String {
        match self.redact_if_present(text.as_bytes()) {
            Some(without) => String::from_utf8_lossy(&without).into_owned(),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::ModelSpec;

    use super::Endpoint;

    fn endpoint(base_url: &str, key_env: Option<&str>) -> Result<Endpoint, String> {
        let mut model: ModelSpec =
            serde_json::from_value(serde_json::json!({"base_url": base_url, "name": "m"}))
                .expect("a model");
        model.key_env = key_env.map(Into::into);
        let key_of = |name: &str| (name == "GOOD").then(|| "sk-a-long-secret\n".to_owned());
        Endpoint::new(&model, &key_of).map_err(|fault| fault.to_string())
    }

    #[test]
    fn output_limit_field_depends_on_the_host() {
        for (base, field) in [
            ("https://api.openai.com/v1", "max_completion_tokens"),
            ("https://eu.api.openai.com/v1", "max_completion_tokens"),
            ("https://x.openai.azure.com/openai/v1", "max_completion_tokens"),
            ("https://notopenai.com/v1", "max_tokens"),
            ("http://127.0.0.1:8000/v1", "max_tokens"),
        ] {
            assert_eq!(endpoint(base, None).expect(base).output_limit_field(), field, "{base}");
        }
    }

    #[test]
    fn invalid_endpoint_has_a_hint() {
        let missing = endpoint("https://h/v1", Some("MISSING")).expect_err("no key");
        assert!(missing.contains("MISSING is not set") && missing.contains("export MISSING="));
        assert!(endpoint("script:x.toml", None).expect_err("no http").contains("base_url"));
        assert!(endpoint("h/v1", None).expect_err("no scheme").contains("base_url"));
        assert!(endpoint("https://u:p@h/v1", None).expect_err("a password").contains("key_env"));
    }

    #[test]
    fn endpoint_hides_the_key_in_debug_output_and_text() {
        let found = endpoint("https://h/v1/", Some("GOOD")).expect("an endpoint");
        assert!(!format!("{found:?}").contains("sk-a"), "{found:?}");
        assert_eq!(found.redact_text("Incorrect key: sk-a-long-secret!"), "Incorrect key: [key]!");
        assert_eq!(found.base_url(), "https://h/v1");
    }
}
