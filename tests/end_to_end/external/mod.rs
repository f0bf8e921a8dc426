//! Command-line agents: a made-up one that behaves in every bad way, and real ones from their packages.

mod lent;
mod made_up;
mod memory;
mod packages;
mod trouble;
