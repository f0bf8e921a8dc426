//! Downloads packages from an npm registry without using npm. A published package is a single
//! archive whose URL follows from the package's name and version.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proctor_types::{Fault, FaultCause};
use reqwest::Url;
use serde::Deserialize;

use crate::http::{HttpClient, env_variable, environment_fault, home_directory};

const DEFAULT_REGISTRY: &str = "https://registry.npmjs.org";

/// Maximum size of a package in bytes.
const SIZE_LIMIT: usize = 1 << 30;

/// The registry that npm would use on this machine.
#[derive(Debug, Clone)]
pub struct Npm {
    settings: Settings,
    http: HttpClient,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Settings {
    registry: String,
    /// Registries by scope, such as `@acme`.
    scopes: BTreeMap<String, String>,
    cert: Option<PathBuf>,
}

impl Npm {
    /// Reads the variables `npm_config_registry` and `npm_config_cafile` and the user's `.npmrc`,
    /// as npm does. Tokens are ignored, so registries are always queried anonymously.
    ///
    /// # Errors
    /// Returns an error if the certificate file cannot be read.
    pub fn from_env() -> Result<Self, Fault> {
        let file = env_variable("npm_config_userconfig")
            .or_else(|| env_variable("NPM_CONFIG_USERCONFIG"))
            .map(PathBuf::from)
            .or_else(|| home_directory().map(|home| home.join(".npmrc")));
        let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        let settings = Settings::from_env_and_files(&env_variable, &text);
        let http = HttpClient::new(settings.cert.as_deref())?;
        Ok(Self { settings, http })
    }

    /// Returns the registry's description of a package version, or of the version that a tag such
    /// as `latest` names.
    ///
    /// # Errors
    /// Returns a fault with a hint if the registry cannot be reached, has no such version, or
    /// provides no checksum.
    pub async fn fetch_release(&self, name: &str, version: &str) -> Result<NpmRelease, Fault> {
        let at = |fault: Fault| {
            fault
                .context(format_args!("{name}@{version} from npm"))
                .hint(format!("list the published versions with `npm view {name} versions`"))
        };
        let registry = self.settings.registry_for(name);
        let url = parse_url(&format!("{registry}/{}/{version}", name.replace('/', "%2f")));
        let page = self.http.fetch_page(url.map_err(at)?, "application/json").await.map_err(at)?;
        let release: Release = serde_json::from_str(&page.text).map_err(|error| {
            at(environment_fault(format!("the registry's response has an unknown format: {error}")))
        })?;
        let Some(integrity) = release.dist.integrity else {
            return Err(at(environment_fault(
                "the registry's response has no checksum (dist.integrity)".to_owned(),
            )));
        };
        Ok(NpmRelease {
            version: release.version,
            integrity,
            dependencies: release.dependencies,
            optional_dependencies: release.optional_dependencies,
        })
    }

    /// Returns the archive of a package version, exactly as it was published.
    ///
    /// # Errors
    /// Returns a fault with a hint if the registry cannot be reached or has no such package.
    pub async fn download_archive(&self, name: &str, version: &str) -> Result<Vec<u8>, Fault> {
        let at = |fault: Fault| {
            fault.context(format_args!("{name}@{version} from npm")).hint(
                "check the network, npm_config_registry and .npmrc, and that the version was published",
            )
        };
        let registry = self.settings.registry_for(name);
        let short = name.rsplit('/').next().unwrap_or(name);
        let usual = parse_url(&format!("{registry}/{name}/-/{short}-{version}.tgz")).map_err(at)?;
        match self.http.download(&usual, SIZE_LIMIT).await {
            Err(missing) if missing.cause == FaultCause::Missing => {
                // Some registries store archives at a different URL, which their metadata contains.
                let page = parse_url(&format!("{registry}/{}/{version}", name.replace('/', "%2f")));
                let page = self.http.fetch_page(page.map_err(at)?, "application/json").await;
                let page = page.map_err(|_| at(missing))?;
                let release: Release = serde_json::from_str(&page.text).map_err(|error| {
                    at(environment_fault(format!(
                        "the registry's response has an unknown format: {error}"
                    )))
                })?;
                let named = page.base_url.join(&release.dist.tarball);
                let named = named
                    .map_err(|error| at(environment_fault(format!("invalid address: {error}"))))?;
                self.http.download(&named, SIZE_LIMIT).await.map_err(at)
            }
            other => other.map_err(at),
        }
    }
}

/// A published version of a package, as a registry describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpmRelease {
    /// The exact version, even if a tag such as `latest` was requested.
    pub version: String,
    /// The archive's checksum: `sha512-` followed by base64.
    pub integrity: String,
    /// Required packages, with their version ranges.
    pub dependencies: BTreeMap<String, String>,
    /// Optional packages, which are used only if they can be installed, with their version ranges.
    pub optional_dependencies: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Release {
    #[serde(default)]
    version: String,
    dist: Dist,
    #[serde(default)]
    dependencies: BTreeMap<String, String>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Dist {
    tarball: String,
    #[serde(default)]
    integrity: Option<String>,
}

fn parse_url(url: &str) -> Result<Url, Fault> {
    Url::parse(url).map_err(|error| environment_fault(format!("invalid registry address: {error}")))
}

impl Settings {
    fn from_env_and_files(variable: &dyn Fn(&str) -> Option<String>, file: &str) -> Self {
        let lines = file.lines().filter(|line| !line.trim_start().starts_with(['#', ';']));
        let pairs: Vec<(&str, String)> = lines
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| {
                (key.trim(), expand_variables(value.trim().trim_matches('"'), variable))
            })
            .collect();
        let either = |key: &str| {
            variable(&format!("npm_config_{key}"))
                .or_else(|| variable(&format!("NPM_CONFIG_{}", key.to_uppercase())))
                .or_else(|| pairs.iter().rev().find(|(k, _)| *k == key).map(|(_, v)| v.clone()))
        };
        let plain = |url: String| url.trim_end_matches('/').to_owned();
        let scopes = pairs.iter().filter_map(|(key, value)| {
            let scope = key.strip_suffix(":registry").filter(|scope| scope.starts_with('@'))?;
            Some((scope.to_owned(), plain(value.clone())))
        });
        Self {
            registry: plain(either("registry").unwrap_or_else(|| DEFAULT_REGISTRY.to_owned())),
            scopes: scopes.collect(),
            cert: either("cafile").map(PathBuf::from).filter(|path| path != Path::new("null")),
        }
    }

    fn registry_for(&self, name: &str) -> &str {
        let scope = name.split_once('/').map(|(scope, _)| scope);
        scope.and_then(|scope| self.scopes.get(scope)).unwrap_or(&self.registry)
    }
}

/// Expands `${NAME}` to the variable's value. As in npm, a reference to an unset variable stays as
/// it is written.
fn expand_variables(value: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let (mut out, mut rest) = (String::new(), value);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push_str(&variable(name).unwrap_or_else(|| format!("${{{name}}}")));
        rest = behind;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npm_variables_override_the_file_and_scopes_are_separate() {
        let none = |_: &str| None;
        assert_eq!(Settings::from_env_and_files(&none, "").registry, DEFAULT_REGISTRY);
        let file = "# registry=https://no\nregistry = https://one/npm/\n@acme:registry=https://${HOST}/a/\n\
                    //one/:_authToken=x\ncafile=/ca.pem\n";
        let host = |key: &str| (key == "HOST").then(|| "h.test".to_owned());
        let settings = Settings::from_env_and_files(&host, file);
        assert_eq!(settings.registry_for("left-pad"), "https://one/npm");
        assert_eq!(settings.registry_for("@acme/tool"), "https://h.test/a");
        assert_eq!(settings.registry_for("@other/tool"), "https://one/npm");
        assert_eq!(settings.cert, Some("/ca.pem".into()));
        let set = |key: &str| (key == "npm_config_registry").then(|| "https://two".to_owned());
        assert_eq!(
            Settings::from_env_and_files(&set, file).registry_for("left-pad"),
            "https://two"
        );
    }
}
