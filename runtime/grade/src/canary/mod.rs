//! Canaries: real tests that run a second time with one wrong expectation and must fail.

mod evaluation;
mod generation;

pub(crate) use evaluation::CanaryResults;
pub(crate) use generation::{
    Canaries, Canary, MistakeKind, create_canaries, find_impossible_variants, quote_excerpt,
};
