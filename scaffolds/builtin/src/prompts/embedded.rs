//! The repository's `prompts/` folder, which is embedded in the binary.

macro_rules! folder {
    ($folder:literal: $($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../prompts/", $folder, "/", $file)))),*]
    };
}

const TOOLS: &[(&str, &str)] = folder!("tools":
    "manifest.toml",
    "system.md.j2",
    "task.md.j2",
    "nudge.md.j2",
    "length.md.j2",
    "not_run.md.j2",
    "submitted.md.j2",
    "shell_result.md.j2",
    "cut.md.j2",
    "tool_shell.md.j2",
    "tool_edit.md.j2",
    "tool_search.md.j2",
    "tool_submit.md.j2",
);

const BASH: &[(&str, &str)] = folder!("bash":
    "manifest.toml",
    "system.md.j2",
    "task.md.j2",
    "format.md.j2",
    "submitted.md.j2",
    "shell_result.md.j2",
    "cut.md.j2",
);

const SINGLE_SHOT: &[(&str, &str)] = folder!("single-shot":
    "manifest.toml",
    "natural.md.j2",
    "patch.md.j2",
    "probe.md.j2",
    "definitions.md.j2",
    "file.md.j2",
);

/// Returns the names and contents of one scaffold's prompt files. Empty for a scaffold without prompts.
pub(super) fn files(folder: &str) -> &'static [(&'static str, &'static str)] {
    match folder {
        "tools" => TOOLS,
        "bash" => BASH,
        "single-shot" => SINGLE_SHOT,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;

    #[test]
    fn every_prompt_file_is_embedded() {
        for folder in ["tools", "bash", "single-shot"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../prompts").join(folder);
            let there: BTreeSet<String> = std::fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            let carried = files(folder).iter().map(|(name, _)| (*name).to_owned()).collect();
            assert_eq!(there, carried);
        }
    }
}
