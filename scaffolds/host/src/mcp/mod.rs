//! The scaffold `mcp`, for a program that uses the sandbox's tools through a Model Context Protocol
//! server.

mod answer;
mod scaffold;
mod server;

pub use scaffold::Mcp;
