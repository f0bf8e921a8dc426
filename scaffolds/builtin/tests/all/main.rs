//! The scaffolds over a real room.

mod bash;
mod plain;
mod replay;
mod support;
mod tools;
