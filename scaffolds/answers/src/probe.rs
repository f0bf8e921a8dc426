//! Parses the files and signatures named in an answer to the contamination probe.

use crate::thinking;

/// A file and the signature of a new definition in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedDefinition {
    /// Path relative to the repository root.
    pub file: String,
    /// The signature, starting with `def` or `class`; empty if the answer has none.
    pub signature: String,
}

/// Parses each `FILE: ...` line of an answer together with the `SIGNATURE: ...` line that follows
/// it.
pub fn parse_named_definitions(answer: &str) -> Vec<NamedDefinition> {
    let mut out: Vec<NamedDefinition> = Vec::new();
    for line in thinking::strip_thinking(answer).lines() {
        let line = line.trim().trim_matches('`');
        let value = |key: &str| line.strip_prefix(key).map(|rest| rest.trim().trim_matches('`'));
        if let Some(file) = value("FILE:") {
            let file = file.strip_prefix("./").unwrap_or(file);
            out.push(NamedDefinition { file: file.to_owned(), signature: String::new() });
        } else if let (Some(signature), Some(last)) = (value("SIGNATURE:"), out.last_mut())
            && last.signature.is_empty()
        {
            last.signature = signature.to_owned();
        }
    }
    out
}

impl NamedDefinition {
    /// Returns whether both name the same definition. Ignores whitespace, a final colon and the
    /// spacing of annotations.
    pub fn matches(&self, file: &str, signature: &str) -> bool {
        self.file == file && normalize_signature(&self.signature) == normalize_signature(signature)
    }

    /// Returns the name that the signature defines; `None` if there is none.
    pub fn name(&self) -> Option<&str> {
        defined_name(&self.signature)
    }
}

/// Returns the name defined by a line such as `def f(...)` or `class C`.
pub fn defined_name(signature: &str) -> Option<&str> {
    let rest = signature.trim_start();
    let rest = rest.strip_prefix("async ").unwrap_or(rest).trim_start();
    let rest = rest.strip_prefix("def ").or_else(|| rest.strip_prefix("class "))?.trim_start();
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

fn normalize_signature(signature: &str) -> String {
    let text: String = signature.chars().filter(|c| !c.is_whitespace()).collect();
    // Ignore a trailing comma in the parameter list, because it has no meaning.
    text.trim_end_matches(':').replace(",)", ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_answer_pairs_files_with_signatures() {
        let said = parse_named_definitions(
            "I think:\nFILE: `./p/a.py`\nSIGNATURE: def f( a, *, b: int=1 ) -> dict:\nFILE: p/b.py\n",
        );
        assert_eq!(said.len(), 2);
        assert!(said[0].matches("p/a.py", "def f(a, *, b: int = 1,) -> dict:"));
        assert!(!said[0].matches("p/b.py", "def f(a, *, b: int = 1) -> dict:"));
        assert_eq!((said[0].name(), said[1].name()), (Some("f"), None));
        assert_eq!(defined_name("class C(Base):"), Some("C"));
        assert_eq!(defined_name("async def g():"), Some("g"));
    }
}
