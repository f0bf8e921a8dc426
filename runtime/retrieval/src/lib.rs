//! Which files of a repository a request speaks of: BM25 as Lucene ranks.
//!
//! ```text
//! path and content -> terms -> Index        (once a tree)
//! request -> terms -> Index::search -> hits, best first
//! ```
//!
//! The paper of FEA-Bench ranks with Pyserini, which is Lucene with k1 = 0.9 and b = 0.4. Own code, as it is one formula
//! and one table: the crates for BM25 either bring another formula or a search engine on disk.

#![warn(missing_docs)]

mod analyzer;
mod index;
mod porter;
mod tests_of;

pub use analyzer::terms;
pub use index::{B, Hit, Index, K1};
pub use tests_of::is_test;
