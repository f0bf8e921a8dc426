//! Full-text search in the journals of runs. Journals that cannot match are only scanned as bytes,
//! on every core. Other journals are read event by event, and lines that cannot match are not
//! parsed.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use proctor_record::{EventLine, EventReader, RunDir, parallel_map};
use proctor_types::{Event, Message, ModelResponse, escape_unprintable_line};
use regex::{Regex, RegexBuilder, RegexSetBuilder, bytes};

use super::{
    PlannedTrial,
    pages::trial_name,
    planned_trials,
    response_text::{model_reasoning, model_refusal, other_fields},
    tool_calls::format_arguments,
    urls::{Query, UrlForm, percent_encode, short_arm_id},
    viewed_run::ViewedRun,
};
use crate::{
    ViewError,
    html::{Hit, SearchResults, TrialName},
};

/// Maximum number of matches on one page. The next page continues after the last one.
const MAX_HITS: usize = 200;
/// Number of characters of context shown on each side of a match.
const CONTEXT_CHARS: usize = 90;
/// Maximum number of characters shown of a match.
const MAX_MATCH_CHARS: usize = 200;
/// Maximum length of a journal in which a trial's page looks for the names of failed tests, in bytes.
const MAX_MENTION_BYTES: u64 = 4 << 20;
/// Maximum number of words of the text that a line is checked for before it is parsed.
const MAX_REQUIRED_WORDS: usize = 4;
/// How many of the latest matches are checked for duplicates.
const DUPLICATE_WINDOW: usize = 16;
/// How long a search may take. It can be continued from the first trial that was not searched.
const TIME_LIMIT: Duration = Duration::from_secs(8);
/// How many times longer a search may take that counts all matches.
const COUNT_FACTOR: u32 = 8;
/// Number of journals that are scanned together.
const BATCH_SIZE: usize = 64;
/// Number of bytes of a journal that are scanned at once.
const SCAN_BYTES: usize = 1 << 18;
/// Size limit for a compiled pattern, in bytes. Patterns that people write are smaller.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A compiled search pattern.
struct Pattern {
    regex: Regex,
    /// Words that every matching line contains, the longest first. Lines without them need not be
    /// parsed.
    required_words: Vec<bytes::Regex>,
    /// Maximum length of a match of the longest word, in bytes.
    word_bytes: usize,
}

impl Pattern {
    /// Compiles a regular expression, or a text. Pages show line breaks as spaces, so white space in
    /// a text matches any white space.
    fn compile(text: &str, is_pattern: bool) -> Result<Self, regex::Error> {
        let plain = text_pattern(text);
        let source = if is_pattern { text } else { &plain };
        let regex = RegexBuilder::new(source)
            .case_insensitive(true)
            .size_limit(MAX_PATTERN_BYTES)
            .build()?;
        let required = if is_pattern { Vec::new() } else { recorded_words(text) };
        let compiled = required
            .iter()
            .map(|word| {
                bytes::RegexBuilder::new(&regex::escape(word)).case_insensitive(true).build()
            })
            .collect::<Result<Vec<_>, _>>()?;
        // Without regard to case, an ASCII letter may match a character of up to three bytes.
        let word_bytes = 3 * required.first().map_or(0, |word| word.len());
        Ok(Self { regex, required_words: compiled, word_bytes })
    }

    /// Whether a journal may contain a match, judging by its bytes. Returns `false` for a journal that
    /// does not exist.
    fn may_match_file(&self, journal: &Path) -> io::Result<bool> {
        // Opening a FIFO would block.
        if !journal.is_file() {
            return Ok(false);
        }
        let Some(word) = self.required_words.first() else { return Ok(true) };
        let mut file = File::open(journal)?;
        let mut buffer = vec![0; SCAN_BYTES + self.word_bytes];
        // The end of the previous part, in which a match may begin.
        let mut kept = 0;
        loop {
            let read = file.read(&mut buffer[kept..])?;
            if read == 0 {
                return Ok(false);
            }
            let end = kept + read;
            if word.is_match(&buffer[..end]) {
                return Ok(true);
            }
            kept = end.min(self.word_bytes);
            buffer.copy_within(end - kept..end, 0);
        }
    }

    fn may_match(&self, line: &[u8]) -> bool {
        self.required_words.iter().all(|word| word.is_match(line))
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

/// Returns the regular expression that finds a text.
fn text_pattern(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(regex::escape).collect();
    words.join(r"\s+")
}

/// Returns words of a text that a journal contains exactly as pages show them, the longest first.
///
/// Pages show the arguments of a call as `key: value` and without quotes, and journals contain JSON.
/// So a word must not contain a character that either of them adds, or that JSON escapes.
fn recorded_words(text: &str) -> Vec<&str> {
    let is_outside = |sign: char| {
        sign.is_whitespace()
            || sign.is_control()
            || !sign.is_ascii()
            || "\"\\/:,()[]{}".contains(sign)
    };
    let mut words: Vec<&str> = text.split(is_outside).filter(|word| !word.is_empty()).collect();
    words.sort_by_key(|word| Reverse(word.len()));
    words.truncate(MAX_REQUIRED_WORDS);
    words
}

/// A trial whose journal is searched.
struct SearchedTrial<'a> {
    run: &'a ViewedRun,
    planned: PlannedTrial<'a>,
    journal: PathBuf,
}

/// Returns the result of a query over the journals of its scope: all trials, those of a run or an
/// arm, or one trial.
pub fn search(runs: &[ViewedRun], query: &Query) -> Result<SearchResults, ViewError> {
    search_within(runs, query, TIME_LIMIT)
}

fn search_within(
    runs: &[ViewedRun],
    query: &Query,
    limit: Duration,
) -> Result<SearchResults, ViewError> {
    let counts_all = !query.first_value("all").is_empty();
    let deadline = Instant::now() + if counts_all { limit * COUNT_FACTOR } else { limit };
    let value = |name| query.first_value(name).to_owned();
    let arms: BTreeSet<String> = runs
        .iter()
        .flat_map(|run| &run.record.arms)
        .map(|arm| escape_unprintable_line(&arm.name))
        .collect();
    let mut search = SearchResults {
        text: value("q"),
        pattern: !query.first_value("pattern").is_empty(),
        trial: value("trial"),
        run: value("run"),
        arm: value("arm"),
        first: !query.first_value("first").is_empty(),
        counts_all,
        runs: runs.iter().map(|run| (run.number.to_string(), run.name.clone())).collect(),
        arms: arms.into_iter().collect(),
        ..SearchResults::default()
    };
    if search.text.trim().is_empty() {
        search.text.clear();
        return Ok(search);
    }
    let wanted = match Pattern::compile(&search.text, search.pattern) {
        Ok(wanted) => wanted,
        Err(error) => {
            search.refused = format!("invalid regular expression: {error}");
            return Ok(search);
        }
    };
    let trials = searched_trials(runs, &search)?;
    search.of = trials.len();
    let number = |name| query.first_value(name).parse::<usize>().unwrap_or(0);
    let begin = |name| if counts_all { 0 } else { number(name) };
    search.skipped = begin("from").min(trials.len());
    // Number of matches in the first trial that an earlier page has shown.
    let mut shown_before = begin("skip");
    search.continues_trial = shown_before > 0;
    let mut next = search.skipped;
    let mut has_read_journal = false;
    'batches: for batch in trials[search.skipped..].chunks(BATCH_SIZE) {
        // The first batch is always searched, so that a continued search makes progress.
        if next > search.skipped && Instant::now() >= deadline {
            break;
        }
        // If a journal cannot be scanned, reading it reports the error.
        let may_match =
            parallel_map(batch, |one| wanted.may_match_file(&one.journal).unwrap_or(true));
        for (one, may_match) in batch.iter().zip(may_match) {
            if may_match {
                if search.hits.len() == MAX_HITS && !counts_all {
                    search.next_skip = Some(0);
                    break 'batches;
                }
                // Reading a journal may take long, so the time is checked before each. The first
                // one is always read.
                if has_read_journal && Instant::now() >= deadline {
                    break 'batches;
                }
                has_read_journal = true;
                search_journal(one, &wanted, runs.len() > 1, shown_before, &mut search)?;
                if search.next_skip.is_some() {
                    break 'batches;
                }
            }
            shown_before = 0;
            next += 1;
        }
    }
    search.read = next - search.skipped;
    search.cut = search.next_skip.is_some();
    search.matching =
        search.hits.iter().map(|hit| hit.href.as_str()).collect::<BTreeSet<_>>().len();
    let is_partial = search.skipped > 0 || search.continues_trial || next < trials.len();
    if is_partial && !counts_all {
        search.count_all = format!("{}&all=1", search_url(&search));
    }
    if next < trials.len() && !counts_all {
        search.next = next_url(&search, next);
    }
    Ok(search)
}

/// Returns the trials in the scope of a search, in plan order.
fn searched_trials<'a>(
    runs: &'a [ViewedRun],
    search: &SearchResults,
) -> Result<Vec<SearchedTrial<'a>>, ViewError> {
    let mut trials = Vec::new();
    for run in runs {
        if !search.run.is_empty() && search.run != run.number.to_string() {
            continue;
        }
        let dir = RunDir::open_read_only(&run.path)?;
        for planned in planned_trials(&run.record) {
            let is_in_scope = (search.trial.is_empty()
                || search.trial == trial_key(run.number, &planned))
                && (search.arm.is_empty()
                    || search.arm == escape_unprintable_line(&planned.arm.name));
            if is_in_scope {
                let journal = dir.trial_dir(&planned.id()).trajectory_path();
                trials.push(SearchedTrial { run, planned, journal });
            }
        }
    }
    Ok(trials)
}

/// Returns the address of the search from its beginning, relative to the root.
fn search_url(search: &SearchResults) -> String {
    let mut address = format!("search?q={}", percent_encode(&search.text));
    if search.pattern {
        address += "&pattern=1";
    }
    if search.first {
        address += "&first=1";
    }
    for (name, value) in [("trial", &search.trial), ("run", &search.run), ("arm", &search.arm)] {
        if !value.is_empty() {
            address += &format!("&{name}={}", percent_encode(value));
        }
    }
    address
}

/// Returns the address of the search that continues with the trial at `next`, relative to the root.
fn next_url(search: &SearchResults, next: usize) -> String {
    let mut address = format!("{}&from={next}", search_url(search));
    if let Some(skip) = search.next_skip.filter(|skip| *skip > 0) {
        address += &format!("&skip={skip}");
    }
    address
}

/// Adds the matches in a trial's journal, without the first `shown_before` ones. If the page is full
/// before the end, sets the number of matches that were shown, unless the search counts all matches.
fn search_journal(
    searched: &SearchedTrial<'_>,
    wanted: &Pattern,
    has_several_runs: bool,
    shown_before: usize,
    search: &mut SearchResults,
) -> Result<(), ViewError> {
    let SearchedTrial { run, planned, journal } = searched;
    let place = UrlForm::ServerPath.trial_url(run.number, planned);
    let mut name = trial_name(planned);
    if has_several_runs {
        name.run.clone_from(&run.name);
    }
    let mut found: Vec<Hit> = Vec::new();
    let room = MAX_HITS - search.hits.len();
    // Skip invalid lines here. The trial's page reports them.
    'lines: for line in EventReader::open(journal)?.flatten() {
        if !wanted.may_match(line.json()) {
            continue;
        }
        for (place_in, text) in event_texts(&line) {
            let Some((at, more)) = wanted.find_first(&text) else { continue };
            let hit = build_hit(&name, &place, hit_step(&line), place_in, &text, at, more);
            // A call is recorded in the response and a second time when it runs, so skip
            // duplicates.
            if found.iter().rev().take(DUPLICATE_WINDOW).any(|known| *known == hit) {
                continue;
            }
            if found.len() == shown_before.saturating_add(room) && !search.counts_all {
                search.next_skip = Some(found.len());
                break 'lines;
            }
            found.push(hit);
            if search.first {
                break 'lines;
            }
        }
    }
    search.total_hits += found.len();
    search.total_trials += usize::from(!found.is_empty());
    search.hits.extend(found.into_iter().skip(shown_before).take(room));
    Ok(())
}

/// Returns the step whose page shows a line's texts. 0 means the trial's page.
fn hit_step(line: &EventLine) -> u64 {
    // An attempt is recorded before the response, and belongs to the step of the response.
    line.step + u64::from(line.kind == "model_attempted")
}

/// Returns a trial's URL (`RUN/TASK/ARM/ATTEMPT`) without percent-encoding, so that people can read it.
pub fn trial_key(run: usize, planned_trial: &PlannedTrial<'_>) -> String {
    let (task, arm) = (&planned_trial.task.task.id, short_arm_id(planned_trial));
    format!("{run}/{task}/{arm}/{}", planned_trial.attempt)
}

/// Returns the URL of a search for a test's name within a trial.
pub fn test_search_url(run: usize, planned_trial: &PlannedTrial<'_>, test: &str) -> String {
    format!(
        "search?q={}&trial={}",
        percent_encode(bare_test_name(test)),
        percent_encode(&trial_key(run, planned_trial))
    )
}

/// Returns a test's name without its file and parameters.
fn bare_test_name(test: &str) -> &str {
    let name = test.rsplit("::").next().unwrap_or(test);
    name.split('[').next().unwrap_or(name)
}

/// Returns, for each test, whether a search for its name in a journal has a match. Returns `None`
/// if the journal is too long to look for every test.
pub fn find_mentioned_tests(journal: &Path, tests: &[&str]) -> Option<Vec<bool>> {
    let is_short = fs::metadata(journal).is_ok_and(|file| file.len() <= MAX_MENTION_BYTES);
    let patterns = tests.iter().map(|test| text_pattern(bare_test_name(test)));
    let names = RegexSetBuilder::new(patterns).case_insensitive(true).build().ok();
    let names = names.filter(|_| is_short)?;
    let mut found = vec![false; tests.len()];
    for line in EventReader::open(journal).ok()?.flatten() {
        for (_, text) in event_texts(&line) {
            names.matches(&text).into_iter().for_each(|index| found[index] = true);
        }
    }
    Some(found)
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
        "request_served",
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
        Event::ModelAnswered { answer } => response_texts(answer, ""),
        Event::GraceAnswered { answer } => response_texts(answer, "after the limit: "),
        Event::RequestServed { answer: Some(answer), .. } => {
            response_texts(*answer, "side request: ")
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

/// Returns the texts of a response, each with a label that begins with `prefix`.
fn response_texts(response: ModelResponse, prefix: &str) -> Vec<(String, String)> {
    let mut all = vec![
        ("reasoning".to_owned(), model_reasoning(&response.extra)),
        ("refusal".to_owned(), model_refusal(&response.extra)),
    ];
    all.extend(
        other_fields(&response.extra)
            .into_iter()
            .map(|(name, text)| (format!("field {name}"), text)),
    );
    all.push(("message".to_owned(), response.content));
    let calls = response.tool_calls.into_iter();
    all.extend(
        calls.map(|call| (format!("call of {}", call.name), format_arguments(&call.arguments))),
    );
    all.into_iter().map(|(label, text)| (format!("{prefix}{label}"), text)).collect()
}

#[cfg(test)]
mod tests {
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
        // A regular expression has no fixed word to scan for, so any file may match. A missing journal
        // never matches.
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

    /// Records outputs of a tool in a trial, one per text.
    fn record_outputs(journal: &mut proctor_record::Journal, texts: impl Iterator<Item = String>) {
        for shown in texts {
            let returned = Event::ToolReturned {
                call_id: "c".into(),
                name: "shell".into(),
                shown,
                full: None,
                exit_status: Some(0),
                seconds: 0.1,
                malformed: false,
                edited: None,
            };
            journal.append(1, returned).unwrap();
        }
    }

    #[test]
    fn search_has_pages_and_can_be_limited_to_a_run_or_an_arm() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["one", "other"].map(|name| folder.path().join(name));
        let most = MAX_HITS + 50;
        for path in &paths {
            let plan = write_plan(path, &["a", "b"], 1, 1);
            for (arm, count) in plan.arms.iter().zip([most, 1]) {
                let (_, _, mut journal) = start_trial(path, &plan.tasks[0], arm);
                record_outputs(&mut journal, (0..count).map(|at| format!("needle {at}.")));
            }
        }
        let runs: Vec<ViewedRun> = (1..)
            .zip(&paths)
            .map(|(number, path)| ViewedRun::open(path, number).unwrap())
            .collect();
        let find = |query: &str| search_within(&runs, &Query::parse(query), TIME_LIMIT).unwrap();
        let (mut query, mut seen, mut pages) = ("q=needle".to_owned(), Vec::new(), 0);
        while !query.is_empty() {
            let page = find(&query);
            assert!(page.hits.len() <= MAX_HITS && pages < 9, "{query}");
            seen.extend(
                page.hits.iter().map(|hit| format!("{} {}{}", hit.href, hit.found, hit.after)),
            );
            query = page.next.strip_prefix("search?").unwrap_or_default().to_owned();
            pages += 1;
        }
        let first = find("q=needle");
        assert_eq!(first.count_all, "search?q=needle&all=1");
        let all = find(first.count_all.strip_prefix("search?").unwrap());
        assert_eq!((all.total_hits, all.total_trials), (2 * (most + 1), 4));
        assert_eq!((all.hits.len(), all.read, all.next.as_str()), (MAX_HITS, 4, ""));
        assert!(all.count_all.is_empty() && find("q=needle&arm=b").count_all.is_empty());
        let distinct: BTreeSet<&String> = seen.iter().collect();
        assert_eq!((seen.len(), distinct.len(), pages), (2 * (most + 1), 2 * (most + 1), 3));
        for (query, trials, matching) in [
            ("q=needle&run=2&first=1", 2, 2),
            ("q=needle&arm=b", 2, 2),
            ("q=needle&run=1&arm=b", 1, 1),
        ] {
            let found = find(query);
            assert_eq!((found.of, found.matching), (trials, matching), "{query}");
            assert_eq!(found.hits.len(), matching, "{query}");
        }
    }

    #[test]
    fn only_tests_that_the_steps_mention_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a"], 1, 1);
        let (_, dir, mut journal) = start_trial(&path, &plan.tasks[0], &plan.arms[0]);
        record_outputs(&mut journal, ["FAILED t.py::test_one[2] - assert".to_owned()].into_iter());
        drop(journal);
        let find = |tests: &[&str]| find_mentioned_tests(&dir.trajectory_path(), tests);
        assert_eq!(find(&["t.py::test_one[1]", "t.py::test_two"]), Some(vec![true, false]));
        assert_eq!(find(&[]), Some(vec![]));
        assert_eq!(find_mentioned_tests(&folder.path().join("missing"), &["a"]), None);
    }

    #[test]
    fn search_finds_arguments_in_their_displayed_form() {
        let arguments = format_arguments(r#"{"command":"sed -i\n  x","line":3}"#);
        let journal = br#"{"arguments":"{\"command\":\"sed -i\\n  x\",\"line\":3}"}"#;
        for (text, is_found) in [
            ("command: sed -i", true),
            ("sed -i x line: 3", true),
            ("command:  SED", true),
            ("command: -i", false),
        ] {
            let wanted = Pattern::compile(text, false).unwrap();
            assert_eq!(wanted.find_first(&arguments).is_some(), is_found, "{text}");
            assert!(!is_found || wanted.may_match(journal), "{text}");
        }
    }
}
