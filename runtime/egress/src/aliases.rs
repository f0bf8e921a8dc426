//! Collects everything that a task blocks: its `blocked_urls`, and other URLs that serve the same
//! content.

use std::collections::BTreeSet;

use proctor_types::{DenyReason, Source, Task, normalize_package_name};

use crate::{
    Pattern, PatternError, Target,
    mirrors::{Mirrors, PackageFiles},
    target::Origin,
};

/// The rules that a task adds to the policy.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskRules {
    blocked_patterns: Vec<Pattern>,
    alias_patterns: Vec<Pattern>,
    benchmark_patterns: Vec<Pattern>,
    /// Names of the packages under test, normalized according to PEP 503.
    packages: BTreeSet<String>,
    /// Patterns for the file names of packages. `None` if there is no task.
    files: Option<&'static PackageFiles>,
}

impl TaskRules {
    pub(crate) fn for_task(task: &Task) -> Result<Self, PatternError> {
        let mirrors = Mirrors::shipped().map_err(|_| PatternError {
            text: "configs/tables/mirrors.toml".into(),
            reason: "unreadable",
        })?;
        let benchmarks = parse_patterns(&mirrors.benchmarks)?;
        let mut rules =
            Self { benchmark_patterns: benchmarks, files: Some(&mirrors.files), ..Self::default() };
        let mut things = TaskSubjects::default();
        for written in &task.blocked_urls {
            let pattern = Pattern::parse_task(&add_wildcard_scheme(written))?;
            things.add_blocked_url(written, mirrors);
            rules.blocked_patterns.push(pattern);
        }
        match task.repo.as_deref().map(|repo| repo.split_once('/').ok_or(repo)) {
            Some(Ok((owner, repo))) => things.add_repository(owner, repo),
            Some(Err(name)) => {
                things.packages.insert(normalize_package_name(name));
            }
            None => {}
        }
        match &task.source {
            Some(Source::Pypi { pypi, .. }) => {
                things.packages.insert(normalize_package_name(pypi));
            }
            Some(Source::Git { git, .. }) => {
                let parts: Vec<_> = git.trim_end_matches('/').rsplit(['/', ':']).take(2).collect();
                if let [repo, owner] = parts[..] {
                    things.add_repository(owner, repo);
                }
                // Git can clone from a file path or an SSH address, but the proxy never sees these
                // as URLs.
                if git.starts_with("http://") || git.starts_with("https://") {
                    let bare = git.trim_end_matches('/').trim_end_matches(".git");
                    rules.alias_patterns.push(Pattern::parse_task(bare)?);
                    rules.alias_patterns.push(Pattern::parse_task(&format!("{bare}.git"))?);
                }
            }
            Some(Source::Path { .. } | Source::Archive { .. }) | None => {}
        }
        rules.alias_patterns.extend(things.alias_patterns(mirrors)?);
        rules.packages = things.packages;
        Ok(rules)
    }

    /// Whether one of the rules may block a URL on any host. If so, the proxy inspects the
    /// connections to every host.
    pub(crate) fn applies_to_every_host(&self) -> bool {
        !(self.packages.is_empty()
            && self.blocked_patterns.is_empty()
            && self.alias_patterns.is_empty())
    }

    pub(crate) fn matches_origin(&self, origin: &Origin) -> bool {
        self.applies_to_every_host()
            || self.benchmark_patterns.iter().any(|rule| rule.matches_origin(origin))
    }

    /// Returns why the URL is blocked, and which pattern blocks it.
    pub(crate) fn judge(&self, target: &Target) -> Option<(DenyReason, String)> {
        self.judge_url(&target.origin, &target.paths).or_else(|| {
            // The URL may contain another URL, as is the case with archives, caching mirrors and
            // redirectors.
            target.embedded_urls.iter().find_map(|(origin, path)| {
                let (_, rule) = self.judge_url(origin, std::slice::from_ref(path))?;
                Some((DenyReason::TaskAlias, rule))
            })
        })
    }

    fn judge_url(&self, origin: &Origin, paths: &[String]) -> Option<(DenyReason, String)> {
        let first = |rules: &[Pattern], paths: &[String]| {
            rules
                .iter()
                .find(|rule| {
                    rule.matches_origin(origin) && paths.iter().any(|path| rule.matches_path(path))
                })
                .map(|rule| rule.text().to_owned())
        };
        if let Some(rule) = first(&self.blocked_patterns, paths) {
            return Some((DenyReason::TaskBlocked, rule));
        }
        let normal: Vec<_> = paths.iter().map(|path| normalize_segments(path)).collect();
        let alias = first(&self.alias_patterns, paths)
            .or_else(|| first(&self.alias_patterns, &normal))
            .or_else(|| first(&self.benchmark_patterns, paths))
            .or_else(|| paths.iter().find_map(|path| self.match_package_file(path)));
        alias.map(|rule| (DenyReason::TaskAlias, rule))
    }

    /// Detects a file of a package under test on any host: a wheel, an sdist, or a Linux
    /// distribution's package.
    fn match_package_file(&self, path: &str) -> Option<String> {
        let files = self.files?;
        let named = path.split('/').find_map(|segment| {
            let lower = segment.to_lowercase();
            let stem =
                files.suffixes.iter().find_map(|suffix| lower.strip_suffix(suffix.as_str()))?;
            let stem = normalize_package_name(stem);
            self.packages.iter().find(|package| {
                files.prefixes.iter().any(|prefix| {
                    stem.strip_prefix(prefix.as_str())
                        .and_then(|rest| rest.strip_prefix(package.as_str()))
                        .and_then(|rest| rest.strip_prefix('-'))
                        .is_some_and(|version| {
                            version
                                .trim_start_matches('v')
                                .starts_with(|c: char| c.is_ascii_digit())
                        })
                })
            })
        })?;
        Some(format!("a file from the package {named}"))
    }
}

/// The repositories and packages that a task is about, collected from the task's fields.
#[derive(Default)]
struct TaskSubjects {
    repositories: BTreeSet<(String, String)>,
    packages: BTreeSet<String>,
}

impl TaskSubjects {
    /// Adds a repository, and a package with the same name. If the package actually has a different
    /// name, the unrelated package with the repository's name is also blocked.
    fn add_repository(&mut self, owner: &str, repo: &str) {
        let repo = repo.trim_end_matches(".git");
        let plain = |name: &str| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        };
        if plain(owner) && plain(repo) {
            self.repositories.insert((owner.to_owned(), repo.to_owned()));
            self.packages.insert(normalize_package_name(repo));
        }
    }

    /// Adds the repository or package that a blocked URL refers to.
    fn add_blocked_url(&mut self, url: &str, mirrors: &Mirrors) {
        let with_scheme = add_wildcard_scheme(url);
        let Some((_, rest)) = with_scheme.split_once("://") else { return };
        let mut parts = rest.split('/');
        let host = parts.next().unwrap_or_default().to_lowercase();
        let host = host.trim_start_matches("www.");
        let segments: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        if mirrors.forges.iter().any(|forge| forge == host)
            && let [owner, repo, ..] = segments[..]
        {
            self.add_repository(owner, repo);
        }
        if mirrors.indexes.iter().any(|index| index == host) {
            let named = segments.iter().find(|part| {
                !part.contains('*') && !mirrors.index_words.contains(&part.to_lowercase())
            });
            self.packages.extend(named.map(|name| normalize_package_name(name)));
        }
    }

    fn alias_patterns(&self, mirrors: &Mirrors) -> Result<Vec<Pattern>, PatternError> {
        let mut filled = Vec::new();
        for (owner, repo) in &self.repositories {
            for template in mirrors.source.iter().chain(&mirrors.forks) {
                filled.push(template.replace("{owner}", owner).replace("{repo}", repo));
            }
        }
        for package in &self.packages {
            for template in mirrors.pages.iter().chain(&mirrors.documentation) {
                filled.push(template.replace("{package}", package));
            }
        }
        parse_patterns(&filled)
    }
}

fn parse_patterns(texts: &[String]) -> Result<Vec<Pattern>, PatternError> {
    texts.iter().map(|text| Pattern::parse_task(text)).collect()
}

/// Adds a wildcard scheme to a URL without a scheme, because some datasets list blocked URLs that
/// way. Removes the query and the fragment.
fn add_wildcard_scheme(url: &str) -> String {
    let written = url.trim();
    let written = written.split(['?', '#']).next().unwrap_or(written);
    if written.contains("://") { written.to_owned() } else { format!("*://{written}") }
}

fn normalize_segments(path: &str) -> String {
    path.split('/').map(normalize_package_name).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(extra_fields: &str) -> Task {
        let text = format!(
            r#"{{"schema_version": 1, "id": "t", "statement": "s", "environment": {{"base": "host"}},
                "fail_to_pass": [], "test_command": ["true"] {extra_fields}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn deny_reason(rules: &TaskRules, url: &str) -> Option<DenyReason> {
        rules.judge(&Target::parse(url).unwrap()).map(|(reason, _)| reason)
    }

    #[test]
    fn package_is_blocked_on_every_host() {
        let rules = TaskRules::for_task(&task(
            r#", "repo": "zopefoundation/zope.interface",
               "source": {"pypi": "zope.interface", "version": "7.0", "sha256": "0"}"#,
        ))
        .unwrap();
        for url in [
            "https://pypi.org/simple/zope-interface/",
            "https://pypi.org/simple/Zope_Interface",
            "https://pypi.org/simple/zope..interface/",
            "https://pypi.org/pypi/zope.interface/json",
            "https://pypi.org/pypi/zope.interface/7.0/json",
            "https://pypi.org/project/zope.interface/7.0/",
            "https://mirrors.example.cn/pypi/web/simple/zope-interface/",
            "https://mirror.example:8443/simple/zope.interface/?format=json",
            "https://files.pythonhosted.org/packages/ab/cd/ef/zope.interface-7.0.tar.gz",
            "https://files.pythonhosted.org/packages/source/z/zope.interface/zope.interface-7.0.tar.gz",
            "https://any.example/x/zope_interface-7.0-cp311-cp311-manylinux_2_17_x86_64.whl",
            "https://any.example/x/zope.interface-7.0-cp311-none-any.whl.metadata",
            "https://deb.example/pool/python3-zope.interface_5.5.2-1+b1_amd64.deb",
            "https://conda.anaconda.org/conda-forge/linux-64/zope.interface-7.0-py312_0.conda",
            "https://zope-interface.readthedocs.io/en/latest/",
            "http://readthedocs.org/projects/zope-interface/",
            "https://github.com/zopefoundation/zope.interface",
            "https://github.com/zopefoundation/zope.interface.git/info/refs?service=git-upload-pack",
            "https://github.com/a-fork/zope.interface/pull/1.diff",
            "https://raw.githubusercontent.com/zopefoundation/zope.interface/master/setup.py",
            "https://codeload.github.com/zopefoundation/zope.interface/tar.gz/refs/heads/master",
            "https://api.github.com/repos/zopefoundation/zope.interface/contents/",
            "https://cdn.jsdelivr.net/gh/zopefoundation/zope.interface@7.0/setup.py",
            "https://ghproxy.example/https://github.com/zopefoundation/zope.interface",
            "https://web.archive.org/web/2024id_/https://pypi.org/simple/zope-interface/",
            "https://translate.example/?u=https%3A%2F%2Fgithub.com%2Fzopefoundation%2Fzope.interface",
            "https://gitea.example/zopefoundation/zope.interface/archive/main.zip",
        ] {
            assert_eq!(deny_reason(&rules, url), Some(DenyReason::TaskAlias), "{url}");
        }
        for url in [
            "https://pypi.org/simple/zope-interfaces/",
            "https://pypi.org/simple/zope-event/",
            "https://files.pythonhosted.org/packages/ab/cd/zope.event-5.0.tar.gz",
            "https://files.pythonhosted.org/packages/ab/cd/zope_interface_extra-1.0.tar.gz",
            "https://github.com/zopefoundation/zope.event",
            "https://docs.python.org/3/",
        ] {
            assert_eq!(deny_reason(&rules, url), None, "{url}");
        }
    }

    #[test]
    fn blocked_urls_also_block_their_repository_and_package() {
        let rules = TaskRules::for_task(&task(
            r#", "blocked_urls": ["https://github.com/mahmoud/boltons/**",
                "https://pypi.org/**/boltons/**", "docs.example.org/boltons"]"#,
        ))
        .unwrap();
        for (url, expected) in [
            ("https://github.com/mahmoud/boltons", DenyReason::TaskBlocked),
            ("https://pypi.org/simple/boltons/", DenyReason::TaskBlocked),
            ("http://docs.example.org/boltons/intro", DenyReason::TaskBlocked),
            ("https://codeload.github.com/mahmoud/boltons/zip/master", DenyReason::TaskAlias),
            ("https://x.example/boltons-25.0.0-py3-none-any.whl", DenyReason::TaskAlias),
            ("https://boltons.readthedocs.io/", DenyReason::TaskAlias),
        ] {
            assert_eq!(deny_reason(&rules, url), Some(expected), "{url}");
        }
        assert_eq!(deny_reason(&rules, "https://pypi.org/simple/attrs/"), None);
    }

    #[test]
    fn task_source_is_blocked_on_its_host() {
        let rules = TaskRules::for_task(&task(
            r#", "source": {"git": "https://git.example:8443/acme/widget.git", "commit": "c"}"#,
        ))
        .unwrap();
        for path in ["widget", "widget.git/info/refs", "widget/archive/main.zip", "Widget.git"] {
            let url = format!("https://git.example:8443/acme/{path}");
            assert_eq!(deny_reason(&rules, &url), Some(DenyReason::TaskAlias), "{url}");
        }
        assert_eq!(deny_reason(&rules, "https://git.example:8443/acme/gadget.git/info/refs"), None);
    }

    #[test]
    fn benchmarks_are_blocked_for_every_task_without_affecting_other_hosts() {
        let rules = TaskRules::for_task(&task("")).unwrap();
        let url = "https://huggingface.co/datasets/LiberCoders/FeatureBench/resolve/main/x.parquet";
        assert_eq!(deny_reason(&rules, url), Some(DenyReason::TaskAlias));
        assert!(!rules.applies_to_every_host());
        assert_eq!(deny_reason(&rules, "https://huggingface.co/datasets/a/b"), None);
    }

    #[test]
    fn invalid_blocked_url_is_named_in_the_error() {
        let error =
            TaskRules::for_task(&task(r#", "blocked_urls": ["ssh://git@a/b"]"#)).unwrap_err();
        assert_eq!(error.text, "ssh://git@a/b");
    }
}
