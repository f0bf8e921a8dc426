//! A trial's policy: what the arm allows and what the task blocks. Deny rules override allow rules.

use proctor_types::{DenyReason, NetworkMode, NetworkPolicy, Task, UrlDecision};

use crate::{AddressException, Pattern, Target, aliases::TaskRules, target::Origin};

/// The policy's decision on one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    pub decision: UrlDecision,
    /// `None` if the request is allowed.
    pub reason: Option<DenyReason>,
    /// The pattern on which the decision is based.
    pub rule: Option<String>,
}

impl Ruling {
    pub(crate) fn deny(reason: DenyReason) -> Self {
        Self { decision: UrlDecision::Denied, reason: Some(reason), rule: None }
    }
}

#[derive(Debug, Clone)]
pub struct Policy {
    mode: NetworkMode,
    allow_patterns: Vec<Pattern>,
    deny_patterns: Vec<Pattern>,
    task_rules: TaskRules,
    is_audit: bool,
    pub(crate) address_exceptions: Vec<AddressException>,
}

impl Policy {
    /// Creates a trial's policy. An `Err` names the configuration key and the problem.
    pub fn new(network: &NetworkPolicy, task: &Task) -> Result<Self, String> {
        let mut policy = Self::for_arm(network)?;
        policy.task_rules =
            TaskRules::for_task(task).map_err(|error| format!("`blocked_urls`: {error}"))?;
        Ok(policy)
    }

    /// Creates only the arm's part of a policy. Used to check a configuration.
    pub fn for_arm(network: &NetworkPolicy) -> Result<Self, String> {
        let read = |key: &str, texts: &[String], parse: fn(&str) -> Result<Pattern, _>| {
            let patterns: Result<Vec<_>, crate::PatternError> =
                texts.iter().map(|text| parse(text)).collect();
            patterns.map_err(|error| format!("`network.{key}`: {error}"))
        };
        let private: Result<Vec<_>, _> =
            network.private.iter().map(|text| AddressException::parse(text)).collect();
        Ok(Self {
            mode: network.mode,
            allow_patterns: read("allow", &network.allow, Pattern::parse_allow)?,
            deny_patterns: read("deny", &network.deny, Pattern::parse_deny)?,
            task_rules: TaskRules::default(),
            is_audit: network.audit,
            address_exceptions: private.map_err(|error| format!("`network.private`: {error}"))?,
        })
    }

    /// Checks one request against the rules. Addresses are checked later, when the proxy connects.
    pub fn judge(&self, method: &str, target: &Target) -> Ruling {
        if let Some((reason, rule)) = self.task_rules.judge(target) {
            return Ruling { rule: Some(rule), ..Ruling::deny(reason) };
        }
        let denied = self.deny_patterns.iter().find(|rule| {
            rule.matches_origin(&target.origin)
                && rule.matches_method(method)
                && target.paths.iter().any(|path| rule.matches_path(path))
        });
        if let Some(rule) = denied {
            return self.deny_unless_audited(DenyReason::Denied, Some(rule.text().to_owned()));
        }
        let allowed = self.allow_patterns.iter().find(|rule| {
            rule.matches_origin(&target.origin)
                && rule.matches_method(method)
                && target.allow_paths.iter().all(|path| rule.matches_path(path))
        });
        let rule = allowed.map(|rule| rule.text().to_owned());
        match self.mode {
            NetworkMode::Allow if rule.is_none() => {
                self.deny_unless_audited(DenyReason::NotAllowed, None)
            }
            NetworkMode::Closed => Ruling::deny(DenyReason::NotAllowed),
            NetworkMode::Allow | NetworkMode::OpenExcept => {
                Ruling { decision: UrlDecision::Allowed, reason: None, rule }
            }
        }
    }

    /// Returns `Some` if every request to a host is allowed. In that case, the proxy relays
    /// connections to the host without inspecting them. The inner value is the rule that allows the
    /// requests, if there is one.
    pub(crate) fn uninspected_rule(&self, origin: &Origin) -> Option<Option<String>> {
        if self.is_audit
            || self.task_rules.matches_origin(origin)
            || self.deny_patterns.iter().any(|rule| rule.matches_origin(origin))
        {
            return None;
        }
        match self.mode {
            NetworkMode::Closed => None,
            NetworkMode::OpenExcept => Some(None),
            NetworkMode::Allow => self
                .allow_patterns
                .iter()
                .find(|rule| rule.matches_all_urls() && rule.matches_origin(origin))
                .map(|rule| Some(rule.text().to_owned())),
        }
    }

    fn deny_unless_audited(&self, reason: DenyReason, rule: Option<String>) -> Ruling {
        let decision = if self.is_audit { UrlDecision::Audited } else { UrlDecision::Denied };
        Ruling { decision, reason: Some(reason), rule }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn network(mode: NetworkMode, allow: &[&str], deny: &[&str]) -> NetworkPolicy {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        NetworkPolicy { mode, allow: own(allow), deny: own(deny), ..NetworkPolicy::default() }
    }

    fn task(blocked_url: &str) -> Task {
        let text = format!(
            r#"{{"schema_version": 1, "id": "t", "statement": "s", "environment": {{"base": "host"}},
                "fail_to_pass": [], "test_command": ["true"], "blocked_urls": [{blocked_url}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn judge(policy: &Policy, method: &str, url: &str) -> (UrlDecision, Option<DenyReason>) {
        let verdict = policy.judge(method, &Target::parse(url).unwrap());
        (verdict.decision, verdict.reason)
    }

    const ALLOWED: (UrlDecision, Option<DenyReason>) = (UrlDecision::Allowed, None);

    fn denial(reason: DenyReason) -> (UrlDecision, Option<DenyReason>) {
        (UrlDecision::Denied, Some(reason))
    }

    #[test]
    fn deny_wins_in_every_mode() {
        let all = ["*://**:*"];
        for (mode, open) in [
            (NetworkMode::Closed, denial(DenyReason::NotAllowed)),
            (NetworkMode::Allow, ALLOWED),
            (NetworkMode::OpenExcept, ALLOWED),
        ] {
            let arm = network(mode, &all, &["POST https://a.example/x/**"]);
            let policy = Policy::new(&arm, &task(r#""https://b.example/**""#)).unwrap();
            assert_eq!(judge(&policy, "GET", "https://a.example/x/y"), open);
            assert_eq!(judge(&policy, "POST", "https://a.example/x/y"), denial(DenyReason::Denied));
            assert_eq!(judge(&policy, "GET", "http://b.example/"), denial(DenyReason::TaskBlocked));
        }
    }

    #[test]
    fn disguised_paths_do_not_bypass_rules() {
        let arm = network(NetworkMode::Allow, &["https://a.example/ok/**"], &[]);
        let policy = Policy::new(&arm, &task(r#""https://a.example/ok/no/**""#)).unwrap();
        assert_eq!(judge(&policy, "GET", "https://a.example/ok/%2B/x"), ALLOWED);
        assert_eq!(judge(&policy, "GET", "https://a.example/ok/a;v=1/x..y/z.%20?"), ALLOWED);
        for url in [
            "https://a.example/ok/../secret",
            "https://a.example/ok/%2e%2e/secret",
            "https://a.example/ok/%252e%252e/secret",
            "https://a.example/ok/..%2fsecret",
            "https://a.example/ok/..%5csecret",
            "https://a.example/ok/..;/secret",
            "https://a.example/ok/..%3bx/secret",
            "https://a.example/ok/..%20/secret",
        ] {
            assert_eq!(judge(&policy, "GET", url), denial(DenyReason::NotAllowed), "{url}");
        }
        for url in [
            "https://a.example/ok/no/x",
            "https://a.example/ok//no/x",
            "https://a.example/ok/./no",
            "https://a.example/ok/%6eo/x",
            "https://a.example/ok/%256eo/x",
            "https://a.example/ok/x/../NO/x",
            "https://a.example/ok%2fno%2fx",
            "https://a.example/ok;v=1/no/x",
            "https://a.example/ok/no;jsessionid=1/x",
            "https://a.example/ok%3Bv/no/x",
            "https://a.example/ok/no%20/x",
            "https://a.example/ok/no./x",
            "https://a.example/ok/no%2e%2E/x",
            "https://a.example/ok/no%09%00/x",
            "https://a.example/ok/x/..;/no/x",
            "https://a.example/ok/no;a=1%2fx",
        ] {
            assert_eq!(judge(&policy, "GET", url), denial(DenyReason::TaskBlocked), "{url}");
        }
    }

    #[test]
    fn audit_allows_everything_that_no_task_blocks() {
        let arm = NetworkPolicy {
            audit: true,
            ..network(NetworkMode::Allow, &["https://a.example"], &["https://c.example"])
        };
        let policy = Policy::new(&arm, &task(r#""https://b.example/**""#)).unwrap();
        assert_eq!(judge(&policy, "GET", "https://a.example/"), ALLOWED);
        let audited = |reason| (UrlDecision::Audited, Some(reason));
        let at = |url| judge(&policy, "GET", url);
        assert_eq!(at("https://c.example/"), audited(DenyReason::Denied));
        assert_eq!(at("https://d.example/"), audited(DenyReason::NotAllowed));
        assert_eq!(at("https://b.example/"), denial(DenyReason::TaskBlocked));
    }

    #[test]
    fn only_hosts_without_path_rules_pass_uninspected() {
        let origin = |host: &str| Origin::parse(crate::target::Scheme::Https, host).unwrap();
        let allow = ["https://a.example", "https://b.example/x/**", "GET https://c.example"];
        let arm = network(NetworkMode::Allow, &allow, &["https://d.example/x"]);
        let policy = Policy::for_arm(&arm).unwrap();
        assert!(policy.uninspected_rule(&origin("a.example")).is_some());
        for host in ["b.example", "c.example", "d.example", "e.example"] {
            assert!(policy.uninspected_rule(&origin(host)).is_none(), "{host}");
        }
        let open =
            Policy::for_arm(&network(NetworkMode::OpenExcept, &[], &["https://d.example/x"]));
        assert!(open.as_ref().unwrap().uninspected_rule(&origin("e.example")).is_some());
        assert!(open.unwrap().uninspected_rule(&origin("d.example")).is_none());
        let blocking = Policy::new(&arm, &task(r#""https://z.example/p""#)).unwrap();
        assert!(
            blocking.uninspected_rule(&origin("a.example")).is_none(),
            "a URL may contain another URL"
        );
    }

    #[test]
    fn invalid_key_is_named_in_the_error() {
        let wrong = |arm: NetworkPolicy| Policy::for_arm(&arm).unwrap_err();
        assert!(wrong(network(NetworkMode::Allow, &["x"], &[])).contains("network.allow"));
        assert!(wrong(network(NetworkMode::Allow, &[], &["x"])).contains("network.deny"));
        let arm = NetworkPolicy { private: vec!["x".into()], ..NetworkPolicy::default() };
        assert!(wrong(arm).contains("network.private"));
    }

    proptest! {
        /// Checks that no way of encoding a blocked path bypasses the rule.
        #[test]
        fn percent_encoding_does_not_bypass_rules(codes in prop::collection::vec(0u8..3, 4), slash in 0u8..4) {
            let name: String = "/secr".chars().zip([slash.min(2)].into_iter().chain(codes)).map(
                |(c, code)| match code {
                    0 => c.to_string(),
                    1 => format!("%{:02x}", c as u32),
                    _ => format!("%25{:02X}", c as u32),
                },
            ).collect();
            let arm = network(NetworkMode::OpenExcept, &[], &["https://a.example/x/secr/**"]);
            let policy = Policy::for_arm(&arm).unwrap();
            let url = format!("https://a.example/x{name}/y");
            prop_assert_eq!(judge(&policy, "GET", &url), denial(DenyReason::Denied), "{}", url);
        }
    }
}
