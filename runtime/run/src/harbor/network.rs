//! The network access of Harbor's verifiers and reference solutions: the hosts that the task
//! allows, and a log of the requests.

use std::{
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use proctor_egress::Ledger;
use proctor_types::{
    Arm, DenyReason, Fault, HarborNetwork, NetworkMode, NetworkPolicy, UrlRequest,
};

/// Maximum number of a verifier's network requests to log.
const MAX_LOGGED_REQUESTS: usize = 1000;

/// Returns the network policy that the task declares, and adds the arm's mirrors. The task cannot
/// declare the mirrors, because they depend on this machine.
pub(super) fn network_policy(network: &HarborNetwork, arm: &Arm) -> NetworkPolicy {
    let (private, ca_file) = (arm.network.private.clone(), arm.network.ca_file.clone());
    let own = NetworkPolicy { private, ca_file, ..NetworkPolicy::default() };
    match network {
        HarborNetwork::Public => NetworkPolicy { mode: NetworkMode::OpenExcept, ..own },
        HarborNetwork::NoNetwork => NetworkPolicy::default(),
        HarborNetwork::Allowlist(hosts) => {
            // Harbor's `*.` matches subdomains at every level. In a URL pattern, a single star
            // would match only one level.
            let pattern = |host: &String| match host.strip_prefix("*.") {
                Some(suffix) => format!("*://**.{suffix}:*"),
                None => format!("*://{host}:*"),
            };
            let allow = hosts.iter().map(pattern).collect();
            NetworkPolicy { mode: NetworkMode::Allow, allow, ..own }
        }
    }
}

/// Records a verifier's network requests.
#[derive(Default)]
pub(super) struct RequestLog {
    lines: Mutex<Vec<String>>,
    /// The first URL that the policy allows, but whose host resolves to a private address on this
    /// machine.
    unreachable_url: Mutex<Option<String>>,
}

impl RequestLog {
    pub(super) fn log_lines(&self) -> Vec<u8> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().flat_map(|line| format!("[network] {line}\n").into_bytes()).collect()
    }

    pub(super) fn unreachable_url(&self) -> Option<String> {
        self.unreachable_url.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether a URL names another host, rather than an IP address or this machine.
fn has_external_host(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    host.contains('.') && !is_address && !host.ends_with(".localhost")
}

#[async_trait]
impl Ledger for RequestLog {
    async fn current_step(&self) -> u64 {
        0
    }

    async fn record(&self, _step: u64, request: UrlRequest) -> Result<(), Fault> {
        if request.reason == Some(DenyReason::PrivateAddress) && has_external_host(&request.url) {
            let mut first = self.unreachable_url.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| request.url.clone());
        }
        let line = serde_json::to_string(&request).unwrap_or_default();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MAX_LOGGED_REQUESTS {
            lines.push(line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn private_mirror_is_reported_as_unreachable() {
        let requests = RequestLog::default();
        let denied = |url: &str, reason| UrlRequest {
            url: url.to_owned(),
            reason: Some(reason),
            ..UrlRequest::default()
        };
        for (url, reason) in [
            ("http://10.0.0.1/x", DenyReason::PrivateAddress),
            ("http://[::1]:80/x", DenyReason::PrivateAddress),
            ("http://localhost:80/", DenyReason::PrivateAddress),
            ("https://pypi.org/simple/", DenyReason::NotAllowed),
        ] {
            requests.record(0, denied(url, reason)).await.unwrap();
            assert_eq!(requests.unreachable_url(), None, "{url}");
        }
        for url in ["pypi.org:443", "https://other.org/"] {
            requests.record(0, denied(url, DenyReason::PrivateAddress)).await.unwrap();
        }
        assert_eq!(requests.unreachable_url().as_deref(), Some("pypi.org:443"));
        assert_eq!(requests.log_lines().iter().filter(|byte| **byte == b'\n').count(), 6);
    }
}
