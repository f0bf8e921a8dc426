//! Finds the files in a repository that are relevant to a request, with BM25 as Lucene implements
//! it.
//!
//! ```text
//! path and content -> terms -> Index        (once per tree)
//! request -> terms -> Index::search -> hits, best first
//! ```
//!
//! The FEA-Bench paper ranks files with Pyserini, which uses Lucene with k1 = 0.9 and b = 0.4. The
//! existing BM25 crates either use another formula or are complete on-disk search engines. The
//! formula and its one table are small, so they are implemented here.

#![warn(missing_docs)]

mod analyzer;
mod index;
mod porter;
mod test_paths;

pub use analyzer::terms;
pub use index::{B, Hit, Index, K1};
pub use test_paths::is_test;
