//! Reads one JSON object per line, or values that span several lines.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read},
};

use proctor_types::parse_python_json;
use serde_json::{Value, error::Category};

use super::{json, raw_row::RawRow};
use crate::errors::{RowError, RowLocation};

/// Maximum size in bytes of a value that spans several lines.
const MAX_VALUE_BYTES: usize = 64 << 20;

/// Passes every value in the text to `on_row`. Text that starts with an array is read as a JSON
/// array. An object may span several lines.
pub(super) fn read_rows(file: impl Read, on_row: &mut dyn FnMut(RawRow)) -> io::Result<()> {
    let mut lines = LineReader::new(file);
    let mut is_first = true;
    while let Some((number, line)) = lines.next()? {
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        if std::mem::take(&mut is_first) && lines.starts_with_array(text)? {
            // Add empty lines in place of the preceding lines, so that line numbers stay correct.
            let mut whole = vec![b'\n'; number - 1];
            whole.extend_from_slice(&line);
            lines.read_rest(&mut whole)?;
            json::read_rows(&whole, on_row);
            return Ok(());
        }
        let value = match parse_python_json(text) {
            Ok(value) => Ok(value),
            Err(error) => match lines.read_multiline_value(&line)? {
                Some(value) => Ok(value),
                None => Err(json_error(text, &error)),
            },
        };
        on_row(RawRow { location: RowLocation::Line(number), split: None, key: None, value });
    }
    Ok(())
}

/// Returns the error for text on one line. The message gives the column, so that the user can find
/// the error.
pub(super) fn json_error(text: &[u8], error: &serde_json::Error) -> RowError {
    if std::str::from_utf8(text).is_err() {
        return RowError::invalid_row("is not UTF-8");
    }
    let column = error.column();
    RowError::invalid_row(match error.classify() {
        Category::Eof => format!("not JSON: truncated at column {column}"),
        _ => format!("not JSON: invalid at column {column}"),
    })
}

/// Reads numbered lines, and can put lines back to read them again.
struct LineReader<R> {
    reader: BufReader<R>,
    line_number: usize,
    pushed_back_lines: VecDeque<(usize, Vec<u8>)>,
}

impl<R: Read> LineReader<R> {
    fn new(file: R) -> Self {
        let reader = BufReader::with_capacity(1 << 18, file);
        Self { reader, line_number: 0, pushed_back_lines: VecDeque::new() }
    }

    /// Returns the next line with its line break, and its number, counted from 1.
    fn next(&mut self) -> io::Result<Option<(usize, Vec<u8>)>> {
        if let Some(line) = self.pushed_back_lines.pop_front() {
            return Ok(Some(line));
        }
        let mut line = Vec::new();
        if self.reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        self.line_number += 1;
        if self.line_number == 1 && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        Ok(Some((self.line_number, line)))
    }

    fn push_back(&mut self, lines: Vec<(usize, Vec<u8>)>) {
        for line in lines.into_iter().rev() {
            self.pushed_back_lines.push_front(line);
        }
    }

    /// Appends the remaining lines.
    fn read_rest(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        while let Some((_, line)) = self.pushed_back_lines.pop_front() {
            text.extend_from_slice(&line);
        }
        self.reader.read_to_end(text).map(drop)
    }

    /// Whether the first line of the text starts an array of rows. If the array ends on the same
    /// line and more lines follow, the line is a bad row instead.
    fn starts_with_array(&mut self, first_line: &[u8]) -> io::Result<bool> {
        let Some(inner) = first_line.strip_prefix(b"[").map(<[u8]>::trim_ascii) else {
            return Ok(false);
        };
        if !matches!(inner.first(), None | Some(b'{' | b']')) {
            return Ok(false);
        }
        if parse_python_json(first_line).is_err() {
            return Ok(true);
        }
        let mut taken = Vec::new();
        let mut is_last = true;
        while let Some((number, line)) = self.next()? {
            is_last = line.trim_ascii().is_empty();
            taken.push((number, line));
            if !is_last {
                break;
            }
        }
        self.push_back(taken);
        Ok(is_last)
    }

    /// Returns the object that starts on `first_line` and ends on a later line. If a line in
    /// between is a complete row, `first_line` is a broken row, and the search stops so that no
    /// other row is lost.
    fn read_multiline_value(&mut self, first_line: &[u8]) -> io::Result<Option<Value>> {
        let mut scan = ValueScanner::default();
        if !first_line.trim_ascii_start().starts_with(b"{")
            || scan.scan_line(first_line) != ValueState::Continues
        {
            return Ok(None);
        }
        let mut whole = first_line.to_vec();
        let mut taken: Vec<(usize, Vec<u8>)> = Vec::new();
        while whole.len() < MAX_VALUE_BYTES
            && let Some((number, line)) = self.next()?
        {
            let is_row = line.starts_with(b"{\"") && parse_python_json(line.trim_ascii()).is_ok();
            let open = if is_row { ValueState::Invalid } else { scan.scan_line(&line) };
            whole.extend_from_slice(&line);
            taken.push((number, line));
            match open {
                ValueState::Continues => {}
                ValueState::Complete => {
                    if let Ok(value) = parse_python_json(whole.trim_ascii()) {
                        return Ok(Some(value));
                    }
                    break;
                }
                ValueState::Invalid => break,
            }
        }
        self.push_back(taken);
        Ok(None)
    }
}

/// Whether a value continues after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueState {
    Continues,
    Complete,
    /// Invalid JSON: a string does not end on its line, or there are too many closing brackets.
    Invalid,
}

#[derive(Debug, Default)]
struct ValueScanner {
    depth: usize,
}

impl ValueScanner {
    fn scan_line(&mut self, line: &[u8]) -> ValueState {
        let (mut in_string, mut escaped) = (false, false);
        for byte in line.trim_ascii_end() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => match self.depth.checked_sub(1) {
                    Some(depth) => self.depth = depth,
                    None => return ValueState::Invalid,
                },
                _ => {}
            }
        }
        match self.depth {
            _ if in_string => ValueState::Invalid,
            0 => ValueState::Complete,
            _ => ValueState::Continues,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_text(text: &str) -> Vec<(usize, Option<Value>)> {
        let mut out = Vec::new();
        let mut each = |row: RawRow| {
            let RowLocation::Line(line) = row.location else { panic!("JSON has lines") };
            out.push((line, row.value.ok()));
        };
        read_rows(text.as_bytes(), &mut each).unwrap();
        out
    }

    #[test]
    fn read_rows_accepts_arrays_and_multiline_objects() {
        let (one, two) = (json!({"a": 1, "b": [{"c": "}"}]}), json!({"a": 2}));
        let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap();
        let all = json!([one, two]);
        for (text, places) in [
            (format!("{one}\n{two}"), [1, 2]),
            (all.to_string(), [1, 1]),
            (format!("\u{feff}\n{all}\n\n"), [2, 2]),
            (format!("[\n {one},\n {two}\n]\n"), [2, 3]),
            (pretty(&all), [2, 10]),
            (format!("{}\n{}\n", pretty(&one), pretty(&two)), [1, 9]),
            (format!("{}\n{two}\n", pretty(&one)), [1, 9]),
        ] {
            let found = read_text(&text);
            assert_eq!(
                found,
                [(places[0], Some(one.clone())), (places[1], Some(two.clone()))],
                "{text}"
            );
        }
    }

    #[test]
    fn bad_line_does_not_affect_other_lines() {
        for bad in [
            "{\"a\": 1, \"b\": [",
            "{\"a\": \"open",
            "{",
            "[ERROR] something",
            "{\"a\": 1}}",
            "nope",
            "[1, 2]",
            "{\"a\": oops}",
        ] {
            for text in [
                format!("{bad}\n{{\"a\": 7}}\n{{\"a\": 8}}"),
                format!("{{\"a\": 7}}\n{bad}\n{{\"a\": 8}}"),
            ] {
                let found: Vec<Value> =
                    read_text(&text).into_iter().filter_map(|(_, value)| value).collect();
                let rows: Vec<&Value> = found.iter().filter(|value| value.is_object()).collect();
                assert_eq!(rows, [&json!({"a": 7}), &json!({"a": 8})], "{text}");
            }
        }
        // A bad element does not affect the others in an array with one element per line either.
        let array =
            "[\n {\"a\": 7},\n {\"a\": \"open},\n {\"a\": 8},\n {\"a\": [},\n {\"a\": 9}\n]\n";
        let found: Vec<Value> =
            read_text(array).into_iter().filter_map(|(_, value)| value).collect();
        assert_eq!(found, [json!({"a": 7}), json!({"a": 8}), json!({"a": 9})]);
    }
}
