//! Extracts a patch from the text around it.

use crate::thinking;

/// Returns the patch in an answer, with a line feed at its end. Uses the first of these that
/// exists:
///
/// ```text
/// first   the element <patch> or <diff>, whose end tag is at the start of a line
/// else    a fenced block marked patch or diff
/// else    a fenced block that looks like a patch
/// else    the whole answer, from the first line that starts a file of a patch
/// ```
///
/// Returns `None` if nothing looks like a patch. In that case, FEA-Bench's own code treats the
/// whole answer as a patch. FEA-Bench's code also ends a block at any three backticks, even in an
/// added line.
pub fn extract_patch(answer: &str) -> Option<String> {
    let answer = thinking::strip_thinking(answer);
    let lines: Vec<&str> = answer.split('\n').collect();
    let element = |name: &str| {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let start = lines.iter().position(|line| line.trim_start().starts_with(&open))?;
        let first = lines[start].trim_start().strip_prefix(&open).unwrap_or_default();
        let rest = &lines[start + 1..];
        let end = rest.iter().position(|line| line.starts_with(&close)).unwrap_or(rest.len());
        Some(join_lines(first, &rest[..end]))
    };
    let blocks = || fenced_blocks(&lines);
    let marked = || blocks().into_iter().find(|(mark, _)| matches!(*mark, "patch" | "diff"));
    let likely = || blocks().into_iter().find(|(_, text)| looks_like_patch(text));
    let found = ["patch", "diff"]
        .iter()
        .find_map(|name| element(name))
        // The element may contain an example before the patch, or a code fence around the patch.
        .map(|text| {
            let inner: Vec<&str> = text.split('\n').collect();
            fenced_blocks(&inner)
                .into_iter()
                .map(|(_, text)| text)
                .find(|text| looks_like_patch(text))
                .unwrap_or(text)
        })
        .or_else(|| marked().or_else(likely).map(|(_, text)| text))
        .or_else(|| {
            let start = lines.iter().position(|line| is_file_header(line))?;
            Some(lines[start..].join("\n"))
        })?;
    let found = found.trim_start_matches(['\n', '\r']);
    looks_like_patch(found).then(|| match found.ends_with('\n') {
        true => found.to_owned(),
        false => format!("{found}\n"),
    })
}

fn join_lines(first: &str, rest: &[&str]) -> String {
    let mut all = vec![first];
    all.extend_from_slice(rest);
    all.join("\n")
}

/// Returns the info string and text of each fenced block. A fence must be at the start of a line. A
/// line in a patch is never a fence, because it starts with a sign.
fn fenced_blocks<'a>(lines: &[&'a str]) -> Vec<(&'a str, String)> {
    let mut out = Vec::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in lines {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(mark)) => open = Some((mark.trim(), Vec::new())),
            (Some(_), Some(_)) => out.extend(open.take()),
            (Some((_, text)), None) => text.push(line),
            (None, None) => {}
        }
    }
    out.extend(open);
    out.into_iter().map(|(mark, text)| (mark, text.join("\n") + "\n")).collect()
}

fn is_file_header(line: &str) -> bool {
    line.starts_with("diff --git ") || line.starts_with("--- ")
}

fn looks_like_patch(text: &str) -> bool {
    let mut lines = text.split('\n');
    lines.any(is_file_header) && (text.contains("\n+++ ") || text.contains("diff --git "))
}

#[cfg(test)]
mod tests {
    use super::extract_patch;

    const PATCH: &str = "--- a/x.md\n+++ b/x.md\n@@ -1 +1,2 @@\n a\n+```\n";

    #[test]
    fn patch_is_found_in_elements_fences_and_plain_text() {
        let dresses = [
            PATCH.to_owned(),
            format!("<patch>\n{PATCH}</patch>"),
            format!("Sure.\n<diff>\n{PATCH}</diff>\nDone."),
            format!("Sure.\n```diff\n{PATCH}```\nDone."),
            format!("```python\nx = 1\n```\n```\n{PATCH}```"),
            format!("<patch>\n```diff\n{PATCH}```\n</patch>"),
            format!("<think>```diff\n--- a\n```</think>{PATCH}"),
            PATCH.trim_end().to_owned(),
        ];
        for answer in dresses {
            assert_eq!(extract_patch(&answer).as_deref(), Some(PATCH), "{answer}");
        }
    }

    #[test]
    fn extract_patch_returns_none_without_a_patch() {
        for answer in ["", "I cannot.", "```python\nx\n```", "<patch></patch>"] {
            assert_eq!(extract_patch(answer), None, "{answer}");
        }
    }
}
