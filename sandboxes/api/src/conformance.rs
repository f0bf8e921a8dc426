//! The conformance kit: the checks that every back end passes.
