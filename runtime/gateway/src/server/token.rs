//! The trial's token, which gives access to that trial's gateway only.

use std::fmt;

use http::{HeaderMap, header};
use proctor_types::{Fault, FaultLayer, hex};

/// Number of random bytes in a token.
const TOKEN_BYTES: usize = 24;

#[derive(Clone)]
pub(super) struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    pub(super) fn random() -> Result<Self, Fault> {
        let mut bytes = [0; TOKEN_BYTES];
        rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).map_err(|_| {
            Fault::new(FaultLayer::Model, "failed to get random bytes from the system".to_owned())
        })?;
        // Some clients check the form of a key before they send it.
        Ok(Self(format!("sk-proctor-{}", hex(&bytes))))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a request contains the token. Each API puts the key in a different place. All these
    /// places are accepted.
    pub(super) fn authorizes(&self, headers: &HeaderMap, query: Option<&str>) -> bool {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let bearer = text(header::AUTHORIZATION.as_str())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        let named = ["x-api-key", "x-goog-api-key", "api-key"].into_iter().filter_map(text);
        let asked = query.into_iter().flat_map(|query| query.split('&'));
        let asked = asked.filter_map(|pair| pair.strip_prefix("key="));
        bearer.into_iter().chain(named).chain(asked).any(|given| self.matches(given))
    }

    /// Compares two strings in constant time.
    fn matches(&self, candidate: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), candidate.as_bytes());
        let differ = own.iter().zip(given).fold(0, |differ, (a, b)| differ | (a ^ b));
        own.len() == given.len() && differ == 0
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::Token;

    #[test]
    fn token_is_accepted_in_every_place_and_other_keys_are_rejected() {
        let token = Token::random().expect("random bytes");
        let other = Token::random().expect("random bytes");
        assert_ne!(token.as_str(), other.as_str());
        let none = HeaderMap::new();
        for (name, form) in [
            ("authorization", "Bearer {}"),
            ("authorization", "bearer {}"),
            ("x-api-key", "{}"),
            ("x-goog-api-key", "{}"),
        ] {
            let mut headers = HeaderMap::new();
            let value = form.replace("{}", token.as_str());
            headers.insert(name, value.parse().expect("a header"));
            assert!(token.authorizes(&headers, None), "{name}");
            assert!(!other.authorizes(&headers, None), "{name}");
        }
        assert!(token.authorizes(&none, Some(&format!("alt=sse&key={}", token.as_str()))));
        let longer = format!("key={}0", token.as_str());
        for wrong in [None, Some("key="), Some(longer.as_str())] {
            assert!(!token.authorizes(&none, wrong), "{wrong:?}");
        }
        assert!(!format!("{token:?}").contains(token.as_str()));
    }
}
