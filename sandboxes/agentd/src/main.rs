//! The room agent: the one process of Proctor inside a sandbox.
//!
//! `agentd serve` answers requests over its standard input and output; `agentd room` first makes
//! the sandbox around itself and then serves over a descriptor that it was handed.

mod room;
mod serve;

use std::{env, ffi::OsStr, process};

/// The exit status of a wrong command line.
const USAGE: i32 = 64;

fn main() {
    let mode = env::args_os().nth(1);
    let code = match mode.as_deref().and_then(OsStr::to_str) {
        Some("serve") => serve::stdio(),
        Some("room") => room::run(),
        _ => {
            eprintln!("usage: agentd serve | agentd room");
            USAGE
        }
    };
    process::exit(code);
}
