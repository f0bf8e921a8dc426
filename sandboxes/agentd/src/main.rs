//! The sandbox agent, Proctor's only process inside a sandbox.
//!
//! `agentd serve` handles requests on its standard input and output, with hardening if requested.
//! `agentd sandbox` first creates a sandbox around itself and then serves requests on a given
//! descriptor. `agentd remove` removes a host tree for a user who is not root.

mod hardening;
mod isolate;
mod serve;
mod sys;

use std::{env, ffi::OsStr, process};

use proctor_wire::Defense;

/// The exit status for an invalid command line.
const EXIT_USAGE: i32 = 64;

fn main() {
    let mode = env::args_os().nth(1);
    let code = match mode.as_deref().and_then(OsStr::to_str) {
        Some("serve") => serve_with_options(),
        Some("sandbox") => isolate::run(),
        Some("remove") => isolate::remove(),
        _ => {
            eprintln!(
                "usage: agentd serve [--hardened [--without=DEFENSE]...] | agentd sandbox | agentd remove"
            );
            EXIT_USAGE
        }
    };
    process::exit(code);
}

fn serve_with_options() -> i32 {
    let (mut leaks, mut without) = (false, Vec::new());
    for argument in env::args_os().skip(2) {
        let argument = argument.to_string_lossy();
        match (&*argument, argument.strip_prefix("--without=").and_then(Defense::parse)) {
            ("--hardened", _) => leaks = true,
            (_, Some(defense)) => without.push(defense),
            _ => {
                eprintln!("agentd: unknown option: {argument}");
                return EXIT_USAGE;
            }
        }
    }
    serve::serve_stdio(leaks.then_some(&without))
}
