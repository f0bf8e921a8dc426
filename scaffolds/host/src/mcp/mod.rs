//! The scaffold `mcp`: a program that accesses the sandbox's tools through a Model Context Protocol
//! server.

mod answer;
mod scaffold;
mod server;

pub use scaffold::Mcp;
