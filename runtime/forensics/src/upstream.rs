//! Fetching the upstream fix: requests to the proxy, and other attempts.

use proctor_types::{DenyReason, Envelope, Event, UrlDecision, UrlRequest};

use crate::{
    command::Command,
    finding::{Finding, Kind},
    rules::{Rules, any},
};

/// Whether a command asks for a URL of the task's source or package.
pub(crate) fn fetch(command: &Command, rules: &Rules) -> Option<(Kind, &'static str)> {
    let line = &command.forms[1];
    (any(&rules.fetchers, line) && any(&rules.urls, line))
        .then_some((Kind::UpstreamTried, "tried to fetch the source under test"))
}

/// Findings from the proxy's ledger. A request that an audit allowed and that returned something is
/// a success; any other request for what the task blocks is an attempt.
pub(crate) fn requests(events: &[Envelope]) -> Vec<Finding> {
    let request = |envelope: &Envelope| {
        let Event::UrlRequested(request) = &envelope.event else { return None };
        let reason = request.reason?;
        if !matches!(reason, DenyReason::TaskBlocked | DenyReason::TaskAlias) {
            return None;
        }
        let (kind, said) = if came(request) {
            (Kind::UpstreamFetched, "received a resource that the task blocks (audit mode)")
        } else {
            (Kind::UpstreamTried, "requested a resource that the task blocks")
        };
        let what = format!("{said}: {} {} ({reason})", request.method, request.url);
        Some(Finding { kind, what, step: Some(envelope.step) })
    };
    events.iter().filter_map(request).collect()
}

fn came(request: &UrlRequest) -> bool {
    request.decision == UrlDecision::Audited
        && request.bytes_down > 0
        && request.error.is_none()
        && request.status.is_none_or(|status| (200..300).contains(&status))
}
