use std::{path::Path, sync::Arc};

use proctor_scaffold_api::Scaffold;

use crate::{Bash, Gold, Noop, PromptError, Replay, Tools};

/// The names that configurations use, sorted.
pub fn names() -> &'static [&'static str] {
    &["bash", "gold", "noop", "replay", "tools"]
}

/// A scaffold with the prompts it was built with; `None` where no scaffold has this name.
///
/// # Errors
/// The prompts that Proctor was built with do not load.
pub fn builtin(name: &str) -> Result<Option<Arc<dyn Scaffold>>, PromptError> {
    builtin_with(name, None)
}

/// A scaffold whose prompt files are overlaid by those of the same name in `prompts`, a folder laid
/// out like the repository's own `prompts/`.
///
/// # Errors
/// A file that cannot be read, a template that does not render, a manifest with an unknown key.
pub fn builtin_with(
    name: &str,
    prompts: Option<&Path>,
) -> Result<Option<Arc<dyn Scaffold>>, PromptError> {
    Ok(Some(match name {
        "bash" => Arc::new(Bash::load(prompts)?),
        "gold" => Arc::new(Gold),
        "noop" => Arc::new(Noop),
        "replay" => Arc::new(Replay::load(prompts)?),
        "tools" => Arc::new(Tools::load(prompts)?),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_scaffold_of_that_name() {
        for name in names() {
            assert_eq!(builtin(name).unwrap().unwrap().name(), *name);
        }
        assert!(builtin("Tools").unwrap().is_none());
    }

    #[test]
    fn an_overlaid_text_is_another_factor() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tools")).unwrap();
        std::fs::write(folder.path().join("tools/task.md.j2"), "Do: {{ statement }}").unwrap();
        let own = builtin_with("tools", Some(folder.path())).unwrap().unwrap();
        let shipped = builtin("tools").unwrap().unwrap();
        assert_eq!(own.factors()["prompts"]["task"], "Do: {{ statement }}");
        assert_ne!(own.factors(), shipped.factors());
        assert_eq!(own.factors()["settings"], shipped.factors()["settings"]);
    }

    #[test]
    fn a_template_that_names_something_unknown_is_refused_at_load() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("bash")).unwrap();
        std::fs::write(folder.path().join("bash/task.md.j2"), "{{ gold }}").unwrap();
        let error = builtin_with("bash", Some(folder.path())).err().unwrap().to_string();
        assert!(error.contains("bash/task.md.j2"), "{error}");
        std::fs::write(folder.path().join("bash/task.md.j2"), "x").unwrap();
        std::fs::write(folder.path().join("bash/manifest.toml"), "nudge_limits = 3").unwrap();
        let error = builtin_with("bash", Some(folder.path())).err().unwrap().to_string();
        assert!(error.contains("bash/manifest.toml") && error.contains("nudge_limits"), "{error}");
    }
}
