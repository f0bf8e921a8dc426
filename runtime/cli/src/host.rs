//! Describes the machine of a run for readers of its numbers.

use std::{collections::BTreeMap, fs, sync::Arc};

use proctor_record::RunDir;
use proctor_sandbox_api::{Backend, Machine};
use proctor_types::SandboxKind;
use serde_json::{Value, json};

use crate::error::CommandError;

/// `host` of `run.json`. Values that the kernel does not report are omitted.
pub fn fingerprint() -> Value {
    let machine = Machine::whole();
    let mut host = json!({
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "cpus": machine.cpus,
        "memory_mb": machine.memory_mb,
    });
    let model = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| cpu_model(&text));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    for (key, value) in [("cpu_model", model), ("kernel", kernel)] {
        if let Some(value) = value {
            host[key] = value.trim().into();
        }
    }
    host
}

/// Adds the versions of the engines that the run uses, once its back ends are connected.
pub fn add_engines(
    run: &RunDir,
    backends: &BTreeMap<SandboxKind, Arc<dyn Backend>>,
) -> Result<(), CommandError> {
    let mut record = run.read_run()?;
    let mut added = false;
    for backend in backends.values() {
        let Some(version) = backend.version() else { continue };
        if let Some(host) = record.host.as_object_mut()
            && !host.contains_key(backend.name())
        {
            host.insert(backend.name().to_owned(), version.into());
            added = true;
        }
    }
    if added {
        run.write_run(&record)?;
    }
    Ok(())
}

/// x86 names the model; other architectures report less.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_told_by_what_scores_depend_on() {
        let host = fingerprint();
        assert!(host["cpus"].as_f64().unwrap() >= 1.0, "{host}");
        assert!(host["memory_mb"].as_u64().unwrap() > 0, "{host}");
        let said = "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: A CPU @ 2 GHz\n";
        assert_eq!(cpu_model(said).as_deref(), Some("A CPU @ 2 GHz"));
        assert_eq!(cpu_model("processor: 0\n"), None);
    }
}
