//! Arguments for masking secrets in files that users share.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Clone, Default, Args)]
pub struct MaskArgs {
    /// Mask text that looks like a key, token or password, and list the masked items on standard
    /// error.
    #[arg(long)]
    pub mask: bool,
    /// Also mask the words in this file, one word per line. Implies --mask.
    #[arg(long, value_name = "FILE")]
    pub mask_words: Option<PathBuf>,
}

impl MaskArgs {
    pub fn is_requested(&self) -> bool {
        self.mask || self.mask_words.is_some()
    }
}
