//! Classifies an endpoint's errors, using `configs/tables/rejections.toml`.

use proctor_types::{Fault, FaultLayer, ShippedTable};
use serde::Deserialize;
use serde_json::Value;

use crate::{error_text::error_message, patterns::Patterns};

/// What an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorSubject {
    /// A rate limit. The gateway retries the request whatever the status is.
    RateLimit,
    /// The account cannot pay.
    Billing,
    /// The key is not valid.
    Key,
    /// The conversation exceeds the context window. Attributed to the model if our own count
    /// confirms the overflow.
    ContextOverflow,
    /// A filter rejected the prompt or the response. Attributed to the model.
    ContentFilter,
    /// The request refers to a conversation item that the endpoint did not keep.
    UnkeptItem,
    /// The model does not support tools.
    Tools,
    /// The endpoint does not know the model.
    UnknownModel,
    /// A proxy's web page that blocks clients which are not browsers. The gateway retries the
    /// request.
    Challenge,
    /// A web page or text from a proxy rather than an API error.
    Proxy,
    /// Not recognized; counts as an infrastructure failure.
    Unknown,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RejectionRow {
    subject: ErrorSubject,
    #[serde(default)]
    statuses: Vec<u16>,
    #[serde(default)]
    codes: Vec<String>,
    #[serde(default)]
    words: Patterns,
}

/// The table that classifies errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rejections {
    rejection: Vec<RejectionRow>,
}

impl Rejections {
    /// Returns the built-in table. A test checks that it is valid.
    ///
    /// # Errors
    /// Fails if the table cannot be read.
    pub(crate) fn shipped() -> Result<&'static Self, Fault> {
        static SHIPPED: ShippedTable<Rejections> = ShippedTable::new(
            "tables/rejections.toml",
            include_str!("../../../configs/tables/rejections.toml"),
        );
        SHIPPED.get().map_err(|what| Fault::new(FaultLayer::Model, what))
    }

    /// Returns what an error is about. `status` is the HTTP status.
    pub(crate) fn classify(&self, status: u16, body: &str) -> ErrorSubject {
        let error = ApiError::parse(body);
        let fits = |row: &&RejectionRow| {
            (row.statuses.is_empty() || row.statuses.contains(&status))
                && (error.codes.iter().any(|code| row.codes.contains(code))
                    || row.words.matches(&error.message))
        };
        match self.rejection.iter().find(fits) {
            Some(row) => row.subject,
            None if error.is_page => ErrorSubject::Proxy,
            None => ErrorSubject::Unknown,
        }
    }
}

/// Returns what an error is about, or `Unknown` if the table cannot be read. `status` is the HTTP
/// status.
pub(crate) fn classify_error(status: u16, body: &str) -> ErrorSubject {
    Rejections::shipped().map_or(ErrorSubject::Unknown, |all| all.classify(status, body))
}

/// An error from any API, in lower case.
#[derive(Debug, Default)]
pub(crate) struct ApiError {
    /// Codes and types, including those of a provider behind a router.
    pub codes: Vec<String>,
    /// All messages of the error, on one line.
    pub message: String,
    /// Whether the body is something other than a JSON object or list, such as a web page.
    pub is_page: bool,
}

impl ApiError {
    pub(crate) fn parse(body: &str) -> Self {
        let mut error = Self::default();
        let parsed: Option<Value> = serde_json::from_str(body).ok();
        error.is_page = !matches!(parsed, Some(Value::Object(_) | Value::Array(_)));
        let mut messages = vec![error_message(body)];
        if let Some(parsed) = &parsed {
            error.collect(parsed, &mut messages, 0);
        }
        let text = messages.join(" ").to_lowercase();
        error.message = text.split_whitespace().collect::<Vec<_>>().join(" ");
        error
    }

    /// Collects codes and messages. Some routers put a provider's error into `metadata.raw` as
    /// text.
    fn collect(&mut self, value: &Value, messages: &mut Vec<String>, depth: usize) {
        const MAX_DEPTH: usize = 6;
        let (Some(first), true) =
            (if value.is_array() { value.get(0) } else { Some(value) }, depth < MAX_DEPTH)
        else {
            return;
        };
        for name in ["code", "type", "status", "reason", "error_type"] {
            match &first[name] {
                Value::String(code) => self.codes.push(code.to_lowercase()),
                Value::Number(code) => self.codes.push(code.to_string()),
                _ => {}
            }
        }
        for name in ["message", "detail", "msg", "failed_generation_reason", "description"] {
            if let Value::String(text) = &first[name]
                && !messages.contains(text)
            {
                messages.push(text.clone());
            }
        }
        for name in ["error", "metadata", "innererror", "response", "details", "detail"] {
            if first[name].is_object() || first[name].is_array() {
                self.collect(&first[name], messages, depth + 1);
            }
        }
        if let Value::String(raw) = &first["raw"] {
            match serde_json::from_str::<Value>(raw) {
                Ok(inner) => self.collect(&inner, messages, depth + 1),
                Err(_) => messages.push(raw.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ErrorSubject, Rejections};

    #[test]
    fn classify_recognizes_vendor_messages() {
        let table = Rejections::shipped().expect("a valid table");
        for (status, message, subject) in [
            (
                400,
                "This model's maximum context length is 8192 tokens. However, you requested 9000.",
                ErrorSubject::ContextOverflow,
            ),
            (
                400,
                "prompt is too long: 210000 tokens > 200000 maximum",
                ErrorSubject::ContextOverflow,
            ),
            (
                400,
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                ErrorSubject::ContextOverflow,
            ),
            (
                400,
                "the request exceeds the available context size, try increasing it",
                ErrorSubject::ContextOverflow,
            ),
            (400, "Input is too long for requested model.", ErrorSubject::ContextOverflow),
            (
                400,
                "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
                ErrorSubject::ContentFilter,
            ),
            (400, "Content Exists Risk", ErrorSubject::ContentFilter),
            (
                403,
                "meta/llama requires moderation on X. Your input was flagged for \"violence\"",
                ErrorSubject::ContentFilter,
            ),
            (
                413,
                "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 8000",
                ErrorSubject::RateLimit,
            ),
            (
                400,
                "Your credit balance is too low to access the Anthropic API.",
                ErrorSubject::Billing,
            ),
            (404, "No endpoints found that support tool use.", ErrorSubject::Tools),
            (400, "registry.ollama.ai/library/phi does not support tools", ErrorSubject::Tools),
            (400, "\"auto\" tool choice requires --enable-auto-tool-choice", ErrorSubject::Tools),
            (
                400,
                "max_tokens must be at least 1, got -160. (parameter=max_tokens, value=-160)",
                ErrorSubject::ContextOverflow,
            ),
            (400, "The requested model is not supported.", ErrorSubject::UnknownModel),
            (404, "The model `meta/llama` does not exist.", ErrorSubject::UnknownModel),
            (500, "The requested model is not supported.", ErrorSubject::Unknown),
            (400, "max_tokens must be at least 1, got 0", ErrorSubject::Unknown),
            // A keyword alone does not identify a subject.
            (
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model.",
                ErrorSubject::Unknown,
            ),
            (400, "upstream connect error or disconnect", ErrorSubject::Unknown),
            (400, "Invalid value for `safety_settings`", ErrorSubject::Unknown),
            (400, "Failed to call a function. Please adjust your prompt.", ErrorSubject::Unknown),
            (
                400,
                "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
                ErrorSubject::Unknown,
            ),
            (
                400,
                "Function tools with reasoning_effort are not supported for gpt-5.4",
                ErrorSubject::Unknown,
            ),
        ] {
            let body = json!({"error": {"message": message}}).to_string();
            assert_eq!(table.classify(status, &body), subject, "{message}");
        }
    }

    #[test]
    fn classify_reads_codes_and_errors_wrapped_by_a_router() {
        let table = Rejections::shipped().expect("a valid table");
        let raw = json!({"error": {"message": "too big", "code": "context_length_exceeded"}});
        for (body, subject) in [
            (
                json!({"error": {"message": "no", "code": "context_length_exceeded"}}),
                ErrorSubject::ContextOverflow,
            ),
            (
                json!({"error": {"message": "no", "type": "exceed_context_size_error"}}),
                ErrorSubject::ContextOverflow,
            ),
            (
                json!([{"error": {"message": "no", "status": "RESOURCE_EXHAUSTED"}}]),
                ErrorSubject::RateLimit,
            ),
            (
                json!({"error": {"message": "Provider returned error", "metadata": {"raw": raw.to_string()}}}),
                ErrorSubject::ContextOverflow,
            ),
            (
                json!({"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
                ErrorSubject::ContentFilter,
            ),
            (json!({"detail": [{"msg": "x", "type": "missing"}]}), ErrorSubject::Unknown),
        ] {
            assert_eq!(table.classify(400, &body.to_string()), subject, "{body}");
        }
        for (page, subject) in [
            ("<html><head><title>413</title></head></html>", ErrorSubject::Proxy),
            ("<html><head><title>Just a moment...</title></head></html>", ErrorSubject::Challenge),
            (r#"{"error": {"message": "Just a moment..."}}"#, ErrorSubject::Unknown),
        ] {
            assert_eq!(table.classify(413, page), subject, "{page}");
        }
    }
}
