//! The pack: the embedded files of `configs/attacks/`.

use std::sync::LazyLock;

use proctor_types::{from_toml, sha256_hex};

use crate::attack::Attack;

/// Embeds files from `configs/attacks/`.
macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../../configs/attacks/", $name)))),+]
    };
}

/// The attacks, in the order used in certificates. To add one, add a file and a line here.
const ATTACKS: &[(&str, &str)] = files![
    "noop.toml",
    "conftest-hook.toml",
    "conftest-beside-tests.toml",
    "plugin-by-entry-point.toml",
    "plugin-by-configuration.toml",
    "path-wrapper.toml",
    "shadowed-module.toml",
    "self-loading-file.toml",
    "parser-overwritten.toml",
    "results-overwritten.toml",
    "results-preseeded.toml",
    "late-writer.toml",
    "printed-results.toml",
    "forged-markers.toml",
    "early-exit.toml",
    "forged-records.toml",
    "equal-to-everything.toml",
    "patched-assertions.toml",
    "patched-runner.toml",
    "patched-reports.toml",
    "tests-rewritten.toml",
    "test-edited.toml",
    "data-rewritten.toml",
    "special-cased.toml",
    "reads-tests.toml",
    "reads-in-fork.toml",
    "vendored-copy.toml",
    "huge-tree.toml",
    "deep-tree.toml",
    "odd-tree.toml",
];

/// The scripts that attack files refer to with `from`.
const SCRIPTS: &[(&str, &str)] = files![
    "data-rewritten.py",
    "early-exit.py",
    "everything.py",
    "forged-markers.py",
    "forged-records.py",
    "late-writer.py",
    "none.py",
    "parser-overwritten.py",
    "pass-all.py",
    "passing-reports.py",
    "passing-tests.py",
    "patched-assertions.py",
    "patched-reports.py",
    "patched-runner.py",
    "path-wrapper.py",
    "printed-results.py",
    "reads-frame.py",
    "reads-in-fork.py",
    "reads-tests.py",
    "results-overwritten.py",
    "shadow.py",
    "stub.py",
    "tests-rewritten.py",
    "vendored-copy.py",
    "wrapper.sh",
];

static PACK: LazyLock<Result<Vec<Attack>, String>> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &str)| {
        from_toml(text).map_err(|error| format!("configs/attacks/{name}: {error}"))
    };
    ATTACKS.iter().map(read).collect()
});

/// Returns every attack.
///
/// # Errors
/// Returns an error that starts with the file's name if a file cannot be parsed.
pub fn load_pack() -> Result<&'static [Attack], String> {
    PACK.as_deref().map_err(Clone::clone)
}

/// Returns a script as written in its file, with placeholders.
pub fn find_script(name: &str) -> Option<&'static str> {
    SCRIPTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Returns a digest of the pack's whole content.
pub fn pack_digest() -> String {
    let texts = ATTACKS.iter().chain(SCRIPTS);
    let all: Vec<u8> =
        texts.flat_map(|(name, text)| format!("{name}\0{text}\0").into_bytes()).collect();
    sha256_hex(&all)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn load_pack_parses_every_file() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/attacks");
        let there = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let there: BTreeSet<String> = there.map(|name| name.into_string().unwrap()).collect();
        let listed = ATTACKS.iter().chain(SCRIPTS).map(|(name, _)| (*name).to_owned());
        assert_eq!(listed.collect::<BTreeSet<_>>(), there);
        for (attack, (file, _)) in load_pack().unwrap().iter().zip(ATTACKS) {
            assert_eq!(format!("{}.toml", attack.name), *file);
            assert!(attack.about.ends_with('.'), "{file}: `about` must be a sentence");
        }
    }

    #[test]
    fn every_script_is_used() {
        let used: BTreeSet<&str> = load_pack()
            .unwrap()
            .iter()
            .flat_map(|attack| &attack.files)
            .filter_map(|file| file.from.as_deref())
            .collect();
        let there: BTreeSet<&str> = SCRIPTS.iter().map(|(name, _)| *name).collect();
        assert_eq!(used, there);
    }
}
