//! URL patterns: `[METHOD[,METHOD]... ]SCHEME://HOST[:PORT][/PATH]`. See docs/reference/egress.md for the
//! grammar.

use std::fmt;

use percent_encoding::percent_decode_str;
use thiserror::Error;

use crate::{
    glob,
    settings::Settings,
    target::{Origin, Scheme},
};

/// An error about a pattern that cannot be parsed, with the reason and a hint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a URL pattern: {reason}")]
pub struct PatternError {
    pub text: String,
    pub reason: &'static str,
}

/// How a pattern is compared with a URL. Deny patterns match deliberately broadly, so that a
/// different letter case or an unusual port does not bypass them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatchMode {
    /// Exact: unless the pattern has a port, the port must be the scheme's default. Paths are
    /// case-sensitive.
    Allow,
    /// Broad: unless the pattern has a port, any port matches. Case is ignored.
    Deny,
    /// Like `Deny`, but also matches any scheme, `www.` in front of the host, and everything below
    /// the path.
    Task,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortPattern {
    Unspecified,
    Any,
    Exact(u16),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    mode: MatchMode,
    /// Empty means any method.
    methods: Vec<String>,
    /// `None` means both schemes.
    scheme: Option<Scheme>,
    host: String,
    port: PortPattern,
    /// `None` means any path.
    path: Option<String>,
}

impl Pattern {
    /// Parses a pattern from `network.allow`.
    pub fn parse_allow(text: &str) -> Result<Self, PatternError> {
        Self::parse(text, MatchMode::Allow)
    }

    /// Parses a pattern from `network.deny`.
    pub fn parse_deny(text: &str) -> Result<Self, PatternError> {
        Self::parse(text, MatchMode::Deny)
    }

    /// Parses a pattern from a task's `blocked_urls`.
    pub fn parse_task(text: &str) -> Result<Self, PatternError> {
        Self::parse(text, MatchMode::Task)
    }

    fn parse(text: &str, mode: MatchMode) -> Result<Self, PatternError> {
        let wrong = |why| PatternError { text: mask_password(text), reason: why };
        let (methods, url) = match text.trim().split_once(char::is_whitespace) {
            Some((methods, url)) => (methods.split(',').collect(), url.trim()),
            None => (Vec::new(), text.trim()),
        };
        if methods.iter().any(|name| {
            name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        }) {
            return Err(wrong("write methods in capitals, separated by commas: `GET,HEAD`"));
        }
        let known =
            Settings::shipped().map_err(|_| wrong("cannot read the list of HTTP methods"))?;
        if methods.iter().any(|name| !known.patterns.methods.iter().any(|known| known == name)) {
            return Err(wrong(
                "unknown HTTP method; expected a form such as `GET,HEAD https://...`",
            ));
        }
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| wrong("use `https://HOST/PATH`, or `*://` for both schemes"))?;
        let scheme = match scheme {
            "*" => None,
            "http" => Some(Scheme::Http),
            "https" => Some(Scheme::Https),
            _ => return Err(wrong("the scheme must be `http`, `https` or `*`")),
        };
        if rest.contains(['?', '#', '\\']) || rest.contains(char::is_whitespace) {
            return Err(wrong("a pattern cannot contain a query, a fragment or whitespace"));
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(&rest[at..])),
            None => (rest, None),
        };
        let (host, port) =
            split_port(authority).ok_or_else(|| wrong("the port must be 1-65535 or `*`"))?;
        if authority.contains('@') {
            return Err(wrong("a pattern cannot contain a user or a password"));
        }
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        let path = path.filter(|path| *path != "/**").map(|path| {
            let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
            if mode == MatchMode::Allow { path } else { path.to_lowercase() }
        });
        let mut host = normalize_host(host).ok_or_else(|| wrong("the host name is not valid"))?;
        if mode == MatchMode::Task
            && let Some(bare) = host.strip_prefix("www.")
        {
            host = bare.to_owned();
        }
        Ok(Self {
            text: text.to_owned(),
            mode,
            methods: methods.into_iter().map(ToOwned::to_owned).collect(),
            scheme,
            host,
            port,
            path,
        })
    }

    /// Returns the pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern can match any of the origin's URLs.
    pub fn matches_origin(&self, origin: &Origin) -> bool {
        let scheme = self.scheme.is_none_or(|scheme| scheme == origin.scheme);
        let port = match self.port {
            PortPattern::Unspecified => {
                self.mode != MatchMode::Allow || origin.port == origin.scheme.default_port()
            }
            PortPattern::Any => true,
            PortPattern::Exact(port) => port == origin.port,
        };
        let host = match self.mode {
            MatchMode::Task => origin.host.strip_prefix("www.").unwrap_or(&origin.host),
            MatchMode::Allow | MatchMode::Deny => &origin.host,
        };
        (scheme || self.mode == MatchMode::Task) && port && glob::matches(&self.host, host, '.')
    }

    /// Whether the pattern, for each origin that it matches, also matches every URL and method.
    pub fn matches_all_urls(&self) -> bool {
        self.path.is_none() && self.methods.is_empty()
    }

    pub fn matches_method(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|taken| taken == method)
    }

    /// Whether the pattern matches a path, which must be in normalized form.
    pub fn matches_path(&self, path: &str) -> bool {
        let Some(glob) = &self.path else { return true };
        if self.mode == MatchMode::Allow {
            return glob::matches(glob, path, '/');
        }
        let path = path.to_lowercase();
        glob::matches(glob, &path, '/')
            || self.mode == MatchMode::Task
                && glob::matches(&format!("{}/**", glob.trim_end_matches('/')), &path, '/')
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the text with any password masked. A pattern should not contain a password, but if it
/// does, the error message must not reveal the password.
fn mask_password(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    // A password may contain a slash, in which case the path seems to start too early. Check
    // everything before the last `@`.
    match text[start..].rsplit_once('@') {
        Some((user, host)) if user.contains(':') => format!("{}***@{host}", &text[..start]),
        _ => text.to_owned(),
    }
}

fn split_port(authority: &str) -> Option<(&str, PortPattern)> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => return Some((authority, PortPattern::Unspecified)),
    };
    let port = match port {
        "*" => PortPattern::Any,
        port => PortPattern::Exact(port.parse().ok().filter(|port| *port != 0)?),
    };
    Some((host, port))
}

/// Returns the host in the form that origins use: a name with its stars, or an address in canonical
/// form.
fn normalize_host(host: &str) -> Option<String> {
    if host.contains('*') {
        let lower = host.to_lowercase();
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | '.' | '-' | '_');
        return lower.chars().all(known).then_some(lower);
    }
    Origin::parse(Scheme::Http, host).ok().map(|origin| origin.host)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Target;

    fn matches_url(pattern: &Pattern, url: &str) -> bool {
        let target = Target::parse(url).unwrap();
        pattern.matches_origin(&target.origin) && pattern.matches_path(target.paths.last().unwrap())
    }

    #[test]
    fn allow_patterns_match_exactly() {
        let pattern = Pattern::parse_allow("https://pypi.org/simple/**").unwrap();
        assert!(matches_url(&pattern, "https://pypi.org/simple/attrs/"));
        assert!(matches_url(&pattern, "https://PYPI.org:443/simple"));
        for url in [
            "http://pypi.org/simple/attrs/",
            "https://pypi.org:8443/simple/attrs/",
            "https://pypi.org/Simple/attrs/",
            "https://pypi.org/simple/../project/attrs/",
            "https://pypi.org.evil.example/simple/",
            "https://www.pypi.org/simple/",
        ] {
            assert!(!matches_url(&pattern, url), "{url}");
        }
        assert!(matches_url(&Pattern::parse_allow("*://**:*").unwrap(), "http://a.b.c:81/x"));
        assert!(matches_url(
            &Pattern::parse_allow("http://[::1]:81/").unwrap(),
            "http://[0:0::1]:81/"
        ));
        assert!(!matches_url(&Pattern::parse_allow("https://a/x").unwrap(), "https://a/x/y"));
    }

    #[test]
    fn deny_patterns_match_broadly() {
        let pattern = Pattern::parse_task("https://www.github.com/Mahmoud/boltons").unwrap();
        for url in [
            "https://github.com/mahmoud/boltons",
            "http://GITHUB.com/mahmoud/BOLTONS/",
            "https://www.github.com:8443/mahmoud/boltons/archive/master.zip",
            "https://github.com//mahmoud/%62oltons/blob",
        ] {
            assert!(matches_url(&pattern, url), "{url}");
        }
        assert!(!matches_url(&pattern, "https://github.com/mahmoud/boltonsy"));
        let pattern = Pattern::parse_deny("https://a.example/x").unwrap();
        assert!(matches_url(&pattern, "https://a.example:99/X"));
        assert!(!matches_url(&pattern, "http://a.example/x"));
    }

    #[test]
    fn pattern_methods_precede_the_url() {
        let pattern = Pattern::parse_allow("GET,HEAD https://a.example").unwrap();
        assert!(pattern.matches_method("GET") && !pattern.matches_method("POST"));
        assert!(!pattern.matches_all_urls());
        assert!(Pattern::parse_allow("https://a.example/**").unwrap().matches_all_urls());
    }

    #[test]
    fn pattern_with_a_password_is_rejected_without_showing_it() {
        for text in [
            "https://u:hidden@a/**",
            "GET https://u:hid/hidden@a",
            "u:hidden@a",
            "ssh://u:hidden@a/b",
        ] {
            let error = Pattern::parse_deny(text).unwrap_err().to_string();
            assert!(!error.contains("hidden") && error.contains("***@a"), "{error}");
        }
        assert!(Pattern::parse_deny("https://a.example/@scope/**").is_ok());
        assert!(Pattern::parse_deny("FETCH https://a.example").is_err());
        assert!(Pattern::parse_deny("PROPFIND,REPORT https://a.example").is_ok());
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        for text in [
            "",
            "pypi.org",
            "ftp://a",
            "https://",
            "https:///x",
            "https://a:0/",
            "https://a:x/",
            "https://u@a/",
            "https://u:p@a/",
            "https://a/?q",
            "https://a/ b",
            "get https://a/",
            "https://[ab/",
            "https://a*\u{fc}/",
        ] {
            assert!(Pattern::parse_allow(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn pattern_matches_its_own_url(
            host in "[a-z]{1,8}(\\.[a-z]{2,5}){1,2}", path in "(/[a-z0-9_-]{1,6}){0,4}", port in 1u16..
        ) {
            let url = format!("https://{host}:{port}{path}");
            for pattern in [Pattern::parse_allow(&url), Pattern::parse_deny(&url), Pattern::parse_task(&url)] {
                prop_assert!(matches_url(&pattern.unwrap(), &url));
            }
        }

        #[test]
        fn parsing_patterns_never_panics(text in ".{0,40}") {
            let _ = Pattern::parse_allow(&text);
            let _ = Target::parse(&text);
        }
    }
}
