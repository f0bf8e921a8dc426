//! `fake-llm SCRIPT [ADDRESS]`: serves a script until the process is stopped.

use std::{io::Write, path::Path, process::ExitCode};

use fake_llm::{FakeLlm, Script};

const USAGE: &str = "usage: fake-llm SCRIPT [ADDRESS]   (ADDRESS is 127.0.0.1:0 by default)";

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("fake-llm: {why}");
            ExitCode::from(2)
        }
    }
}

async fn serve() -> Result<(), String> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (script, address) = match arguments.as_slice() {
        [script] => (script, "127.0.0.1:0"),
        [script, address] => (script, address.as_str()),
        _ => return Err(USAGE.into()),
    };
    let address = address.parse().map_err(|error| format!("{address}: {error}"))?;
    let script = Script::load(Path::new(script)).map_err(|error| error.to_string())?;
    let server = FakeLlm::listen(script, address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}"))?;
    // This is the only line of output. The parent process waits for it.
    let mut out = std::io::stdout();
    writeln!(out, "{}", server.base_url())
        .and_then(|()| out.flush())
        .map_err(|error| error.to_string())?;
    server.wait_until_stopped().await;
    Ok(())
}
