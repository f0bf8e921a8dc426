//! Full-text search in the journals of runs. Journals are read event by event. Lines that cannot
//! match are only scanned as bytes and not parsed.

use proctor_record::{EventLine, EventReader, RunDir};
use proctor_types::{Event, Message};
use regex::{Regex, RegexBuilder, bytes};

use super::{
    PlannedTrial,
    address::{AddressForm, Query, percent_encode},
    pages::trial_name,
    planned_trials,
    tool_calls::{format_arguments, model_reasoning},
    viewed_run::ViewedRun,
};
use crate::{
    ViewError,
    html::{Hit, SearchResults, TrialName},
};

/// Maximum number of matches shown.
const MAX_HITS: usize = 200;
/// Number of characters of context shown on each side of a match.
const CONTEXT_CHARS: usize = 90;
/// Maximum number of characters shown of a match.
const MAX_MATCH_CHARS: usize = 200;
/// How many of the latest matches are checked for duplicates.
const DUPLICATE_WINDOW: usize = 16;
/// Size limit for a compiled pattern, in bytes. Patterns that people write are smaller.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A compiled search pattern.
struct Pattern {
    regex: Regex,
    /// A literal text that every matching line contains. Lines without it need not be parsed.
    required_literal: Option<bytes::Regex>,
}

impl Pattern {
    fn compile(text: &str, is_pattern: bool) -> Result<Self, regex::Error> {
        let plain = regex::escape(text);
        let source = if is_pattern { text } else { &plain };
        let regex = RegexBuilder::new(source)
            .case_insensitive(true)
            .size_limit(MAX_PATTERN_BYTES)
            .build()?;
        // Don't use a literal with characters that JSON escapes. Journals contain them in escaped
        // form, and escaped twice in a call's arguments.
        let is_escaped =
            |sign: char| sign.is_control() || !sign.is_ascii() || "\"\\/".contains(sign);
        let part = text.split(is_escaped).max_by_key(|part| part.len()).unwrap_or_default();
        let part = (!is_pattern && !part.is_empty())
            .then(|| bytes::RegexBuilder::new(&regex::escape(part)).case_insensitive(true).build());
        Ok(Self { regex, required_literal: part.transpose()? })
    }

    fn may_match(&self, line: &[u8]) -> bool {
        self.required_literal.as_ref().is_none_or(|part| part.is_match(line))
    }

    /// Returns the first match in a text, and the number of further matches.
    fn find_first(&self, text: &str) -> Option<(std::ops::Range<usize>, usize)> {
        // Ignore empty matches. Otherwise, a pattern that matches the empty string would match
        // everywhere.
        let mut all = self.regex.find_iter(text).filter(|found| !found.is_empty());
        let first = all.next()?.range();
        Some((first, all.count()))
    }
}

/// Returns the result of a query over all journals, or over one trial's journal.
pub fn search(runs: &[ViewedRun], query: &Query) -> Result<SearchResults, ViewError> {
    let (text, trial) = (query.first_value("q"), query.first_value("trial"));
    let mut search = SearchResults {
        text: text.to_owned(),
        pattern: !query.first_value("pattern").is_empty(),
        trial: trial.to_owned(),
        ..SearchResults::default()
    };
    if text.is_empty() {
        return Ok(search);
    }
    let wanted = match Pattern::compile(text, search.pattern) {
        Ok(wanted) => wanted,
        Err(error) => {
            search.refused = format!("invalid regular expression: {error}");
            return Ok(search);
        }
    };
    for run in runs {
        let dir = RunDir::open_read_only(&run.path)?;
        for found in planned_trials(&run.record) {
            let place = AddressForm::ServerPath.trial_address(run.number, &found);
            if !trial.is_empty() && !is_trial_address(trial, run.number, &found) {
                continue;
            }
            search.of += 1;
            let journal = dir.trial_dir(&found.id()).trajectory_path();
            if search.cut || !journal.exists() {
                continue;
            }
            search.read += 1;
            let mut name = trial_name(&found);
            if runs.len() > 1 {
                name.run.clone_from(&run.name);
            }
            // Skip invalid lines here. The trial's page reports them.
            for line in EventReader::open(&journal)?.flatten() {
                if !wanted.may_match(line.json()) {
                    continue;
                }
                for (place_in, text) in event_texts(&line) {
                    let Some((at, more)) = wanted.find_first(&text) else { continue };
                    if search.hits.len() == MAX_HITS {
                        search.cut = true;
                        break;
                    }
                    let hit = build_hit(&name, &place, line.step, place_in, &text, at, more);
                    // A call is recorded in the response and a second time when it runs, so skip
                    // duplicates.
                    if !search.hits.iter().rev().take(DUPLICATE_WINDOW).any(|known| *known == hit) {
                        search.hits.push(hit);
                    }
                }
                if search.cut {
                    break;
                }
            }
        }
    }
    Ok(search)
}

/// Whether `trial` (`RUN/TASK/ARM/ATTEMPT` without percent-encoding) is the address of this trial.
fn is_trial_address(trial: &str, run: usize, planned_trial: &PlannedTrial<'_>) -> bool {
    trial == readable_address(run, planned_trial)
}

/// Returns a trial's address without percent-encoding, so that people can read it.
pub fn readable_address(run: usize, planned_trial: &PlannedTrial<'_>) -> String {
    let (task, arm) = (&planned_trial.task.task.id, super::address::short_arm_id(planned_trial));
    format!("{run}/{task}/{arm}/{}", planned_trial.attempt)
}

/// Returns the address of a search for a test's name within a trial.
pub fn search_address_for_test(run: usize, planned_trial: &PlannedTrial<'_>, test: &str) -> String {
    let name = test.rsplit("::").next().unwrap_or(test);
    let bare = name.split('[').next().unwrap_or(name);
    format!(
        "search?q={}&trial={}",
        percent_encode(bare),
        percent_encode(&readable_address(run, planned_trial))
    )
}

fn build_hit(
    trial: &TrialName,
    href: &str,
    step: u64,
    location: String,
    text: &str,
    match_range: std::ops::Range<usize>,
    further_matches: usize,
) -> Hit {
    let (before, after) = (&text[..match_range.start], &text[match_range.end..]);
    let from = before.char_indices().rev().nth(CONTEXT_CHARS).map_or(0, |(at, _)| at);
    let to = after.char_indices().nth(CONTEXT_CHARS).map_or(after.len(), |(at, _)| at);
    let found: String = text[match_range.clone()].chars().take(MAX_MATCH_CHARS).collect();
    // Browsers find a text fragment only within a single block of text.
    let line = found.lines().next().unwrap_or_default();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    Hit {
        trial: trial.clone(),
        href: href.to_owned(),
        step,
        place: location,
        before: format!("{}{}", if from > 0 { "\u{2026}" } else { "" }, &before[from..]),
        after: format!("{}{}", &after[..to], if to < after.len() { "\u{2026}" } else { "" }),
        fragment: percent_encode(&line),
        found,
        more: further_matches,
    }
}

/// Returns an event's texts, each with a label.
fn event_texts(line: &EventLine) -> Vec<(String, String)> {
    let kinds = [
        "model_asked",
        "model_answered",
        "grace_answered",
        "model_attempted",
        "tool_called",
        "tool_returned",
        "url_requested",
        "try_failed",
    ];
    // Later requests repeat earlier responses and outputs, so search only the first request.
    if !kinds.contains(&line.kind.as_str()) || (line.kind == "model_asked" && line.step > 0) {
        return Vec::new();
    }
    let Ok(event) = line.parse_event() else { return Vec::new() };
    match event.event {
        Event::ModelAsked { ask } => ask
            .new
            .messages
            .into_iter()
            .filter_map(|message| match message {
                Message::System { content } => Some(("instructions".to_owned(), content)),
                Message::User { content } => Some(("user message".to_owned(), content)),
                Message::Assistant { .. } | Message::Tool { .. } => None,
            })
            .collect(),
        Event::ModelAnswered { answer } | Event::GraceAnswered { answer } => {
            let mut all = vec![
                ("reasoning".to_owned(), model_reasoning(&answer.extra)),
                ("message".to_owned(), answer.content),
            ];
            let calls = answer.tool_calls.into_iter();
            all.extend(
                calls.map(|call| {
                    (format!("call of {}", call.name), format_arguments(&call.arguments))
                }),
            );
            all
        }
        Event::ToolCalled { name, arguments, .. } => {
            vec![(format!("call of {name}"), format_arguments(&arguments.to_string()))]
        }
        Event::ToolReturned { name, shown, .. } => vec![(format!("output of {name}"), shown)],
        Event::UrlRequested(url) => {
            vec![("egress".to_owned(), format!("{} {}", url.method, url.url))]
        }
        Event::ModelAttempted { error: Some(error), .. } => {
            vec![("failed request".to_owned(), error)]
        }
        Event::TryFailed { fault, .. } => vec![("fault".to_owned(), fault.to_string())],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_finds_text_that_the_journal_escapes() {
        let wanted = Pattern::compile("Say \"Hello", false).unwrap();
        assert!(wanted.may_match(br#"{"x":"he: say \\\"hello\\\""}"#));
        assert!(!wanted.may_match(br#"{"x":"nothing"}"#));
        assert_eq!(wanted.find_first("x say \"hello\" SAY \"HELLO"), Some((2..12, 1)));
        assert!(Pattern::compile("(", true).is_err() && Pattern::compile("(", false).is_ok());
        assert_eq!(Pattern::compile("x*", true).unwrap().find_first("aaa"), None);
        let (name, text) = (TrialName::default(), "\u{e4}".repeat(500));
        let found = build_hit(&name, "1/t/a/1", 3, "message".into(), &text, 400..404, 0);
        assert_eq!(found.before.chars().count(), CONTEXT_CHARS + 2);
        assert_eq!(
            (found.found.as_str(), found.fragment.as_str()),
            ("\u{e4}\u{e4}", "%C3%A4%C3%A4")
        );
    }
}
