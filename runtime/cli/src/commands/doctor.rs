//! `proctor doctor`: what this machine can do, and how to fix what it cannot.

use std::{process::ExitCode, time::Duration};

use proctor_sandbox_api::{
    Backend, Base, LayerSpec, Prepared, SandboxRequest, hint_of, wire::RawPath,
};
use proctor_types::{SandboxKind, SandboxSpec};

use crate::{assemble, error::CommandError, home, print::result};

/// Runs the kit on every back end that starts. One that does not is named with its hint; the exit
/// status is 0 where one starts and every one that does passes.
pub async fn doctor(full: bool) -> Result<ExitCode, CommandError> {
    let cache = home::cache()?;
    let (mut works, mut fails) = (false, false);
    for kind in [SandboxKind::Native, SandboxKind::Docker] {
        let name = kind.to_string();
        let backend = match assemble::backend(kind, &cache).await {
            Ok(backend) => backend,
            Err(error) => {
                result(&format!("{name}: not available\n  {error}\n\n"))?;
                continue;
            }
        };
        let spec = LayerSpec {
            base: Base::Host,
            source: None,
            setup: Vec::new(),
            workdir: RawPath::from("/testbed"),
            env: Vec::new(),
            time_limit: Duration::from_secs(60),
        };
        let prepared = match backend.prepare(&spec).await {
            Ok(prepared) => prepared,
            Err(fault) => {
                result(&format!("{name}: no environment on the host base\n  {fault}\n\n"))?;
                continue;
            }
        };
        let results = proctor_conformance::run_kit(backend.as_ref(), &prepared, !full).await;
        result(&format!("{name}:\n{}\n", proctor_conformance::render(&results)))?;
        result(&gaps(backend.as_ref(), &prepared).await)?;
        // What is skipped is a gap of the machine, which was just named.
        let well = results.iter().all(|result| result.passed || result.skipped_reason.is_some());
        works |= well;
        fails |= !well;
    }
    Ok(if works && !fails { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What a sandbox of usual limits does not enforce here, each with its hint.
async fn gaps(backend: &dyn Backend, prepared: &Prepared) -> String {
    let (environment, limits) = (prepared.clone(), SandboxSpec::default());
    let spec =
        SandboxRequest { environment, limits, mounts: Vec::new(), purpose: "doctor".to_owned() };
    let mut sandbox = match backend.open(&spec).await {
        Ok(sandbox) => sandbox,
        Err(fault) => return format!("no sandbox: {fault}\n\n"),
    };
    let mut text = String::new();
    for entry in &sandbox.enforcement().not_enforced {
        text.push_str(&format!("not enforced: {entry}\n"));
        if let Some(hint) = hint_of(entry) {
            text.push_str(&format!("        hint: {hint}\n"));
        }
    }
    if text.is_empty() {
        text.push_str("everything that was asked for is enforced\n");
    }
    if let Err(fault) = sandbox.close().await {
        text.push_str(&format!("the sandbox does not close: {fault}\n"));
    }
    text.push('\n');
    text
}
