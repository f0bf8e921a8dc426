//! Reclassifies a recorded rejection according to the current rules.

use proctor_types::{Fault, ModelSpec};

use crate::{
    context_window::ContextWindowRules,
    rejections::{ErrorSubject, Rejections},
};

/// Checks a rejection that ended a trial and was attributed to the model. Returns why the rejection
/// would now count as an infrastructure failure. Returns `None` if the model is still the cause, or
/// if the status is a success. `request_bytes` is the length of the rejected request.
///
/// # Errors
/// Fails if a built-in table cannot be read.
pub fn recheck_rejection(
    status: u16,
    body: &str,
    model: &ModelSpec,
    request_bytes: u64,
) -> Result<Option<&'static str>, Fault> {
    if (200..=299).contains(&status) {
        return Ok(None);
    }
    Ok(match Rejections::shipped()?.classify(status, body) {
        ErrorSubject::ContentFilter => None,
        ErrorSubject::ContextOverflow => {
            // A token has at least one byte, so the number of bytes is an upper bound on the
            // tokens.
            let possible = ContextWindowRules::shipped()?.is_overflow_plausible(
                request_bytes,
                0,
                model.context_window,
            );
            (!possible).then_some("the request is too short to cause the reported overflow")
        }
        ErrorSubject::RateLimit => Some("the endpoint's error is a rate limit"),
        ErrorSubject::Billing | ErrorSubject::Key => {
            Some("the endpoint's error is about the account or key")
        }
        ErrorSubject::Tools => Some("the endpoint's error is about tools"),
        ErrorSubject::UnknownModel => Some("the endpoint's error is about the name of the model"),
        ErrorSubject::Challenge | ErrorSubject::Proxy => {
            Some("the error is a web page or text from a proxy")
        }
        ErrorSubject::Unknown | ErrorSubject::UnkeptItem => {
            Some("the endpoint's error reports neither a context overflow nor a content filter")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_reclassified(status: u16, body: &str, request_bytes: u64) -> bool {
        let model = serde_json::json!({
            "base_url": "http://h/v1", "name": "m", "context_window": 100_000
        });
        let model: ModelSpec = serde_json::from_value(model).unwrap();
        recheck_rejection(status, body, &model, request_bytes).unwrap().is_some()
    }

    #[test]
    fn recheck_keeps_only_filters_and_possible_overflows() {
        let overflow = r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#;
        assert!(!is_reclassified(400, overflow, 400_000));
        assert!(is_reclassified(400, overflow, 2_000), "2,000 bytes cannot be 100,000 tokens");
        assert!(!is_reclassified(
            400,
            r#"{"error":{"code":"content_filter","message":"filtered"}}"#,
            10
        ));
        assert!(is_reclassified(
            400,
            r#"{"error":{"message":"unknown field `x` in the stream"}}"#,
            10
        ));
        assert!(!is_reclassified(200, "{}", 10));
    }
}
