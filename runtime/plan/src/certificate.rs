//! Reads flake certificates for runs.

use std::path::Path;

use proctor_types::{CERTIFICATE_SCHEMA_VERSION, Certificate, UserError};

/// Reads a certificate for use in a run.
///
/// # Errors
/// Fails if the file cannot be read, or if it has an unsupported version.
pub fn read_certificate(path: &Path) -> Result<Certificate, UserError> {
    let shown = path.display();
    let hint = "create a certificate with `proctor tasks validate --repeat 3 --certificate FILE`";
    let text = std::fs::read(path).map_err(|error| {
        UserError::new(format!("cannot read the certificate {shown}: {error}")).hint(hint)
    })?;
    let read: Certificate = serde_json::from_slice(&text).map_err(|error| {
        UserError::new(format!("{shown} is not a certificate: {error}")).hint(hint)
    })?;
    if read.schema_version != CERTIFICATE_SCHEMA_VERSION {
        let what = format!("{shown}: unsupported certificate schema {}", read.schema_version);
        return Err(UserError::new(what).hint(hint));
    }
    Ok(read)
}
