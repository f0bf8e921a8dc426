//! Decides which requests belong to the main conversation, using the rules in the `[requests]`
//! table of a scaffold's manifest.

use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderMap;
use proctor_types::{
    RequestClass, RequestRule, RequestRules, SubAgentConversation, matches_wildcard, sha256_hex,
};

/// The facts about a request that rules can match.
#[derive(Debug, Clone, Copy)]
pub struct RequestFacts<'a> {
    pub path: &'a str,
    pub model: &'a str,
    pub headers: &'a HeaderMap,
    pub system: &'a str,
    pub offers_tools: bool,
    pub max_tokens: Option<u64>,
}

/// Returns the class of the first matching rule, or the default class.
pub fn classify_request(rules: &RequestRules, request: &RequestFacts<'_>) -> RequestClass {
    let found = rules.rules.iter().find(|rule| rule_matches(rule, request));
    found.map_or(rules.default, |rule| rule.class)
}

/// If a sub-agent sent the main request, returns the conversation that the request belongs to.
/// Returns `None` if the agent itself sent the request. `first_message` returns the user's first
/// message, which identifies the conversation if no header does.
///
/// `has_tool` says whether any request of the trial has offered the tool that `without_tool` names.
/// Until a request has offered this tool, requests without the tool count as the agent's own,
/// because another version of the agent may have renamed the tool, or a setting may have removed
/// it.
pub(crate) fn find_sub_agent(
    rules: &RequestRules,
    headers: &HeaderMap,
    (tools, has_tool): (&[&str], &AtomicBool),
    first_message: impl FnOnce() -> String,
) -> Option<SubAgentConversation> {
    let rules = rules.sub_agents.as_ref()?;
    let value = |name: &Option<String>| {
        let value = headers.get(name.as_ref()?)?.to_str().ok()?;
        Some(value.to_owned()).filter(|value| !value.is_empty())
    };
    let marked = value(&rules.header);
    let lacks = |tool: &String| {
        let offered = tools.contains(&tool.as_str());
        let before = has_tool.fetch_or(offered, Ordering::Relaxed);
        before && !offered && !tools.is_empty()
    };
    if marked.is_none() && !rules.without_tool.as_ref().is_some_and(lacks) {
        return None;
    }
    let named = value(&rules.conversation).or(marked);
    let id =
        named.unwrap_or_else(|| sha256_hex(first_message().as_bytes()).chars().take(12).collect());
    Some(SubAgentConversation { id, parent: value(&rules.parent) })
}

fn rule_matches(rule: &RequestRule, request: &RequestFacts<'_>) -> bool {
    let text = |rule: &Option<String>, text: &str| {
        rule.as_ref().is_none_or(|rule| matches_wildcard(rule, text))
    };
    let path = request.path.split('?').next().unwrap_or_default();
    let header = |(name, rule): (&String, &String)| {
        let mut values = request.headers.get_all(name).iter();
        values.any(|value| value.to_str().is_ok_and(|value| matches_wildcard(rule, value)))
    };
    text(&rule.path, path)
        && text(&rule.model, request.model)
        && text(&rule.system, request.system)
        && rule.tools.is_none_or(|tools| tools == request.offers_tools)
        && rule
            .max_tokens_up_to
            .is_none_or(|most| request.max_tokens.is_some_and(|tokens| tokens <= most))
        && rule.headers.iter().all(header)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use http::HeaderMap;
    use proctor_types::RequestClass::{Main, Side};

    use super::{RequestFacts, RequestRules, classify_request, find_sub_agent};

    const RULES: &str = r#"
[[rules]]
class = "main"
headers = { "X-Agent-Id" = "*" }
[[rules]]
class = "side"
model = "*haiku*"
max_tokens_up_to = 512
[[rules]]
class = "side"
path = "/v1/chat/completions"
system = "You are a title generator*"
tools = false
"#;

    #[test]
    fn classify_uses_the_first_rule_that_matches() {
        let rules: RequestRules = toml::from_str(RULES).expect("valid rules");
        let (none, mut agent) = (HeaderMap::new(), HeaderMap::new());
        agent.insert("x-agent-id", "a1".parse().expect("a header"));
        let title = "You are a title generator.\nNothing else.";
        let base = RequestFacts {
            path: "/v1/chat/completions?beta=true",
            model: "m",
            headers: &none,
            system: title,
            offers_tools: false,
            max_tokens: None,
        };
        let cases = [
            (base, Side),
            (RequestFacts { offers_tools: true, ..base }, Main),
            (RequestFacts { path: "/v1/responses", ..base }, Main),
            (RequestFacts { system: "You are an agent", ..base }, Main),
            (RequestFacts { headers: &agent, ..base }, Main),
            (
                RequestFacts {
                    model: "claude-haiku-4",
                    max_tokens: Some(512),
                    offers_tools: true,
                    ..base
                },
                Side,
            ),
            (
                RequestFacts {
                    model: "claude-haiku-4",
                    max_tokens: Some(513),
                    offers_tools: true,
                    ..base
                },
                Main,
            ),
            (RequestFacts { model: "claude-haiku-4", offers_tools: true, ..base }, Main),
        ];
        for (facts, class) in cases {
            assert_eq!(classify_request(&rules, &facts), class, "{facts:?}");
        }
    }

    #[test]
    fn sub_agent_is_recognized_by_a_header_or_a_missing_tool() {
        let rules = |text: &str| toml::from_str::<RequestRules>(text).expect("rules");
        let has_tool = AtomicBool::new(false);
        let of =
            |rules: &RequestRules, headers: &[(&'static str, &'static str)], tools: &[&str]| {
                let pairs = headers.iter().map(|(name, value)| {
                    let name = http::HeaderName::from_static(name);
                    (name, http::HeaderValue::from_static(value))
                });
                let tools = (tools, &has_tool);
                find_sub_agent(rules, &pairs.collect(), tools, || "look around".to_owned())
            };
        let tools = ["shell", "task"];
        // No rule describes sub-agents.
        assert_eq!(of(&rules(""), &[("x-agent", "7")], &["shell"]), None);
        let named = rules("[sub_agents]\nheader = 'X-Agent'\nparent = 'x-parent'");
        assert_eq!(of(&named, &[("x-parent", "1")], &tools), None);
        let found = of(&named, &[("x-agent", "7"), ("x-parent", "1")], &tools).expect("a header");
        assert_eq!((found.id.as_str(), found.parent.as_deref()), ("7", Some("1")));
        let session =
            rules("[sub_agents]\nheader = 'x-parent'\nconversation = 'x-id'\nparent = 'x-parent'");
        assert_eq!(of(&session, &[("x-id", "1")], &tools), None);
        let found = of(&session, &[("x-id", "2"), ("x-parent", "1")], &tools).expect("a parent");
        assert_eq!((found.id.as_str(), found.parent.as_deref()), ("2", Some("1")));
        let lacking = rules("[sub_agents]\nwithout_tool = 'task'");
        assert_eq!(of(&lacking, &[], &["shell"]), None, "the agent itself may lack the tool");
        assert_eq!(of(&lacking, &[], &tools), None);
        assert_eq!(of(&lacking, &[], &[]), None, "a request without tools proves nothing");
        let found = of(&lacking, &[], &["shell"]).expect("a request without the tool");
        assert_eq!((found.id.len(), found.parent), (12, None));
        assert!(toml::from_str::<RequestRules>("[sub_agents]\nheaders = 'x'").is_err());
    }

    #[test]
    fn unknown_conditions_are_rejected() {
        let rules = toml::from_str::<RequestRules>("[[rules]]\nclass = 'side'\nmodle = 'x'");
        assert!(rules.expect_err("a typo").message().contains("modle"));
        let default = toml::from_str::<RequestRules>("default = 'side'").expect("rules");
        assert_eq!(default.default, Side);
    }
}
