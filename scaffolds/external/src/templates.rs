//! Renders the templates in a manifest when a trial starts.

use minijinja::value::Serde;
use proctor_scaffold_api::{AnnouncedLimits, template_environment, template_error};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Manifest, prompt};

/// Linux rejects an argument or environment variable with this many bytes or more, including its
/// terminator (`MAX_ARG_STRLEN`).
const MAX_ARG_STRLEN: usize = 128 << 10;
/// The file, relative to `HOME`, for a prompt that is too long for an argument.
const PROMPT_FILE: &str = "prompt.md";
/// The default output limit for an unknown model, in tokens.
const DEFAULT_OUTPUT_TOKENS: u64 = 32_000;

/// The variables that templates can use.
#[derive(Debug, Clone, Serialize)]
pub struct TemplateVariables {
    /// The prompt, rendered from `prompts/external/task.md.j2`.
    pub prompt: String,
    pub statement: String,
    pub workdir: String,
    pub home: String,
    /// The URL of the gateway, without `/v1`.
    pub endpoint: String,
    pub token: String,
    pub model: String,
    pub context_window: Option<u64>,
    /// The output limit to tell the agent, in tokens; `None` if neither the arm nor the context
    /// window determines one.
    pub max_output_tokens: Option<u64>,
    /// The output limit for agents that require one: `max_output_tokens`, or a default value.
    pub output_tokens: u64,
    /// Either `ignore` or `use`.
    pub repository_settings: &'static str,
    pub limits: Option<AnnouncedLimits>,
    pub settings: Map<String, Value>,
    /// The template for [`prompt::render_pointer`].
    #[serde(skip)]
    pub pointer: String,
}

/// Returns the output limit to tell the agent, in tokens; `None` if nothing determines one.
///
/// An agent reserves space for its output in the context window. If too little space is left, the
/// agent compacts forever or crashes. So the limit is at most a quarter of the window, or half of
/// it if the arm's settings contain a limit.
pub fn max_output_tokens(
    manifest: &Manifest,
    settings: &Map<String, Value>,
    (window, model): (Option<u64>, Option<u64>),
) -> Option<u64> {
    let own = |settings: &Map<String, Value>| settings.get("output_tokens").and_then(Value::as_u64);
    let (set, default) = (own(settings), own(&manifest.settings));
    let (asked, share) = match set.filter(|_| set != default) {
        Some(set) => (Some(set), 2),
        None => (model, 4),
    };
    let Some(window) = window else { return asked };
    let asked = asked.or(default).unwrap_or(DEFAULT_OUTPUT_TOKENS);
    Some(asked.min(window / share).max(1))
}

/// Returns the result of [`max_output_tokens`], or else a default.
pub fn output_tokens(manifest: &Manifest, known_limit: Option<u64>) -> u64 {
    let default = manifest.settings.get("output_tokens").and_then(Value::as_u64);
    known_limit.or(default).unwrap_or(DEFAULT_OUTPUT_TOKENS)
}

/// Formats text as a quoted YAML scalar. YAML is nearly a superset of JSON, so this only needs to
/// escape characters that YAML rejects or treats as line breaks.
fn quote_yaml(text: &str) -> String {
    let mut out = String::new();
    for c in Value::from(text).to_string().chars() {
        match c {
            '\u{7f}'..='\u{a0}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// A manifest whose templates have been rendered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderedManifest {
    pub argv: Vec<String>,
    pub stdin: String,
    pub cwd: String,
    pub env: Vec<(String, String)>,
    /// The files to create in `HOME`: the relative path, the content, and whether the file is
    /// executable.
    pub files: Vec<(String, String, bool)>,
    /// The path of the file with the prompt, if the prompt is too long for an argument.
    pub prompt_file: Option<String>,
}

/// Renders a manifest. An error names the key.
pub fn render_manifest(
    manifest: &Manifest,
    variables: &TemplateVariables,
) -> Result<RenderedManifest, String> {
    // Keep line breaks as they are written.
    let mut templates = template_environment(true).map_err(|error| template_error(&error))?;
    templates.add_filter("yaml", |text: String| quote_yaml(&text));
    let render = |key: &str, text: &str, with: &TemplateVariables| {
        templates
            .render_str(text, Serde(with))
            .map_err(|error| format!("`{key}`: {}", template_error(&error)))
    };
    let command = &manifest.command;
    let mut filled = RenderedManifest {
        stdin: render("command.stdin", &command.stdin, variables)?,
        cwd: render("command.cwd", &command.cwd, variables)?,
        ..RenderedManifest::default()
    };
    let prompt_file = format!("{}/{PROMPT_FILE}", variables.home);
    let pointer = prompt::render_pointer(&variables.pointer, &prompt_file)?;
    let short =
        TemplateVariables { prompt: pointer.clone(), statement: pointer, ..variables.clone() };
    let mut is_long = false;
    // If Linux would reject the prompt as an argument, give the agent a prompt that refers to a
    // file.
    let mut bounded = |key: &str, text: &str, room: usize| -> Result<String, String> {
        let whole = render(key, text, variables)?;
        if whole.len() < room {
            return Ok(whole);
        }
        is_long = true;
        let rest = render(key, text, &short)?;
        match rest.len() < room {
            true => Ok(rest),
            false => Err(format!("`{key}` is too long for Linux: {} bytes", rest.len())),
        }
    };
    for entry in &command.argv {
        let text = bounded("command.argv", entry, MAX_ARG_STRLEN)?;
        if !(text.is_empty() && entry.contains("{%")) {
            filled.argv.push(text);
        }
    }
    for (name, value) in &manifest.env {
        // The limit includes the variable's name and the equals sign.
        let room = MAX_ARG_STRLEN.saturating_sub(name.len() + 1);
        let text = bounded(&format!("env.{name}"), value, room)?;
        if !(text.is_empty() && value.contains("{%")) {
            filled.env.push((name.clone(), text));
        }
    }
    for file in &manifest.files {
        let content = render("files", &file.content, variables)?;
        if !(content.trim().is_empty() && file.content.contains("{%")) {
            filled.files.push((file.path.clone(), content, file.executable));
        }
    }
    if is_long {
        filled.files.push((PROMPT_FILE.to_owned(), variables.prompt.clone(), false));
        filled.prompt_file = Some(prompt_file);
    }
    Ok(filled)
}

/// Renders a manifest with sample values, so that an error in the manifest stops a run before its
/// first trial.
pub fn check_templates(manifest: &Manifest) -> Result<(), String> {
    for context_window in [None, Some(1)] {
        let text = || "x".to_owned();
        let with = TemplateVariables {
            prompt: text(),
            statement: text(),
            workdir: text(),
            home: text(),
            endpoint: text(),
            token: text(),
            model: text(),
            context_window,
            max_output_tokens: context_window,
            output_tokens: 1,
            repository_settings: if context_window.is_some() { "use" } else { "ignore" },
            limits: context_window.map(|_| AnnouncedLimits::sample()),
            settings: manifest.settings.clone(),
            pointer: prompt::POINTER_TEMPLATE.to_owned(),
        };
        render_manifest(manifest, &with)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{names, shipped_manifest};

    fn variables(manifest: &Manifest, prompt: &str, window: Option<u64>) -> TemplateVariables {
        let settings = manifest.settings.clone();
        let max_output_tokens = max_output_tokens(manifest, &settings, (window, None));
        TemplateVariables {
            prompt: prompt.to_owned(),
            statement: prompt.to_owned(),
            workdir: "/testbed".into(),
            home: "/tmp/agent-home".into(),
            endpoint: "http://127.0.0.1:1".into(),
            token: "token".into(),
            model: "vendor/model".into(),
            context_window: window,
            max_output_tokens,
            output_tokens: output_tokens(manifest, max_output_tokens),
            repository_settings: "ignore",
            limits: None,
            settings,
            pointer: prompt::POINTER_TEMPLATE.to_owned(),
        }
    }

    fn minimal_manifest(text: &str) -> Manifest {
        let start = "name = 'mine'\nversion = '1'\napi = 'chat'\n";
        toml::from_str(&format!("{start}{text}")).unwrap()
    }

    /// Built-in agents never get the prompt as an argument, so prompts of any length reach them as
    /// they are.
    #[test]
    fn shipped_manifests_pass_prompts_of_any_length_by_stdin_or_file() {
        let prompt = format!("{}the end", "a line of the statement\n".repeat(10_000));
        for name in names() {
            let manifest = shipped_manifest(name).unwrap().unwrap().manifest;
            let filled = render_manifest(&manifest, &variables(&manifest, &prompt, None)).unwrap();
            assert_eq!(filled.prompt_file, None, "{name}");
            let mut argv = filled.argv.iter().chain(filled.env.iter().map(|(_, value)| value));
            assert!(argv.all(|text| text.len() < 1000), "{name}");
            let mut texts = filled.files.iter().map(|file| &file.1).chain([&filled.stdin]);
            let whole = |text: &String| text.len() >= prompt.len() && text.contains("the end");
            assert!(texts.any(whole), "{name} never passes its prompt");
        }
    }

    #[test]
    fn prompt_too_long_for_an_argument_is_put_into_a_file() {
        let manifest = minimal_manifest(
            "[command]\nargv = ['x', '--task', '{{ prompt }}']\n[env]\nS = '{{ statement }}'",
        );
        let short = "s".repeat(MAX_ARG_STRLEN - 3);
        let filled = render_manifest(&manifest, &variables(&manifest, &short, None)).unwrap();
        assert_eq!((filled.argv[2].len(), filled.prompt_file), (short.len(), None));
        for long in ["l".repeat(MAX_ARG_STRLEN), "é".repeat(MAX_ARG_STRLEN / 2)] {
            let filled = render_manifest(&manifest, &variables(&manifest, &long, None)).unwrap();
            let path = "/tmp/agent-home/prompt.md";
            assert_eq!(filled.prompt_file.as_deref(), Some(path));
            assert!(filled.argv[2].contains(path) && filled.env[0].1.contains(path));
            assert_eq!(filled.files, [("prompt.md".to_owned(), long, false)]);
        }
        // Only the prompt can be replaced by a file.
        let model = TemplateVariables {
            model: "m".repeat(MAX_ARG_STRLEN),
            ..variables(&manifest, "p", None)
        };
        let manifest = minimal_manifest("[command]\nargv = ['x', '{{ model }}']");
        assert!(render_manifest(&manifest, &model).unwrap_err().contains("too long for Linux"));
    }

    /// If an agent's output limit is as large as its context window, the agent compacts forever
    /// (OpenCode) or crashes (Continue).
    #[test]
    fn output_limit_leaves_room_in_the_window() {
        let manifest =
            minimal_manifest("[command]\nargv = ['x']\n[settings]\noutput_tokens = 32000");
        let of = |settings: Value, window, model| {
            let settings = settings.as_object().unwrap();
            max_output_tokens(&manifest, settings, (window, model))
        };
        let default = json!({ "output_tokens": 32000 });
        assert_eq!(of(default.clone(), None, None), None);
        assert_eq!(of(default.clone(), None, Some(64_000)), Some(64_000));
        assert_eq!(of(default.clone(), Some(200_000), None), Some(32_000));
        assert_eq!(of(default.clone(), Some(32_768), None), Some(8192));
        assert_eq!(of(default.clone(), Some(32_768), Some(4096)), Some(4096));
        assert_eq!(of(default, Some(24_000), Some(24_000)), Some(6000));
        // The arm's own limit applies, up to half of the window.
        assert_eq!(of(json!({ "output_tokens": 12_000 }), Some(32_768), None), Some(12_000));
        assert_eq!(of(json!({ "output_tokens": 50_000 }), Some(32_768), None), Some(16_384));
        assert_eq!(output_tokens(&manifest, None), 32_000);
    }

    /// The options for the window and the output limit that each agent gets for a 32K model. The
    /// names of the options were checked manually in each package.
    #[test]
    fn window_and_output_limit_reach_every_agent_with_such_options() {
        for (name, window, output) in [
            (
                "claude-code",
                "CLAUDE_CODE_MAX_CONTEXT_TOKENS=45768",
                "CLAUDE_CODE_MAX_OUTPUT_TOKENS=8192",
            ),
            ("codex", "model_context_window = 32768", "model_auto_compact_token_limit = 24576"),
            ("continue", "contextLength: 32768", "maxTokens: 8192"),
            ("gemini-cli", "\"compressionThreshold\": 0.015625", "\"maxOutputTokens\": 8192"),
            ("mini-swe-agent", "", "max_tokens: 8192"),
            ("opencode", "\"context\": 32768", "\"output\": 8192"),
            ("openhands", "\"max_input_tokens\": 32768", "\"max_output_tokens\": 8192"),
            ("qwen-code", "\"contextWindowSize\": 32768", "QWEN_CODE_MAX_OUTPUT_TOKENS=8192"),
        ] {
            let manifest = shipped_manifest(name).unwrap().unwrap().manifest;
            let told = |window| {
                let filled =
                    render_manifest(&manifest, &variables(&manifest, "p", window)).unwrap();
                let files = filled.files.into_iter().map(|(path, content, _)| {
                    let json =
                        path.ends_with(".json").then(|| serde_json::from_str::<Value>(&content));
                    assert!(json.is_none_or(|json| json.is_ok()), "{name}: {path}: {content}");
                    content
                });
                let env = filled.env.into_iter().map(|(key, value)| format!("{key}={value}"));
                files.chain(env).collect::<Vec<_>>().join("\n")
            };
            let text = told(Some(32_768));
            assert!(text.contains(window) && text.contains(output), "{name}: {text}");
            let text = told(None);
            assert!(
                !text.contains("32768") && !text.contains("45768") && !text.contains("8192"),
                "{name}: {text}"
            );
        }
    }

    #[test]
    fn yaml_scalar_round_trips_text() {
        let text = "a\tb: \"c\" # d\n- \u{85}\u{2028}\u{7f}é😀\u{1b}";
        let scalar = quote_yaml(text);
        let plain = |c: char| matches!(c, ' '..='~' | 'é' | '😀');
        assert!(scalar.chars().all(plain), "{scalar}");
        // A JSON parser also accepts the scalar and returns the same text.
        assert_eq!(serde_json::from_str::<String>(&scalar).unwrap(), text);
    }
}
