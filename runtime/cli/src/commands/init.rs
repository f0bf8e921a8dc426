//! `proctor init`: creates a run configuration from options, or from three questions on a terminal.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufRead, ErrorKind, IsTerminal as _, Write},
    process::ExitCode,
};

use proctor_config::{VendorModel, vendor_model, vendor_names};
use proctor_datasets::render_template;
use proctor_gateway::PriceTable;
use proctor_scaffold_api::ScaffoldSource as _;
use proctor_types::one_line;
use serde::Serialize;

use crate::{
    args::{InitArgs, SandboxArg},
    assemble, cache_dir, config,
    error::{CommandError, UserError},
    print, shipped,
};

const CONFIG_TEMPLATE: &str = include_str!("../../../../configs/init.toml.j2");

const DEFAULT_SCAFFOLD: &str = "tools";

pub fn init(args: InitArgs) -> Result<ExitCode, CommandError> {
    let shown = args.file.display().to_string();
    // Check this before asking questions, so that the user doesn't lose the answers.
    if args.file.symlink_metadata().is_ok() {
        return Err(file_exists_error(&shown).into());
    }
    let mut answers = Answers { tasks: args.tasks, models: Vec::new(), scaffolds: Vec::new() };
    for name in &args.model {
        answers.models.push(parse_model(name)?);
    }
    for name in &args.scaffold {
        answers.scaffolds.push(find_scaffold(name)?);
    }
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        answers.ask(&mut io::stdin().lock(), &mut io::stderr())?;
    }
    remove_duplicates(&mut answers.tasks, String::as_str);
    remove_duplicates(&mut answers.models, |one| &one.name);
    remove_duplicates(&mut answers.scaffolds, |one| &one.name);
    let text = answers.render_config(&shown, args.sandbox)?;
    let mut file = match File::create_new(&args.file) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(file_exists_error(&shown).into());
        }
        Err(error) => {
            return Err(UserError::new(format!("cannot write {shown}: {error}"))
                .hint("choose a file in an existing, writable folder")
                .into());
        }
    };
    file.write_all(text.as_bytes())?;
    print::print_escaped(&format!("wrote {shown}\n"))?;
    let keys = answers.models.iter().filter_map(|one| one.vendor_model.spec.key_env.as_deref());
    for key in keys.filter(|key| std::env::var_os(key).is_none()) {
        print::print_escaped(&format!("next: export {key}=<your key>\n"))?;
    }
    // A scaffold may require settings that only the user knows, so the configuration may still be
    // incomplete.
    let (read, written) = config::read_config(&args.file, &[])?;
    match assemble::resolve_config(read, &written) {
        Ok(_) => print::print_escaped(&format!("next: proctor run {shown} --dry-run\n"))?,
        Err(error) => tell!("note: complete the configuration before you run it: {error}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes duplicates by name, keeping the first.
fn remove_duplicates<T>(items: &mut Vec<T>, name: impl Fn(&T) -> &str) {
    let mut seen = BTreeSet::new();
    items.retain(|one| seen.insert(name(one).to_owned()));
}

fn file_exists_error(path: &str) -> UserError {
    UserError::new(format!("{path} already exists; `proctor init` never overwrites files"))
        .hint("choose another file: proctor init FILE")
}

/// A model's name, and what is known about it.
struct ModelChoice {
    name: String,
    vendor_model: VendorModel,
}

struct ScaffoldChoice {
    name: String,
    needs_model: bool,
}

fn parse_model(name: &str) -> Result<ModelChoice, UserError> {
    let name = name.trim();
    if name.contains(char::is_control) {
        let what = format!("{} contains a control character", one_line(name));
        return Err(UserError::new(what).hint("write VENDOR/NAME"));
    }
    Ok(ModelChoice { name: name.to_owned(), vendor_model: vendor_model(name)? })
}

fn find_scaffold(name: &str) -> Result<ScaffoldChoice, UserError> {
    let name = name.trim();
    let catalog = assemble::scaffold_catalog()?;
    match catalog.find_scaffold(name)? {
        Some(found) => {
            Ok(ScaffoldChoice { name: name.to_owned(), needs_model: found.needs_model() })
        }
        None => {
            let known = catalog.names();
            let hint = match config::similar_names(name, known.iter().copied()).first() {
                Some(near) => format!("did you mean `{near}`? known: {}", known.join(", ")),
                None => format!("known: {}", known.join(", ")),
            };
            Err(UserError::new(format!("unknown scaffold `{name}`")).hint(hint))
        }
    }
}

struct Answers {
    tasks: Vec<String>,
    models: Vec<ModelChoice>,
    scaffolds: Vec<ScaffoldChoice>,
}

impl Answers {
    /// Asks for everything that no option specified. Repeats a question if the answer is unusable.
    fn ask(&mut self, input: &mut impl BufRead, out: &mut impl Write) -> Result<(), CommandError> {
        if self.tasks.is_empty() {
            let text = "Tasks: files, folders, globs or hf:// datasets [the demo's task]";
            self.tasks = ask_for_words(input, out, text, |word| Ok(word.to_owned()))?;
        }
        if self.scaffolds.is_empty() {
            let names = assemble::scaffold_catalog()?.names().join(", ");
            let text = format!("Scaffolds: {names} [{DEFAULT_SCAFFOLD}]");
            self.scaffolds = ask_for_words(input, out, &text, find_scaffold)?;
        }
        let needed = self.scaffolds.is_empty() || self.scaffolds.iter().any(|one| one.needs_model);
        while needed && self.models.is_empty() {
            let text = format!(
                "Model: VENDOR/NAME, where VENDOR is one of {}",
                vendor_names()?.join(", ")
            );
            self.models = ask_for_words(input, out, &text, parse_model)?;
        }
        Ok(())
    }

    /// Returns the text of the configuration.
    fn render_config(&self, file: &str, sandbox: SandboxArg) -> Result<String, CommandError> {
        let default = [ScaffoldChoice { name: DEFAULT_SCAFFOLD.to_owned(), needs_model: true }];
        let chosen =
            if self.scaffolds.is_empty() { default.as_slice() } else { self.scaffolds.as_slice() };
        let needs_model = chosen.iter().any(|one| one.needs_model);
        if needs_model && self.models.is_empty() {
            return Err(UserError::new("no model given")
                .hint(format!(
                    "add --model VENDOR/NAME, where VENDOR is one of {}",
                    vendor_names()?.join(", ")
                ))
                .into());
        }
        if !needs_model && !self.models.is_empty() {
            return Err(UserError::new(
                "--model has no effect: none of the chosen scaffolds uses a model",
            )
            .hint(format!("remove --model, or add --scaffold {DEFAULT_SCAFFOLD}"))
            .into());
        }
        let mut arms = Vec::new();
        let mut suggested = Vec::new();
        for one in chosen.iter().filter(|one| !one.needs_model) {
            arms.push(TemplateArm::new(&one.name, None));
        }
        for model in &self.models {
            let of_model = chosen.iter().filter(|one| one.needs_model);
            arms.extend(of_model.map(|one| TemplateArm::new(&one.name, Some(&model.name))));
            let own = model.vendor_model.agents.iter();
            let own = own.filter(|agent| chosen.iter().all(|one| one.name != **agent));
            suggested.extend(own.map(|agent| TemplateArm::new(agent, Some(&model.name))));
        }
        let prices = PriceTable::shipped().map_err(|fault| UserError::new(fault.to_string()))?;
        let models: Vec<_> =
            self.models.iter().map(|one| TemplateModel::new(one, &prices)).collect();
        let tasks = match self.tasks.is_empty() {
            true => vec![
                shipped::unpack_demo_tasks(&cache_dir::default_cache_dir()?)?
                    .to_string_lossy()
                    .into_owned(),
            ],
            false => self.tasks.clone(),
        };
        let filling = TemplateContext {
            file: one_line(file),
            tasks: tasks.iter().map(|one| quote_toml(one)).collect::<Vec<_>>().join(", "),
            is_demo: self.tasks.is_empty(),
            sandbox: match sandbox {
                SandboxArg::Native => "native",
                SandboxArg::Docker => "docker",
            },
            is_priced: models.iter().all(|model| model.is_priced),
            arms,
            suggested,
            models,
        };
        Ok(render_template(CONFIG_TEMPLATE, filling)?)
    }
}

/// Asks until every word of the answer is valid. Returns no words if the user presses Enter.
fn ask_for_words<T>(
    input: &mut impl BufRead,
    out: &mut impl Write,
    question: &str,
    read: impl Fn(&str) -> Result<T, UserError>,
) -> Result<Vec<T>, CommandError> {
    loop {
        write!(out, "{question}: ")?;
        out.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Err(UserError::new("the input ended before all questions were answered")
                .hint("use options instead: proctor init --tasks DATASET --model VENDOR/NAME")
                .into());
        }
        let read: Result<Vec<T>, UserError> = line.split_whitespace().map(&read).collect();
        match read {
            Ok(words) => return Ok(words),
            Err(error) => writeln!(out, "{error}")?,
        }
    }
}

#[derive(Debug, Serialize)]
struct TemplateContext {
    file: String,
    tasks: String,
    is_demo: bool,
    sandbox: &'static str,
    is_priced: bool,
    arms: Vec<TemplateArm>,
    suggested: Vec<TemplateArm>,
    models: Vec<TemplateModel>,
}

/// An arm of the template. Each value is TOML text.
#[derive(Debug, Serialize)]
struct TemplateArm {
    name: String,
    scaffold: String,
    model: Option<String>,
}

impl TemplateArm {
    fn new(scaffold: &str, model: Option<&str>) -> Self {
        let name = match model {
            Some(model) => format!("{scaffold}/{model}"),
            None => scaffold.to_owned(),
        };
        Self {
            name: quote_toml(&name),
            scaffold: quote_toml(scaffold),
            model: model.map(quote_toml),
        }
    }
}

/// The values of a `[models.NAME]` table.
#[derive(Debug, Serialize)]
struct TemplateModel {
    key: String,
    base_url: String,
    name: String,
    api: &'static str,
    key_env: Option<String>,
    context_window: Option<u64>,
    is_local: bool,
    is_priced: bool,
}

impl TemplateModel {
    fn new(model: &ModelChoice, prices: &PriceTable) -> Self {
        let spec = &model.vendor_model.spec;
        Self {
            key: quote_toml(&model.name),
            base_url: quote_toml(&spec.base_url),
            name: quote_toml(&spec.name),
            api: spec.api.name(),
            key_env: spec.key_env.clone(),
            context_window: spec.context_window,
            is_local: model.vendor_model.is_local,
            is_priced: prices.price_for(spec).is_some(),
        }
    }
}

fn quote_toml(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_questions(answers: &mut Answers, lines: &str) -> (Result<(), CommandError>, String) {
        let mut out = Vec::new();
        let done = answers.ask(&mut lines.as_bytes(), &mut out);
        (done, String::from_utf8(out).unwrap())
    }

    fn empty_answers() -> Answers {
        Answers { tasks: Vec::new(), models: Vec::new(), scaffolds: Vec::new() }
    }

    #[test]
    fn ask_repeats_a_question_after_an_invalid_answer() {
        let mut answers = empty_answers();
        let (done, out) = answer_questions(
            &mut answers,
            "a.jsonl b.jsonl\ntols\ntools bash\nopena/gpt-5.1\n\nopenai/gpt-5.1\n",
        );
        done.unwrap();
        assert_eq!(answers.tasks, ["a.jsonl", "b.jsonl"]);
        let names: Vec<_> = answers.scaffolds.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["tools", "bash"]);
        assert_eq!(answers.models[0].name, "openai/gpt-5.1");
        assert!(out.contains("did you mean `tools`") && out.contains("`openai/gpt-5.1`"), "{out}");
        assert_eq!(out.matches("Model: ").count(), 3, "{out}");
    }

    #[test]
    fn ask_skips_questions_that_options_answer() {
        let mut answers = empty_answers();
        answers.models.push(parse_model("ollama/m").unwrap());
        let (done, out) = answer_questions(&mut answers, "\n\n");
        done.unwrap();
        assert!(out.contains("Tasks: ") && !out.contains("Model: "), "{out}");
        // `ask` skips the model question if no scaffold calls a model.
        let mut answers = empty_answers();
        answers.scaffolds.push(find_scaffold("gold").unwrap());
        let (done, out) = answer_questions(&mut answers, "\n");
        done.unwrap();
        assert!(!out.contains("Model: "), "{out}");
        let (done, _) = answer_questions(&mut empty_answers(), "a.jsonl\n");
        assert!(done.unwrap_err().to_string().contains("the input ended"));
    }

    #[test]
    fn render_config_keeps_quotes_and_backslashes() {
        for text in ["a\"b", "a\\b", "a'b", "a\"'b", "ä b"] {
            let table: toml::Table = toml::from_str(&format!("k = {}", quote_toml(text))).unwrap();
            assert_eq!(table["k"].as_str(), Some(text));
        }
    }
}
