//! The scaffold `python:FILE.py:FUNCTION`: Proctor's driver calls a user's function and passes it a
//! session.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use proctor_sandbox_api::Mount;
use proctor_scaffold_api::{Finish, OwnSandbox, Scaffold, Session, SettingError, Stop};
use proctor_scaffolds::ToolSet;
use proctor_types::{RecordedArm, RequestRules, sha256_hex};
use serde_json::{Map, Value, json};

use crate::{
    agent::WORKDIR,
    interpreter::Interpreter,
    limits::{self, Limits},
    own_sandbox,
    process::{ConversationConfig, PROTOCOL, run_program},
    program::{MOUNT, ProgramStore},
    settings::{self, DEFAULT_IDLE_SECONDS, IDLE_KEY, OWN_SETTINGS_KEY, PROGRAM_KEY, REQUESTS_KEY},
};

/// The name of the scaffold in run records.
pub const NAME: &str = "python";
/// The start of the scaffold's name in configurations: `python:FILE.py:FUNCTION`.
const NAME_PREFIX: &str = "python:";
/// The key for the arm's interpreter. In a configuration, its value is a path; in a record, it is a
/// digest.
pub(crate) const INTERPRETER_KEY: &str = "interpreter";
/// The key for whether the agent's own client may call the model over HTTP.
const ENDPOINT_KEY: &str = "endpoint";
const KEYS: [&str; 5] = [PROGRAM_KEY, INTERPRETER_KEY, ENDPOINT_KEY, IDLE_KEY, REQUESTS_KEY];
/// The mount point of the driver, which is in the Python package `proctor`.
const PACKAGE_MOUNT: &str = "/proctor";
const START_SCRIPT: &str = "import sys; sys.path.insert(0, '/proctor'); from proctor._driver import main; main(sys.argv[1:])";

/// The files of the Python package, except those that need the binary.
const PACKAGE_FILES: [(&str, &str); 9] = [
    ("proctor/__init__.py", include_str!("../../python/src/proctor/__init__.py")),
    ("proctor/_binary.py", include_str!("../../python/src/proctor/_binary.py")),
    ("proctor/_driver.py", include_str!("../../python/src/proctor/_driver.py")),
    ("proctor/_errors.py", include_str!("../../python/src/proctor/_errors.py")),
    ("proctor/_frames.py", include_str!("../../python/src/proctor/_frames.py")),
    ("proctor/_progress.py", include_str!("../../python/src/proctor/_progress.py")),
    ("proctor/_results.py", include_str!("../../python/src/proctor/_results.py")),
    ("proctor/_run.py", include_str!("../../python/src/proctor/_run.py")),
    ("proctor/_session.py", include_str!("../../python/src/proctor/_session.py")),
];
/// Modules in the package that agents import directly.
const MODULES: [(&str, &str); 1] =
    [("proctor/minisweagent.py", include_str!("../../python/src/proctor/minisweagent.py"))];

/// A user's function in a Python file.
#[derive(Debug)]
pub struct Python {
    programs: ProgramStore,
    tools: ToolSet,
    limits: &'static Limits,
    /// The file and function. `None` if the scaffold comes from a record, whose settings are
    /// complete.
    source: Option<Source>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    file: PathBuf,
    function: String,
}

/// Returns whether a name from a configuration or a record belongs to this scaffold.
pub(crate) fn is_python_scaffold(name: &str) -> bool {
    name == NAME || name.starts_with(NAME_PREFIX)
}

impl Source {
    fn parse(name: &str) -> Option<Self> {
        let (file, function) = name.strip_prefix(NAME_PREFIX)?.rsplit_once(':')?;
        let is_name = function.chars().all(|c| c.is_alphanumeric() || c == '_')
            && function.chars().next().is_some_and(|c| !c.is_ascii_digit());
        (is_name && file.ends_with(".py"))
            .then(|| Self { file: file.into(), function: function.to_owned() })
    }

    /// Returns the directory or file to copy, and the path of the agent's file in that copy.
    fn program_paths(&self, folder: Option<&str>) -> Result<(PathBuf, PathBuf), String> {
        let Some(folder) = folder else {
            let name = self.file.file_name().unwrap_or_default();
            return Ok((self.file.clone(), name.into()));
        };
        let below = self
            .file
            .strip_prefix(folder)
            .map_err(|_| format!("{folder} does not contain {}", self.file.display()))?;
        Ok((folder.into(), below.to_owned()))
    }
}

impl Python {
    /// Creates the scaffold. Its name is `python` or `python:FILE.py:FUNCTION`.
    ///
    /// # Errors
    /// Fails if the built-in data is invalid. A test makes sure that it isn't.
    pub fn new(programs: ProgramStore, name: &str) -> Result<Self, String> {
        let tools = ToolSet::load().map_err(|error| error.to_string())?;
        Ok(Self { programs, tools, limits: Limits::get()?, source: Source::parse(name) })
    }
}

#[async_trait]
impl Scaffold for Python {
    fn name(&self) -> &'static str {
        NAME
    }

    fn factors(&self) -> Value {
        let driver: String =
            package_files().iter().map(|(path, text)| format!("{path}\0{text}\0")).collect();
        json!({
            "protocol": PROTOCOL,
            "limits": limits::LIMITS_TOML,
            "tools": self.tools.factors(),
            "driver": sha256_hex(driver.as_bytes()),
        })
    }

    fn resolve_settings(
        &self,
        arm_settings: &Map<String, Value>,
    ) -> Result<Map<String, Value>, SettingError> {
        resolve(self.source.as_ref(), arm_settings, &self.programs)
    }

    fn needs_model(&self) -> bool {
        true
    }

    fn model_endpoint(&self, settings: &Map<String, Value>) -> Option<Value> {
        has_endpoint(settings).then(|| settings::resolved_rules(settings))
    }

    fn own_sandbox(
        &self,
        settings: &Map<String, Value>,
    ) -> Result<Option<OwnSandbox>, (String, String)> {
        let again = || "resume the run, which copies missing files again".to_owned();
        let program = required_text(settings, PROGRAM_KEY)?;
        let folder = self.programs.find_copy(program).ok_or_else(|| {
            (format!("the copy of the arm's program {program} is missing"), again())
        })?;
        let digest = required_text(settings, INTERPRETER_KEY)?;
        let interpreter = Interpreter::load(&self.programs, digest)
            .ok_or_else(|| ("the arm's interpreter is missing".to_owned(), again()))?;
        let package =
            self.programs.store_files(&package_files()).map_err(|error| (error.0, again()))?;
        let mut mounts = vec![
            Mount { folder, mount_point: MOUNT.into() },
            Mount { folder: package.clone(), mount_point: PACKAGE_MOUNT.into() },
        ];
        for root in interpreter.roots() {
            let at = root.to_str().ok_or_else(|| {
                let what = format!("{} is not UTF-8", root.display());
                (what, "create the environment in another folder".to_owned())
            })?;
            mounts.push(Mount { mount_point: at.into(), folder: root.clone() });
        }
        let package = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Some(OwnSandbox {
            mounts,
            digest: format!("{program} {package} {}", interpreter.state()),
            limits: self.limits.sandbox_spec(),
            workdir: WORKDIR.into(),
        }))
    }

    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        let settings = session.brief().settings.clone();
        let of =
            |key| required_text(&settings, key).map_err(|(what, _)| own_sandbox::setup_fault(what));
        let (file, function) = (of("file")?, of("function")?);
        let interpreter = Interpreter::load(&self.programs, of(INTERPRETER_KEY)?)
            .ok_or_else(|| own_sandbox::setup_fault("the arm's interpreter is missing"))?;
        let own =
            settings.get(OWN_SETTINGS_KEY).and_then(Value::as_object).cloned().unwrap_or_default();
        let env = match has_endpoint(&settings) {
            true => own_sandbox::environment_variables(session.brief(), &own)?,
            false => Vec::new(),
        };
        let path = format!("{MOUNT}/{file}");
        // Run Python in isolated mode, which ignores environment variables. Write no bytecode, and
        // use UTF-8.
        let executable = interpreter.executable.to_string_lossy();
        let words = [
            &*executable,
            "-I",
            "-B",
            "-u",
            "-X",
            "utf8",
            "-c",
            START_SCRIPT,
            path.as_str(),
            function,
        ];
        let command = words.iter().map(|word| (*word).to_owned()).collect();
        let conversation = ConversationConfig {
            limits: self.limits,
            tools: &self.tools,
            command,
            env,
            idle_seconds: settings
                .get(IDLE_KEY)
                .and_then(Value::as_f64)
                .unwrap_or(DEFAULT_IDLE_SECONDS),
            program_settings: &own,
        };
        run_program(session, conversation).await
    }
}

fn package_files() -> Vec<(&'static str, &'static str)> {
    PACKAGE_FILES.into_iter().chain(MODULES).collect()
}

fn has_endpoint(settings: &Map<String, Value>) -> bool {
    settings.get(ENDPOINT_KEY) != Some(&Value::Bool(false))
}

fn required_text<'a>(
    settings: &'a Map<String, Value>,
    key: &str,
) -> Result<&'a str, (String, String)> {
    let found = settings.get(key).and_then(Value::as_str);
    found.ok_or_else(|| (format!("the arm has no `{key}`"), "start a new run".to_owned()))
}

/// Checks the settings, copies the program, and inspects the packages of the interpreter.
fn resolve(
    source: Option<&Source>,
    arm_settings: &Map<String, Value>,
    programs: &ProgramStore,
) -> Result<Map<String, Value>, SettingError> {
    let wrong = SettingError::new;
    let Some(source) = source else {
        let what = "the scaffold `python` needs a file and a function".to_owned();
        return Err(wrong(
            SettingError::SCAFFOLD,
            what,
            "use scaffold = \"python:FILE.py:FUNCTION\"",
        ));
    };
    let mut own = arm_settings.clone();
    let [program, interpreter, endpoint, idle, requests] = KEYS.map(|key| own.remove(key));
    settings::reject_misspelled_keys(&own, &KEYS)?;
    let folder = match &program {
        None => None,
        Some(Value::String(path)) => Some(path.as_str()),
        Some(_) => {
            let what = "is not the path of a folder".to_owned();
            return Err(wrong(
                PROGRAM_KEY,
                what,
                "set it to the folder that contains the agent's file",
            ));
        }
    };
    let interpreter = match &interpreter {
        None => None,
        Some(Value::String(path)) => Some(path.as_str()),
        Some(_) => {
            let what = "is not the path of a Python interpreter".to_owned();
            return Err(wrong(INTERPRETER_KEY, what, "for example \".venv/bin/python\""));
        }
    };
    let endpoint = match endpoint {
        None => true,
        Some(Value::Bool(endpoint)) => endpoint,
        Some(_) => {
            return Err(wrong(ENDPOINT_KEY, "must be true or false".into(), "the default is true"));
        }
    };
    let idle_seconds = settings::parse_idle_seconds(idle.as_ref())?;
    let rules = settings::parse_request_rules(requests)?;
    if !endpoint && rules != RequestRules::default() {
        let what = "has no effect without the model endpoint".to_owned();
        return Err(wrong(REQUESTS_KEY, what, "remove it, or remove `endpoint = false`"));
    }
    let hint = "name the agent's file: scaffold = \"python:FILE.py:FUNCTION\"";
    let (copied, file) =
        source.program_paths(folder).map_err(|what| wrong(PROGRAM_KEY, what, hint))?;
    let file = file.to_str().ok_or_else(|| {
        let what = format!("{} is not UTF-8", source.file.display());
        wrong(SettingError::SCAFFOLD, what, "rename the file")
    })?;
    if !source.file.is_file() {
        let what = format!("{}: no such file", source.file.display());
        return Err(wrong(SettingError::SCAFFOLD, what, hint));
    }
    let of_interpreter = |(what, hint): (String, String)| wrong(INTERPRETER_KEY, what, &hint);
    let found = Interpreter::find(interpreter, &source.file).map_err(of_interpreter)?;
    found
        .check_function(&source.file, &source.function)
        .map_err(|(what, hint)| wrong(SettingError::SCAFFOLD, what, &hint))?;
    // Without the key `program`, the agent's own file is copied.
    let copied_key = if folder.is_some() { PROGRAM_KEY } else { SettingError::SCAFFOLD };
    let digest = programs.store_copy(&copied).map_err(|error| wrong(copied_key, error.0, hint))?;
    let kept = found.store(programs).map_err(of_interpreter)?;
    let mut resolved = json!({
        PROGRAM_KEY: digest,
        "file": file,
        "function": source.function,
        INTERPRETER_KEY: kept,
        "python": found.name(),
        "packages": found.packages,
        ENDPOINT_KEY: endpoint,
        IDLE_KEY: idle_seconds,
        OWN_SETTINGS_KEY: own,
    });
    if rules != RequestRules::default() {
        resolved[REQUESTS_KEY] = json!(rules);
    }
    Ok(resolved.as_object().cloned().unwrap_or_default())
}

/// If copies of an arm's program or interpreter location are missing, stores them again.
/// `planned_settings` are the settings in the plan, and `recorded_arm` is the arm in the
/// configuration.
///
/// # Errors
/// Fails if an original is missing or has changed, because then the trial would not run what was
/// planned.
pub fn restore_python(
    programs: &ProgramStore,
    planned_settings: &Map<String, Value>,
    recorded_arm: &RecordedArm,
) -> Result<(), String> {
    let of = |key| required_text(planned_settings, key).map_err(|(what, _)| what);
    let (program, interpreter) = (of(PROGRAM_KEY)?, of(INTERPRETER_KEY)?);
    let source = Source::parse(&recorded_arm.scaffold);
    let file = source.as_ref().map(|source| source.file.clone()).unwrap_or_default();
    if programs.find_copy(program).is_none() {
        let source = source.as_ref().ok_or("the configuration has no file")?;
        let (copied, _) =
            source.program_paths(recorded_arm.settings.get(PROGRAM_KEY).and_then(Value::as_str))?;
        let kept = programs.store_copy(&copied).map_err(|error| error.0)?;
        if kept != program {
            let copied = copied.display();
            return Err(format!("{copied} has changed since the run was planned"));
        }
    }
    if Interpreter::load(programs, interpreter).is_none() {
        let named = recorded_arm.interpreter.as_deref().and_then(Path::to_str);
        let found = Interpreter::find(named, Path::new(&file)).map_err(|(what, _)| what)?;
        if found.digest() != interpreter {
            let shown = found.executable.display();
            return Err(format!(
                "{shown} is {}, or its packages have changed since the run was planned",
                found.name()
            ));
        }
        found.store(programs).map_err(|(what, _)| what)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    #[test]
    fn python_scaffold_names_have_file_and_function() {
        let of = |name: &str| Source::parse(name).map(|one| (one.file, one.function));
        assert_eq!(of("python:a/b.py:drive"), Some(("a/b.py".into(), "drive".into())));
        assert_eq!(of("python:C:x/b.py:_d2"), Some(("C:x/b.py".into(), "_d2".into())));
        for wrong in [
            "python",
            "python:",
            "python:a.py",
            "python:a.py:",
            "python:a.txt:f",
            "python:a.py:2f",
            "python:a.py:f()",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert!(
            is_python_scaffold("python")
                && is_python_scaffold("python:a.py:f")
                && !is_python_scaffold("pythonic")
        );
    }

    /// If a module is missing from this list, it is also missing in the sandbox.
    #[test]
    fn python_package_is_embedded_completely() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/src/proctor");
        let files: BTreeSet<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".py"))
            .map(|name| format!("proctor/{name}"))
            .collect();
        let carried: BTreeSet<String> =
            package_files().iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(carried, files);
    }

    fn resolve_file(
        file: &Path,
        programs: &ProgramStore,
        arm_settings: Value,
    ) -> Result<Map<String, Value>, SettingError> {
        let source = Source { file: file.to_owned(), function: "drive".into() };
        let mut given = arm_settings.as_object().unwrap().clone();
        given.entry(INTERPRETER_KEY).or_insert_with(|| "/usr/bin/python3".into());
        resolve(Some(&source), &given, programs)
    }

    #[test]
    fn python_factors_are_content_and_packages() {
        let folder = tempfile::tempdir().unwrap();
        let programs = ProgramStore::new(folder.path().join("programs"));
        let at = |name: &str, text: &str| {
            let place = folder.path().join(name);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("agent.py"), format!("def drive(s): ...\n# {text}")).unwrap();
            place.join("agent.py")
        };
        let of = |file: &Path, given: Value| resolve_file(file, &programs, given).unwrap();
        let one = of(&at("one", "same"), json!({"effort": "low"}));
        assert_eq!(one, of(&at("two", "same"), json!({"effort": "low"})));
        assert_ne!(one, of(&at("three", "other"), json!({"effort": "low"})));
        assert_eq!(
            (&one["file"], &one[OWN_SETTINGS_KEY]["effort"]),
            (&json!("agent.py"), &json!("low"))
        );
        assert!(one["packages"].is_array() && one["python"].as_str().unwrap().contains(" 3."));
        assert!(!serde_json::to_string(&one).unwrap().contains("/usr/bin"), "{one:?}");
        // If the program is a directory, the other files in it are factors too.
        let two = folder.path().join("two");
        let whole = json!({"program": two.to_str().unwrap()});
        let before = of(&two.join("agent.py"), whole.clone());
        fs::write(two.join("helper.py"), "x = 1").unwrap();
        assert_ne!(before[PROGRAM_KEY], of(&two.join("agent.py"), whole)[PROGRAM_KEY]);
        // The program and the interpreter are restored, unless they have changed.
        let planned = of(&at("four", "text"), json!({}));
        let file = folder.path().join("four/agent.py");
        let written = RecordedArm {
            scaffold: format!("python:{}:drive", file.display()),
            interpreter: Some("/usr/bin/python3".into()),
            ..RecordedArm::default()
        };
        fs::remove_dir_all(folder.path().join("programs")).unwrap();
        restore_python(&programs, &planned, &written).unwrap();
        fs::remove_dir_all(folder.path().join("programs")).unwrap();
        fs::write(&file, "changed").unwrap();
        let why = restore_python(&programs, &planned, &written).unwrap_err();
        assert!(why.contains("has changed since"), "{why}");
    }

    #[test]
    fn python_setting_errors_name_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let programs = ProgramStore::new(folder.path().join("programs"));
        let file = folder.path().join("agent.py");
        fs::write(&file, "def drive(session): ...\n").unwrap();
        for (given, key, says) in [
            (json!({"interpreter": 3}), INTERPRETER_KEY, "not the path"),
            (json!({"interpreter": "/no/python"}), INTERPRETER_KEY, "cannot run"),
            (json!({"endpoint": "no"}), ENDPOINT_KEY, "true or false"),
            (json!({"idle_seconds": 0}), IDLE_KEY, "1 to 86400"),
            (json!({"program": "/usr/lib"}), PROGRAM_KEY, "does not contain"),
            (json!({"idle_second": 3}), "idle_second", "resembles"),
            (
                json!({"endpoint": false, "requests": {"default": "side"}}),
                REQUESTS_KEY,
                "no effect",
            ),
        ] {
            let wrong = resolve_file(&file, &programs, given.clone()).unwrap_err();
            assert_eq!(wrong.key, key, "{given}: {}", wrong.problem);
            assert!(wrong.problem.contains(says), "{given}: {}", wrong.problem);
        }
        let wrong = resolve_file(&folder.path().join("none.py"), &programs, json!({})).unwrap_err();
        assert_eq!(wrong.key, SettingError::SCAFFOLD);
        assert!(wrong.problem.contains("none.py: no such file"), "{}", wrong.problem);
        fs::write(&file, "def dive(session): ...\n").unwrap();
        let wrong = resolve_file(&file, &programs, json!({})).unwrap_err();
        assert_eq!(wrong.key, SettingError::SCAFFOLD);
        assert!(wrong.problem.contains("has no function `drive`"), "{}", wrong.problem);
        assert_eq!(wrong.hint, "did you mean `dive`?");
        let wrong = resolve(None, &Map::new(), &programs).unwrap_err();
        assert!(wrong.hint.contains("python:FILE.py:FUNCTION"), "{}", wrong.hint);
    }

    #[test]
    fn python_sandbox_mounts_program_driver_and_environment() {
        let folder = tempfile::tempdir().unwrap();
        let programs = ProgramStore::new(folder.path().join("programs"));
        let file = folder.path().join("agent.py");
        fs::write(&file, "drive = print").unwrap();
        let settings = resolve_file(&file, &programs, json!({})).unwrap();
        let python = Python::new(programs, NAME).unwrap();
        let own = python.own_sandbox(&settings).unwrap().unwrap();
        let places: Vec<String> =
            own.mounts.iter().map(|mount| mount.mount_point.to_string()).collect();
        assert_eq!(places, [MOUNT, PACKAGE_MOUNT]);
        assert!(own.mounts[0].folder.join("agent.py").is_file());
        assert!(own.mounts[1].folder.join("proctor/_driver.py").is_file());
        assert!(python.model_endpoint(&settings).is_some());
        let ask = json!({"endpoint": false}).as_object().unwrap().clone();
        assert_eq!(python.model_endpoint(&ask), None);
    }
}
