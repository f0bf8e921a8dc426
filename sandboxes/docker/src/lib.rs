//! The Docker back end. A sandbox is a container whose first process is the sandbox agent.
//!
//! The agent is the container's entrypoint. The channel is the agent's standard input and output,
//! to which the runtime attaches. There is no `exec` and no second process. When the runtime dies,
//! the engine closes the agent's input, and the agent kills everything and exits.
//!
//! This crate's API contains no types of the engine's client.

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
