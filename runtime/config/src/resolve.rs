//! Resolves a configuration: looks up every name and gives each arm its ID.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use proctor_scaffold_api::{Scaffold, SettingError, notices::notice_templates};
use proctor_types::{
    Arm, ArmId, Budget, BudgetEnding, Disclosure, ModelSpec, RepositorySettings, parse_clock_time,
    sha256_hex,
};
use serde_json::{Map, Value, json};

use crate::{
    ArmFile, CheckExtent, ConfigFile, ConfigSource, UserError, check_keys, endpoints,
    ineffective_keys, kind::closest_name, model::vendor_spec, models, paths::PYTHON_PREFIX,
};

/// A resolved configuration.
pub struct RunConfig {
    pub file: ConfigFile,
    pub arms: Vec<Arm>,
}

impl ConfigFile {
    /// Keeps only the arms whose name `is_selected` selects, and the locations of their keys. Call
    /// this method before the arms are resolved if their names or models will change.
    pub fn with_arms(
        self,
        source: &ConfigSource,
        is_selected: &dyn Fn(&str) -> bool,
    ) -> (Self, ConfigSource) {
        let names = self.arms.iter().map(|arm| arm.name.clone()).enumerate();
        let kept: Vec<_> = names.filter(|(_, name)| is_selected(name)).collect();
        let written = source.with_arms(&kept);
        let mut file = self;
        file.arms.retain(|arm| is_selected(&arm.name));
        (file, written)
    }
}

impl RunConfig {
    /// Keeps only the arms whose name `is_selected` selects, and the locations of their keys.
    pub fn with_arms(
        self,
        source: &ConfigSource,
        is_selected: &dyn Fn(&str) -> bool,
    ) -> (Self, ConfigSource) {
        let names = self.arms.iter().map(|arm| arm.name.clone()).enumerate();
        let kept: Vec<_> = names.filter(|(_, name)| is_selected(name)).collect();
        let written = source.with_arms(&kept);
        let Self { mut file, mut arms } = self;
        file.arms.retain(|arm| is_selected(&arm.name));
        arms.retain(|arm| is_selected(&arm.name));
        (Self { file, arms }, written)
    }
}

/// `Ok(None)` means that no scaffold has the name. `Err` means that a scaffold has the name but is
/// unusable.
type ScaffoldResult = Result<Option<Arc<dyn Scaffold>>, UserError>;

/// The names that a configuration may use. The caller provides them.
pub struct NameLookup<'a> {
    pub find_scaffold: &'a dyn Fn(&str) -> ScaffoldResult,
    pub scaffold_names: &'a [&'a str],
    /// Returns an error if a scripted model's file cannot be read.
    pub validate_script: &'a dyn Fn(&Path) -> Result<(), String>,
}

/// Looks up every scaffold and model, and identifies each arm by its factors. Errors refer to keys
/// as written.
pub fn resolve_config(
    file: ConfigFile,
    source: &ConfigSource,
    lookup: &NameLookup<'_>,
) -> Result<RunConfig, UserError> {
    if file.arms.is_empty() {
        return Err(source
            .error(&["arms"], "a run needs at least one arm")
            .hint("add [[arms]] with `name` and `scaffold` below it"));
    }
    if source.table().is_empty() {
        // The configuration comes from command-line arguments. Check its values like those of a
        // file.
        let table =
            toml::Table::try_from(&file).map_err(|error| UserError::new(error.to_string()))?;
        check_keys(&table, CheckExtent::Complete)
            .map_err(|problem| source.error_from_problem(&problem))?;
    }
    ineffective_keys::check_key_dependencies(&file, source)?;
    endpoints::check_endpoints(&file, source)?;
    models::check_models(&file, source, lookup.validate_script)?;
    if let Some(certificate) = &file.grading.certificate
        && let Err(error) = std::fs::File::open(certificate)
    {
        let what = format!("cannot read {}: {error}", certificate.display());
        return Err(source
            .error(&["grading", "certificate"], what)
            .hint("create it with `proctor tasks validate --repeat 3 --certificate FILE`"));
    }
    let mut arms = Vec::new();
    let mut names = BTreeSet::new();
    let mut ids: BTreeMap<ArmId, String> = BTreeMap::new();
    let mut sources: BTreeMap<String, Value> = BTreeMap::new();
    for (index, arm) in file.arms.iter().enumerate() {
        let index = index.to_string();
        let own = |key| ["arms", index.as_str(), key];
        if !names.insert(arm.name.clone()) {
            return Err(source
                .error(&own("name"), format!("two arms have the name `{}`", arm.name))
                .hint("give each arm a unique name"));
        }
        let found = (lookup.find_scaffold)(&arm.scaffold);
        let Some(found) = found.map_err(|error| source.locate_error(&own("scaffold"), error))?
        else {
            let what = format!("unknown scaffold `{}`", arm.scaffold);
            let known = lookup.scaffold_names.join(", ");
            let hint = match closest_name(&arm.scaffold, lookup.scaffold_names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`? scaffolds: {known}"),
                None => format!("scaffolds: {known}"),
            };
            return Err(source.error(&own("scaffold"), what).hint(hint));
        };
        let model = match (&arm.model, found.needs_model()) {
            (None, true) => {
                let what = format!("the scaffold `{}` needs a model", arm.scaffold);
                return Err(source
                    .error(&own("scaffold"), what)
                    .hint("add `model = \"...\"` to the arm"));
            }
            (Some(_), false) => {
                let what = format!("has no effect: the scaffold `{}` uses no model", arm.scaffold);
                return Err(source.error(&own("model"), what).hint("remove the key"));
            }
            (None, false) => None,
            (Some(name), true) => {
                let mut model = lookup_model(&file.models, name)
                    .map_err(|(what, hint)| source.error(&own("model"), what).hint(hint))?;
                let sampling = found.sampling();
                model.temperature = model.temperature.or(sampling.temperature);
                model.top_p = model.top_p.or(sampling.top_p);
                models::read_tokenizer(&mut model).map_err(|(what, hint)| {
                    source.error(&["models", name.as_str(), "tokenizer"], what).hint(hint)
                })?;
                Some(model)
            }
        };
        if arm.scaffold == "replay" {
            match &arm.replay {
                Some(file) if file.is_file() => {}
                Some(file) => {
                    let what = format!("replay: no such file: {}", file.display());
                    return Err(source
                        .error(&own("replay"), what)
                        .hint("set it to a trial's trajectory.jsonl"));
                }
                None => {
                    return Err(source
                        .error(&own("scaffold"), "nothing to replay")
                        .hint("add `replay = \"RUN/trials/.../trajectory.jsonl\"` to the arm"));
                }
            }
        }
        check_network(arm, source, &index)?;
        if let Some(clock) =
            arm.sandbox.clock.as_ref().filter(|clock| parse_clock_time(clock).is_none())
        {
            let what = format!("{clock:?} is not a time between 1971 and 2199");
            return Err(source
                .error(&source.arm_key_path(&index, "sandbox", "clock"), what)
                .hint("write it as \"2024-05-01T00:00:00Z\""));
        }
        if arm.budget.run != file.budget.run {
            return Err(source
                .error(&["arms", &index, "budget", "run"], "only one such limit is allowed per run")
                .hint("set it in the top-level [budget.run] table"));
        }
        if let (Some(key), Some(_)) =
            (find_loop_only_limit(&arm.budget), found.model_endpoint(&arm.settings))
        {
            let what = format!("cannot be enforced for the scaffold `{}`", arm.scaffold);
            let hint = match arm.scaffold.starts_with(PYTHON_PREFIX) {
                true => {
                    "add `endpoint = false` to [arms.settings] if the agent uses only \
                     `session.ask`, or remove the key"
                }
                false => {
                    "the scaffold's loop runs inside the sandbox, where Proctor can neither inform \
                     the agent nor stop its tools; remove the key for this arm"
                }
            };
            return Err(source.error(&source.arm_key_path(&index, "budget", key), what).hint(hint));
        }
        let shipped = found.factors();
        let found = match &arm.prompts {
            None => found,
            Some(folder) => found
                .with_prompts(folder)
                .map_err(|wrong| source.error(&own("prompts"), wrong.problem).hint(wrong.hint))?,
        };
        let mut prompts = found.factors();
        let notices = notice_templates(&arm.budget);
        if let (Some(prompts), false) = (prompts.as_object_mut(), notices.is_empty()) {
            prompts.insert("budget".into(), notices.into());
        }
        // A path is not a factor, so a manifest is identified by its name and content.
        let scaffold = found.name().to_owned();
        if *sources.entry(scaffold.clone()).or_insert_with(|| shipped.clone()) != shipped {
            let what =
                format!("another arm has a different manifest with the same name `{scaffold}`");
            let hint = "give each manifest a unique `name`";
            return Err(source.error(&own("scaffold"), what).hint(hint));
        }
        let resolved = Arm {
            control: arm.control,
            forked_from: None,
            id: ArmId::new(""),
            name: arm.name.clone(),
            scaffold,
            model,
            budget: arm.budget.clone(),
            sandbox: arm.sandbox.clone(),
            network: arm.network.clone(),
            leak_check: arm.leak_check,
            statement: arm.statement,
            prompts,
            settings: arm_settings(arm, found.as_ref(), source, &index)?,
        }
        .with_computed_id();
        if let Some(other) = ids.insert(resolved.id.clone(), arm.name.clone()) {
            let what = format!("has the same factors as the arm `{other}`");
            return Err(source
                .error(&["arms", &index], what)
                .hint("change a factor, or raise `attempts` to repeat an arm"));
        }
        arms.push(resolved);
    }
    ineffective_keys::check_network(&file, source)?;
    Ok(RunConfig { file, arms })
}

/// Key of the arm setting that identifies the trajectory to replay by its content hash. The path
/// is not a factor.
pub const REPLAY_KEY: &str = "replay";

/// Key of an arm's interpreter, and of the setting from which a `python:` scaffold reads it.
const INTERPRETER_KEY: &str = "interpreter";

/// Returns the scaffold's settings.
fn arm_settings(
    arm: &ArmFile,
    scaffold: &dyn Scaffold,
    source: &ConfigSource,
    arm_index: &str,
) -> Result<Value, UserError> {
    let mut given = arm.settings.clone();
    if let Some(interpreter) = &arm.interpreter {
        if !arm.scaffold.starts_with(PYTHON_PREFIX) {
            let what =
                format!("has no effect: the scaffold `{}` does not run Python", arm.scaffold);
            return Err(source
                .error(&["arms", arm_index, INTERPRETER_KEY], what)
                .hint("remove the key"));
        }
        given.insert(INTERPRETER_KEY.to_owned(), interpreter.to_string_lossy().into());
    }
    let settings = scaffold.resolve_settings(&given).map_err(|wrong| {
        // `interpreter` and `scaffold` are keys of the arm itself, while the keys in `settings`
        // belong to the scaffold.
        let is_of_arm = wrong.key == SettingError::SCAFFOLD
            || wrong.key == INTERPRETER_KEY && arm.interpreter.is_some();
        let path: Vec<&str> = match is_of_arm {
            true => vec!["arms", arm_index, wrong.key.as_str()],
            false => vec!["arms", arm_index, "settings", wrong.key.as_str()],
        };
        source.error(&path, wrong.problem).hint(wrong.hint)
    })?;
    let settings = add_repository_settings(arm, scaffold, settings).map_err(|(what, hint)| {
        source.error(&["arms", arm_index, RepositorySettings::KEY], what).hint(hint)
    })?;
    let Some(file) = &arm.replay else { return Ok(settings.into()) };
    let bytes = std::fs::read(file).map_err(|error| {
        let what = format!("cannot read {}: {error}", file.display());
        source
            .error(&["arms", arm_index, "replay"], what)
            .hint("set it to a trial's trajectory.jsonl")
    })?;
    Ok(json!({ REPLAY_KEY: sha256_hex(&bytes) }))
}

/// Adds `repository_settings` unless it has its default value. Only another value is a factor, so
/// that the arms of older runs keep their IDs.
fn add_repository_settings(
    arm: &ArmFile,
    scaffold: &dyn Scaffold,
    mut settings: Map<String, Value>,
) -> Result<Map<String, Value>, (String, &'static str)> {
    if arm.repository_settings.is_ignore() {
        return Ok(settings);
    }
    if !scaffold.reads_repository_settings() {
        let what = format!(
            "has no effect: the scaffold `{}` does not read settings from the task's repository",
            arm.scaffold
        );
        return Err((what, "remove the key"));
    }
    let name = arm.repository_settings.name();
    settings.insert(RepositorySettings::KEY.to_owned(), name.into());
    Ok(settings)
}

/// Returns a limit that only a loop in Proctor's own process can enforce, if one is set.
fn find_loop_only_limit(budget: &Budget) -> Option<&'static str> {
    let kept = [
        ("disclosure", budget.disclosure == Disclosure::Countdown),
        ("ending", budget.ending == BudgetEnding::Grace),
        ("tool_seconds", budget.tool_seconds.is_some()),
    ];
    kept.into_iter().find(|(_, asked)| *asked).map(|(key, _)| key)
}

/// Checks the arm's certificate file and its network policy as a whole. The patterns were already
/// checked one by one.
fn check_network(arm: &ArmFile, source: &ConfigSource, arm_index: &str) -> Result<(), UserError> {
    let of = |key| source.arm_key_path(arm_index, "network", key);
    proctor_egress::Policy::for_arm(&arm.network).map_err(|why| {
        source
            .error(&["arms", arm_index, "network"], why)
            .hint("see docs/reference/egress.md for the syntax")
    })?;
    if let Some(file) = &arm.network.ca_file {
        let wrong = |what: String| {
            source.error(&of("ca_file"), what).hint(
                "set it to a file with PEM certificates; relative paths are resolved against the configuration's \
                 folder (docs/reference/egress.md)",
            )
        };
        std::fs::File::open(file)
            .map_err(|error| wrong(format!("cannot read {}: {error}", file.display())))?;
        proctor_egress::read_certificates(Some(file)).map_err(wrong)?;
    }
    Ok(())
}

/// Returns the model, or an error and a hint. If no table defines the model, it is looked up at the
/// known vendors, unless a table has a similar name. A typo must not send requests to another
/// endpoint.
fn lookup_model(
    models: &BTreeMap<String, ModelSpec>,
    name: &str,
) -> Result<ModelSpec, (String, String)> {
    if let Some(found) = models.get(name) {
        return Ok(found.clone());
    }
    let what = format!("unknown model `{name}`");
    if let Some(near) = closest_name(name, models.keys().map(String::as_str)) {
        return Err((what, format!("did you mean `{near}`?")));
    }
    vendor_spec(name).map_err(|error| (what, error.hint.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use proctor_scaffold_api::{Finish, Scaffold, Session, Stop};
    use serde_json::{Map, Value, json};

    use super::{NameLookup, resolve_config};
    use crate::{UserError, read_config};

    /// A command-line client in the sandbox, which calls the model through its proxy.
    struct SandboxedClient;

    #[async_trait]
    impl Scaffold for SandboxedClient {
        fn name(&self) -> &'static str {
            "client"
        }

        fn factors(&self) -> Value {
            json!({})
        }

        fn needs_model(&self) -> bool {
            true
        }

        fn model_endpoint(&self, _: &Map<String, Value>) -> Option<Value> {
            Some(json!({}))
        }

        fn reads_repository_settings(&self) -> bool {
            true
        }

        async fn drive(&self, _: &mut dyn Session) -> Result<Finish, Stop> {
            Ok(Finish::Submitted)
        }
    }

    /// Resolves a configuration with the given lines and two arms: one that runs the client, and
    /// one that runs a loop in Proctor.
    fn resolve_arms(lines: &str, client_lines: &str) -> Result<Vec<String>, UserError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "tasks = []\n{lines}\n\
             [[arms]]\nname = 'loop'\nscaffold = 'tools'\nmodel = 'm'\n\
             [[arms]]\nname = 'cli'\nscaffold = 'client'\nmodel = 'm'\n{client_lines}\n\
             [models.m]\nbase_url = 'http://h'\nname = 'm'\n\
             price = {{ input = 1, output = 1 }}\n"
        );
        std::fs::write(file.path(), text).unwrap();
        let (config, written) = read_config(file.path(), &[])?;
        let lookup = |name: &str| match name {
            "client" => Ok(Some(Arc::new(SandboxedClient) as Arc<dyn Scaffold>)),
            "broken" => Err(UserError::new("broken/task.md.j2: syntax error").hint("correct it")),
            other => proctor_scaffolds::builtin_scaffold(other)
                .map_err(|error| UserError::new(error.to_string())),
        };
        let known = NameLookup {
            find_scaffold: &lookup,
            scaffold_names: &["client", "tools"],
            validate_script: &|_| Ok(()),
        };
        let resolved = resolve_config(config, &written, &known)?;
        let told = |arm: proctor_types::Arm| match arm.settings["repository_settings"].as_str() {
            Some(said) => format!("{} {said}", arm.name),
            None => arm.name,
        };
        Ok(resolved.arms.into_iter().map(told).collect())
    }

    /// The default is not part of any arm, so that the arms of older runs keep their IDs.
    #[test]
    fn repository_settings_are_a_factor_only_if_set() {
        let ignored = resolve_arms("", "repository_settings = 'ignore'").unwrap();
        assert_eq!(ignored, resolve_arms("", "").unwrap());
        assert_eq!(resolve_arms("", "repository_settings = 'use'").unwrap(), ["loop", "cli use"]);
        let typo = resolve_arms("", "repository_settings = 'yes'").unwrap_err().to_string();
        assert!(typo.contains("arms.1.repository_settings"), "{typo}");
        let arm = "[[arms]]\nname = 'c'\nscaffold = 'noop'\nrepository_settings = 'use'";
        let error = resolve_arms("", arm).unwrap_err().to_string();
        assert!(error.contains("arms.2.repository_settings"), "{error}");
        assert!(error.contains("does not read settings from the task's repository"), "{error}");
    }

    /// An error about an arm refers to its line, even after other arms are removed.
    #[test]
    fn with_arms_keeps_the_lines_of_the_remaining_arms() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let arms = ["a", "b", "c"].map(|name| {
            let scaffold = if name == "b" { "gold" } else { "noop" };
            format!(
                "[[arms]]\nname = '{name}'\nscaffold = '{scaffold}'\nbudget = {{ steps = {} }}\n",
                name.len() + usize::from(name == "c")
            )
        });
        std::fs::write(file.path(), format!("tasks = []\n{}", arms.concat())).unwrap();
        let (config, written) = read_config(file.path(), &[]).unwrap();
        let lookup = |name: &str| {
            proctor_scaffolds::builtin_scaffold(name)
                .map_err(|error| UserError::new(error.to_string()))
        };
        let known = NameLookup {
            find_scaffold: &lookup,
            scaffold_names: &[],
            validate_script: &|_| Ok(()),
        };
        let all = resolve_config(config, &written, &known).unwrap();
        let (some, written) = all.with_arms(&written, &|name| name != "a");
        let names = |arms: Vec<&str>| arms == ["b", "c"];
        assert!(names(some.arms.iter().map(|arm| arm.name.as_str()).collect()));
        assert!(names(some.file.arms.iter().map(|arm| arm.name.as_str()).collect()));
        let error = written.error(&["arms", "1", "scaffold"], "wrong").message;
        assert!(error.contains(":12: ") && error.contains("(arm `c`)"), "{error}");
    }

    #[test]
    fn unknown_scaffold_error_suggests_the_closest_name() {
        let arm = |name: &str| format!("[[arms]]\nname = 'b'\nscaffold = '{name}'");
        let error = resolve_arms("", &arm("tool")).unwrap_err();
        assert_eq!(error.hint.unwrap(), "did you mean `tools`? scaffolds: client, tools");
        let error = resolve_arms("", &arm("xyzzy")).unwrap_err();
        assert_eq!(error.hint.unwrap(), "scaffolds: client, tools");
    }

    /// A scaffold whose own files cannot be loaded still exists. An "unknown scaffold" error would
    /// hide the reason.
    #[test]
    fn unloadable_scaffold_is_reported_with_its_reason() {
        let arm = "[[arms]]\nname = 'b'\nscaffold = 'broken'";
        let error = resolve_arms("", arm).unwrap_err().to_string();
        assert!(error.contains("broken/task.md.j2: syntax error"), "{error}");
        assert!(error.contains("arms") && error.contains("hint: correct it"), "{error}");
    }

    /// Limits that only a loop in Proctor can enforce are rejected for a client behind the model
    /// endpoint. The error gives the location of the key in the file.
    #[test]
    fn limits_that_a_sandboxed_client_cannot_enforce_are_rejected() {
        for (key, line) in [
            ("disclosure", "disclosure = 'countdown'"),
            ("ending", "ending = 'grace'"),
            ("tool_seconds", "tool_seconds = 60"),
        ] {
            let top = format!("[budget]\nsteps = 5\n{line}");
            let own = format!("budget = {{ steps = 5, {line} }}");
            for (error, path) in [
                (resolve_arms(&top, "").unwrap_err(), format!("key `budget.{key}`")),
                (
                    resolve_arms("", &own).unwrap_err(),
                    format!("key `arms.1.budget.{key}` (arm `cli`)"),
                ),
            ] {
                assert!(error.message.contains(&path), "{path}: {}", error.message);
                assert!(error.message.contains("cannot be enforced for the scaffold `client`"));
                assert!(error.hint.unwrap().contains("inside the sandbox"));
            }
            // The client's own arm may override the top-level table.
            if key != "tool_seconds" {
                let other = "budget = { disclosure = 'announced', ending = 'hard' }";
                assert_eq!(resolve_arms(&top, other).unwrap(), ["loop", "cli"]);
            }
        }
        let kept = "[budget]\nsteps = 5\ncost_usd = 1\nwall_seconds = 9\ndisclosure = 'announced'";
        assert_eq!(resolve_arms(kept, "").unwrap(), ["loop", "cli"]);
    }
}
