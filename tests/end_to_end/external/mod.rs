//! Command-line agents: a made-up one that misbehaves in every way, and real ones from their packages.

mod lent;
mod made_up;
mod memory;
mod packages;
mod trouble;
