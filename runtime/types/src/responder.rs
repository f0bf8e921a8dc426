//! The model, provider and server that produced a response. A router may use several for one arm.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// The model, the provider and the server configuration of a response, as named by the endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Responder {
    /// The model that responded: `model`, or Gemini's `modelVersion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider that a router chose: `provider`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The server's configuration: `system_fingerprint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

impl Responder {
    /// Whether the response names neither model, provider nor configuration.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.model {
            Some(model) => write!(f, "`{model}`")?,
            None => f.write_str("unnamed model")?,
        }
        if let Some(provider) = &self.provider {
            write!(f, " from {provider}")?;
        }
        match &self.fingerprint {
            Some(fingerprint) => write!(f, " (fingerprint {fingerprint})"),
            None => Ok(()),
        }
    }
}

/// Number of responses by responder. Serialized as a list, in name order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<ResponderCount>", into = "Vec<ResponderCount>")]
pub struct Responders(BTreeMap<Responder, u64>);

#[derive(Serialize, Deserialize)]
struct ResponderCount {
    #[serde(flatten)]
    responder: Responder,
    responses: u64,
}

impl From<Vec<ResponderCount>> for Responders {
    fn from(counts: Vec<ResponderCount>) -> Self {
        let mut all = Self::default();
        for ResponderCount { responder, responses } in counts {
            *all.0.entry(responder).or_default() += responses;
        }
        all
    }
}

impl From<Responders> for Vec<ResponderCount> {
    fn from(Responders(counts): Responders) -> Self {
        let count = |(responder, responses)| ResponderCount { responder, responses };
        counts.into_iter().map(count).collect()
    }
}

impl Responders {
    /// Counts one response.
    pub fn add(&mut self, responder: &Responder) {
        *self.0.entry(responder.clone()).or_default() += 1;
    }

    /// Adds the responses of another trial or arm.
    pub fn merge(&mut self, other: &Self) {
        for (responder, responses) in &other.0 {
            *self.0.entry(responder.clone()).or_default() += responses;
        }
    }

    /// Whether no response named a responder, in which case Serde omits the key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether more than one model, provider or server configuration responded.
    pub fn is_mixture(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns each responder with its number of responses, most frequent first.
    pub fn sorted_counts(&self) -> Vec<(&Responder, u64)> {
        let mut all: Vec<(&Responder, u64)> =
            self.0.iter().map(|(responder, responses)| (responder, *responses)).collect();
        // The sort is stable, so equal counts keep the name order.
        all.sort_by_key(|(_, responses)| std::cmp::Reverse(*responses));
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Responder, Responders};

    fn responder(model: &str, provider: Option<&str>) -> Responder {
        Responder {
            model: Some(model.into()),
            provider: provider.map(Into::into),
            fingerprint: None,
        }
    }

    #[test]
    fn responders_count_responses() {
        let mut all = Responders::default();
        all.add(&responder("m", Some("A")));
        assert!(!all.is_mixture());
        all.add(&responder("m-mini", None));
        all.add(&responder("m-mini", None));
        assert!(all.is_mixture());
        let lines: Vec<String> = all
            .sorted_counts()
            .into_iter()
            .map(|(responder, count)| format!("{count} {responder}"))
            .collect();
        assert_eq!(lines, ["2 `m-mini`", "1 `m` from A"]);
        let written = serde_json::to_value(&all).unwrap();
        assert_eq!(
            written,
            json!([
                {"model": "m", "provider": "A", "responses": 1},
                {"model": "m-mini", "responses": 2},
            ])
        );
        assert_eq!(serde_json::from_value::<Responders>(written).unwrap(), all);
    }
}
