//! Token prices: `configs/tables/models.toml`.

use std::{collections::BTreeMap, path::Path};

use proctor_types::{Fault, FaultLayer, ModelSpec, Price, PriceTier};
use serde::Deserialize;
use serde_json::Value;

/// Prices and context windows by model name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    #[serde(default)]
    models: BTreeMap<String, ListedModel>,
}

/// One model of the table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedModel {
    /// Price of input tokens. All prices are in US dollars per million tokens.
    pub input: f64,
    pub output: f64,
    #[serde(default)]
    pub cached: Option<f64>,
    /// Price of tokens written to a cache. Default: the input price.
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// Price of tokens written to a cache for an hour. Default: twice the input price.
    #[serde(default)]
    pub cache_write_1h: Option<f64>,
    /// Price of reasoning tokens. Default: the output price.
    #[serde(default)]
    pub reasoning: Option<f64>,
    /// Prices of requests whose input exceeds the tier's `above` tokens.
    #[serde(default)]
    pub tiers: Vec<PriceTier>,
    /// Context window in tokens.
    #[serde(default)]
    pub context_window: Option<u64>,
    /// Source of the price.
    #[serde(default)]
    pub source: Option<String>,
}

impl PriceTable {
    /// Returns the built-in table.
    pub fn shipped() -> Result<Self, Fault> {
        Self::parse(include_str!("../../../configs/tables/models.toml"))
            .map_err(|fault| fault.context("configs/tables/models.toml"))
    }

    pub fn load(path: &Path) -> Result<Self, Fault> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Fault::new(FaultLayer::Model, error.to_string()));
        text.and_then(|text| Self::parse(&text)).map_err(|fault| fault.context(path.display()))
    }

    /// Reads TOML. Errors name the key. Like all tables, it is deserialized from a TOML value (see
    /// `from_toml`).
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let fault = |what: String| {
            Fault::new(FaultLayer::Model, what)
                .hint("see configs/tables/models.toml for the format")
        };
        let value: Value = toml::from_str(text).map_err(|error| fault(error.to_string()))?;
        let table: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            fault(format!("{path}: {}", error.into_inner()))
        })?;
        for (name, listed) in &table.models {
            let prices = [
                ("input", Some(listed.input)),
                ("output", Some(listed.output)),
                ("cached", listed.cached),
                ("cache_write", listed.cache_write),
                ("cache_write_1h", listed.cache_write_1h),
                ("reasoning", listed.reasoning),
            ];
            let tiers = listed.tiers.iter().flat_map(|tier| {
                let prices = [
                    tier.input,
                    tier.output,
                    tier.cached,
                    tier.cache_write,
                    tier.cache_write_1h,
                    tier.reasoning,
                ];
                prices.map(|price| ("tiers", price))
            });
            for (key, price) in prices.into_iter().chain(tiers) {
                if price.is_some_and(|price| !price.is_finite() || price < 0.0) {
                    return Err(fault(format!("models.{name}.{key}: not a price")));
                }
            }
        }
        Ok(table)
    }

    /// Finds a model by its name at the endpoint, with or without a leading `vendor/`.
    pub fn find_model(&self, name: &str) -> Option<&ListedModel> {
        let bare = || name.rsplit_once('/').map(|(_, bare)| bare);
        self.models.get(name).or_else(|| self.models.get(bare()?))
    }

    /// Returns the model's configured price, or the table's price if none is configured.
    pub fn price_for(&self, model: &ModelSpec) -> Option<Price> {
        model.price.clone().or_else(|| self.listed_price(&model.name))
    }

    pub fn listed_price(&self, name: &str) -> Option<Price> {
        let found = self.find_model(name)?;
        Some(Price {
            cache_write: found.cache_write,
            cache_write_1h: found.cache_write_1h,
            reasoning: found.reasoning,
            tiers: found.tiers.clone(),
            ..Price::flat(found.input, found.output, found.cached)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::PriceTable;

    #[test]
    fn shipped_price_table_is_valid_and_names_its_sources() {
        let table = PriceTable::shipped().expect("a valid table");
        assert!(table.models.len() >= 12);
        for (name, listed) in &table.models {
            assert!(listed.source.is_some(), "{name}");
            assert!(listed.context_window.is_some(), "{name}");
            assert!(listed.output >= listed.input, "{name}");
        }
    }

    #[test]
    fn vendor_prefix_does_not_change_the_model() {
        let table = PriceTable::parse("[models.m]\ninput = 1\noutput = 2").expect("a table");
        assert_eq!(table.listed_price("vendor/m"), table.listed_price("m"));
        assert!(table.listed_price("m").is_some());
        assert_eq!(table.listed_price("m-large"), None);
    }

    #[test]
    fn errors_name_the_key() {
        for (text, key) in [
            ("[models.m]\ninput = 'x'\noutput = 2", "models.m.input"),
            ("[models.m]\ninput = 1\noutput = -2", "models.m.output"),
            ("[models.m]\ninput = 1\noutput = 2\ncahced = 1", "cahced"),
            ("[models.m]\ninput = 1", "output"),
        ] {
            let fault = PriceTable::parse(text).expect_err("not a table");
            assert!(fault.to_string().contains(key), "{fault}");
        }
    }
}
