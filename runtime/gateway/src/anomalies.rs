//! Anomalies in an endpoint's responses: signs that the endpoint did not pass on what the scaffold
//! sent or what the model wrote.
//!
//! A single anomaly proves nothing, and the trial continues. But if a trial ends without a result
//! after many anomalies, or after several in a row, its end says nothing about the model.

use std::collections::BTreeMap;

use proctor_types::{Fault, FaultCause, FaultLayer, RequestClass, Usage};
use serde::Deserialize;

use crate::{
    TrialGateway,
    checks::EndpointChecks,
    codec::neutral::{CollectedResponse, Item},
    outgoing_request::OutgoingRequest,
    prompt_counts::PromptCount,
    send::AttemptResult,
    stream_damage::StreamDamage,
    tool_support::{has_leftover_markup, offered_tools},
};

/// Kinds of anomalies. `configs/tables/endpoint-checks.toml` describes each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnomalyKind {
    /// The endpoint counted no more tokens than for the request before, although the conversation
    /// grew.
    StalledCount,
    /// The endpoint counted more visible output tokens than the response can contain.
    LostOutput,
    /// The text contains special tokens or the start of a call.
    LeftoverMarkup,
    /// A stream lost the indentation of code.
    LostIndentation,
    /// A stream was decoded with the wrong encoding or sent twice, or its events were lost or
    /// arrived in the wrong order.
    DamagedStream,
    /// The server stopped at a string that the request did not set.
    ForeignStop,
    /// The endpoint passed on a placeholder instead of the prompt.
    LostContent,
    /// The endpoint added another conversation to the trial's first prompt.
    AddedPrompt,
}

impl AnomalyKind {
    /// Whether the anomaly depends on the endpoint's token counts.
    fn depends_on_counts(self) -> bool {
        match self {
            Self::StalledCount | Self::LostOutput => true,
            Self::LeftoverMarkup
            | Self::LostIndentation
            | Self::DamagedStream
            | Self::ForeignStop
            | Self::LostContent
            | Self::AddedPrompt => false,
        }
    }
}

/// Decides which anomalies make the end of a trial an infrastructure failure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnomalyCheck {
    pub share: f64,
    pub least: u64,
    pub last: u64,
    pub kind: Vec<AnomalyDescription>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnomalyDescription {
    pub name: AnomalyKind,
    pub what: String,
    pub hint: String,
    /// Whether one response is enough. Otherwise the anomaly must be frequent.
    #[serde(default)]
    pub is_decisive_once: bool,
}

/// The anomalies of a trial's responses.
#[derive(Debug, Default)]
pub(crate) struct Anomalies {
    responses: u64,
    counts: BTreeMap<AnomalyKind, AnomalyCount>,
    /// What is special about the last anomaly of a kind.
    details: BTreeMap<AnomalyKind, String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct AnomalyCount {
    total: u64,
    /// How many of the last responses in a row had the anomaly.
    last: u64,
}

impl Anomalies {
    /// Adds a response with its anomalies.
    fn add(&mut self, kinds: &[AnomalyKind]) {
        self.responses += 1;
        for (kind, count) in &mut self.counts {
            if !kinds.contains(kind) {
                count.last = 0;
            }
        }
        for kind in kinds {
            let count = self.counts.entry(*kind).or_default();
            count.total += 1;
            count.last += 1;
        }
    }

    /// Whether so many responses had the anomaly that the trial's end says nothing about the model.
    fn is_decisive(&self, check: &AnomalyCheck, kind: AnomalyKind) -> bool {
        let count = self.counts.get(&kind).copied().unwrap_or_default();
        let is_frequent =
            count.total >= check.least && count.total as f64 > check.share * self.responses as f64;
        is_frequent || count.last >= check.last
    }

    /// Returns how many responses had the anomaly.
    fn total(&self, kind: AnomalyKind) -> u64 {
        self.counts.get(&kind).map_or(0, |count| count.total)
    }
}

impl TrialGateway {
    /// Notes the anomalies of a response. Call this before the response's prompt count is noted.
    /// `is_forwarded` says whether the client received the response while it arrived.
    pub(crate) fn note_anomalies(
        &self,
        request: &OutgoingRequest,
        result: &AttemptResult,
        usage: Option<&Usage>,
        is_forwarded: bool,
    ) {
        let Ok(checks) = EndpointChecks::shipped() else { return };
        if request.class != RequestClass::Main || request.is_grace {
            return;
        }
        let response = &result.response;
        let (mut kinds, mut details) = (Vec::new(), BTreeMap::new());
        let count = PromptCount::new(response, &result.names, request.body.len());
        if request.continues
            && count
                .as_ref()
                .is_some_and(|count| self.prompt_counts().is_stalled(&checks.cut, count))
        {
            kinds.push(AnomalyKind::StalledCount);
        }
        if let Some(usage) = usage.filter(|usage| !usage.estimated) {
            let knows_reasoning = checks.knows_reasoning(&request.body, usage)
                || self.usage_audit().excludes_thoughts(response, usage);
            let excess_output = match knows_reasoning {
                true => checks.reported_usage.excess_output(response, usage),
                false => 0,
            };
            if excess_output > 0 {
                kinds.push(AnomalyKind::LostOutput);
            }
            self.usage_audit().add(&request.body, usage, excess_output);
        }
        if has_markup(checks, &request.body, response) {
            kinds.push(AnomalyKind::LeftoverMarkup);
        }
        if request.is_streaming {
            let damages = self.stream_damages(checks, request, result, is_forwarded);
            kinds.extend(damages.into_iter().map(StreamDamage::anomaly));
            // The client has already received the damaged fragments.
            if is_forwarded && result.has_damaged_fragments {
                kinds.push(AnomalyKind::DamagedStream);
            }
            // One response counts once.
            kinds.dedup();
        }
        let stop = result.stop.stop_string.as_deref();
        if let Some(text) = stop.filter(|text| checks.stop_string.is_foreign(text, &request.body)) {
            kinds.push(AnomalyKind::ForeignStop);
            details.insert(AnomalyKind::ForeignStop, format!("{text:?}"));
        }
        if checks.lost_content.has_lost_content(self.route().model.api, &request.body, response) {
            kinds.push(AnomalyKind::LostContent);
        }
        let (model, halts) = (&self.route().model, &self.route().halts);
        let first = count.filter(|_| self.prompt_counts().is_empty());
        let added =
            first.and_then(|count| halts.note_first_prompt(model, &checks.added_prompt, &count));
        if let Some(tokens) = added {
            kinds.push(AnomalyKind::AddedPrompt);
            details.insert(AnomalyKind::AddedPrompt, format!("about {tokens} tokens"));
        }
        let mut anomalies = self.anomalies();
        anomalies.add(&kinds);
        anomalies.details.append(&mut details);
    }

    /// Returns a fault if so many of the trial's responses had an anomaly that the trial's end says
    /// nothing about the model. Call this if the trial ended without a result: at a limit, because
    /// the scaffold gave up, or with an empty patch.
    pub async fn anomaly_fault(&self) -> Option<Fault> {
        let model = &self.route().model;
        if model.tool_check == Some(false) {
            return None;
        }
        let checks = match EndpointChecks::shipped() {
            Ok(checks) => checks,
            Err(fault) => return Some(fault),
        };
        let check = &checks.anomalies;
        let decisive: Vec<&AnomalyDescription> = {
            let anomalies = self.anomalies();
            let is_decisive = |kind: &&AnomalyDescription| {
                let is_enough = kind.is_decisive_once && anomalies.total(kind.name) > 0;
                is_enough || anomalies.is_decisive(check, kind.name)
            };
            check.kind.iter().filter(is_decisive).collect()
        };
        for AnomalyDescription { name, what, hint, .. } in decisive {
            if name.depends_on_counts() && !self.has_plausible_counts(&checks.reported_usage).await
            {
                continue;
            }
            let (total, responses, detail) = {
                let anomalies = self.anomalies();
                let detail = anomalies.details.get(name).map(|detail| format!(": {detail}"));
                (anomalies.total(*name), anomalies.responses, detail.unwrap_or_default())
            };
            let (base, of) = (self.route().endpoint.base_url(), &model.name);
            let what = format!(
                "{base}: model `{of}`: in {total} of {responses} responses, {what}{detail}"
            );
            let fault = Fault::new(FaultLayer::Model, what).hint(hint.as_str());
            return Some(fault.cause(FaultCause::Invalid));
        }
        None
    }
}

/// Whether the text of a response without calls contains special tokens or the start of a call.
/// `request` contains the tools.
fn has_markup(checks: &EndpointChecks, request: &[u8], response: &CollectedResponse) -> bool {
    if response.calls().next().is_some() {
        return false;
    }
    let texts = response.items.iter().filter_map(|item| match item {
        Item::Text(text) => Some(text.as_str()),
        Item::Refusal(_) | Item::Call(_) | Item::Reasoning(_) => None,
    });
    let mut text: String = texts.collect();
    checks.end_token.strip_next_turns(&mut text);
    checks.end_token.strip_end_tokens(&mut text);
    has_leftover_markup(checks, &text, || offered_tools(request))
}

#[cfg(test)]
mod tests {
    use super::{Anomalies, AnomalyKind, CollectedResponse, EndpointChecks, has_markup};
    use crate::codec::neutral::Delta;

    #[test]
    fn frequent_or_final_anomalies_are_decisive() {
        use AnomalyKind::{LeftoverMarkup, StalledCount};
        let check = &EndpointChecks::shipped().expect("a valid table").anomalies;
        // `x`: the response has the anomaly. `y`: it has another one.
        for (responses, is_decisive) in [
            ("", false),
            ("x", false),
            ("..........", false),
            ("....x.....", false),
            (".x......x.", false),
            (".x..x...x.", true),
            ("x.x", true),
            ("....................xxx", true),
            ("....................xx.", false),
            ("....................xxy", false),
            ("yyyyyyyyyyyy", false),
        ] {
            let mut anomalies = Anomalies::default();
            for response in responses.chars() {
                match response {
                    'x' => anomalies.add(&[StalledCount]),
                    'y' => anomalies.add(&[LeftoverMarkup]),
                    _ => anomalies.add(&[]),
                }
            }
            assert_eq!(anomalies.is_decisive(check, StalledCount), is_decisive, "{responses:?}");
        }
    }

    #[test]
    fn every_kind_is_described_once() {
        let check = &EndpointChecks::shipped().expect("a valid table").anomalies;
        let names: Vec<AnomalyKind> = check.kind.iter().map(|kind| kind.name).collect();
        let all = [
            AnomalyKind::StalledCount,
            AnomalyKind::LostOutput,
            AnomalyKind::LeftoverMarkup,
            AnomalyKind::LostIndentation,
            AnomalyKind::DamagedStream,
            AnomalyKind::ForeignStop,
            AnomalyKind::LostContent,
            AnomalyKind::AddedPrompt,
        ];
        assert_eq!(names, all);
    }

    #[test]
    fn markup_in_code_or_at_the_end_is_not_an_anomaly() {
        let checks = EndpointChecks::shipped().expect("a valid table");
        let request = br#"{"tools": [{"name": "shell"}]}"#;
        let of = |text: &str| {
            let response = CollectedResponse::from_deltas(vec![Delta::Text(text.into())]);
            has_markup(checks, request, &response)
        };
        assert!(of("<|channel|>analysis I look at the files."));
        assert!(of("I look.\nshell(command='ls') and then more"));
        assert!(!of("I look.\nprint('ls') and then more"), "the request has no such tool");
        for text in
            ["I look.", "The token `<|im_end|>` ends it.", "```\n<|a|>\n```", "Done.<|im_end|>"]
        {
            assert!(!of(text), "{text}");
        }
    }
}
