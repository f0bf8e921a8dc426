//! A sentence with the names of trials and links to their steps.

use serde::Serialize;

use super::TrialName;

/// A part of a sentence: a trial's name, a link, or the text between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SentencePart {
    name: Option<TrialName>,
    text: String,
    /// The address that the text links to, relative to the root. Empty without a link.
    href: String,
}

/// A sentence with the names of trials, which the page shows with their own text direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sentence(Vec<SentencePart>);

impl Sentence {
    /// Creates a sentence that is only a text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::default().text(text)
    }

    /// Adds a text, unless it is empty.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.0.push(SentencePart { name: None, text, href: String::new() });
        }
        self
    }

    pub(crate) fn name(mut self, name: &TrialName) -> Self {
        let name = Some(name.clone());
        self.0.push(SentencePart { name, text: String::new(), href: String::new() });
        self
    }

    /// Adds a trial's name that links to its page, with an address relative to the root.
    pub fn trial_link(mut self, name: &TrialName, href: impl Into<String>) -> Self {
        let name = Some(name.clone());
        self.0.push(SentencePart { name, text: String::new(), href: href.into() });
        self
    }

    /// Adds a text that links to an address relative to the root.
    pub(crate) fn link(mut self, text: impl Into<String>, href: impl Into<String>) -> Self {
        self.0.push(SentencePart { name: None, text: text.into(), href: href.into() });
        self
    }

    /// Adds another sentence.
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Adds names, with a separator between them and a text after each.
    pub(crate) fn names<'a>(
        mut self,
        names: impl IntoIterator<Item = (&'a TrialName, String)>,
        separator: &str,
    ) -> Self {
        for (index, (name, after)) in names.into_iter().enumerate() {
            if index > 0 {
                self = self.text(separator);
            }
            self = self.name(name).text(after);
        }
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the URLs of the links.
    #[cfg(test)]
    pub(crate) fn links(&self) -> Vec<&str> {
        self.0.iter().map(|part| part.href.as_str()).filter(|href| !href.is_empty()).collect()
    }

    /// Returns the text with arms instead of names.
    #[cfg(test)]
    pub(crate) fn plain_text(&self) -> String {
        let text = |part: &SentencePart| match &part.name {
            Some(name) => name.arm.clone(),
            None => part.text.clone(),
        };
        self.0.iter().map(text).collect()
    }
}
