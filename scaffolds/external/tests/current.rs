//! Tests that the committed manifest schema matches the types. `PROCTOR_WRITE=1` rewrites the
//! schema.

use std::{fs, path::Path};

use proctor_external::{Manifest, SCHEMA_TITLE, names, shipped_manifest};
use serde_json::Value;

#[test]
fn manifest_schema_is_current_and_closed() {
    let schema = proctor_config::schema_for_type::<Manifest>(SCHEMA_TITLE);
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/manifest-schema.json");
    if std::env::var_os("PROCTOR_WRITE").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let there = fs::read_to_string(&file).unwrap_or_default();
    assert!(there == text, "run `PROCTOR_WRITE=1 cargo test -p proctor-external --test current`");
    assert_eq!(
        proctor_config::manifest_schema(),
        schema,
        "rebuild: the file is embedded in the program"
    );
    assert_eq!(schema["additionalProperties"], false);
    // An editor that uses the schema accepts every key in a built-in manifest.
    for name in names() {
        let loaded = shipped_manifest(name).unwrap().unwrap();
        let written: Value = toml::from_str(&loaded.text).unwrap();
        for key in written.as_object().unwrap().keys() {
            assert!(!schema["properties"][key].is_null(), "{name}: {key}");
        }
    }
}
