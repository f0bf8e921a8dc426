//! Detects attempts to fetch the upstream fix, whether through the proxy or by other means.

use proctor_types::{DenyReason, Envelope, Event, UrlDecision, UrlRequest};

use crate::{
    command::Command,
    finding::{Finding, FindingKind},
    rules::{Rules, any_matches},
};

/// Returns a finding if a command requests a URL of the task's source or package.
pub(crate) fn detect_fetch(
    command: &Command,
    rules: &Rules,
) -> Option<(FindingKind, &'static str)> {
    let line = &command.forms[1];
    (any_matches(&rules.fetchers, line) && any_matches(&rules.urls, line))
        .then_some((FindingKind::UpstreamTried, "tried to fetch the source under test"))
}

/// Returns the findings from the proxy's ledger. A request that audit mode allowed and that
/// returned content is a success. Any other request for a blocked resource is an attempt.
pub(crate) fn ledger_findings(events: &[Envelope]) -> Vec<Finding> {
    let request = |envelope: &Envelope| {
        let Event::UrlRequested(request) = &envelope.event else { return None };
        let reason = request.reason?;
        if !matches!(reason, DenyReason::TaskBlocked | DenyReason::TaskAlias) {
            return None;
        }
        let (kind, said) = if is_received(request) {
            (FindingKind::UpstreamFetched, "received a resource that the task blocks (audit mode)")
        } else {
            (FindingKind::UpstreamTried, "requested a resource that the task blocks")
        };
        let message = format!("{said}: {} {} ({reason})", request.method, request.url);
        Some(Finding { kind, description: message, step: Some(envelope.step) })
    };
    events.iter().filter_map(request).collect()
}

fn is_received(request: &UrlRequest) -> bool {
    request.decision == UrlDecision::Audited
        && request.bytes_down > 0
        && request.error.is_none()
        && request.status.is_none_or(|status| (200..300).contains(&status))
}
