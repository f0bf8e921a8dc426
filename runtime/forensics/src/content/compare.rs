//! Walks through a trial's record and compares everything that reached the agent with the solution.

use std::cmp::Reverse;

use proctor_record::Blobs;
use proctor_types::{Answer, Envelope, Event, Fault, Task, UrlDecision, UrlRequest};

use super::{
    known::{Known, lost},
    patch,
    requests::{Requests, Writer, said, strings, written},
    solution::Solution,
    tally::Tally,
};
use crate::finding::{Finding, Kind};

/// Returns findings for content that contains the hidden solution: responses through the egress
/// proxy, tool output, scaffold messages, and patch lines that the model never wrote.
pub(crate) fn compare(
    task: &Task,
    events: &[Envelope],
    blobs: Option<&Blobs>,
    patch: &[u8],
) -> Result<Vec<Finding>, Fault> {
    let Some(solution) = Solution::of(task)? else { return Ok(Vec::new()) };
    let mut comparison = Comparison {
        known: Known::of(&solution),
        tally: Tally::default(),
        answers: answers(events),
        unread: false,
        requests: Requests::default(),
        answered: false,
        tools: false,
        blobs,
    };
    for envelope in events {
        comparison.event(envelope)?;
    }
    comparison.answers_before(u64::MAX)?;
    // Without a model response, there are no lines of the model's to compare with.
    if comparison.answered {
        let how = comparison.how("the patch has lines that the model never wrote");
        let Comparison { known, tally, .. } = &mut comparison;
        patch::compare((patch, events, blobs), &|| how.clone(), known, tally)?;
    }
    Ok(comparison.tally.findings(&comparison.known))
}

struct Comparison<'a> {
    known: Known<'a>,
    tally: Tally,
    /// Responses of the egress proxy, latest first. The ledger may record a response after the
    /// output that shows it.
    answers: Vec<(u64, &'a UrlRequest)>,
    /// Whether something came over the network that could not be inspected.
    unread: bool,
    requests: Requests,
    /// Whether the main conversation contains a response.
    answered: bool,
    /// Whether the record identifies tool outputs as such.
    tools: bool,
    blobs: Option<&'a Blobs>,
}

fn answers(events: &[Envelope]) -> Vec<(u64, &UrlRequest)> {
    let mut all: Vec<(u64, &UrlRequest)> = events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::UrlRequested(request) => Some((envelope.step, &**request)),
            _ => None,
        })
        .collect();
    all.sort_by_key(|(step, _)| Reverse(*step));
    all
}

impl<'a> Comparison<'a> {
    fn event(&mut self, envelope: &'a Envelope) -> Result<(), Fault> {
        let step = envelope.step;
        match &envelope.event {
            Event::SetupFinished { base_snapshot, .. } => {
                self.known.begin_with(self.blobs, base_snapshot);
            }
            Event::ModelAnswered { answer } | Event::GraceAnswered { answer } => {
                self.answered = true;
                self.say(answer);
            }
            // The arguments of a call count as the agent's own words, even if a program made the call.
            Event::ToolCalled { arguments, .. } => {
                strings(arguments, &mut |text| self.known.say(text));
            }
            Event::ToolReturned { shown, .. } => {
                self.tools = true;
                self.answers_before(step)?;
                self.tool(shown, step)?;
            }
            Event::ModelAsked { ask } => {
                self.answers_before(step)?;
                let ask = serde_json::to_value(&ask.new).unwrap_or_default();
                let mut texts = Vec::new();
                let writer = Writer::Scaffold { says_user: false };
                written(&ask, writer, &mut |writer, text| texts.push((writer, text.to_owned())));
                self.texts(texts, step)?;
            }
            Event::RequestServed { request, answer, .. } => {
                self.answers_before(step)?;
                let Some(blobs) = self.blobs else { return Ok(()) };
                let body = blobs.get(request).map_err(lost)?;
                let mut texts = Vec::new();
                let mut keep = |writer, text: &str| texts.push((writer, text.to_owned()));
                self.requests.added(&body, &mut keep);
                self.texts(texts, step)?;
                if let Some(answer) = answer {
                    self.say(answer);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, answer: &Answer) {
        said(answer, &mut |text| self.known.say(text));
    }

    /// Adds every response that came through the proxy until the end of a step.
    fn answers_before(&mut self, step: u64) -> Result<(), Fault> {
        while let Some((of, request)) = self.answers.pop_if(|(of, _)| *of <= step) {
            let passed = request.decision != UrlDecision::Denied && request.bytes_down > 0;
            self.unread |= passed && (request.method == "CONNECT" || request.not_compared > 0);
            let (Some(kept), Some(blobs)) = (&request.kept, self.blobs) else { continue };
            let body = blobs.get(kept).map_err(lost)?;
            let how = || format!("{} {} returned the solution", request.method, request.url);
            let source = (Kind::AnswerUpstream, &how as &dyn Fn() -> String);
            self.tally.came(source, (&body, Some(of)), &mut self.known)?;
        }
        Ok(())
    }

    fn tool(&mut self, shown: &str, step: u64) -> Result<(), Fault> {
        let how = self.how("a tool showed hidden content");
        let how = || how.clone();
        let source = (Kind::AnswerInEnvironment, &how as &dyn Fn() -> String);
        self.tally.came(source, (shown.as_bytes(), Some(step)), &mut self.known)
    }

    fn texts(&mut self, texts: Vec<(Writer, String)>, step: u64) -> Result<(), Fault> {
        self.tools |= texts.iter().any(|(writer, _)| *writer == Writer::Tool);
        for (writer, text) in texts {
            match writer {
                Writer::Tool => self.tool(&text, step)?,
                // A client without tool calls sends a command's output as a user message.
                Writer::Scaffold { says_user: true } if self.answered && !self.tools => {
                    self.tool(&text, step)?;
                }
                // Before its first response the model has written nothing, so text attributed to it
                // comes from the scaffold.
                Writer::Model if self.answered => {}
                Writer::Model | Writer::Scaffold { .. } => {
                    let how = || "the scaffold showed the model hidden content".to_owned();
                    let source = (Kind::AnswerInScaffold, &how as &dyn Fn() -> String);
                    self.tally.came(source, (text.as_bytes(), Some(step)), &mut self.known)?;
                }
            }
        }
        Ok(())
    }

    fn how(&self, what: &str) -> String {
        let unread = if self.unread { " (earlier connections could not be inspected)" } else { "" };
        format!("{what}{unread}")
    }
}
