//! The scaffold `acp`, for an agent that uses the Agent Client Protocol. Proctor is its client.

mod client;
mod conversation;
mod files;
mod scaffold;
mod terminals;
mod updates;

pub use scaffold::Acp;
