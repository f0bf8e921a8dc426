//! Flake certificates: read for a run, written and printed after a validation.

use std::path::Path;

use proctor_types::{CERTIFICATE_SCHEMA, Certificate, Integrity};

use crate::error::{CommandError, UserError};

/// Reads a certificate for use in a run.
pub fn read(path: &Path) -> Result<Certificate, UserError> {
    let shown = path.display();
    let hint = "`proctor tasks validate --repeat 3 --certificate FILE` writes one";
    let text = std::fs::read(path).map_err(|error| {
        UserError::new(format!("cannot read the certificate {shown}: {error}")).hint(hint)
    })?;
    let read: Certificate = serde_json::from_slice(&text).map_err(|error| {
        UserError::new(format!("{shown} is not a certificate: {error}")).hint(hint)
    })?;
    if read.schema_version != CERTIFICATE_SCHEMA {
        let what = format!("{shown} is a certificate of schema {}", read.schema_version);
        return Err(UserError::new(what).hint(hint));
    }
    Ok(read)
}

pub fn write(path: &Path, certificate: &Certificate) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(certificate)?;
    std::fs::write(path, text + "\n")
        .map_err(|error| UserError::new(format!("cannot write {}: {error}", path.display())))?;
    tell!("certificate: {}", path.display());
    Ok(())
}

/// Prints what it lists.
pub fn tell(certificate: &Certificate) {
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
            tell!("gold is not clean in any run: {}: {}", task.task, seen.join(", "));
        }
        for id in &task.resource_sensitive {
            tell!("resource-sensitive: {}: {id}", task.task);
        }
    }
}
