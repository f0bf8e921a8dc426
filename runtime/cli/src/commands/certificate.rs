//! Writes and prints flake certificates after a validation.

use std::path::Path;

use proctor_types::{Certificate, Integrity};

use crate::error::{CommandError, UserError};

pub fn write_certificate(path: &Path, certificate: &Certificate) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(certificate)?;
    std::fs::write(path, text + "\n")
        .map_err(|error| UserError::new(format!("cannot write {}: {error}", path.display())))?;
    tell!("certificate: {}", path.display());
    Ok(())
}

/// Prints the contents of a certificate.
pub fn print_certificate(certificate: &Certificate) {
    for task in &certificate.tasks {
        for (id, seen) in &task.flaky {
            let seen: Vec<String> =
                seen.iter().map(|(status, times)| format!("{status} {times}x")).collect();
            tell!("flaky: {}: {id}: {}", task.task, seen.join(", "));
        }
        if !task.gold_integrity.contains_key(&Integrity::Clean) {
            let seen: Vec<String> = task
                .gold_integrity
                .iter()
                .map(|(integrity, times)| format!("{integrity:?} {times}x").to_lowercase())
                .collect();
            tell!("gold was never graded `clean`: {}: {}", task.task, seen.join(", "));
        }
        for id in &task.resource_sensitive {
            tell!("resource-sensitive: {}: {id}", task.task);
        }
    }
}
