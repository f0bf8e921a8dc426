//! The scaffold `acp`: an agent that speaks the Agent Client Protocol, with Proctor as its client.

mod client;
mod conversation;
mod files;
mod scaffold;
mod terminals;
mod updates;

pub use scaffold::Acp;
