//! Converts JSON to ASCII for scripts in the sandbox.

use proctor_types::{Fault, FaultLayer};
use serde::Serialize;

pub(crate) fn to_ascii_json(value: &impl Serialize) -> Result<String, Fault> {
    let text = serde_json::to_string(value);
    text.map(|text| escape_non_ascii(&text))
        .map_err(|error| Fault::new(FaultLayer::Grade, error.to_string()))
}

/// Escapes JSON as ASCII, so that it is read correctly under any locale of the sandbox.
pub(crate) fn escape_non_ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}
