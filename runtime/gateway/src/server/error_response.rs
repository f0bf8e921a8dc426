//! Error responses, in each API's format.

use http::StatusCode;
use proctor_types::{Api, BudgetKind};
use serde_json::{Value, json};

use crate::{RequestError, codec::sse, error_text::error_message};

/// An error response: a status with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErrorResponse {
    pub status: StatusCode,
    pub message: String,
    code: Option<String>,
    /// The endpoint's own body, for a client that uses the endpoint's format.
    endpoint_body: Option<String>,
}

impl ErrorResponse {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), code: None, endpoint_body: None }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn budget(kind: BudgetKind) -> Self {
        // All known clients stop immediately on 402, but retry 429 and 5xx for minutes or forever.
        // The text must not mention length or context, because some clients would then compact the
        // conversation and retry.
        let message = format!("the {kind} budget of this trial is used up");
        let code = Some(format!("budget_{kind}"));
        Self { status: StatusCode::PAYMENT_REQUIRED, message, code, endpoint_body: None }
    }

    /// Returns the error response for an error. An endpoint's own rejection keeps its status.
    pub(super) fn from_error(error: &RequestError) -> Self {
        match error {
            RequestError::Budget(kind) => Self::budget(*kind),
            RequestError::SharedBudget { .. } => Self {
                status: StatusCode::PAYMENT_REQUIRED,
                message: error.to_string(),
                code: Some("budget_shared".into()),
                endpoint_body: None,
            },
            RequestError::Cancelled => Self {
                status: StatusCode::PAYMENT_REQUIRED,
                message: "this trial is over".into(),
                code: Some("cancelled".into()),
                endpoint_body: None,
            },
            RequestError::Rejected { status, body, .. } => {
                let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_REQUEST);
                Self::new(status, error_message(body))
            }
            // The trial ends as an infrastructure fault. A 5xx status would be accurate, but
            // clients retry such requests for minutes. All known clients stop on 403.
            RequestError::Fault(fault) => Self {
                status: StatusCode::FORBIDDEN,
                message: format!("no response is available: {}", fault.what),
                code: Some("infrastructure".into()),
                endpoint_body: None,
            },
        }
    }

    /// Sends the endpoint's own body, because its error codes are more specific than ours.
    pub(super) fn with_exact_body(mut self, body: &str) -> Self {
        self.endpoint_body = Some(body.to_owned());
        self
    }

    /// Returns the body sent with the status.
    pub(super) fn text(&self, api: Api) -> String {
        self.endpoint_body.clone().unwrap_or_else(|| self.body(api).to_string())
    }

    pub(super) fn body(&self, api: Api) -> Value {
        let (message, code) = (&self.message, &self.code);
        match api {
            Api::Chat | Api::Responses => json!({"error": {
                "message": message, "type": self.openai_type(), "param": null, "code": code}}),
            Api::Messages => {
                let error = json!({"type": self.anthropic_type(), "message": message});
                json!({"type": "error", "error": error})
            }
            Api::Gemini => json!({"error": {
                "code": self.status.as_u16(), "message": message, "status": self.google_status()}}),
        }
    }

    /// Writes the error as an event, for a stream whose head has been sent.
    pub(super) fn event(&self, api: Api, out: &mut String) {
        let body = self.body(api);
        match api {
            Api::Chat | Api::Gemini => sse::write(out, None, &body),
            Api::Messages => sse::write(out, Some("error"), &body),
            Api::Responses => {
                let error = &body["error"];
                let event = json!({
                    "type": "error", "code": error["code"], "message": error["message"],
                    "param": null, "sequence_number": 0,
                });
                sse::write(out, Some("error"), &event);
            }
        }
    }

    fn openai_type(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            402 => "insufficient_quota",
            403 => "permission_error",
            404 | 405 => "not_found_error",
            _ => "invalid_request_error",
        }
    }

    fn anthropic_type(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 | 405 => "not_found_error",
            413 => "request_too_large",
            _ => "invalid_request_error",
        }
    }

    fn google_status(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "UNAUTHENTICATED",
            402 => "RESOURCE_EXHAUSTED",
            403 => "PERMISSION_DENIED",
            404 | 405 => "NOT_FOUND",
            _ => "INVALID_ARGUMENT",
        }
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{Api, BudgetKind};

    use super::ErrorResponse;

    #[test]
    fn reached_budget_returns_402_and_never_mentions_length() {
        for kind in [BudgetKind::Steps, BudgetKind::TotalTokens, BudgetKind::Cost] {
            let refusal = ErrorResponse::budget(kind);
            assert_eq!(refusal.status, 402);
            for api in [Api::Chat, Api::Responses, Api::Messages, Api::Gemini] {
                let body = refusal.body(api);
                assert_eq!(body["error"]["message"], refusal.message);
                for word in ["length", "context", "too long", "prompt"] {
                    assert!(!body.to_string().contains(word), "{body}");
                }
            }
        }
        let refusal = ErrorResponse::budget(BudgetKind::Steps);
        assert_eq!(refusal.body(Api::Messages)["error"]["type"], "billing_error");
        assert_eq!(refusal.body(Api::Gemini)["error"]["code"], 402);
    }
}
