//! Finds the files of a repository that a request is about: BM25 with Lucene's ranking.
//!
//! ```text
//! path and content -> terms -> Index        (once a tree)
//! request -> terms -> Index::search -> hits, best first
//! ```
//!
//! The FEA-Bench paper ranks with Pyserini, which is Lucene with k1 = 0.9 and b = 0.4. This is our
//! own code because it is one formula and one table; the crates for BM25 use another formula or are
//! a whole search engine on disk.

#![warn(missing_docs)]

mod analyzer;
mod index;
mod porter;
mod tests_of;

pub use analyzer::terms;
pub use index::{B, Hit, Index, K1};
pub use tests_of::is_test;
