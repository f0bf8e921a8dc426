//! The criteria of FEA-Bench's lite set.

use std::sync::LazyLock;

use proctor_patch::{FilePatch, Patch, Side};
use proctor_tokens::Encoding;
use regex::Regex;

use super::{candidate::Candidate, settings::LiteSettings};

/// Matches the number or URL of an issue or pull request, or a string that may be a commit id.
const REFERENCE_PATTERN: &str =
    r"(?i)(?:^|[^&])#\d+|\bgh-\d+|/(?:issues|pull|commit)/\w+|\b[0-9a-f]{7,40}\b";
const IMAGE_PATTERN: &str = r"(?i)!\[|<img\b|\.(?:png|jpe?g|gif|svg)\b";

/// A criterion that excludes a task from the lite set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exclusion {
    /// Machine-readable name. There are nine criteria.
    pub(super) criterion: &'static str,
    /// The reason as a sentence.
    pub(super) reason: String,
}

/// Returns all criteria that exclude a candidate. The list is empty if the candidate is a lite
/// task.
pub(super) fn find_exclusions(candidate: &Candidate, settings: &LiteSettings) -> Vec<Exclusion> {
    let request = format!("{}\n{}", candidate.title, candidate.body);
    let patch = Patch::parse(candidate.patch.as_bytes());
    let python = |file: &&FilePatch| file.path().as_bytes().ends_with(b".py");
    let code: Vec<&FilePatch> = patch.files.iter().filter(python).collect();
    let hunks: usize = patch.files.iter().map(|file| file.hunks().len()).sum();
    let words = request.split_whitespace().count();
    let mut out = Vec::new();
    let mut if_so = |so: bool, criterion: &'static str, what: String| {
        if so {
            out.push(Exclusion { criterion, reason: what });
        }
    };
    let (files, functions) = (code.len(), candidate.functions);
    let tokens = Encoding::Cl100k.count(&render_snippets(&patch));
    let deletes = code.iter().any(|file| file.new_path.is_none());
    let reference = "its request refers to an issue, a pull request or a commit".into();
    if_so(words < settings.words, "words", format!("its request has {words} words"));
    if_so(has_reference(&request), "reference", reference);
    if_so(has_image(&request), "image", "its request contains an image".into());
    if_so(deletes, "deleted_file", "it deletes a code file".into());
    if_so(files > settings.files, "files", format!("it changes {files} code files"));
    if_so(hunks > settings.hunks, "hunks", format!("its patch has {hunks} hunks"));
    let of_answer = format!("a response with its change would have {tokens} tokens");
    if_so(tokens > settings.tokens, "tokens", of_answer);
    if_so(candidate.classes > 0, "class", "it adds a class".into());
    if_so(functions > settings.functions, "functions", format!("it adds {functions} functions"));
    out
}

/// Whether a string refers to an issue, a pull request or a commit. A commit id must contain both a
/// digit and a letter, so that plain numbers and words such as `defaced` don't count.
fn has_reference(text: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(REFERENCE_PATTERN).ok());
    let found = PATTERN.iter().flat_map(|pattern| pattern.find_iter(text));
    found.map(|found| found.as_str().to_lowercase()).any(|found| {
        let has = |of: fn(&u8) -> bool| found.bytes().any(|byte| of(&byte));
        found.contains(['#', '/', '-']) || (has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic))
    })
}

fn has_image(text: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(IMAGE_PATTERN).ok());
    PATTERN.iter().any(|pattern| pattern.is_match(text))
}

/// Renders the change in FEA-Bench's natural format, which shows each hunk before and after the
/// change.
fn render_snippets(patch: &Patch) -> String {
    let mut out = String::new();
    for file in &patch.files {
        let name = String::from_utf8_lossy(file.path().as_bytes()).into_owned();
        for hunk in file.hunks() {
            for (which, other) in [("before", Side::New), ("after", Side::Old)] {
                out.push_str(&format!("[start of the snippet {which} editing in {name}]\n"));
                for line in hunk.lines.iter().filter(|line| line.side != other) {
                    out.push_str(&String::from_utf8_lossy(&line.bytes));
                }
                out.push_str(&format!("[end of the snippet {which} editing in {name}]\n"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{super::settings::PullSettings, *};

    /// Each case violates exactly one criterion.
    #[test]
    fn exclusions_name_the_violated_criterion() {
        let settings = &PullSettings::get().unwrap().lite;
        let file = |name: &str, hunks: usize, lines: usize| {
            let added = "+y = 'some more words in here'\n".repeat(lines);
            let hunk = |at: usize| {
                let old = at * 100 + 1;
                format!("@@ -{old} +{old},{} @@\n x\n{added}", lines + 1)
            };
            let body: String = (0..hunks).map(hunk).collect();
            format!("diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n{body}")
        };
        let small = Candidate {
            title: "Add it".into(),
            body: "word ".repeat(50),
            patch: file("a.py", 1, 1),
            functions: 1,
            ..Candidate::default()
        };
        let gone = "diff --git a/b.py b/b.py\ndeleted file mode 100644\n--- a/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
        let said =
            |text: &str| Candidate { body: format!("{} {text}", small.body), ..small.clone() };
        let patched = |patch: String| Candidate { patch, ..small.clone() };
        let four = ["a.py", "b.py", "c.py", "d.py"].map(|name| file(name, 1, 1)).concat();
        let cases = [
            ("words", Candidate { body: "Short.".into(), ..small.clone() }),
            ("reference", said("See #12.")),
            ("image", said("![x](y)")),
            ("deleted_file", patched(gone.to_owned())),
            ("files", patched(four)),
            ("hunks", patched(file("a.py", 11, 1))),
            ("tokens", patched(file("a.py", 1, 1_000))),
            ("class", Candidate { classes: 1, ..small.clone() }),
            ("functions", Candidate { functions: 11, ..small.clone() }),
        ];
        assert!(find_exclusions(&small, settings).is_empty());
        for (criterion, candidate) in cases {
            let exclusion_list = find_exclusions(&candidate, settings);
            let names: Vec<&str> = exclusion_list.iter().map(|one| one.criterion).collect();
            assert_eq!(names, [criterion], "{exclusion_list:?}");
        }
    }

    #[test]
    fn has_reference_ignores_words_and_numbers_like_commit_ids() {
        for (text, is) in [
            ("as in 1a2b3c4d", true),
            ("gh-12", true),
            ("see a/b#3", true),
            ("https://h.test/a/b/pull/3", true),
            ("defaced", false),
            ("20240501", false),
            ("&#39; stays", false),
        ] {
            assert_eq!(has_reference(text), is, "{text}");
        }
    }
}
