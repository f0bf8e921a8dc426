//! Converts a log to a map of statuses, or to a reason why there are none.

use std::borrow::Cow;

use crate::{
    ExitRule, LogPart, OfficialPolicy,
    parsers::{ParserCrash, ParserName, RowFacts, StatusMap, parse_with_row_facts, text},
    policy::{InvalidUtf8, Newlines},
};

/// What the official harness reads from a log.
#[derive(Debug)]
pub(crate) enum ParseOutcome {
    Statuses(StatusMap),
    /// The harness does not trust the log, or the log shows that no test ran. All tests count as
    /// not passed.
    NotGraded(String),
    /// The harness fails on this log and counts the instance as an error.
    Crashed(String),
}

impl From<ParserCrash> for ParseOutcome {
    fn from(crash: ParserCrash) -> Self {
        Self::Crashed(crash.to_string())
    }
}

pub(crate) struct LogReader<'a> {
    pub policy: &'a OfficialPolicy,
    pub parser: ParserName,
    pub row_facts: RowFacts<'a>,
    /// If set, only the log after this command is read.
    pub test_command: Option<String>,
}

impl LogReader<'_> {
    pub(crate) fn read(&self, bytes: &[u8]) -> ParseOutcome {
        match self.decode(bytes) {
            Ok(log) => self.parse_statuses(&log).unwrap_or_else(|reading| reading),
            Err(what) => ParseOutcome::Crashed(what),
        }
    }

    /// Returns the log's text as the harness decodes it.
    pub(crate) fn decode<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, str>, String> {
        let rules = &self.policy.log;
        let log = match (std::str::from_utf8(bytes), rules.undecodable) {
            (Ok(log), _) => Cow::Borrowed(log),
            (Err(_), InvalidUtf8::Replaced) => String::from_utf8_lossy(bytes),
            (Err(error), InvalidUtf8::Refused) => {
                return Err(format!("the harness cannot read a log that is not UTF-8: {error}"));
            }
        };
        Ok(match rules.newlines {
            Newlines::Kept => log,
            Newlines::Universal => match text::universal_newlines(&log) {
                Cow::Borrowed(_) => log,
                Cow::Owned(changed) => Cow::Owned(changed),
            },
        })
    }

    fn parse_statuses(&self, log: &str) -> Result<ParseOutcome, ParseOutcome> {
        let rules = &self.policy.log;
        let refused = |why: String| Err(ParseOutcome::NotGraded(why));
        if let Some(said) = rules.reject.iter().find(|said| log.contains(said.as_str())) {
            return refused(format!("the log contains {said:?}"));
        }
        if let Some(markers) = &rules.markers
            && let Some(marker) =
                [&markers.start, &markers.end].into_iter().find(|marker| !log.contains(*marker))
        {
            return refused(format!("the log does not contain {marker:?}"));
        }
        if let Some(said) = &rules.require_lowercase
            && !log.to_lowercase().contains(said.as_str())
        {
            return refused(format!("the log does not contain {said:?}"));
        }
        let edition = self.policy.parser.edition;
        let mut map =
            parse_with_row_facts(self.parser, edition, self.select_log_part(log)?, self.row_facts)?;
        if map.is_empty() && rules.whole_if_empty {
            map = parse_with_row_facts(self.parser, edition, log, self.row_facts)?;
        }
        if map.is_empty()
            && let Some(pattern) = &rules.suite_ran
            && !text::pattern(pattern).is_match(log)
        {
            return refused("the log has no tests and no sign that tests ran".into());
        }
        let shows_failure = || map.iter().any(|(_, word)| matches!(word, "FAILED" | "ERROR"));
        if self.policy.exit == ExitRule::NoSilentFailure
            && let Some(status) = self.exit_status(log)
            && status != 0
            && !map.is_empty()
            && !shows_failure()
        {
            return refused(format!(
                "the tests exited with {status}, but the log shows no failure"
            ));
        }
        Ok(ParseOutcome::Statuses(map))
    }

    fn select_log_part<'l>(&self, log: &'l str) -> Result<&'l str, ParseOutcome> {
        let rules = &self.policy.log;
        Ok(match rules.part {
            LogPart::Whole => log,
            LogPart::AfterLast => match &rules.after_last {
                Some(last) => log.rsplit_once(last.as_str()).map_or(log, |(_, rest)| rest),
                None => log,
            },
            LogPart::AfterTestCommand => match &self.test_command {
                Some(command) => log.rsplit_once(command.as_str()).map_or(log, |(_, rest)| rest),
                None => log,
            },
            LogPart::BetweenMarkers => match &rules.markers {
                Some(markers) => {
                    let mut parts = log.split(markers.start.as_str());
                    let part = parts.nth(1).unwrap_or_default();
                    part.split(markers.end.as_str()).next().unwrap_or_default()
                }
                None => log,
            },
            LogPart::BetweenTracedMarkers => match &rules.markers {
                Some(markers) => between_traced_markers(log, &markers.start, &markers.end)?,
                None => log,
            },
        })
    }

    /// Returns the first exit status in the log, as the harness does.
    fn exit_status(&self, log: &str) -> Option<i64> {
        let marker = self.policy.log.exit_marker.as_ref()?;
        let told = text::pattern(&format!(r"{}:{}*(-?\d+)", regex::escape(marker), text::SPACE));
        // A number that is too large for an exit status must not count as zero.
        told.captures(log).map(|found| found[1].parse().unwrap_or(i64::MAX))
    }
}

/// Returns the part of the log between the traced markers, as SWE-smith does. SWE-smith slices the
/// log at the positions of these lines, where a missing line has position -1. Then the part is
/// empty, or the harness raises an exception.
fn between_traced_markers<'l>(
    log: &'l str,
    start: &str,
    end: &str,
) -> Result<&'l str, ParseOutcome> {
    let (start, end) = (format!("+ : '{start}'"), format!("+ : '{end}'"));
    match (log.find(&start), log.find(&end)) {
        (Some(from), Some(to)) if from <= to => {
            let body = from + start.len();
            Ok(log.get(body..to).unwrap_or_default())
        }
        (Some(_), _) => Err(ParseOutcome::Crashed(
            "the harness raises a ValueError: the end marker is missing or before the start".into(),
        )),
        (None, _) => Ok(""),
    }
}
