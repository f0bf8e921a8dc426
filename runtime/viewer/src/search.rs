//! Full-text search in the journals of runs. Journals that cannot match are only scanned as bytes,
//! on every core. Other journals are read event by event, and lines that cannot match are not
//! parsed.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use proctor_record::{EventLine, EventReader, RunDir, parallel_map};
use proctor_types::{Event, Message};
use regex::{Regex, RegexBuilder, bytes};

use super::{
    PlannedTrial,
    pages::trial_name,
    planned_trials,
    tool_calls::{format_arguments, model_reasoning},
    urls::{Query, UrlForm, percent_encode},
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
/// How long a search may take. It can be continued from the first trial that was not searched.
const TIME_LIMIT: Duration = Duration::from_secs(8);
/// Number of journals that are scanned together.
const BATCH_SIZE: usize = 64;
/// Number of bytes of a journal that are scanned at once.
const SCAN_BYTES: usize = 1 << 18;
/// Size limit for a compiled pattern, in bytes. Patterns that people write are smaller.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A compiled search pattern.
struct Pattern {
    regex: Regex,
    /// A literal text that every matching line contains. Lines without it need not be parsed.
    required_literal: Option<bytes::Regex>,
    /// Maximum length of a match of this literal, in bytes.
    literal_bytes: usize,
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
        // Without regard to case, an ASCII letter may match a character of up to three bytes.
        Ok(Self { regex, required_literal: part.transpose()?, literal_bytes: 3 * text.len() })
    }

    /// Whether a journal may contain a match, judging by its bytes. Returns `false` for a journal that
    /// does not exist.
    fn may_match_file(&self, journal: &Path) -> io::Result<bool> {
        // Opening a FIFO would block.
        if !journal.is_file() {
            return Ok(false);
        }
        let Some(literal) = &self.required_literal else { return Ok(true) };
        let mut file = File::open(journal)?;
        let mut buffer = vec![0; SCAN_BYTES + self.literal_bytes];
        // The end of the previous part, in which a match may begin.
        let mut kept = 0;
        loop {
            let read = file.read(&mut buffer[kept..])?;
            if read == 0 {
                return Ok(false);
            }
            let end = kept + read;
            if literal.is_match(&buffer[..end]) {
                return Ok(true);
            }
            kept = end.min(self.literal_bytes);
            buffer.copy_within(end - kept..end, 0);
        }
    }

    fn may_match(&self, line: &[u8]) -> bool {
        self.required_literal.as_ref().is_none_or(|part| part.is_match(line))
    }

    /// Returns the first match in a string, and the number of further matches.
    fn find_first(&self, text: &str) -> Option<(std::ops::Range<usize>, usize)> {
        // Ignore empty matches. Otherwise, a pattern that matches the empty string would match
        // everywhere.
        let mut all = self.regex.find_iter(text).filter(|found| !found.is_empty());
        let first = all.next()?.range();
        Some((first, all.count()))
    }
}

/// A trial whose journal is searched.
struct SearchedTrial<'a> {
    run: &'a ViewedRun,
    planned: PlannedTrial<'a>,
    journal: PathBuf,
}

/// Returns the result of a query over all journals, or over one trial's journal.
pub fn search(runs: &[ViewedRun], query: &Query) -> Result<SearchResults, ViewError> {
    search_within(runs, query, TIME_LIMIT)
}

fn search_within(
    runs: &[ViewedRun],
    query: &Query,
    limit: Duration,
) -> Result<SearchResults, ViewError> {
    let deadline = Instant::now() + limit;
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
    let mut trials = Vec::new();
    for run in runs {
        let dir = RunDir::open_read_only(&run.path)?;
        let planned = planned_trials(&run.record).into_iter();
        let selected =
            planned.filter(|one| trial.is_empty() || trial == trial_key(run.number, one));
        trials.extend(selected.map(|planned| {
            let journal = dir.trial_dir(&planned.id()).trajectory_path();
            SearchedTrial { run, planned, journal }
        }));
    }
    search.of = trials.len();
    let from = query.first_value("from").parse::<usize>().unwrap_or(0);
    search.skipped = from.min(trials.len());
    let mut next = search.skipped;
    let mut has_read_journal = false;
    'batches: for batch in trials[search.skipped..].chunks(BATCH_SIZE) {
        // The first batch is always searched, so that a continued search makes progress.
        if search.cut || (next > search.skipped && Instant::now() >= deadline) {
            break;
        }
        // If a journal cannot be scanned, reading it reports the error.
        let may_match =
            parallel_map(batch, |one| wanted.may_match_file(&one.journal).unwrap_or(true));
        for (one, may_match) in batch.iter().zip(may_match) {
            if may_match && !search.cut {
                // Reading a journal may take long, so the time is checked before each. The first
                // one is always read.
                if has_read_journal && Instant::now() >= deadline {
                    break 'batches;
                }
                has_read_journal = true;
                search_journal(one, &wanted, runs.len() > 1, &mut search)?;
            }
            next += 1;
        }
    }
    search.read = next - search.skipped;
    if next < trials.len() && !search.cut {
        let pattern = if search.pattern { "&pattern=1" } else { "" };
        search.next = format!("search?q={}{pattern}&from={next}", percent_encode(text));
    }
    Ok(search)
}

/// Adds the matches in a trial's journal.
fn search_journal(
    searched: &SearchedTrial<'_>,
    wanted: &Pattern,
    has_several_runs: bool,
    search: &mut SearchResults,
) -> Result<(), ViewError> {
    let SearchedTrial { run, planned, journal } = searched;
    let place = UrlForm::ServerPath.trial_url(run.number, planned);
    let mut name = trial_name(planned);
    if has_several_runs {
        name.run.clone_from(&run.name);
    }
    // Skip invalid lines here. The trial's page reports them.
    for line in EventReader::open(journal)?.flatten() {
        if !wanted.may_match(line.json()) {
            continue;
        }
        for (place_in, text) in event_texts(&line) {
            let Some((at, more)) = wanted.find_first(&text) else { continue };
            if search.hits.len() == MAX_HITS {
                search.cut = true;
                return Ok(());
            }
            let hit = build_hit(&name, &place, line.step, place_in, &text, at, more);
            // A call is recorded in the response and a second time when it runs, so skip
            // duplicates.
            if !search.hits.iter().rev().take(DUPLICATE_WINDOW).any(|known| *known == hit) {
                search.hits.push(hit);
            }
        }
    }
    Ok(())
}

/// Returns the trial's key in query strings: `RUN/TASK/ARM/ATTEMPT`, before percent-encoding.
pub fn trial_key(run: usize, planned_trial: &PlannedTrial<'_>) -> String {
    let (task, arm) = (&planned_trial.task.task.id, super::urls::short_arm_id(planned_trial));
    format!("{run}/{task}/{arm}/{}", planned_trial.attempt)
}

/// Returns the URL of a search for a test's name within one trial.
pub fn test_search_url(run: usize, planned_trial: &PlannedTrial<'_>, test: &str) -> String {
    let name = test.rsplit("::").next().unwrap_or(test);
    let bare = name.split('[').next().unwrap_or(name);
    format!(
        "search?q={}&trial={}",
        percent_encode(bare),
        percent_encode(&trial_key(run, planned_trial))
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

/// Returns the strings in an event, each with a label.
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
    use std::fs;

    use super::*;
    use crate::test_run::{start_trial, write_plan};

    #[test]
    fn scan_finds_literal_across_the_parts_of_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let wanted = Pattern::compile("needle", false).unwrap();
        for before in [0, SCAN_BYTES - 3, SCAN_BYTES + 15, 3 * SCAN_BYTES] {
            let other = "x".repeat(before);
            fs::write(&path, format!("{other}NEEDLE{other}")).unwrap();
            assert!(wanted.may_match_file(&path).unwrap(), "{before}");
            fs::write(&path, format!("{other}needl{other}")).unwrap();
            assert!(!wanted.may_match_file(&path).unwrap(), "{before}");
        }
        // A regular expression has no literal, and a journal of another trial may be missing.
        assert!(Pattern::compile("n.*e", true).unwrap().may_match_file(&path).unwrap());
        assert!(!wanted.may_match_file(&folder.path().join("missing")).unwrap());
    }

    #[test]
    fn timed_out_search_can_be_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a"], BATCH_SIZE + 2, 1);
        start_trial(&path, &plan.tasks[0], &plan.arms[0]);
        let runs = [ViewedRun::open(&path, 1).unwrap()];
        let find =
            |query: &str| search_within(&runs, &Query::parse(query), Duration::ZERO).unwrap();
        let first = find("q=a%20text");
        assert_eq!((first.read, first.of, first.skipped), (BATCH_SIZE, BATCH_SIZE + 2, 0));
        assert_eq!(first.next, format!("search?q=a%20text&from={BATCH_SIZE}"));
        let rest = find(first.next.strip_prefix("search?").unwrap());
        assert_eq!((rest.read, rest.skipped, rest.next.as_str()), (2, BATCH_SIZE, ""));
        assert_eq!(find("q=a&from=999").read, 0);
    }

    #[test]
    fn time_is_checked_before_each_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a"], 3, 1);
        for task in &plan.tasks[..2] {
            start_trial(&path, task, &plan.arms[0]);
        }
        let runs = [ViewedRun::open(&path, 1).unwrap()];
        let find = |query: &str, limit: Duration| {
            let found = search_within(&runs, &Query::parse(query), limit).unwrap();
            (found.skipped, found.read, found.next)
        };
        let next = "search?q=absent&pattern=1&from=1".to_owned();
        assert_eq!(find("q=absent&pattern=1", Duration::ZERO), (0, 1, next));
        let rest = "q=absent&pattern=1&from=1";
        assert_eq!(find(rest, Duration::ZERO), (1, 2, String::new()));
        assert_eq!(find("q=absent&pattern=1", TIME_LIMIT), (0, 3, String::new()));
    }

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
