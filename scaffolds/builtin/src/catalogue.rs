use std::sync::Arc;

use proctor_scaffold_api::{PromptOverlay, Scaffold};
use serde_json::Value;

use crate::{Bash, Gold, Noop, PromptError, Prompts, Replay, SingleShot, Tools};

/// Returns the names that configurations use, sorted.
pub fn names() -> &'static [&'static str] {
    &["bash", "gold", "noop", "replay", "single-shot", "tools"]
}

/// Returns a scaffold with its built-in prompts; `None` if no scaffold has this name.
///
/// # Errors
/// Fails if the built-in prompts are invalid.
pub fn builtin_scaffold(name: &str) -> Result<Option<Arc<dyn Scaffold>>, PromptError> {
    builtin_with_prompts(name, None)
}

/// Returns a scaffold with the prompts and settings that an arm recorded. So a resumed run keeps
/// the prompts that it was planned with, even if their folder has changed.
///
/// # Errors
/// Fails if this version does not support the recorded factors.
pub fn restore_scaffold(
    name: &str,
    factors: &Value,
) -> Result<Option<Arc<dyn Scaffold>>, PromptError> {
    let over = match name {
        "bash" => Prompts::overlay_with_factors(PromptOverlay::default(), "bash", factors)?,
        "single-shot" => {
            Prompts::overlay_with_factors(PromptOverlay::default(), "single-shot", factors)?
        }
        "tools" => Prompts::overlay_with_factors(PromptOverlay::default(), "tools", factors)?,
        "replay" => {
            let tools = Prompts::overlay_with_factors(
                PromptOverlay::default(),
                "tools",
                &factors["tools"],
            )?;
            Prompts::overlay_with_factors(tools, "bash", &factors["bash"])?
        }
        _ => return builtin_scaffold(name),
    };
    builtin_with_prompts(name, Some(&over))
}

fn builtin_with_prompts(
    name: &str,
    prompts: Option<&PromptOverlay>,
) -> Result<Option<Arc<dyn Scaffold>>, PromptError> {
    Ok(Some(match name {
        "bash" => Arc::new(Bash::load(prompts)?),
        "gold" => Arc::new(Gold),
        "noop" => Arc::new(Noop),
        "replay" => Arc::new(Replay::load(prompts)?),
        "single-shot" => Arc::new(SingleShot::load(prompts)?),
        "tools" => Arc::new(Tools::load(prompts)?),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use proctor_scaffold_api::PromptFolderError;

    use super::*;

    #[test]
    fn each_name_loads_the_scaffold_with_this_name() {
        for name in names() {
            assert_eq!(builtin_scaffold(name).unwrap().unwrap().name(), *name);
        }
        assert!(builtin_scaffold("Tools").unwrap().is_none());
    }

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn load_with_prompts(
        name: &str,
        files: &[(&str, &str)],
    ) -> Result<Arc<dyn Scaffold>, PromptFolderError> {
        builtin_scaffold(name).unwrap().unwrap().with_prompts(folder(files).path())
    }

    #[test]
    fn overlaid_text_is_a_factor_but_its_path_is_not() {
        let text = "Do: {{ statement }}";
        let own = load_with_prompts("tools", &[("task.md.j2", text)]).unwrap();
        let shipped = builtin_scaffold("tools").unwrap().unwrap();
        assert_eq!(own.factors()["prompts"]["task"], text);
        assert_ne!(own.factors(), shipped.factors());
        assert_eq!(own.factors()["settings"], shipped.factors()["settings"]);
        let elsewhere =
            load_with_prompts("tools", &[("tools/task.md.j2", text), ("bash/x", "")]).unwrap();
        assert_eq!(own.factors(), elsewhere.factors());
        // A tool's description is also a prompt text.
        let described = load_with_prompts("tools", &[("tool_shell.md.j2", "Run it.")]).unwrap();
        assert!(described.factors()["tools"].to_string().contains("Run it."));
    }

    #[test]
    fn restored_scaffold_has_the_recorded_prompts_and_settings() {
        for name in names() {
            let shipped = builtin_scaffold(name).unwrap().unwrap();
            let again = restore_scaffold(name, &shipped.factors()).unwrap().unwrap();
            assert_eq!(again.factors(), shipped.factors());
        }
        let own = load_with_prompts("replay", &[("bash/format.md.j2", "Again.")]).unwrap();
        let again = restore_scaffold("replay", &own.factors()).unwrap().unwrap();
        assert_eq!(again.factors(), own.factors());
    }

    #[test]
    fn template_with_unknown_variable_is_rejected_at_load() {
        let error = load_with_prompts("bash", &[("task.md.j2", "{{ gold }}")]).err().unwrap();
        assert!(error.problem.contains("bash/task.md.j2"), "{error:?}");
        let error =
            load_with_prompts("bash", &[("manifest.toml", "nudge_limits = 3")]).err().unwrap();
        assert!(error.problem.contains("bash/manifest.toml"), "{error:?}");
        assert!(error.problem.contains("nudge_limits"), "{error:?}");
        let error = load_with_prompts("gold", &[("task.md.j2", "")]).err().unwrap();
        assert_eq!(error.problem, "the scaffold `gold` has no prompts");
    }
}
