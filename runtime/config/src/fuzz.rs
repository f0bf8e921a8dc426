//! Fuzzes configurations, which come from users and may therefore contain any bytes.

use std::{fs, path::Path};

use fuzz::{assert_error_text, fuzz};

use crate::{NameLookup, UserError, read_config, resolve_config};

#[test]
fn configurations_resolve_or_fail_with_a_located_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.toml");
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/seeds/configurations");
    fuzz(seeds, |bytes| {
        fs::write(&path, bytes).unwrap();
        let Err(error) = read_and_resolve(&path) else { return true };
        assert_error_text(&error.message, "");
        assert_error_text(error.hint.as_deref().unwrap_or_default(), "");
        assert!(error.message.contains("run.toml"), "an error without a location: {error}");
        false
    });
}

fn read_and_resolve(path: &Path) -> Result<(), UserError> {
    let known = NameLookup {
        find_scaffold: &|name| {
            proctor_scaffolds::builtin_scaffold(name)
                .map_err(|error| UserError::new(error.to_string()))
        },
        scaffold_names: proctor_scaffolds::names(),
        validate_script: &|_| Ok(()),
    };
    let (file, written) = read_config(path, &[])?;
    resolve_config(file, &written, &known)?;
    Ok(())
}
