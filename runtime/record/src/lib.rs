//! The record: journal, blobs, trees and patches.

pub mod patch;
mod tree;

pub use tree::Tree;
