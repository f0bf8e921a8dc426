//! Extracts the requested interface from the statement of a from-scratch task.

use crate::quality::settings::DuplicateSettings;

const FENCE: &str = "```";

/// Returns the lines of each code block below a heading that introduces the requested interface.
pub(crate) fn requested_interfaces(
    statement: &str,
    settings: &DuplicateSettings,
) -> Vec<Vec<String>> {
    let (mut blocks, mut block): (Vec<Vec<String>>, Option<Vec<String>>) = (Vec::new(), None);
    let mut is_asked = false;
    for line in statement.lines() {
        if line.starts_with(FENCE) {
            match block.take() {
                Some(ended) if is_asked => blocks.push(ended),
                Some(_) => {}
                None => block = Some(Vec::new()),
            }
        } else if let Some(lines) = &mut block {
            // The lines before this marker show the library's existing code, so drop them.
            if line == settings.asked_below {
                lines.clear();
            } else {
                lines.push(line.to_owned());
            }
        } else if line.starts_with('#') {
            is_asked = settings.asked.iter().any(|heading| line.starts_with(heading.as_str()));
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::settings::Settings;

    #[test]
    fn requested_interfaces_supports_both_statement_formats() {
        let own = "# Write it\n\n## What `agent_code` must have\n\n```python\ndef a():\n    # One.\n    ...\n```\n\n\
                   ```python\ndef b():\n    ...\n```\n\n## What the library has\n\n```python\nC = 1\n```\n\n## Rules\n\n\
                   ```python\nsetup()\n```\n";
        let theirs = "## Interface Descriptions\n\n### Clarification\n\n```python\ndef e():\n```\n\n\
                      ### Interface Description 1\nBelow\n\n```python\n# The library has these, and keeps them:\nC = 1\n\n\
                      # What is asked for:\ndef a():\n    ...\n```\n";
        let settings = &Settings::get().unwrap().duplicates;
        let of = |text: &str| {
            requested_interfaces(text, settings)
                .iter()
                .map(|lines| lines.join("|"))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(own), ["def a():|    # One.|    ...", "def b():|    ..."]);
        assert_eq!(of(theirs), ["def a():|    ..."]);
    }
}
