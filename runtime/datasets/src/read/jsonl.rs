//! One JSON object a line.

use std::io::{self, BufRead, BufReader, Read};

use serde_json::error::Category;

use super::{RawRow, RowLocation};
use crate::bad::Complaint;

pub(super) fn rows(file: impl Read, each: &mut dyn FnMut(RawRow)) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| number == 1).unwrap_or(&line);
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let value = serde_json::from_slice(text).map_err(|error| not_json(text, &error));
        each(RawRow { place: RowLocation::Line(number), split: None, key: None, value });
    }
    Ok(())
}

/// The parser's complaint about text that stands on one line; the column is the user's to look at.
pub(super) fn not_json(text: &[u8], error: &serde_json::Error) -> Complaint {
    if std::str::from_utf8(text).is_err() {
        return Complaint::whole("is not UTF-8");
    }
    let column = error.column();
    Complaint::whole(match error.classify() {
        Category::Eof => format!("not JSON: it ends too early, at column {column}"),
        _ => format!("not JSON from column {column} on"),
    })
}
