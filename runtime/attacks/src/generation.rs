//! Generates an attack's patch for one task.

use minijinja::{Environment, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use proctor_patch::{FilePatch, MODE_EXECUTABLE, MODE_FILE, MODE_LINK, RawPath, SideContent};
use proctor_types::{Fault, FaultLayer};
use serde_json::{Map, Value, json};

use crate::{
    attack::{Attack, AttackFile, ForEach, WriteMode},
    modules::{Module, ReadInitialFile},
    pack::find_script,
    target::Target,
};

/// The result of generating an attack for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttackPatch {
    Patch(Vec<u8>),
    /// The attack does not apply to this task. Contains the reason.
    NotApplicable(String),
}

/// Generates an attack for a task.
///
/// # Errors
/// Returns a fault if the task's initial files cannot be read or a template in the pack is invalid.
pub fn generate_patch(
    attack: &Attack,
    target: &Target,
    read_initial_file: &ReadInitialFile<'_>,
) -> Result<AttackPatch, Fault> {
    if !attack.runners.is_empty() && !attack.runners.contains(&target.runner) {
        let why = format!("the attack does not apply to tests run by {}", target.runner);
        return Ok(AttackPatch::NotApplicable(why));
    }
    let needs = |word: &str| attack.files.iter().any(|file| file.has_placeholder(word));
    if (needs("module") || needs("package") || needs("names"))
        && let Some(why) = target.no_modules_reason
    {
        return Ok(AttackPatch::NotApplicable(why.to_owned()));
    }
    if needs("test_f") && target.test_file().is_none() {
        let why = "the first fail-to-pass test is not in a Python file";
        return Ok(AttackPatch::NotApplicable(why.to_owned()));
    }
    let wrong = |error: String| {
        Fault::new(FaultLayer::Grade, format!("the attack {}: {error}", attack.name))
    };
    let templates = template_environment().map_err(wrong)?;
    // If a path is edited twice, the second edit applies to the result of the first.
    let mut edits: Vec<(String, SideContent, SideContent)> = Vec::new();
    for file in &attack.files {
        let text = file.template().map_err(wrong)?;
        let modules: Vec<Option<&Module>> = match file.each {
            Some(ForEach::Module) => target.modules.iter().map(Some).collect(),
            None => vec![target.modules.first()],
        };
        for module in modules {
            let mut words = template_variables(target, module);
            for n in 1..=file.count.unwrap_or(1) {
                words.insert("n".to_owned(), n.into());
                let render = |template: &str| {
                    let made = templates.render_str(template, Serde(&words));
                    made.map_err(|error| wrong(error.to_string()))
                };
                let path = render(&file.path)?;
                let text = render(text)?;
                let path = path.strip_prefix("./").unwrap_or(&path).to_owned();
                match edits.iter_mut().find(|(known, ..)| *known == path) {
                    Some((.., new)) => *new = file.how.apply_to(new.as_ref(), text.into_bytes()),
                    None => {
                        let old = read_initial_file(&path)?;
                        let new = file.how.apply_to(old.as_ref(), text.into_bytes());
                        edits.push((path, old, new));
                    }
                }
            }
        }
    }
    let mut patch = Vec::new();
    for (path, old, new) in edits.into_iter().filter(|(_, old, new)| old != new) {
        FilePatch::from_sides(&RawPath::from(path), old, new).write(&mut patch);
    }
    Ok(AttackPatch::Patch(patch))
}

impl WriteMode {
    fn apply_to(self, old_content: Option<&(u32, Vec<u8>)>, text: Vec<u8>) -> SideContent {
        let mode = old_content.map_or(MODE_FILE, |(mode, _)| *mode);
        match self {
            Self::Write => Some((MODE_FILE, text)),
            Self::Program => Some((MODE_EXECUTABLE, text)),
            Self::Link => Some((MODE_LINK, text)),
            Self::Append => {
                let mut all = old_content.map_or_else(Vec::new, |(_, bytes)| bytes.clone());
                if all.last().is_some_and(|last| *last != b'\n') {
                    all.push(b'\n');
                }
                all.extend(text);
                Some((mode, all))
            }
        }
    }
}

impl AttackFile {
    fn template(&self) -> Result<&str, String> {
        match (&self.text, &self.from) {
            (Some(text), None) => Ok(text),
            (None, Some(name)) => find_script(name).ok_or_else(|| format!("unknown script {name}")),
            _ => Err(format!("{}: either `text` or `from` is required", self.path)),
        }
    }

    /// Returns whether one of the file's templates starts a placeholder with this word.
    fn has_placeholder(&self, word: &str) -> bool {
        let asked = format!("{{{{ {word}");
        self.path.contains(&asked) || self.template().is_ok_and(|text| text.contains(&asked))
    }
}

/// Returns the template variables. Lists are JSON, which is also valid Python.
fn template_variables(target: &Target, module: Option<&Module>) -> Map<String, Value> {
    let test_file = target.test_file().unwrap_or_default();
    let test_folder = test_file.rsplit_once('/').map_or(".", |(folder, _)| folder);
    let list = |names: Value| Value::String(names.to_string());
    let words = json!({
        "workdir": target.workdir,
        "module": module.map_or("", |module| &module.path),
        "package": module.map_or("", Module::package),
        "names": list(json!(module.map(|module| &module.names))),
        "test_file": test_file,
        "test_folder": test_folder,
        "tests": list(json!(target.tests)),
        "all_tests": target.tests,
    });
    match words {
        Value::Object(words) => words,
        _ => Map::new(),
    }
}

/// Returns the template environment, in which an unknown variable is an error.
fn template_environment() -> Result<Environment<'static>, String> {
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    let syntax = syntax.map_err(|error| error.to_string())?;
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(syntax);
    Ok(environment)
}
