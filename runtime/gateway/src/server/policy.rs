//! Reads `configs/tables/gateway-server.toml`.

use std::{collections::HashMap, time::Duration};

use http::HeaderMap;
use proctor_types::{Api, Fault, FaultLayer, from_toml};
use serde::Deserialize;

use crate::retry::seconds;

/// `configs/tables/gateway-server.toml` explains each value.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerPolicy {
    head_seconds: f64,
    pub body_limit: usize,
    headers: ForwardedHeaders,
    withheld: HashMap<Api, WithholdPolicy>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForwardedHeaders {
    request_dropped: Vec<String>,
    request_dropped_prefixes: Vec<String>,
    response_kept: Vec<String>,
}

/// The fields and tools that a client of one format may or may not use.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WithholdPolicy {
    pub fields: Vec<String>,
    allowed_tools: Vec<String>,
}

impl WithholdPolicy {
    pub(super) fn allows(&self, kind: &str) -> bool {
        self.allowed_tools.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(head) => kind.starts_with(head),
            None => kind == allowed,
        })
    }
}

impl ServerPolicy {
    pub(super) fn shipped() -> Result<Self, Fault> {
        let text = include_str!("../../../../configs/tables/gateway-server.toml");
        let fault = |what: String| {
            Fault::new(FaultLayer::Model, what).context("configs/tables/gateway-server.toml")
        };
        let policy: Self = from_toml(text).map_err(fault)?;
        for api in [Api::Chat, Api::Responses, Api::Messages, Api::Gemini] {
            if !policy.withheld.contains_key(&api) {
                return Err(fault(format!("withheld.{api}: missing")));
            }
        }
        Ok(policy)
    }

    pub(super) fn head_timeout(&self) -> Duration {
        seconds(self.head_seconds)
    }

    pub(super) fn withhold_policy(&self, api: Api) -> Option<&WithholdPolicy> {
        self.withheld.get(&api)
    }

    /// Returns the client's headers that are forwarded to an endpoint with the same format.
    pub(super) fn request_headers(&self, headers: &HeaderMap) -> HeaderMap {
        let passes = |name: &str| {
            let dropped = &self.headers.request_dropped;
            let prefixes = &self.headers.request_dropped_prefixes;
            !dropped.iter().any(|one| one == name)
                && !prefixes.iter().any(|prefix| name.starts_with(prefix))
        };
        let pairs = headers.iter().filter(|(name, _)| passes(name.as_str()));
        pairs.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns the endpoint's headers that are forwarded to the client.
    pub(super) fn response_headers(&self, headers: &HeaderMap) -> HeaderMap {
        let kept = self.headers.response_kept.iter();
        let pairs = kept.filter_map(|name| {
            let value = headers.get(name)?;
            Some((http::HeaderName::try_from(name.as_str()).ok()?, value.clone()))
        });
        pairs.collect()
    }
}
