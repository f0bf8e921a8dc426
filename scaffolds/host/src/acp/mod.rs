//! The scaffold `acp`: an agent that speaks the Agent Client Protocol, with Proctor as its client.

mod client;
mod files;
mod scaffold;
mod talk;
mod terminals;
mod updates;

pub use scaffold::Acp;
