//! One request to the egress proxy, as recorded in the ledger.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A request and how the egress proxy handled it: one line of the ledger.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UrlRequest {
    /// The HTTP method. `CONNECT` if the proxy tunneled or refused the connection without
    /// inspecting it.
    pub method: String,
    /// The URL as sent by the client, without credentials, truncated to 2,048 characters.
    pub url: String,
    /// Whether the proxy allowed the request.
    pub decision: UrlDecision,
    /// The configured pattern that allowed or denied the request. Absent if no pattern matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why the request was denied, or would have been without `network.audit`. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<DenyReason>,
    /// The address that the proxy connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// HTTP status of the response to the client. Absent if the proxy did not inspect the
    /// connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why an allowed request failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Bytes of request bodies sent to the server. If the proxy did not inspect the connection, all
    /// bytes count.
    pub bytes_up: u64,
    /// Bytes of response bodies sent to the client, counted like `bytes_up`.
    pub bytes_down: u64,
    /// Bytes of the response that were not compared with the solution because they exceed the limit
    /// or have an unsupported encoding. Connections that the proxy did not inspect are never
    /// compared and do not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_compared: u64,
    /// Blob hash of the response's body, which is stored only if it shares lines with the solution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// Seconds from the request to the end of the response.
    pub seconds: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Whether a request was allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UrlDecision {
    /// A pattern or the mode allows the request.
    Allowed,
    /// Denied. [`UrlRequest::reason`] says why.
    #[default]
    Denied,
    /// Allowed only because of `network.audit`.
    Audited,
}

/// Why the proxy denies a request. The model, the record and the reports use the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenyReason {
    /// The mode is `allow`, and no pattern matches.
    NotAllowed,
    /// The URL matches a pattern of `network.deny`.
    Denied,
    /// The URL matches one of the task's `blocked_urls`.
    TaskBlocked,
    /// The URL is another route to a package or repository that the task blocks: an index, a file,
    /// documentation, source code or a mirror.
    TaskAlias,
    /// The host is, or resolves to, an address outside the public internet.
    PrivateAddress,
    /// The TLS server name, the `Host` header and the requested address disagree.
    HostMismatch,
    /// The path is percent-encoded too many times, so its meaning is ambiguous.
    AmbiguousUrl,
    /// The client sent something other than HTTP, or something other than TLS within a tunnel.
    NotHttp,
    /// The client sent HTTP that the proxy does not support.
    BadRequest,
    /// The client did not accept the proxy's certificate, so nothing can be checked.
    UntrustedProxy,
    /// The trial has reached its limit on requests.
    TooMany,
}

impl DenyReason {
    /// Every reason, in declaration order.
    pub const ALL: [Self; 11] = [
        Self::NotAllowed,
        Self::Denied,
        Self::TaskBlocked,
        Self::TaskAlias,
        Self::PrivateAddress,
        Self::HostMismatch,
        Self::AmbiguousUrl,
        Self::NotHttp,
        Self::BadRequest,
        Self::UntrustedProxy,
        Self::TooMany,
    ];

    /// Returns the name used in the record and in the header of a denial response.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAllowed => "not_allowed",
            Self::Denied => "denied",
            Self::TaskBlocked => "task_blocked",
            Self::TaskAlias => "task_alias",
            Self::PrivateAddress => "private_address",
            Self::HostMismatch => "host_mismatch",
            Self::AmbiguousUrl => "ambiguous_url",
            Self::NotHttp => "not_http",
            Self::BadRequest => "bad_request",
            Self::UntrustedProxy => "untrusted_proxy",
            Self::TooMany => "too_many",
        }
    }

    /// Returns a sentence that explains the denial to the client.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::NotAllowed => "This URL is not on the list of allowed URLs.",
            Self::Denied => "This URL is on the list of denied URLs.",
            Self::TaskBlocked => "This task blocks this URL.",
            Self::TaskAlias => {
                "This URL leads to the package or repository under test, which the task blocks."
            }
            Self::PrivateAddress => "This host is not on the public internet.",
            Self::HostMismatch => {
                "The server name, the Host header and the requested address must match."
            }
            Self::AmbiguousUrl => "This path is percent-encoded too many times.",
            Self::NotHttp => "This proxy only supports HTTP and HTTPS.",
            Self::BadRequest => "This is not a valid request to an HTTP proxy.",
            Self::UntrustedProxy => "The client did not accept the certificate of this proxy.",
            Self::TooMany => "This trial has reached its limit on requests.",
        }
    }
}

impl fmt::Display for DenyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deny_reason_names_match_serialized_names() {
        for reason in DenyReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
            assert!(reason.sentence().ends_with('.'));
        }
    }

    #[test]
    fn ledger_line_round_trips_as_an_event() {
        let request = UrlRequest {
            method: "GET".into(),
            url: "https://pypi.org/simple/boltons/".into(),
            decision: UrlDecision::Denied,
            reason: Some(DenyReason::TaskAlias),
            status: Some(403),
            ..UrlRequest::default()
        };
        let event = crate::Event::UrlRequested(Box::new(request));
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(written["kind"], "url_requested");
        assert_eq!(written["reason"], "task_alias");
        assert_eq!(serde_json::from_value::<crate::Event>(written).unwrap(), event);
    }
}
