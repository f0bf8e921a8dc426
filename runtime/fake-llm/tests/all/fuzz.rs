//! Fuzzes scripts, which come from users and may contain any text.

use fake_llm::Script;
use fuzz::{assert_error_text, fuzz};

#[test]
fn arbitrary_text_parses_or_returns_an_error() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/seeds/scripts");
    fuzz(seeds, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        match Script::parse(text) {
            Ok(script) => {
                let written = serde_json::to_string(&script).expect("the script serializes");
                let again: Script = serde_json::from_str(&written).expect("it parses");
                assert_eq!(again, script, "{written}");
                true
            }
            Err(error) => {
                assert_error_text(&error.to_string(), "script");
                false
            }
        }
    });
}
