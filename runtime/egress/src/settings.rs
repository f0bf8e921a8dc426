//! Reads `configs/tables/egress.toml` once.

use std::{collections::BTreeMap, time::Duration};

use proctor_types::ShippedTable;
use serde::Deserialize;

const SETTINGS_TOML: &str = include_str!("../../../configs/tables/egress.toml");

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) limits: Limits,
    pub(crate) patterns: PatternSettings,
    pub(crate) client: ClientSettings,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    pub(crate) requests: u64,
    pub(crate) head_bytes: usize,
    head_seconds: u64,
    connect_seconds: u64,
    answer_seconds: u64,
    idle_seconds: u64,
}

impl Limits {
    pub(crate) fn head_timeout(&self) -> Duration {
        Duration::from_secs(self.head_seconds)
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.connect_seconds)
    }

    pub(crate) fn response_timeout(&self) -> Duration {
        Duration::from_secs(self.answer_seconds)
    }

    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.idle_seconds)
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatternSettings {
    pub(crate) methods: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientSettings {
    pub(crate) proxy: Vec<String>,
    pub(crate) no_proxy: Vec<String>,
    pub(crate) no_proxy_hosts: String,
    pub(crate) bundle: Vec<String>,
    pub(crate) folder: String,
    pub(crate) bundle_file: String,
    pub(crate) keystore_file: String,
    pub(crate) other: BTreeMap<String, String>,
}

static SETTINGS: ShippedTable<Settings> = ShippedTable::new("tables/egress.toml", SETTINGS_TOML);

impl Settings {
    pub(crate) fn shipped() -> Result<&'static Self, String> {
        SETTINGS.get()
    }
}
