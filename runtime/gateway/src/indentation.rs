//! Detects streams that lost the indentation of code.
//!
//! Some servers and proxies drop the chunks of a stream that contain only whitespace. Most
//! tokenizers put all blanks of an indentation except the last one into a separate token, so every
//! indented line then begins with a single blank.

use serde_json::{Map, Value};

use crate::{
    checks::LostIndentationCheck,
    codec::neutral::{CollectedResponse, Item},
};

impl LostIndentationCheck {
    /// Whether code in a response's text or calls lacks its indentation.
    pub(crate) fn has_flat_code(&self, response: &CollectedResponse) -> bool {
        response.items.iter().any(|item| match item {
            Item::Text(text) => self.is_flat_code(text),
            Item::Call(call) => self.is_flat_call(&call.arguments),
            Item::Refusal(_) | Item::Reasoning(_) => false,
        })
    }

    fn is_flat_call(&self, arguments: &str) -> bool {
        // Don't parse arguments in which no line ends with a colon.
        if !arguments.contains(":\\n") {
            return false;
        }
        let Ok(fields) = serde_json::from_str::<Map<String, Value>>(arguments) else {
            return false;
        };
        fields.values().filter_map(Value::as_str).any(|value| self.is_flat_code(value))
    }

    /// Whether a string contains several blocks of code whose first line is not indented more than
    /// the line that opens the block, and no line with an indentation of more than one blank.
    fn is_flat_code(&self, text: &str) -> bool {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
        let mut blocks = 0;
        while let Some(line) = lines.next() {
            let depth = indentation(line);
            if depth > 1 || line.starts_with('\t') {
                return false;
            }
            let is_flat = lines.peek().is_some_and(|next| indentation(next) <= depth);
            blocks += usize::from(is_flat && self.block_starts.matches(line.trim()));
        }
        blocks >= self.least
    }
}

/// Returns the length of the whitespace at the start of a line, in bytes.
fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use proctor_types::ToolCall;
    use serde_json::json;

    use super::{CollectedResponse, Item};
    use crate::checks::EndpointChecks;

    const CODE: &str = "def f(text):\n    total = 0\n    for one in text:\n        while one:\n            \
        total += 1\n        if total > 9:\n            raise ValueError\n    return total\n";

    /// Returns the text without its chunks that contain only blanks: of each indentation, one blank
    /// or none remains.
    fn strip_blanks(text: &str, rest: &str) -> String {
        let lines = text.lines().map(|line| {
            let code = line.trim_start();
            if code == line { code.to_owned() } else { format!("{rest}{code}") }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn code_without_indentation_is_detected() {
        let check = &EndpointChecks::shipped().expect("a valid table").indentation;
        let has_flat_code = |item: Item| {
            check.has_flat_code(&CollectedResponse { items: vec![item], ..Default::default() })
        };
        let call = |text: &str| {
            let arguments = json!({"path": "a.py", "file_text": text}).to_string();
            Item::Call(ToolCall { id: "a".into(), name: "edit".into(), arguments })
        };
        for rest in [" ", ""] {
            let flat = strip_blanks(CODE, rest);
            assert!(has_flat_code(Item::Text(format!("I write it.\n\n```python\n{flat}\n```"))));
            assert!(has_flat_code(call(&flat)), "{flat}");
        }
        for text in [
            "",
            CODE,
            &CODE.replace("    ", "\t"),
            &CODE.replace("    ", "  "),
            // One mistake of the model.
            "def f():\nreturn 1\n",
            // The model's code is short.
            "for one in text:\n print(one)\nwhile True:\n if one:\n  break\n",
            "if it fails:\n- run it again\nwith two changes:\n- a\n- b",
            "I look at the files.\n\n```bash\nls -la\n```",
        ] {
            assert!(!has_flat_code(Item::Text(text.to_owned())), "{text}");
            assert!(!has_flat_code(call(text)), "{text}");
        }
    }
}
