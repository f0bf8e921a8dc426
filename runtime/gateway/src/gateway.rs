use std::sync::{Arc, Once, OnceLock};

use proctor_types::{Budget, Fault, FaultLayer, ModelSpec, Price, format_error_chain};

use crate::{
    EndpointRates, ExchangeSink, Meter, PriceTable, RatePolicy, RetryPolicy, SharedRates,
    TrialGateway, endpoint::Endpoint, halts::Halts, rate_limiters::RateLimiters, request,
    retry::seconds, trial::ModelRoute,
};

type KeyLookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// State that all trials of a run share: prices, the retry policy, the endpoints' rate limits and
/// the HTTP clients.
pub struct Gateway {
    prices: PriceTable,
    policy: RetryPolicy,
    rates: RateLimiters,
    halts: Arc<Halts>,
    key_lookup: Box<KeyLookup>,
    /// Client for plain HTTP endpoints on this machine: no proxy, no certificates.
    local_client: reqwest::Client,
    /// Client for all other endpoints. Created on first use, so that a machine without certificates
    /// can still call loopback endpoints.
    remote_client: OnceLock<reqwest::Client>,
}

impl Gateway {
    /// Uses the built-in retry policy and keys from the environment.
    pub fn new(prices: PriceTable) -> Result<Self, Fault> {
        Self::with_policy(prices, RetryPolicy::shipped()?)
    }

    pub fn with_policy(prices: PriceTable, policy: RetryPolicy) -> Result<Self, Fault> {
        static INSTALL_PROVIDER: Once = Once::new();
        INSTALL_PROVIDER.call_once(|| {
            // Ignore an error, because it only means that the program has already installed a
            // provider.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let local =
            client_builder(&policy).no_proxy().tls_certs_only([]).build().map_err(|error| {
                Fault::new(FaultLayer::Model, format!("cannot create an HTTP client: {error}"))
            })?;
        let key_of = Box::new(|name: &str| std::env::var(name).ok());
        let rates = RateLimiters::new(Vec::new(), RatePolicy::shipped()?);
        let halts = Arc::default();
        Ok(Self {
            prices,
            policy,
            rates,
            halts,
            key_lookup: key_of,
            local_client: local,
            remote_client: OnceLock::new(),
        })
    }

    /// Sets the rate limits of the endpoints in the tables. The gateway learns the limits of other
    /// endpoints.
    #[must_use]
    pub fn with_rates(self, tables: Vec<EndpointRates>, policy: RatePolicy) -> Self {
        let alone = |table| (table, SharedRates::default());
        self.with_shared_rates(tables.into_iter().map(alone).collect(), policy)
    }

    /// Like [`Self::with_rates`], but shares the limits with other processes.
    #[must_use]
    pub fn with_shared_rates(
        mut self,
        tables: Vec<(EndpointRates, SharedRates)>,
        policy: RatePolicy,
    ) -> Self {
        self.rates = RateLimiters::new(tables, policy);
        self
    }

    /// Reads keys from this function instead of the environment.
    #[must_use]
    pub fn with_key_lookup(
        mut self,
        key_lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.key_lookup = Box::new(key_lookup);
        self
    }

    /// Returns the price of a model, or `None` if no price is configured and the table does not
    /// list the model. Responses of a model without a price have no cost.
    pub fn price(&self, model: &ModelSpec) -> Option<Price> {
        self.prices.price_for(model)
    }

    /// Returns the model's configured context window, or the table's value if none is configured.
    pub fn context_window(&self, model: &ModelSpec) -> Option<u64> {
        model.context_window.or_else(|| self.prices.find_model(&model.name)?.context_window)
    }

    /// Opens a trial's connection to its model and starts the trial's clock. Nothing is sent yet.
    ///
    /// Fails if the model cannot be used as configured: a missing key (the hint names the
    /// variable), an invalid URL, or a cost limit on a model without a price.
    pub fn open(
        &self,
        model: &ModelSpec,
        budget: &Budget,
        sink: Arc<dyn ExchangeSink>,
    ) -> Result<TrialGateway, Fault> {
        self.open_with_meter(model, Arc::new(Meter::new(budget.clone())), sink)
    }

    /// Like [`Self::open`], but with an existing meter. The meter's clock is already running, and
    /// the trial may share some of its limits with other trials.
    pub fn open_with_meter(
        &self,
        model: &ModelSpec,
        meter: Arc<Meter>,
        sink: Arc<dyn ExchangeSink>,
    ) -> Result<TrialGateway, Fault> {
        Ok(TrialGateway::new(self.build_route(model, meter.budget())?, meter, sink))
    }

    /// Checks whether [`Gateway::open`] would succeed. Proctor makes this check for every arm
    /// before a run starts. If the hundredth trial were the first to need a missing key, the
    /// ninety-nine trials before it would be wasted.
    pub fn check_model(&self, model: &ModelSpec, budget: &Budget) -> Result<(), Fault> {
        self.build_route(model, budget).map(drop)
    }

    /// Returns why no trial may call this model, if a trial has hit a problem that affects all of
    /// them: a rejected key or model name, a missing endpoint, or missing tool support.
    /// `offers_tools` says whether the trial's requests offer tools.
    pub fn halt_reason(&self, model: &ModelSpec, offers_tools: bool) -> Option<Fault> {
        self.halts.halting_fault(model, offers_tools)
    }

    /// Returns all faults that halt a model, without duplicates.
    pub fn halt_faults(&self) -> Vec<Fault> {
        self.halts.faults()
    }

    /// Rejects a cost limit on a model without a price, because the limit could never be reached.
    pub fn check_price(&self, model: &ModelSpec, budget: &Budget) -> Result<(), Fault> {
        let shared = [&budget.arm, &budget.run].into_iter().flatten();
        let limited = budget.cost_usd.or_else(|| shared.filter_map(|one| one.cost_usd).next());
        if limited.is_none() || self.price(model).is_some() {
            return Ok(());
        }
        let what = format!("model {}: a cost limit is set, but the model has no price", model.name);
        let hint = "set `price` in its [models] table (US dollars per million tokens; known prices \
                    are in configs/tables/models.toml), or remove the cost limit";
        Err(Fault::new(FaultLayer::Model, what).hint(hint))
    }

    fn build_route(&self, model: &ModelSpec, budget: &Budget) -> Result<ModelRoute, Fault> {
        request::check_model(model)?;
        let price = self.price(model);
        self.check_price(model, budget)?;
        let endpoint = Endpoint::new(model, &*self.key_lookup)?;
        let http =
            if endpoint.is_local() { self.local_client.clone() } else { self.remote_client()? };
        let (window, policy) = (self.context_window(model), self.policy.clone());
        let (limiters, halts) = (self.rates.limiters_for(model), Arc::clone(&self.halts));
        Ok(ModelRoute {
            model: model.clone(),
            endpoint,
            http,
            price,
            context_window: window,
            limiters,
            halts,
            policy,
        })
    }

    /// Returns the client for remote endpoints, with the system's certificates and proxy.
    fn remote_client(&self) -> Result<reqwest::Client, Fault> {
        if let Some(built) = self.remote_client.get() {
            return Ok(built.clone());
        }
        let built = client_builder(&self.policy).build().map_err(|error| {
            Fault::new(
                FaultLayer::Model,
                format!("cannot create an HTTPS client: {}", format_error_chain(&error)),
            )
            .hint("install the CA certificates of the system (package ca-certificates)")
        })?;
        Ok(self.remote_client.get_or_init(|| built).clone())
    }
}

/// Redirects are not followed: they would turn a POST into a GET and send the request elsewhere.
/// reqwest's retries are off because the gateway must make and record every attempt itself.
fn client_builder(policy: &RetryPolicy) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("proctor/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(seconds(policy.connect_seconds))
}
