//! The Docker back end. A sandbox is a container whose first process is the sandbox agent.
//!
//! The agent is the container's entrypoint. The channel is the agent's attached standard input and
//! output, without an exec or a second process. When the runtime dies, the engine closes the input,
//! and the agent kills everything and exits.
//!
//! No type of the engine's client is part of this crate's API.

mod base;
mod build;
mod cache_entries;
mod container;
mod counts;
mod create;
mod diagnostics;
mod docker;
mod engine;
mod fault;
mod hardening;
mod ignore;
mod image;
mod layer;
mod owner;
mod sandbox;
mod setup;
mod stream;
mod tarball;

pub use docker::Docker;
