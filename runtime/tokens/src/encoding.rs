//! The built-in encodings.

use tiktoken_rs::CoreBPE;

/// A built-in encoding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encoding {
    /// `o200k_base`, the encoding of current OpenAI models. The default for all counts.
    #[default]
    O200k,
    /// `cl100k_base`, the encoding of GPT-4. FEA-Bench's paper measures contexts with it.
    Cl100k,
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Self; 2] = [Self::O200k, Self::Cl100k];

    /// Returns the encoding with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.name() == name)
    }

    /// Returns the name that OpenAI's `tiktoken` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::O200k => "o200k_base",
            Self::Cl100k => "cl100k_base",
        }
    }

    /// Returns the number of tokens in a string. Special tokens count as plain text.
    pub fn count(self, text: &str) -> usize {
        self.table().count_ordinary(text)
    }

    /// Returns the token table. The first call for each encoding takes about 0.1 s to build the
    /// table.
    pub(crate) fn table(self) -> &'static CoreBPE {
        match self {
            Self::O200k => tiktoken_rs::o200k_base_singleton(),
            Self::Cl100k => tiktoken_rs::cl100k_base_singleton(),
        }
    }
}
