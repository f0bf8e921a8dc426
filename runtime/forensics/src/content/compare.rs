//! Processes a trial's record in order, and compares everything that reached the agent with the
//! solution.

use std::cmp::Reverse;

use proctor_record::Blobs;
use proctor_types::{Envelope, Event, Fault, ModelResponse, Task, UrlDecision, UrlRequest};

use super::{
    known::{KnownLines, unreadable_record_fault},
    patch,
    requests::{
        Author, SeenRequestParts, for_each_authored_text, for_each_response_text, for_each_string,
    },
    solution::Solution,
    tally::Tally,
};
use crate::finding::{Finding, FindingKind};

/// Returns findings for content that contains the hidden solution: responses through the egress
/// proxy, tool output, scaffold messages, and lines of the patch that the model never wrote.
pub(crate) fn compare_content(
    task: &Task,
    events: &[Envelope],
    blobs: Option<&Blobs>,
    patch: &[u8],
) -> Result<Vec<Finding>, Fault> {
    let Some(solution) = Solution::from_task(task)? else { return Ok(Vec::new()) };
    let mut comparison = Comparison {
        known_lines: KnownLines::new(&solution),
        tally: Tally::default(),
        responses: proxy_responses(events),
        has_unread_response: false,
        requests: SeenRequestParts::default(),
        has_response: false,
        identifies_tool_output: false,
        blobs,
    };
    for envelope in events {
        comparison.process_event(envelope)?;
    }
    comparison.process_responses_until(u64::MAX)?;
    // If the model never responded, there is no model text to compare the patch with.
    if comparison.has_response {
        let how = comparison.describe("the patch has lines that the model never wrote");
        let Comparison { known_lines: known, tally, .. } = &mut comparison;
        patch::compare_patch((patch, events, blobs), &|| how.clone(), known, tally)?;
    }
    Ok(comparison.tally.findings(&comparison.known_lines))
}

struct Comparison<'a> {
    known_lines: KnownLines<'a>,
    tally: Tally,
    /// Responses from the egress proxy, latest first. The ledger may record a response after the
    /// tool output that shows it.
    responses: Vec<(u64, &'a UrlRequest)>,
    /// Whether some network response could not be inspected.
    has_unread_response: bool,
    requests: SeenRequestParts,
    /// Whether the model has responded in the main conversation so far.
    has_response: bool,
    /// Whether any request so far identified a string as tool output.
    identifies_tool_output: bool,
    blobs: Option<&'a Blobs>,
}

fn proxy_responses(events: &[Envelope]) -> Vec<(u64, &UrlRequest)> {
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
    fn process_event(&mut self, envelope: &'a Envelope) -> Result<(), Fault> {
        let step = envelope.step;
        match &envelope.event {
            Event::SetupFinished { base_snapshot, .. } => {
                self.known_lines.set_base_tree(self.blobs, base_snapshot);
            }
            Event::ModelAnswered { answer } | Event::GraceAnswered { answer } => {
                self.has_response = true;
                self.add_model_response(answer);
            }
            // A call's arguments count as the model's own words, even if a program made the call.
            Event::ToolCalled { arguments, .. } => {
                for_each_string(arguments, &mut |text| self.known_lines.add_model_text(text));
            }
            Event::ToolReturned { shown, .. } => {
                self.identifies_tool_output = true;
                self.process_responses_until(step)?;
                self.process_tool_output(shown, step)?;
            }
            Event::ModelAsked { ask } => {
                self.process_responses_until(step)?;
                let ask = serde_json::to_value(&ask.new).unwrap_or_default();
                let mut texts = Vec::new();
                let writer = Author::Scaffold { says_user: false };
                for_each_authored_text(&ask, writer, &mut |writer, text| {
                    texts.push((writer, text.to_owned()))
                });
                self.process_texts(texts, step)?;
            }
            Event::RequestServed { request, answer, .. } => {
                self.process_responses_until(step)?;
                let Some(blobs) = self.blobs else { return Ok(()) };
                let body = blobs.get(request).map_err(unreadable_record_fault)?;
                let mut texts = Vec::new();
                let mut keep = |writer, text: &str| texts.push((writer, text.to_owned()));
                self.requests.for_each_new_text(&body, &mut keep);
                self.process_texts(texts, step)?;
                if let Some(answer) = answer {
                    self.add_model_response(answer);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_model_response(&mut self, response: &ModelResponse) {
        for_each_response_text(response, &mut |text| self.known_lines.add_model_text(text));
    }

    /// Processes every response that the proxy delivered before the end of this step.
    fn process_responses_until(&mut self, step: u64) -> Result<(), Fault> {
        while let Some((of, request)) = self.responses.pop_if(|(of, _)| *of <= step) {
            let passed = request.decision != UrlDecision::Denied && request.bytes_down > 0;
            self.has_unread_response |=
                passed && (request.method == "CONNECT" || request.not_compared > 0);
            let (Some(kept), Some(blobs)) = (&request.kept, self.blobs) else { continue };
            let body = blobs.get(kept).map_err(unreadable_record_fault)?;
            let how = || format!("{} {} returned the solution", request.method, request.url);
            let source = (FindingKind::AnswerUpstream, &how as &dyn Fn() -> String);
            self.tally.record_content(source, (&body, Some(of)), &mut self.known_lines)?;
        }
        Ok(())
    }

    fn process_tool_output(&mut self, output: &str, step: u64) -> Result<(), Fault> {
        let how = self.describe("a tool showed hidden content");
        let how = || how.clone();
        let source = (FindingKind::AnswerInEnvironment, &how as &dyn Fn() -> String);
        self.tally.record_content(source, (output.as_bytes(), Some(step)), &mut self.known_lines)
    }

    fn process_texts(&mut self, texts: Vec<(Author, String)>, step: u64) -> Result<(), Fault> {
        self.identifies_tool_output |= texts.iter().any(|(writer, _)| *writer == Author::Tool);
        for (writer, text) in texts {
            match writer {
                Author::Tool => self.process_tool_output(&text, step)?,
                // A client without tool calls sends a command's output as a user message.
                Author::Scaffold { says_user: true }
                    if self.has_response && !self.identifies_tool_output =>
                {
                    self.process_tool_output(&text, step)?;
                }
                // Before its first response, the model has written nothing. Text that is attributed
                // to the model comes from the scaffold.
                Author::Model if self.has_response => {}
                Author::Model | Author::Scaffold { .. } => {
                    let how = || "the scaffold showed the model hidden content".to_owned();
                    let source = (FindingKind::AnswerInScaffold, &how as &dyn Fn() -> String);
                    self.tally.record_content(
                        source,
                        (text.as_bytes(), Some(step)),
                        &mut self.known_lines,
                    )?;
                }
            }
        }
        Ok(())
    }

    fn describe(&self, content_source: &str) -> String {
        let unread = if self.has_unread_response {
            " (earlier connections could not be inspected)"
        } else {
            ""
        };
        format!("{content_source}{unread}")
    }
}
