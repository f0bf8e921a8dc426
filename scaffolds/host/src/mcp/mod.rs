//! The scaffold `mcp`: a program that is given the sandbox's tools as a server of the Model Context Protocol.

mod answer;
mod scaffold;
mod server;

pub use scaffold::Mcp;
