//! The encodings that are carried, by their names.

/// An encoding that needs no file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Of current OpenAI models: what is counted by where nothing else is said.
    #[default]
    O200k,
    /// Of the models before them: FEA-Bench's paper counts by it.
    Cl100k,
}

impl Encoding {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::O200k, Self::Cl100k];

    /// The encoding of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.name() == name)
    }

    /// As `tiktoken` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::O200k => "o200k_base",
            Self::Cl100k => "cl100k_base",
        }
    }

    /// Tokens of a text; special tokens in it are plain text.
    pub fn count(self, text: &str) -> usize {
        match self {
            Self::O200k => crate::count(text),
            Self::Cl100k => crate::cl100k::count(text),
        }
    }
}
