//! A run's limiters, by endpoint and model.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use proctor_types::ModelSpec;

use crate::{EndpointRates, RatePolicy, limiter::Limiter, shared::SharedRates};

/// A run's limiters: one per endpoint and model in use, or one per table.
#[derive(Debug)]
pub(crate) struct RateLimiters {
    policy: RatePolicy,
    configured_limiters: Vec<(EndpointRates, Arc<Limiter>)>,
    default_limiters: Mutex<BTreeMap<(String, String), Arc<Limiter>>>,
}

impl RateLimiters {
    /// Creates one limiter per table. Each table comes with the limits that are shared across
    /// processes.
    pub(crate) fn new(tables: Vec<(EndpointRates, SharedRates)>, policy: RatePolicy) -> Self {
        let limited = |(table, shared): (EndpointRates, SharedRates)| {
            let limiter = Limiter::with_shared_rates(table.clone(), policy, shared);
            (table, limiter)
        };
        let configured_limiters = tables.into_iter().map(limited).collect();
        Self { policy, configured_limiters, default_limiters: Mutex::default() }
    }

    /// Returns every limiter that a request to the model passes, always in the same order. If no
    /// table covers the endpoint, the limiter has no configured limits and only learns from
    /// rejections.
    pub(crate) fn limiters_for(&self, model: &ModelSpec) -> Vec<Arc<Limiter>> {
        let named = self.configured_limiters.iter().filter(|(table, _)| table.applies_to(model));
        let named: Vec<_> = named.map(|(_, limiter)| Arc::clone(limiter)).collect();
        if !named.is_empty() {
            return named;
        }
        let key = (model.normalized_url().to_owned(), model.name.clone());
        let mut others = self.default_limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || Limiter::new(EndpointRates::default(), self.policy);
        vec![Arc::clone(others.entry(key).or_insert_with(fresh))]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proctor_types::ModelSpec;

    use super::{EndpointRates, RateLimiters, RatePolicy, SharedRates};

    fn model(base_url: &str, name: &str) -> ModelSpec {
        let spec = serde_json::json!({"base_url": base_url, "name": name});
        serde_json::from_value(spec).expect("a model")
    }

    #[test]
    fn trials_at_one_endpoint_share_its_limiters() {
        let whole = EndpointRates { base_url: "https://h/v1/".into(), ..Default::default() };
        let one = EndpointRates { model: Some("m".into()), ..whole.clone() };
        let tables = [whole, one].map(|table| (table, SharedRates::default())).to_vec();
        let rates = RateLimiters::new(tables, RatePolicy::shipped().expect("valid"));
        let (m, n) = (
            rates.limiters_for(&model("https://h/v1", "m")),
            rates.limiters_for(&model("https://h/v1", "n")),
        );
        assert_eq!((m.len(), n.len()), (2, 1));
        assert!(Arc::ptr_eq(&m[0], &n[0]));
        let other = |name: &str| rates.limiters_for(&model("https://other/v1", name)).remove(0);
        assert!(Arc::ptr_eq(&other("m"), &other("m")));
        assert!(!Arc::ptr_eq(&other("m"), &other("n")));
    }
}
