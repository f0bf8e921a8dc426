//! Parses a request's URL into the canonical form that policies match.

use std::{collections::BTreeSet, fmt, net::IpAddr};

use percent_encoding::percent_decode_str;
use thiserror::Error;
use url::{Host, Url};

/// A path with more levels of percent-encoding than this counts as ambiguous.
const MAX_DECODING_DEPTH: usize = 4;

/// Maximum number of URL characters that the ledger records.
const MAX_URL_CHARS: usize = 2048;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TargetError {
    #[error("the URL's scheme is not http or https")]
    Scheme,
    #[error("not a URL")]
    Url,
    #[error("the URL contains credentials")]
    Credentials,
    #[error("the path is percent-encoded too many times")]
    Ambiguous,
}

/// Scheme, host and port of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    pub scheme: Scheme,
    /// The host name in lower-case ASCII (IDNA) without a trailing dot, or an address in its
    /// canonical form.
    pub host: String,
    pub port: u16,
}

impl Origin {
    /// Parses `HOST[:PORT]`. As in WHATWG URL parsers, decimal, octal, hexadecimal and short forms
    /// of IPv4 addresses are converted to the canonical address.
    pub fn parse(scheme: Scheme, authority: &str) -> Result<Self, TargetError> {
        if authority.contains(['/', '?', '#', '\\', '@']) || authority.is_empty() {
            return Err(TargetError::Url);
        }
        let url = Url::parse(&format!("{}://{authority}/", scheme.name()))
            .map_err(|_| TargetError::Url)?;
        Self::from_url(&url)
    }

    fn from_url(url: &Url) -> Result<Self, TargetError> {
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(TargetError::Scheme),
        };
        let host = match url.host() {
            Some(Host::Domain(name)) => name.trim_end_matches('.').to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => return Err(TargetError::Url),
        };
        if host.is_empty() {
            return Err(TargetError::Url);
        }
        // A trailing dot hides addresses such as `127.1.` from the parser, so parse a second time
        // without the dot.
        if url.host_str().is_some_and(|shown| shown.ends_with('.')) {
            let url = Url::parse(&format!("{}://{host}/", scheme.name()));
            let again = url.ok().and_then(|url| url.host_str().map(ToOwned::to_owned));
            if again.as_deref() != Some(&host) {
                return Err(TargetError::Url);
            }
        }
        Ok(Self { scheme, host, port: url.port().unwrap_or(scheme.default_port()) })
    }

    /// Returns the address if the host is an address.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Returns `HOST[:PORT]`. The port is omitted if it is the scheme's default.
    pub fn authority(&self) -> String {
        let host = match self.address() {
            Some(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.host.clone(),
        };
        if self.port == self.scheme.default_port() { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority())
    }
}

/// The URL of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub origin: Origin,
    /// The path and query as written. The request is forwarded in this form.
    pub path_and_query: String,
    /// The path at every depth of percent-decoding, without dot segments and double slashes. Each
    /// depth is listed twice: as written, and without the parts that servers ignore (path
    /// parameters, and blanks and dots at the end of a segment). An upstream server may decode the
    /// path any number of times. Therefore, a path is allowed only if every form is allowed, and
    /// denied if any form is denied.
    pub paths: Vec<String>,
    /// The subset of `paths` that must be allowed. The encoded path is omitted if decoding does not
    /// change the segment boundaries. (`%2B` is always a plus.)
    pub allow_paths: Vec<String>,
    /// All absolute URLs inside the path and query, as in the URLs of archives, mirrors and
    /// redirectors.
    pub embedded_urls: Vec<(Origin, String)>,
}

impl Target {
    /// Creates a target from the path and query in a request line.
    pub fn new(origin: Origin, path_and_query: &str) -> Result<Self, TargetError> {
        let written = if path_and_query.is_empty() { "/" } else { path_and_query };
        if !written.starts_with('/') {
            return Err(TargetError::Url);
        }
        let path = written.split(['?', '#']).next().unwrap_or("/");
        let (depths, whole) = (decode_repeatedly(path)?, decode_repeatedly(written)?);
        let mut paths: Vec<_> = depths.iter().map(|path| normalize_path(path)).collect();
        let lower = path.to_ascii_lowercase();
        let bounds = ["%2f", "%5c", "%2e", "%25"].iter().any(|code| lower.contains(code));
        let skipped = usize::from(paths.len() > 1 && !bounds);
        let mut allow_paths = paths[skipped..].to_vec();
        // Deny rules also apply to these forms of the path, because a server may convert the path
        // to any of them.
        let read: Vec<String> = depths.iter().map(|path| strip_ignored_parts(path)).collect();
        // If a server drops path parameters first, `/..;/` leads out of a directory. In that case,
        // this form must be allowed, too.
        let parts = |path: &String| path.split('/').filter(|part| !part.is_empty()).count();
        let climbing = read.iter().zip(&paths).filter(|(read, path)| parts(read) != parts(path));
        allow_paths.extend(climbing.map(|(read, _)| read.clone()));
        let mut all = read;
        all.append(&mut paths);
        let mut seen = BTreeSet::new();
        all.retain(|path| seen.insert(path.clone()));
        let paths = all;
        let carried = whole.iter().flat_map(|text| embedded_urls(text)).collect();
        Ok(Self {
            origin,
            path_and_query: written.to_owned(),
            paths,
            allow_paths,
            embedded_urls: carried,
        })
    }

    /// Parses an absolute URL.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let (scheme, rest) = url.split_once("://").ok_or(TargetError::Url)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(TargetError::Scheme),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, written) = rest.split_at(end);
        if authority.contains('@') {
            return Err(TargetError::Credentials);
        }
        let written = match written.starts_with('/') {
            true => written.to_owned(),
            false => format!("/{written}"),
        };
        Self::new(Origin::parse(scheme, authority)?, &written)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String =
            format!("{}{}", self.origin, self.path_and_query).chars().take(MAX_URL_CHARS).collect();
        f.write_str(&shown)
    }
}

/// Returns the text at every depth of percent-decoding, from the original to the fully decoded
/// text.
fn decode_repeatedly(text: &str) -> Result<Vec<String>, TargetError> {
    let mut depths = vec![text.to_owned()];
    loop {
        let last = depths.last().map(String::as_str).unwrap_or_default();
        let next = percent_decode_str(last).decode_utf8_lossy().into_owned();
        if next == last {
            return Ok(depths);
        }
        if depths.len() == MAX_DECODING_DEPTH {
            return Err(TargetError::Ambiguous);
        }
        depths.push(next);
    }
}

/// Removes path parameters (`;x`), and blanks and dots at the end of a segment. Servers ignore
/// these parts when they look for a file.
fn strip_ignored_parts(path: &str) -> String {
    let segment = |part: &str| {
        let name = part.split(';').next().unwrap_or_default();
        let name = name.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        // Keep the segments `.` and `..`, although they consist only of dots.
        let kept = name.trim_end_matches(|c: char| c == '.' || c.is_whitespace());
        let is_dots = kept.is_empty() && name.chars().all(|c| c == '.');
        if is_dots { name.to_owned() } else { kept.to_owned() }
    };
    let path = path.replace('\\', "/");
    let segments: Vec<String> = path.split('/').map(segment).collect();
    normalize_path(&segments.join("/"))
}

/// Removes dot segments and empty segments, and replaces backslashes with slashes.
fn normalize_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let path = path.replace('\\', "/");
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let folder = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    let mut plain = format!("/{}", parts.join("/"));
    if folder && !parts.is_empty() {
        plain.push('/');
    }
    plain
}

fn embedded_urls(text: &str) -> Vec<(Origin, String)> {
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    for (scheme, word) in [(Scheme::Http, "http:/"), (Scheme::Https, "https:/")] {
        for (at, _) in lower.match_indices(word) {
            // A server in between may collapse the double slash, so accept a single slash, too.
            let Some(rest) = text.get(at + word.len()..) else { continue };
            let rest = rest.trim_start_matches('/');
            let end = rest.find(['&', '#', ' ', '"', '\'', '<', '>']).unwrap_or(rest.len());
            let url = &rest[..end];
            let (authority, path) = url.split_at(url.find(['/', '?']).unwrap_or(url.len()));
            if let Ok(origin) = Origin::parse(scheme, authority) {
                let path = path.split('?').next().unwrap_or_default();
                let (plain, bare) = (normalize_path(path), strip_ignored_parts(path));
                if bare != plain {
                    found.push((origin.clone(), bare));
                }
                found.push((origin, plain));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(url: &str) -> Target {
        Target::parse(url).unwrap()
    }

    #[test]
    fn hosts_are_normalized() {
        for (written, host) in [
            ("http://EXAMPLE.org./", "example.org"),
            ("http://2130706433/", "127.0.0.1"),
            ("http://0177.0.0.1/", "127.0.0.1"),
            ("http://0x7f.1/", "127.0.0.1"),
            ("http://127.1/", "127.0.0.1"),
            ("http://%31%32%37.0.0.1/", "127.0.0.1"),
            ("http://[::FFFF:127.0.0.1]/", "::ffff:127.0.0.1"),
            ("http://b\u{fc}cher.example/", "xn--bcher-kva.example"),
            ("http://\u{ff11}\u{ff12}\u{ff17}.0.0.1/", "127.0.0.1"),
        ] {
            assert_eq!(target(written).origin.host, host, "{written}");
        }
        assert_eq!(target("https://example.org:443/a").origin.port, 443);
        assert_eq!(target("https://example.org:8443").origin.authority(), "example.org:8443");
    }

    #[test]
    fn invalid_urls_are_rejected() {
        for written in
            ["ftp://a/", "http:///a", "http://a b/", "http://a\\@b/", "a", "http://300.1.1.1/"]
        {
            assert!(Target::parse(written).is_err(), "{written}");
        }
        assert_eq!(Target::parse("http://u:p@a/"), Err(TargetError::Credentials));
        assert_eq!(Target::parse("http://a/%25252525"), Err(TargetError::Ambiguous));
    }

    #[test]
    fn encoded_paths_are_normalized() {
        for (written, last) in [
            ("http://a/x//y/./z", "/x/y/z"),
            ("http://a/x/../y", "/y"),
            ("http://a/../../y/", "/y/"),
            ("http://a/x/%2e%2e/y", "/y"),
            ("http://a/%2562oltons", "/boltons"),
            ("http://a/b\\c", "/b/c"),
            ("http://a/@s%2fname", "/@s/name"),
            ("http://a?x=/../y", "/"),
        ] {
            assert_eq!(target(written).paths.last().unwrap(), last, "{written}");
        }
    }

    #[test]
    fn embedded_urls_are_found() {
        for written in [
            "https://web.example/web/2024/https://github.com/o/r",
            "https://web.example/web/2024/https:/github.com/o/r",
            "https://proxy.example/?u=https%3A%2F%2Fgithub.com%2Fo%2Fr&x=1",
        ] {
            let carried = target(written).embedded_urls;
            assert!(
                carried.iter().any(|(origin, path)| origin.host == "github.com" && path == "/o/r"),
                "{written} {carried:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_form_of_a_path_keeps_a_dot_segment(path in "(/|%2[fe]|%252[eE]|\\.|a|\\\\){0,24}") {
            if let Ok(target) = Target::parse(&format!("http://a/{path}")) {
                for path in &target.paths {
                    prop_assert!(path.starts_with('/'));
                    prop_assert!(!path.contains("//"));
                    prop_assert!(path.split('/').all(|part| part != ".." && part != "."));
                }
            }
        }

        #[test]
        fn every_ipv4_spelling_parses_to_the_address(bits in any::<u32>()) {
            let address = std::net::Ipv4Addr::from(bits);
            for written in [
                format!("http://{address}/"),
                format!("http://{bits}/"),
                format!("http://{bits:#x}/"),
                format!("http://{bits:#o}/").replace("0o", "0"),
            ] {
                prop_assert_eq!(target(&written).origin.address(), Some(IpAddr::V4(address)));
            }
        }
    }
}
