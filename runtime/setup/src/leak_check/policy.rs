//! What the leak check looks for, as data: `configs/leak-check.toml`.

use std::sync::LazyLock;

use proctor_sandbox_api::wire::ScanLimits;
use proctor_types::{Fault, Layer, sha256_hex};
use serde::Deserialize;

const TEXT: &str = include_str!("../../../../configs/leak-check.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeakPolicy {
    pub version: u32,
    pub copies: Vec<String>,
    pub copy_suffixes: Vec<String>,
    pub import_roots: Vec<String>,
    pub source_roots: Vec<String>,
    pub not_modules: Vec<String>,
    pub test_folders: Vec<String>,
    pub volatile: Vec<String>,
    pub pseudo: Vec<String>,
    pub host: HostFolders,
    pub limits: ScanLimits,
    pub prints: Prints,
    pub sandbox: SandboxSecrets,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostFolders {
    pub suffixes: Vec<String>,
    pub skip: Vec<String>,
}

/// When a copy is a copy.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prints {
    pub block_bytes: usize,
    pub code_share: f64,
    pub test_share: f64,
    pub run_windows: usize,
    pub window_bytes: usize,
    pub windows: usize,
    pub names: usize,
    pub names_share: f64,
    pub names_elsewhere: usize,
    pub names_elsewhere_share: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SandboxSecrets {
    pub sockets: Vec<String>,
    pub mounts: Vec<String>,
    pub home_files: Vec<String>,
    pub variables: Vec<String>,
}

static POLICY: LazyLock<Result<LeakPolicy, String>> =
    LazyLock::new(|| toml::from_str(TEXT).map_err(|error| error.to_string()));

impl LeakPolicy {
    pub(crate) fn get() -> Result<&'static Self, Fault> {
        POLICY
            .as_ref()
            .map_err(|error| Fault::new(Layer::Setup, format!("configs/leak-check.toml: {error}")))
    }

    /// Names the policy's whole text: findings of another one are not reused.
    pub(crate) fn digest(&self) -> String {
        sha256_hex(format!("{} {TEXT}", self.version).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_policy_is_read() {
        let policy = LeakPolicy::get().unwrap();
        assert!(policy.limits.depth > 0 && policy.prints.code_share <= 1.0);
    }
}
