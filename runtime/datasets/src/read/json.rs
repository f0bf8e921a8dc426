//! Reads a JSON file: an array of rows, an object of splits, an object of rows by id, or one row.

use proctor_types::parse_python_json;
use serde_json::Value;

use super::{
    jsonl,
    raw_row::RawRow,
    scan::{end_of_string, end_of_value, next_object_line, skip_space},
};
use crate::errors::{RowError, RowLocation};

pub(super) fn read_rows(bytes: &[u8], each: &mut dyn FnMut(RawRow)) {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let begin = skip_space(text, 0);
    match text.get(begin) {
        Some(b'[') => read_elements(text, begin, None, each),
        Some(b'{') => read_object(text, begin, each),
        // Text above the first row is reported as one bad row.
        Some(_) if next_object_line(text, begin).is_some() => {
            // Reading a slice cannot fail.
            let _ = jsonl::read_rows(text, each);
        }
        _ => {
            let what = "not JSON: expected an array or an object";
            let value = Err(RowError::invalid_row(what));
            each(RawRow { place: RowLocation::Line(1), split: None, key: None, value });
        }
    }
}

fn read_object(text: &[u8], begin: usize, each: &mut dyn FnMut(RawRow)) {
    // Several consecutive objects: the file contains JSON lines, whatever its suffix says.
    let after = end_of_value(text, begin).map(|end| skip_space(text, end));
    if after.is_some_and(|after| text.get(after) == Some(&b'{')) {
        // Reading a slice cannot fail.
        let _ = jsonl::read_rows(text, each);
        return;
    }
    let Some(pairs) = pairs(text, begin) else { return read_single_row(text, each) };
    let all = |kind: u8| !pairs.is_empty() && pairs.iter().all(|pair| text[pair.begin] == kind);
    if all(b'[') {
        for pair in &pairs {
            read_elements(text, pair.begin, Some(&pair.key), each);
        }
    } else if all(b'{') && pairs.iter().all(|pair| looks_like_a_row(&text[pair.begin..pair.end])) {
        let mut lines = LineCounter::default();
        for pair in pairs {
            let place = RowLocation::Line(lines.line_at(text, pair.begin));
            let value = parse(&text[pair.begin..pair.end]);
            each(RawRow { place, split: None, key: Some(pair.key), value });
        }
    } else {
        read_single_row(text, each);
    }
}

/// Whether the values of an object look like rows keyed by id. Such rows have a statement or tests;
/// the fields of a single row do not.
fn looks_like_a_row(text: &[u8]) -> bool {
    ["\"instance_id\"", "\"problem_statement\"", "\"FAIL_TO_PASS\"", "\"model_patch\""]
        .iter()
        .any(|key| text.windows(key.len()).any(|window| window == key.as_bytes()))
}

fn read_single_row(text: &[u8], each: &mut dyn FnMut(RawRow)) {
    let (line, value) = match parse_python_json(text) {
        Ok(value) => (1, Ok(value)),
        Err(error) => (error.line().max(1), Err(jsonl::json_error(text, &error))),
    };
    each(RawRow { place: RowLocation::Line(line), split: None, key: None, value });
}

fn read_elements(text: &[u8], begin: usize, split: Option<&str>, each: &mut dyn FnMut(RawRow)) {
    let mut lines = LineCounter::default();
    let mut here = skip_space(text, begin + 1);
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
                        each(RawRow { place, split: None, key: None, value });
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
        let Some(end) = end_of_value(text, here) else {
            let next = next_object_line(text, here);
            let what = match next {
                Some(_) => format!("not JSON: element {number} is not closed"),
                None => format!(
                    "not JSON: element {number} is not closed, so the following elements cannot be read"
                ),
            };
            let value = Err(RowError::invalid_row(what));
            each(RawRow { place, split: split(), key: None, value });
            let Some(next) = next else { return };
            here = next;
            continue;
        };
        let value = parse(&text[here..end]);
        each(RawRow { place, split: split(), key: None, value });
        // Skip over anything that is not a value.
        here = skip_space(text, end.max(here + 1));
    }
}

fn parse(text: &[u8]) -> Result<Value, RowError> {
    parse_python_json(text).map_err(|error| jsonl::json_error(text, &error))
}

struct Pair {
    key: String,
    begin: usize,
    end: usize,
}

fn pairs(text: &[u8], begin: usize) -> Option<Vec<Pair>> {
    let mut out = Vec::new();
    let mut here = skip_space(text, begin + 1);
    while *text.get(here)? != b'}' {
        let end = (text[here] == b'"').then(|| end_of_string(text, here)).flatten()?;
        let Value::String(key) = parse_python_json(&text[here..end]).ok()? else { return None };
        let colon = skip_space(text, end);
        let value = (*text.get(colon)? == b':').then(|| skip_space(text, colon + 1))?;
        let value_end = end_of_value(text, value)?;
        out.push(Pair { key, begin: value, end: value_end });
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
    counted: usize,
    ends: usize,
}

impl LineCounter {
    fn line_at(&mut self, text: &[u8], at: usize) -> usize {
        if at < self.counted {
            *self = Self::default();
        }
        self.ends += text[self.counted..at].iter().filter(|byte| **byte == b'\n').count();
        self.counted = at;
        self.ends + 1
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Line, split, key and value.
    type SeenRow = (usize, Option<String>, Option<String>, Result<Value, String>);

    fn read(text: &str) -> Vec<SeenRow> {
        let mut out = Vec::new();
        read_rows(text.as_bytes(), &mut |row| {
            let RowLocation::Line(line) = row.place else { panic!("JSON has lines") };
            out.push((line, row.split, row.key, row.value.map_err(|complaint| complaint.what)));
        });
        out
    }

    #[test]
    fn broken_element_does_not_affect_its_neighbors() {
        let rows = read("[\n{\"a\": \"]}\\\"\"},\n{\"a\": oops},\n{\"a\": 3}]");
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0].3, Ok(json!({"a": "]}\""})));
        assert_eq!(rows[1].0, 3);
        assert!(rows[1].3.as_ref().is_err_and(|what| what.contains("column")), "{rows:?}");
        assert_eq!(rows[2].3, Ok(json!({"a": 3})));
    }

    #[test]
    fn unclosed_element_is_reported_as_the_last() {
        let rows = read("[{\"a\": 1}, {\"a\": \"open}, {\"a\": 2}]");
        assert_eq!(rows.len(), 2);
        assert!(rows[1].3.as_ref().is_err_and(|what| what.contains("element 2 is not closed")));
    }

    #[test]
    fn json_distinguishes_splits_keys_and_single_rows() {
        let splits = read("{\"test\": [{\"a\": 1}], \"lite\": [{\"a\": 2}, 7]}");
        let named: Vec<_> = splits.iter().map(|row| row.1.as_deref().unwrap_or("")).collect();
        assert_eq!(named, ["test", "lite", "lite"]);
        let keyed = read("{\"x\": {\"instance_id\": \"x\"}}");
        assert_eq!(keyed[0].2.as_deref(), Some("x"));
        let one = read("{\"id\": \"x\",\n \"environment\": {}}");
        assert_eq!((one.len(), one[0].0), (1, 1));
        let lines = read("{\"a\": 1}\n{\"a\": 2}\n");
        assert_eq!((lines.len(), lines[1].0), (2, 2));
        let broken = read("{\"id\": \"x\",\n \"environment\" {}}");
        assert_eq!(broken[0].0, 2);
    }
}
