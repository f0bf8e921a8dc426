//! The Python scripts of the recorder and the canary generator.

/// The script that starts the recorder.
pub(crate) const START_SCRIPT: &str = "start.py";

/// Pairs each path below `python/` with the file's text.
macro_rules! embed_scripts {
    ($($path:literal,)*) => {
        &[$(($path, include_str!(concat!("../python/", $path)))),*]
    };
}

/// The modules of the canary generator, which the grader passes to the interpreter in memory.
pub(crate) const CANARY_MODULES: &[(&str, &str)] = embed_scripts! {
    "canary/__init__.py",
    "canary/candidates.py",
    "canary/edits.py",
    "canary/literals.py",
    "canary/request.py",
    "canary/source.py",
    "canary/test_function.py",
};

/// The recorder's scripts, which the grader writes into the sandbox. [`START_SCRIPT`] is the last.
pub(crate) const RECORDER_SCRIPTS: &[(&str, &str)] = embed_scripts! {
    "asking.py",
    "canaries.py",
    "lend.py",
    "openings.py",
    "origin.py",
    "recorder.py",
    "sight/__init__.py",
    "sight/audit.py",
    "sight/bindings.py",
    "sight/bytecode.py",
    "sight/context.py",
    "sight/data_files.py",
    "sight/engine.py",
    "sight/exceptions.py",
    "sight/frames.py",
    "sight/hooks.py",
    "sight/introspection.py",
    "sight/items.py",
    "sight/locations.py",
    "sight/modules.py",
    "sight/paths.py",
    "sight/programs.py",
    "sight/reports.py",
    "sight/snapshot.py",
    "sight/source_lines.py",
    "sight/sources.py",
    "sight/test_files.py",
    "sight/test_modules.py",
    "sight/values.py",
    "sight/watchers.py",
    "start.py",
};

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::{CANARY_MODULES, RECORDER_SCRIPTS, START_SCRIPT};

    /// Scripts that run on their own.
    const STANDALONE_SCRIPTS: [&str; 2] = ["probe.py", "tools.py"];

    fn add_scripts(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                add_scripts(&entry.path(), &format!("{name}/"), found);
            } else if name.ends_with(".py") {
                found.insert(name);
            }
        }
    }

    #[test]
    fn every_script_is_embedded_and_start_is_last() {
        let mut expected = BTreeSet::new();
        add_scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("python"), "", &mut expected);
        for script in STANDALONE_SCRIPTS {
            assert!(expected.remove(script), "{script}");
        }
        let scripts = RECORDER_SCRIPTS.iter().chain(CANARY_MODULES);
        let embedded: BTreeSet<String> = scripts.map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(embedded, expected);
        assert_eq!(RECORDER_SCRIPTS.last().map(|(path, _)| *path), Some(START_SCRIPT));
    }
}
