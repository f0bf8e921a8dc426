//! Rewrites library errors in plain words.

use std::{
    error::Error,
    io::{self, ErrorKind},
};

/// Prefixes that libraries put before a reason. Such a prefix says which part of the library
/// failed, which does not help the user.
const LIBRARY_PREFIXES: [&str; 12] = [
    "error sending request",
    "client error (Connect)",
    "client error (SendRequest)",
    "client error (Canceled)",
    "tcp connect error",
    "tcp open error",
    "dns error",
    "error trying to connect",
    "error reading a body from connection",
    "request or response body error",
    "error decoding response body",
    "failed to lookup address information",
];

/// Replacements: the library's wording of a reason and our own.
const REASON_REWRITES: [(&str, &str); 20] = [
    ("Connection refused", "connection refused: no server is listening there"),
    ("Connection reset by peer", "the other side closed the connection"),
    ("Broken pipe", "broken pipe: the other end was closed"),
    ("Name or service not known", "unknown host name"),
    ("No address associated with hostname", "unknown host name"),
    ("Temporary failure in name resolution", "temporary failure while looking up the host name"),
    ("operation timed out", "no response in time"),
    ("deadline has elapsed", "no response in time"),
    ("Connection timed out", "no response in time"),
    ("connection closed before message completed", "the connection was closed without a response"),
    ("end of file before message length reached", "the response ended too early"),
    ("unexpected EOF during chunk size line", "the response ended too early"),
    ("unexpected end of file", "the data is truncated"),
    ("peer closed connection without sending TLS close_notify", "the response ended too early"),
    ("invalid HTTP version parsed", "the server's response is not valid HTTP"),
    ("received corrupt message of type InvalidContentType", "the server does not speak TLS"),
    ("invalid peer certificate: UnknownIssuer", "the server's certificate has an untrusted issuer"),
    ("invalid peer certificate: Expired", "the server's certificate has expired"),
    ("invalid peer certificate", "the server's certificate is invalid"),
    ("received fatal alert", "the server rejected the TLS connection"),
];

/// The kernel's messages when this process or the machine runs out of file descriptors. The error
/// number distinguishes them from the sandbox agent's errors about commands, which have none.
const OPEN_FILES_REWRITES: [(&str, &str); 2] = [
    ("Too many open files in system (os error 23)", MACHINE_OPEN_FILES_MESSAGE),
    ("Too many open files (os error 24)", PROCESS_OPEN_FILES_MESSAGE),
];
pub(crate) const PROCESS_OPEN_FILES_MESSAGE: &str = "Proctor has too many open files";
pub(crate) const MACHINE_OPEN_FILES_MESSAGE: &str = "the machine has too many open files";

/// Formats an error and its causes on one line in plain words, each cause once. Many client errors
/// do not include their causes in their own message.
pub fn format_error_chain(error: &dyn Error) -> String {
    let mut text = rewrite_os_errors(&error.to_string());
    let mut next = error.source();
    while let Some(cause) = next {
        let said = rewrite_os_errors(&cause.to_string());
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    rewrite_library_errors(&text)
}

/// Describes an I/O error in plain words. An operating system error is recognized by its code
/// instead of its text, and its number is removed. Any other error is rewritten like a library
/// error.
pub fn describe_io_error(error: &io::Error) -> String {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    let Some(code) = error.raw_os_error() else {
        return rewrite_library_errors(&error.to_string());
    };
    let plain = match (code, error.kind()) {
        (ENFILE, _) => MACHINE_OPEN_FILES_MESSAGE,
        (EMFILE, _) => PROCESS_OPEN_FILES_MESSAGE,
        (_, ErrorKind::ConnectionRefused) => "connection refused: no server is listening there",
        (_, ErrorKind::ConnectionReset) => "the other side closed the connection",
        (_, ErrorKind::BrokenPipe) => "broken pipe: the other end was closed",
        (_, ErrorKind::TimedOut) => "no response in time",
        _ => return remove_os_error_numbers(&error.to_string()),
    };
    plain.to_owned()
}

/// Rewrites library errors in a string. All other text is unchanged.
pub fn rewrite_library_errors(text: &str) -> String {
    text.split('\n').map(rewrite_line).collect::<Vec<_>>().join("\n")
}

fn rewrite_line(text: &str) -> String {
    let mut text = rewrite_os_errors(text);
    let is_parser_message = PARSER_MESSAGES.iter().any(|sign| text.contains(sign));
    let is_http = LIBRARY_PREFIXES.iter().any(|frame| text.contains(frame))
        || REASON_REWRITES.iter().any(|(said, _)| text.contains(said));
    if is_http {
        let parts: Vec<&str> = text.split(": ").collect();
        let kept: Vec<&str> =
            parts.iter().copied().filter(|part| !is_library_prefix(part)).collect();
        text = match kept.is_empty() {
            // The text contains only prefixes.
            true => "the request failed".to_owned(),
            false => kept.join(": "),
        };
        for (said, plain) in REASON_REWRITES {
            text = text.replace(said, plain);
        }
    }
    if is_parser_message { rewrite_parser_message(&text) } else { text }
}

/// Rewrites only operating system errors, for text that may quote other sources.
pub(crate) fn rewrite_os_errors(text: &str) -> String {
    let mut text = text.to_owned();
    for (said, plain) in OPEN_FILES_REWRITES {
        text = text.replace(said, plain);
    }
    remove_os_error_numbers(&text)
}

fn is_library_prefix(part: &str) -> bool {
    LIBRARY_PREFIXES.contains(&part)
        || (part.starts_with("error sending request for url (") && part.ends_with(')'))
        || part.starts_with("error decoding response body for url (")
}

/// Removes every ` (os error N)`, because the words before it say the same.
fn remove_os_error_numbers(text: &str) -> String {
    const OS_ERROR_MARKER: &str = " (os error ";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(OS_ERROR_MARKER) {
        let behind = &rest[at + OS_ERROR_MARKER.len()..];
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && behind[digits..].starts_with(')') {
            out.push_str(&rest[..at]);
            rest = &behind[digits + 1..];
        } else {
            out.push_str(&rest[..at + OS_ERROR_MARKER.len()]);
            rest = behind;
        }
    }
    out + rest
}

/// Strings that identify a message of a JSON or TOML parser.
const PARSER_MESSAGES: [&str; 11] = [
    "invalid type: ",
    "invalid value: ",
    "invalid length ",
    "missing field `",
    "unknown field `",
    "unknown variant `",
    "duplicate field `",
    "EOF while parsing ",
    " at line ",
    "data did not match any variant of untagged enum",
    "control character (\\u0000-\\u001F)",
];

/// Types of the values that a parser found: the parser's name, and the name that users know.
const ACTUAL_TYPES: [(&str, &str); 12] = [
    ("string ", "the string "),
    ("integer ", "the number "),
    ("floating point ", "the number "),
    ("boolean ", ""),
    ("character ", "the character "),
    ("map", "a table"),
    ("sequence", "a list"),
    ("unit value", "null"),
    ("Option value", "a value"),
    ("newtype struct", "a value"),
    ("unit variant", "a string"),
    ("enum", "a string"),
];

/// Types that a parser expected: the parser's name, and the name that users know.
const EXPECTED_TYPES: [(&str, &str); 10] = [
    ("a borrowed string", "a string"),
    ("string or map", "a string"),
    ("a boolean", "true or false"),
    ("a sequence", "a list"),
    ("a map", "a table"),
    ("a tuple", "a list"),
    ("struct ", "a table"),
    ("tuple ", "a list"),
    ("variant identifier", "a string"),
    ("enum ", "a string"),
];

/// Rewrites a parser's message. For example, `PREFIX: invalid type: string "x", expected u32 at
/// line 3 column 9` becomes `PREFIX: line 3: must be a non-negative whole number, but is the string
/// "x"`.
fn rewrite_parser_message(text: &str) -> String {
    let (body, place) = split_location(text);
    let message = type_error(body, "invalid type: ")
        .or_else(|| type_error(body, "invalid value: "))
        .or_else(|| {
            quoted_name_error(body, "missing field `", |key, _| format!("missing key `{key}`"))
        })
        .or_else(|| {
            quoted_name_error(body, "duplicate field `", |key, _| format!("duplicate key `{key}`"))
        })
        .or_else(|| {
            quoted_name_error(body, "unknown field `", |key, rest| {
                format!("unknown key `{key}`{}", rewrite_expected_names(rest))
            })
        })
        .or_else(|| {
            quoted_name_error(body, "unknown variant `", |value, rest| {
                format!("unknown value `{value}`{}", rewrite_expected_names(rest))
            })
        })
        .or_else(|| truncation_error(body))
        .or_else(|| syntax_error(body, place.is_some()));
    let Some((before, message)) = message else { return text.to_owned() };
    let (line, behind) = match place {
        // Omit `line 1`. The text may consist of a single line, as in rows and journals, where the
        // caller has already named the line of the file.
        Some(("1", behind)) => (String::new(), behind),
        Some((line, behind)) => (format!("line {line}: "), behind),
        None => (String::new(), ""),
    };
    format!("{before}{line}{message}{behind}")
}

/// Splits the location ` at line L column C` off a message. Returns the text before the location,
/// and the line number with the text after the location.
fn split_location(text: &str) -> (&str, Option<(&str, &str)>) {
    const LOCATION_MARKER: &str = " at line ";
    let found = text.rfind(LOCATION_MARKER).and_then(|at| {
        let rest = &text[at + LOCATION_MARKER.len()..];
        let (line, rest) = rest.split_at(count_leading_digits(rest));
        let rest = rest.strip_prefix(" column ")?;
        (!line.is_empty()).then(|| (&text[..at], line, &rest[count_leading_digits(rest)..]))
    });
    match found {
        // Omit the column, because it does not help with long lines.
        Some((body, line, behind)) => (body, Some((line, behind))),
        None => (text, None),
    }
}

fn count_leading_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn type_error<'t>(body: &'t str, marker: &str) -> Option<(&'t str, String)> {
    let at = body.find(marker)?;
    let (found, expected) = body[at + marker.len()..].rsplit_once(", expected ")?;
    let expected = expected.trim_end();
    let found = ACTUAL_TYPES
        .iter()
        .find_map(|(said, plain)| Some(format!("{plain}{}", found.strip_prefix(said)?)))
        .unwrap_or_else(|| found.to_owned());
    Some((&body[..at], format!("must be {}, but is {found}", expected_type(expected))))
}

fn expected_type(expected: &str) -> String {
    let whole = ["u8", "u16", "u32", "u64", "usize"];
    let signed = ["i8", "i16", "i32", "i64", "isize"];
    if whole.contains(&expected) || expected.starts_with("a nonzero u") {
        return "a non-negative whole number".to_owned();
    }
    if signed.contains(&expected) {
        return "a whole number".to_owned();
    }
    if ["f32", "f64"].contains(&expected) {
        return "a number".to_owned();
    }
    let known = EXPECTED_TYPES.iter().find(|(said, _)| match said.ends_with(' ') {
        true => expected.starts_with(said),
        false => expected == *said,
    });
    known.map_or_else(|| expected.to_owned(), |(_, plain)| (*plain).to_owned())
}

fn quoted_name_error<'t>(
    body: &'t str,
    marker: &str,
    format_message: impl Fn(&str, &str) -> String,
) -> Option<(&'t str, String)> {
    let at = body.find(marker)?;
    let (name, rest) = body[at + marker.len()..].split_once('`')?;
    Some((&body[..at], format_message(name, rest)))
}

/// Rewrites the list of expected names: `, expected one of ...` becomes `; expected one of ...`.
fn rewrite_expected_names(text: &str) -> String {
    let rest = text.trim_end();
    if let Some(names) = rest.strip_prefix(", expected one of ") {
        format!("; expected one of {names}")
    } else if let Some(name) = rest.strip_prefix(", expected ") {
        format!("; expected {name}")
    } else {
        String::new()
    }
}

fn truncation_error(body: &str) -> Option<(&str, String)> {
    let at = body.find("EOF while parsing ")?;
    Some((&body[..at], "the data is truncated".to_owned()))
}

/// Rewrites any other message of a JSON parser. Syntax errors always state a line number, so text
/// without a line number is not rewritten.
fn syntax_error(body: &str, has_location: bool) -> Option<(&str, String)> {
    const SYNTAX_ERRORS: [&str; 9] = [
        "expected value",
        "expected ident",
        "expected `",
        "key must be a string",
        "trailing characters",
        "trailing comma",
        "control character (",
        "invalid escape",
        "data did not match any variant of untagged enum",
    ];
    let at = SYNTAX_ERRORS.iter().filter_map(|said| body.find(said)).min()?;
    let is_shape = body[at..].starts_with("data did not match");
    let message = if is_shape { "the value matches no known format" } else { "invalid JSON" };
    (has_location || is_shape).then(|| (&body[..at], message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REWRITE_CASES: [(&str, &str); 25] = [
        ("a/b: No such file or directory (os error 2)", "a/b: No such file or directory"),
        ("x (os error )", "x (os error )"),
        (
            "error sending request for url (http://h:1/v1): client error (Connect): tcp connect error: \
             Connection refused (os error 111)",
            "connection refused: no server is listening there",
        ),
        (
            "error sending request: client error (Connect): dns error: failed to lookup address information: \
             Name or service not known",
            "unknown host name",
        ),
        ("error sending request: operation timed out", "no response in time"),
        (
            "error sending request: client error (SendRequest): connection closed before message completed",
            "the connection was closed without a response",
        ),
        (
            "error sending request: client error (Connect): invalid peer certificate: UnknownIssuer",
            "the server's certificate has an untrusted issuer",
        ),
        (
            "request or response body error: error reading a body from connection: end of file before message \
             length reached",
            "the response ended too early",
        ),
        ("error sending request", "the request failed"),
        ("Connection reset by peer (os error 104)", "the other side closed the connection"),
        ("Too many open files (os error 24)", PROCESS_OPEN_FILES_MESSAGE),
        ("Too many open files in system (os error 23)", MACHINE_OPEN_FILES_MESSAGE),
        (
            "r.json: invalid type: string \"x\", expected u32 at line 3 column 9",
            "r.json: line 3: must be a non-negative whole number, but is the string \"x\"",
        ),
        (
            "invalid type: integer `5`, expected a string at line 1 column 9",
            "must be a string, but is the number `5`",
        ),
        (
            "invalid type: map, expected a sequence at line 1 column 9",
            "must be a list, but is a table",
        ),
        ("invalid type: null, expected struct Task", "must be a table, but is null"),
        (
            "invalid value: integer `-1`, expected u64",
            "must be a non-negative whole number, but is the number `-1`",
        ),
        ("missing field `id` at line 1 column 2", "missing key `id`"),
        (
            "unknown field `idd`, expected one of `id`, `repo` at line 2 column 6",
            "line 2: unknown key `idd`; expected one of `id`, `repo`",
        ),
        (
            "f: unknown variant `x`, expected `native` or `docker`",
            "f: unknown value `x`; expected `native` or `docker`",
        ),
        ("EOF while parsing an object at line 1 column 7", "the data is truncated"),
        ("a.json: expected value at line 1 column 1", "a.json: invalid JSON"),
        ("the model expected value for money", "the model expected value for money"),
        ("whatever a user wrote: as it is", "whatever a user wrote: as it is"),
        ("it fails at line 3 column 2 of x", "it fails at line 3 column 2 of x"),
    ];

    #[test]
    fn library_errors_are_rewritten_in_plain_words() {
        for (said, plain) in REWRITE_CASES {
            assert_eq!(rewrite_library_errors(said), plain, "{said}");
            assert_eq!(rewrite_library_errors(plain), plain, "rewritten twice");
        }
    }

    /// `describe_io_error` and `rewrite_library_errors` use the same words for a system error.
    #[test]
    fn io_errors_and_library_errors_have_the_same_wording() {
        for code in [2, 13, 23, 24, 28, 32, 104, 110, 111] {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(describe_io_error(&error), rewrite_library_errors(&error.to_string()));
        }
    }

    #[test]
    fn error_chain_prints_each_cause_once() {
        #[derive(Debug)]
        struct Outer(io::Error);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "run.json: {}", describe_io_error(&self.0))
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = Outer(io::Error::from_raw_os_error(2));
        assert_eq!(format_error_chain(&error), "run.json: No such file or directory");
    }
}
