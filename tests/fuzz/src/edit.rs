//! Edits an input: its bytes, lines, words or JSON.

use serde_json::Value;

/// The kind of edit, and three numbers that determine the details.
pub(crate) type Edit = (u8, u32, u32, u32);

/// Maximum size of an input in bytes. Larger inputs would only take more time.
const MAX_INPUT_BYTES: usize = 1 << 16;

/// Inputs that parsers often handle wrongly. If an input is used as a JSON string, it is not
/// escaped.
const TRICKY_INPUTS: &[&str] = &[
    "null",
    "true",
    "0",
    "-1",
    "1e308",
    "-0.0",
    "18446744073709551615",
    "9223372036854775807",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "{}",
    "[[]]",
    "{\"\":{}}",
    "\"a\\nb\"",
    "\0",
    "\n",
    "\r\n",
    "\u{feff}",
    "é",
    "\u{2028}",
    "'",
    "\"\"\"",
    "'''",
    "\\",
    "..",
    "/",
    "%",
    "=",
    "#",
    "-",
    "@@ -0,0 +0,0 @@",
    "999999999999",
    "nan",
    "inf",
];

pub(crate) fn apply_edit(mut input: Vec<u8>, seeds: &[Vec<u8>], (kind, a, b, c): Edit) -> Vec<u8> {
    let (a, b, c) = (a as usize, b as usize, c as usize);
    let odd = TRICKY_INPUTS[b % TRICKY_INPUTS.len()].as_bytes();
    let other = &seeds[c % seeds.len()];
    let at = a % (input.len() + 1);
    match kind % 12 {
        0 => drop(input.splice(at..(at + 1).min(input.len()), [b as u8])),
        1 => drop(input.splice(at..at, odd.iter().copied())),
        2 => drop(input.splice(range_at(at, b, input.len()), [])),
        3 => {
            let again = input[range_at(at, b, input.len())].to_vec();
            input.splice(at..at, again);
        }
        4 => {
            let from = b % (other.len() + 1);
            input.splice(at..at, other[range_at(from, c, other.len())].iter().copied());
        }
        5 => input.truncate(at),
        6 => swap_pieces(&mut input, a, other, b, |byte| byte == b'\n'),
        7 => swap_pieces(&mut input, a, other, b, |byte| {
            !byte.is_ascii_alphanumeric() && byte != b'_'
        }),
        8 => {
            swap_pieces(&mut input, a, odd, 0, |byte| !byte.is_ascii_alphanumeric() && byte != b'_')
        }
        // Produce a long or deeply nested input.
        9 => {
            let many = odd[..1].repeat(1 << (c % 13));
            input.splice(at..at, many);
        }
        10 => replace_json_node(&mut input, a, serde_json::from_slice(odd).unwrap_or(Value::Null)),
        _ => {
            let other: Option<Value> = serde_json::from_slice(other).ok();
            let node = other.and_then(|mut other| nth_node(&mut other, &mut (b % 64)).cloned());
            replace_json_node(&mut input, a, node.unwrap_or(Value::Array(Vec::new())));
        }
    }
    input.truncate(MAX_INPUT_BYTES);
    input
}

/// Returns a range within `length` bytes that starts at `at` and is usually short.
fn range_at(at: usize, choice: usize, length: usize) -> std::ops::Range<usize> {
    let most = if choice.is_multiple_of(4) { length } else { 16 };
    at..(at + choice % (most + 1)).min(length)
}

/// Replaces a part of `input` with a part of `source`. Both parts begin and end where `is_boundary`
/// allows it.
fn swap_pieces(
    input: &mut Vec<u8>,
    a: usize,
    source: &[u8],
    b: usize,
    is_boundary: fn(u8) -> bool,
) {
    let piece = |bytes: &[u8], choice: usize| {
        let mut start = 0;
        let mut found = Vec::new();
        for piece in bytes.split(|byte| is_boundary(*byte)) {
            if !piece.is_empty() {
                found.push(start..start + piece.len());
            }
            start += piece.len() + 1;
        }
        (!found.is_empty()).then(|| found[choice % found.len()].clone())
    };
    let (Some(to), Some(from)) = (piece(input, a), piece(source, b)) else { return };
    input.splice(to, source[from].iter().copied());
}

/// Replaces a node of the JSON in the input, or in one of its lines, with `node`.
fn replace_json_node(input: &mut Vec<u8>, choice: usize, node: Value) {
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let line = choice % lines.len();
    let start: usize = lines[..line].iter().map(|line| line.len() + 1).sum();
    let places = [0..input.len(), start..start + lines[line].len()];
    for place in places {
        let Ok(mut value) = serde_json::from_slice::<Value>(&input[place.clone()]) else {
            continue;
        };
        let all = count_nodes(&value);
        if let Some(old) = nth_node(&mut value, &mut (choice / 7 % all)) {
            *old = node;
            input.splice(place, value.to_string().into_bytes());
        }
        return;
    }
}

fn count_nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count_nodes).sum::<usize>(),
        Value::Object(fields) => fields.values().map(count_nodes).sum(),
        _ => 0,
    }
}

fn nth_node<'a>(value: &'a mut Value, remaining_nodes: &mut usize) -> Option<&'a mut Value> {
    if *remaining_nodes == 0 {
        return Some(value);
    }
    *remaining_nodes -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|one| nth_node(one, remaining_nodes)),
        Value::Object(fields) => fields.values_mut().find_map(|one| nth_node(one, remaining_nodes)),
        _ => None,
    }
}
