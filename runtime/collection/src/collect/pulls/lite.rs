//! Why a task is not of the smaller set: the criteria of FEA-Bench's lite.

use std::sync::LazyLock;

use proctor_patch::{FilePatch, Patch, Side};
use proctor_tokens::Encoding;
use regex::Regex;

use super::{candidate::Candidate, settings::LiteSettings};

/// A number of an issue or a pull request, an address of one, or what may be a commit.
const REFERENCE: &str =
    r"(?i)(?:^|[^&])#\d+|\bgh-\d+|/(?:issues|pull|commit)/\w+|\b[0-9a-f]{7,40}\b";
const IMAGE: &str = r"(?i)!\[|<img\b|\.(?:png|jpe?g|gif|svg)\b";

/// All that keeps it out; nothing where it is in.
pub(super) fn against(candidate: &Candidate, settings: &LiteSettings) -> Vec<String> {
    let request = format!("{}\n{}", candidate.title, candidate.body);
    let patch = Patch::read(candidate.patch.as_bytes());
    let python = |file: &&FilePatch| file.name().as_bytes().ends_with(b".py");
    let code: Vec<&FilePatch> = patch.files.iter().filter(python).collect();
    let hunks: usize = patch.files.iter().map(|file| file.hunks().len()).sum();
    let words = request.split_whitespace().count();
    let mut out = Vec::new();
    let mut if_so = |so: bool, what: String| {
        if so {
            out.push(what);
        }
    };
    if_so(words < settings.words, format!("its request has {words} words"));
    if_so(refers(&request), "its request refers to an issue, a pull request or a commit".into());
    if_so(has_image(&request), "its request has an image".into());
    if_so(code.iter().any(|file| file.new.is_none()), "it deletes a file of code".into());
    if_so(code.len() > settings.files, format!("it changes {} files of code", code.len()));
    if_so(hunks > settings.hunks, format!("its patch has {hunks} hunks"));
    let tokens = Encoding::Cl100k.count(&as_answer(&patch));
    if_so(tokens > settings.tokens, format!("its change is {tokens} tokens as an answer"));
    if_so(candidate.classes > 0, "it adds a class".into());
    if_so(
        candidate.functions > settings.functions,
        format!("it adds {} functions", candidate.functions),
    );
    out
}

/// A commit's name has a digit and a letter: plain numbers and words of six letters are not meant.
fn refers(text: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(REFERENCE).ok());
    let found = PATTERN.iter().flat_map(|pattern| pattern.find_iter(text));
    found.map(|found| found.as_str().to_lowercase()).any(|found| {
        let has = |of: fn(&u8) -> bool| found.bytes().any(|byte| of(&byte));
        found.contains(['#', '/', '-']) || (has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic))
    })
}

fn has_image(text: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(IMAGE).ok());
    PATTERN.iter().any(|pattern| pattern.is_match(text))
}

/// The change as the natural form writes it: each hunk before and after.
fn as_answer(patch: &Patch) -> String {
    let mut out = String::new();
    for file in &patch.files {
        let name = String::from_utf8_lossy(file.name().as_bytes()).into_owned();
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

    #[test]
    fn each_criterion_is_told() {
        let settings = &PullSettings::get().unwrap().lite;
        let patch = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n x\n+y\n";
        let small = Candidate {
            title: "Add it".into(),
            body: "word ".repeat(50),
            patch: patch.into(),
            functions: 1,
            ..Candidate::default()
        };
        assert_eq!(against(&small, settings), Vec::<String>::new());
        let gone = "diff --git a/b.py b/b.py\ndeleted file mode 100644\n--- a/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
        let large = Candidate {
            body: "See #12. ![x](y.png)".into(),
            patch: gone.into(),
            functions: 11,
            classes: 1,
            ..Candidate::default()
        };
        let said = against(&large, settings).join("; ");
        for part in ["words", "refers", "image", "deletes", "a class", "11 functions"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn a_commit_is_told_from_a_word_and_a_number() {
        for (text, is) in [
            ("as in 1a2b3c4d", true),
            ("gh-12", true),
            ("see a/b#3", true),
            ("https://h.test/a/b/pull/3", true),
            ("defaced", false),
            ("20240501", false),
            ("&#39; stays", false),
        ] {
            assert_eq!(refers(text), is, "{text}");
        }
    }
}
