//! Reads a JSON file: an array of rows, an object of splits, an object of rows by id, or one row.

use proctor_types::parse_python_json;
use serde_json::Value;

use super::{
    jsonl,
    raw_row::RawRow,
    scan::{find_string_end, find_value_end, next_object_line, skip_space},
};
use crate::errors::{RowError, RowLocation};

pub(super) fn read_rows(bytes: &[u8], on_row: &mut dyn FnMut(RawRow)) {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let begin = skip_space(text, 0);
    match text.get(begin) {
        Some(b'[') => read_elements(text, begin, None, on_row),
        Some(b'{') => read_object(text, begin, on_row),
        // Text above the first row is reported as one bad row.
        Some(_) if next_object_line(text, begin).is_some() => {
            // Reading a slice cannot fail.
            let _ = jsonl::read_rows(text, on_row);
        }
        _ => {
            let what = "not JSON: expected an array or an object";
            let value = Err(RowError::invalid_row(what));
            on_row(RawRow { location: RowLocation::Line(1), split: None, key: None, value });
        }
    }
}

fn read_object(text: &[u8], start: usize, on_row: &mut dyn FnMut(RawRow)) {
    // Several consecutive objects: the file contains JSON lines, whatever its suffix says.
    let after = find_value_end(text, start).map(|end| skip_space(text, end));
    if after.is_some_and(|after| text.get(after) == Some(&b'{')) {
        // Reading a slice cannot fail.
        let _ = jsonl::read_rows(text, on_row);
        return;
    }
    let Some(pairs) = object_members(text, start) else { return read_single_row(text, on_row) };
    let all = |kind: u8| !pairs.is_empty() && pairs.iter().all(|pair| text[pair.start] == kind);
    if all(b'[') {
        for pair in &pairs {
            read_elements(text, pair.start, Some(&pair.key), on_row);
        }
    } else if all(b'{') && pairs.iter().all(|pair| looks_like_a_row(&text[pair.start..pair.end])) {
        let mut lines = LineCounter::default();
        for pair in pairs {
            let place = RowLocation::Line(lines.line_at(text, pair.start));
            let value = parse_value(&text[pair.start..pair.end]);
            on_row(RawRow { location: place, split: None, key: Some(pair.key), value });
        }
    } else {
        read_single_row(text, on_row);
    }
}

/// Whether the values of an object look like rows keyed by id. Such rows have a statement or tests;
/// the fields of a single row do not.
fn looks_like_a_row(text: &[u8]) -> bool {
    ["\"instance_id\"", "\"problem_statement\"", "\"FAIL_TO_PASS\"", "\"model_patch\""]
        .iter()
        .any(|key| text.windows(key.len()).any(|window| window == key.as_bytes()))
}

fn read_single_row(text: &[u8], on_row: &mut dyn FnMut(RawRow)) {
    let (line, value) = match parse_python_json(text) {
        Ok(value) => (1, Ok(value)),
        Err(error) => (error.line().max(1), Err(jsonl::json_error(text, &error))),
    };
    on_row(RawRow { location: RowLocation::Line(line), split: None, key: None, value });
}

fn read_elements(text: &[u8], start: usize, split: Option<&str>, on_row: &mut dyn FnMut(RawRow)) {
    let mut lines = LineCounter::default();
    let mut here = skip_space(text, start + 1);
    let mut number = 0;
    let is_top = split.is_none();
    let split = || split.map(str::to_owned);
    loop {
        match text.get(here) {
            Some(b']') => {
                let after = skip_space(text, here + 1);
                match text.get(after).filter(|_| is_top) {
                    // The file has several consecutive arrays.
                    Some(b'[') => {
                        here = skip_space(text, after + 1);
                        continue;
                    }
                    Some(_) => {
                        let place = RowLocation::Line(lines.line_at(text, after));
                        let value =
                            Err(RowError::invalid_row("not JSON: text after the end of the array"));
                        on_row(RawRow { location: place, split: None, key: None, value });
                        return;
                    }
                    None => return,
                }
            }
            Some(b',') => {
                here = skip_space(text, here + 1);
                continue;
            }
            _ => {}
        }
        number += 1;
        let place = RowLocation::Line(lines.line_at(text, here));
        let Some(end) = find_value_end(text, here) else {
            let next = next_object_line(text, here);
            let what = match next {
                Some(_) => format!("not JSON: element {number} is not closed"),
                None => format!(
                    "not JSON: element {number} is not closed, so the following elements cannot be read"
                ),
            };
            let value = Err(RowError::invalid_row(what));
            on_row(RawRow { location: place, split: split(), key: None, value });
            let Some(next) = next else { return };
            here = next;
            continue;
        };
        let value = parse_value(&text[here..end]);
        on_row(RawRow { location: place, split: split(), key: None, value });
        // Skip over anything that is not a value.
        here = skip_space(text, end.max(here + 1));
    }
}

fn parse_value(text: &[u8]) -> Result<Value, RowError> {
    parse_python_json(text).map_err(|error| jsonl::json_error(text, &error))
}

struct ObjectMember {
    key: String,
    start: usize,
    end: usize,
}

fn object_members(text: &[u8], start: usize) -> Option<Vec<ObjectMember>> {
    let mut out = Vec::new();
    let mut here = skip_space(text, start + 1);
    while *text.get(here)? != b'}' {
        let end = (text[here] == b'"').then(|| find_string_end(text, here)).flatten()?;
        let Value::String(key) = parse_python_json(&text[here..end]).ok()? else { return None };
        let colon = skip_space(text, end);
        let value = (*text.get(colon)? == b':').then(|| skip_space(text, colon + 1))?;
        let value_end = find_value_end(text, value)?;
        out.push(ObjectMember { key, start: value, end: value_end });
        here = skip_space(text, value_end);
        if *text.get(here)? == b',' {
            here = skip_space(text, here + 1);
        }
    }
    Some(out)
}

/// Counts lines in a single pass from front to back, however many rows need their line number.
#[derive(Default)]
struct LineCounter {
    counted_bytes: usize,
    line_breaks: usize,
}

impl LineCounter {
    fn line_at(&mut self, text: &[u8], offset: usize) -> usize {
        if offset < self.counted_bytes {
            *self = Self::default();
        }
        self.line_breaks +=
            text[self.counted_bytes..offset].iter().filter(|byte| **byte == b'\n').count();
        self.counted_bytes = offset;
        self.line_breaks + 1
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Line, split, key and value.
    type RowParts = (usize, Option<String>, Option<String>, Result<Value, String>);

    fn read_text(text: &str) -> Vec<RowParts> {
        let mut out = Vec::new();
        read_rows(text.as_bytes(), &mut |row| {
            let RowLocation::Line(line) = row.location else { panic!("JSON has lines") };
            out.push((line, row.split, row.key, row.value.map_err(|complaint| complaint.message)));
        });
        out
    }

    #[test]
    fn broken_element_does_not_affect_its_neighbors() {
        let rows = read_text("[\n{\"a\": \"]}\\\"\"},\n{\"a\": oops},\n{\"a\": 3}]");
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0].3, Ok(json!({"a": "]}\""})));
        assert_eq!(rows[1].0, 3);
        assert!(rows[1].3.as_ref().is_err_and(|what| what.contains("column")), "{rows:?}");
        assert_eq!(rows[2].3, Ok(json!({"a": 3})));
    }

    #[test]
    fn unclosed_element_is_reported_as_the_last() {
        let rows = read_text("[{\"a\": 1}, {\"a\": \"open}, {\"a\": 2}]");
        assert_eq!(rows.len(), 2);
        assert!(rows[1].3.as_ref().is_err_and(|what| what.contains("element 2 is not closed")));
    }

    #[test]
    fn json_distinguishes_splits_keys_and_single_rows() {
        let splits = read_text("{\"test\": [{\"a\": 1}], \"lite\": [{\"a\": 2}, 7]}");
        let named: Vec<_> = splits.iter().map(|row| row.1.as_deref().unwrap_or("")).collect();
        assert_eq!(named, ["test", "lite", "lite"]);
        let keyed = read_text("{\"x\": {\"instance_id\": \"x\"}}");
        assert_eq!(keyed[0].2.as_deref(), Some("x"));
        let one = read_text("{\"id\": \"x\",\n \"environment\": {}}");
        assert_eq!((one.len(), one[0].0), (1, 1));
        let lines = read_text("{\"a\": 1}\n{\"a\": 2}\n");
        assert_eq!((lines.len(), lines[1].0), (2, 2));
        let broken = read_text("{\"id\": \"x\",\n \"environment\" {}}");
        assert_eq!(broken[0].0, 2);
    }
}
