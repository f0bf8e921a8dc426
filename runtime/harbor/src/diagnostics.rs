//! Errors and warnings about TOML files, with their positions.

/// An error or a warning about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The dotted key, if the problem concerns a key.
    pub key: Option<String>,
    /// The line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// The problem, with a hint if there is one.
    pub message: String,
}

impl Diagnostic {
    pub(crate) fn in_file(message: impl Into<String>) -> Self {
        Self { key: None, line: None, message: message.into() }
    }

    pub(crate) fn at_key(text: &str, key: &str, message: impl Into<String>) -> Self {
        Self { key: Some(key.to_owned()), line: find_line(text, key), message: message.into() }
    }
}

/// Returns the line of a dotted key, or of the table that the key names. Returns `None` if the key
/// is written in an unusual way that this function does not recognize.
pub(crate) fn find_line(text: &str, key: &str) -> Option<usize> {
    let plain = |name: &str| {
        name.split('.')
            .map(|part| part.trim().trim_matches(['"', '\'']))
            .collect::<Vec<_>>()
            .join(".")
    };
    let mut table = String::new();
    let mut nearest = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start_matches('\u{feff}').trim();
        if let Some(header) = line.strip_prefix('[') {
            let name = header.trim_start_matches('[');
            table = plain(name.split(']').next().unwrap_or(name));
            if table == key {
                return Some(index + 1);
            }
            continue;
        }
        let Some((name, _)) = line.split_once('=') else { continue };
        let name = plain(name);
        let full = if table.is_empty() { name } else { format!("{table}.{name}") };
        if full == key {
            return Some(index + 1);
        }
        // A key in an inline table is on the same line as the table.
        if key.strip_prefix(full.as_str()).is_some_and(|rest| rest.starts_with('.')) {
            nearest = nearest.or(Some(index + 1));
        }
    }
    nearest
}

/// Parses a TOML file as a table.
pub(crate) fn parse_table(
    text: &str,
) -> Result<serde_json::Map<String, serde_json::Value>, Diagnostic> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match toml::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::Object(table)) => Ok(table),
        Ok(_) => Err(Diagnostic::in_file("is not a TOML table")),
        Err(error) => {
            let line = error.span().map(|span| {
                text.get(..span.start).map_or(1, |head| head.matches('\n').count() + 1)
            });
            let what = format!("is not valid TOML: {}", error.message());
            Err(Diagnostic { line, ..Diagnostic::in_file(what) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_their_tables() {
        let text = "a = 1\n[environment]\ncpus = 2\nenv = { X = 1 }\n\n[[steps]]\nname = 's'\n[verifier.env]\nY = '2'\n";
        for (key, line) in [
            ("a", 1),
            ("environment", 2),
            ("environment.cpus", 3),
            ("environment.env.X", 4),
            ("steps", 6),
            ("verifier.env.Y", 9),
        ] {
            assert_eq!(find_line(text, key), Some(line), "{key}");
        }
        assert_eq!(find_line(text, "agent.user"), None);
    }
}
