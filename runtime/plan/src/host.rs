//! Describes the machine of a run, so that readers can interpret its measurements.

use std::fs;

use proctor_sandbox_api::Machine;
use serde_json::{Value, json};

/// Returns the `host` value of `run.json`. Values that the kernel does not report are omitted.
pub fn host_fingerprint() -> Value {
    let machine = Machine::detect_total();
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

/// Returns the CPU model. Only x86 kernels report it.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_reports_cpu_and_memory() {
        let host = host_fingerprint();
        assert!(host["cpus"].as_f64().unwrap() >= 1.0, "{host}");
        assert!(host["memory_mb"].as_u64().unwrap() > 0, "{host}");
        let said = "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: A CPU @ 2 GHz\n";
        assert_eq!(cpu_model(said).as_deref(), Some("A CPU @ 2 GHz"));
        assert_eq!(cpu_model("processor: 0\n"), None);
    }
}
