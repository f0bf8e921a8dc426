//! Parsers that read one test per line, with a pattern and a table of status words.

use std::sync::LazyLock;

use regex::Regex;

use crate::parsers::{
    ParserName, StatusMap,
    text::{python_pattern, strip},
};

/// A parser's rules for reading lines.
struct LineRules {
    parser: ParserName,
    /// Whether whitespace around the line is removed before matching.
    trims_line: bool,
    /// Whether whitespace around the name is removed.
    trims_name: bool,
    /// Patterns in the order in which they are tried, each with the resulting status. The group
    /// `word` captures the status word, and the group `name` the test's name.
    patterns: &'static [(&'static str, StatusSource)],
}

/// How a matching line's status is determined.
#[derive(Clone, Copy)]
enum StatusSource {
    Always(&'static str),
    /// From the group `word`. An unlisted word has no status.
    ByWord(&'static [(&'static str, &'static str)]),
}

use StatusSource::{Always, ByWord};

/// jest's list of files. The patterns only differ in how the line ends.
const JEST_FILES: &[(&str, StatusSource)] = &[
    (r"^PASS\s(?P<name>.*)\s\([\d\.]+ms\)", Always("PASSED")),
    (r"^PASS\s(?P<name>.*)\s\([\d\.]+\ss\)", Always("PASSED")),
    (r"^PASS\s(?P<name>.*)\s\([\d\.]+s\)", Always("PASSED")),
    (r"^PASS\s(?P<name>.*)", Always("PASSED")),
    (r"^FAIL\s(?P<name>.*)\s\([\d\.]+ms\)", Always("FAILED")),
    (r"^FAIL\s(?P<name>.*)\s\([\d\.]+\ss\)", Always("FAILED")),
    (r"^FAIL\s(?P<name>.*)\s\([\d\.]+s\)", Always("FAILED")),
    (r"^FAIL\s(?P<name>.*)", Always("FAILED")),
];

/// Each entry is a parser of `swebench` 5.0.2. The words in the groups are the test runners' words.
const PARSER_RULES: &[LineRules] = &[
    LineRules {
        parser: ParserName::Ant,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^\s*\[junit\]\s+\[(?P<word>PASS|FAIL|ERR)\]\s+(?P<name>.*)$",
            ByWord(&[("PASS", "PASSED"), ("FAIL", "FAILED"), ("ERR", "FAILED")]),
        )],
    },
    LineRules {
        parser: ParserName::Cargo,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^test\s+(?P<name>\S+)\s+\.\.\.\s+(?P<word>\w+)$",
            ByWord(&[("ok", "PASSED"), ("FAILED", "FAILED")]),
        )],
    },
    LineRules {
        parser: ParserName::Carbon,
        trims_line: false,
        trims_name: false,
        patterns: JEST_FILES,
    },
    LineRules {
        parser: ParserName::Cucumber,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^(?P<name>.*) \.+(?P<word>\.|F)",
            ByWord(&[(".", "PASSED"), ("F", "FAILED")]),
        )],
    },
    LineRules {
        parser: ParserName::Googletest,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^.*\[\s*(?P<word>OK|FAILED)\s*\]\s(?P<name>.*)\s\(.*\)$",
            ByWord(&[("OK", "PASSED"), ("FAILED", "FAILED")]),
        )],
    },
    LineRules {
        parser: ParserName::Gotest,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^--- (?P<word>PASS|FAIL|SKIP): (?P<name>.+) \((.+)\)$",
            ByWord(&[("PASS", "PASSED"), ("FAIL", "FAILED"), ("SKIP", "SKIPPED")]),
        )],
    },
    LineRules {
        parser: ParserName::Jest,
        trims_line: true,
        trims_name: true,
        patterns: &[(
            r"^\s*(?P<word>✓|✕|○)\s(?P<name>.+?)(?:\s\((\d+\s*m?s)\))?$",
            ByWord(&[("✓", "PASSED"), ("✕", "FAILED"), ("○", "SKIPPED")]),
        )],
    },
    LineRules {
        parser: ParserName::JestJson,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^\[(?P<word>PASSED|FAILED)\]\s(?P<name>.+)$",
            ByWord(&[("PASSED", "PASSED"), ("FAILED", "FAILED")]),
        )],
    },
    LineRules {
        parser: ParserName::Jq,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^\s*(?P<word>PASS|FAIL):\s(?P<name>.+)$",
            ByWord(&[("PASS", "PASSED"), ("FAIL", "FAILED")]),
        )],
    },
    LineRules {
        parser: ParserName::Marked,
        trims_line: false,
        trims_name: true,
        patterns: &[(r"^\d+\)\s(?P<name>.*)", Always("FAILED"))],
    },
    LineRules {
        parser: ParserName::MicropythonTest,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^(?P<word>pass|FAIL|skip)\s+(?P<name>.+)$",
            ByWord(&[("pass", "PASSED"), ("FAIL", "FAILED"), ("skip", "SKIPPED")]),
        )],
    },
    LineRules {
        parser: ParserName::Minitest,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^(?P<name>.+)\. .*=.*(?P<word>\.|F|E).*$",
            ByWord(&[(".", "PASSED"), ("F", "FAILED"), ("E", "FAILED")]),
        )],
    },
    LineRules {
        parser: ParserName::RspecTransformedJson,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^(?P<name>.+) - (?P<word>passed|failed)",
            ByWord(&[("passed", "PASSED"), ("failed", "FAILED")]),
        )],
    },
    LineRules {
        parser: ParserName::RubyUnit,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^\s*(?:test: )?(?P<name>.+):\s+(?P<word>\.|E\b|F\b|O\b)",
            ByWord(&[(".", "PASSED"), ("E", "FAILED"), ("F", "FAILED"), ("O", "SKIPPED")]),
        )],
    },
    LineRules {
        parser: ParserName::Tap,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^(?P<word>ok|not ok) (\d+) (?P<name>.+)$",
            ByWord(&[("ok", "PASSED"), ("not ok", "FAILED")]),
        )],
    },
    LineRules {
        parser: ParserName::Vitest,
        trims_line: true,
        trims_name: false,
        patterns: &[(
            r"^\s*(?P<word>✓|×|↓)\s(?P<name>.+?)(?:\s(\d+\s*m?s?|\[skipped\]))?$",
            ByWord(&[("✓", "PASSED"), ("×", "FAILED"), ("↓", "SKIPPED")]),
        )],
    },
];

static COMPILED_PATTERNS: LazyLock<Vec<Vec<Regex>>> = LazyLock::new(|| {
    let of = |rules: &LineRules| {
        rules.patterns.iter().map(|(text, _)| python_pattern(text)).collect::<Vec<_>>()
    };
    PARSER_RULES.iter().map(of).collect()
});

/// Reads `log` by the rules of `parser`. Returns `None` if the parser does not work line by line.
pub(super) fn parse(parser: ParserName, log: &str) -> Option<StatusMap> {
    let at = PARSER_RULES.iter().position(|rules| rules.parser == parser)?;
    let (rules, patterns) = (&PARSER_RULES[at], &COMPILED_PATTERNS[at]);
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let line = if rules.trims_line { strip(line) } else { line };
        let found = patterns.iter().zip(rules.patterns).find_map(|(pattern, (_, given))| {
            pattern.captures(line).map(|captures| (captures, *given))
        });
        let Some((captures, given)) = found else { continue };
        let status = match given {
            Always(status) => Some(status),
            ByWord(words) => captures.name("word").and_then(|word| {
                words.iter().find(|(known, _)| *known == word.as_str()).map(|(_, status)| *status)
            }),
        };
        let name = captures.name("name").map_or("", |name| name.as_str());
        if let Some(status) = status {
            map.set(if rules.trims_name { strip(name) } else { name }, status);
        }
    }
    Some(map)
}
