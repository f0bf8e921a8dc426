//! The `[arms.settings]` of a host scaffold: how to start the program, and keys for the program
//! itself.

use std::path::Path;

use proctor_scaffold_api::SettingError;
use proctor_types::RequestRules;
use serde_json::{Map, Value, json};

use crate::program::ProgramStore;

/// The key for the file or directory of the program. In a configuration, its value is a path; in a
/// plan, it is a digest.
pub const PROGRAM_KEY: &str = "program";
/// The key for the command line of the program.
pub const COMMAND_KEY: &str = "command";
pub(crate) const IDLE_KEY: &str = "idle_seconds";
/// The key for the program's own settings in the resolved settings.
pub(crate) const OWN_SETTINGS_KEY: &str = "settings";
/// The key for the rules that say which requests belong to the main conversation. They apply to an
/// agent that calls the model itself.
pub(crate) const REQUESTS_KEY: &str = "requests";
const KEYS: [&str; 4] = [PROGRAM_KEY, COMMAND_KEY, IDLE_KEY, REQUESTS_KEY];

pub(crate) const DEFAULT_IDLE_SECONDS: f64 = 600.0;
const MAX_IDLE_SECONDS: f64 = 86_400.0;

/// How the agent requests responses from the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelAccess {
    Proctor,
    Direct,
}

/// The resolved settings, in the form in which trials use them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// The digest of the program, if the arm sets a program.
    pub program: Option<String>,
    pub command: Vec<String>,
    pub idle_seconds: f64,
    pub program_settings: Map<String, Value>,
}

/// Checks the settings, copies the program, and replaces the program's path with its digest.
pub(crate) fn resolve_settings(
    scaffold: &str,
    model_access: ModelAccess,
    arm_settings: &Map<String, Value>,
    programs: &ProgramStore,
) -> Result<Map<String, Value>, SettingError> {
    let wrong = SettingError::new;
    let mut own = arm_settings.clone();
    let [program, command, idle, requests] = KEYS.map(|key| own.remove(key));
    reject_misspelled_keys(&own, &KEYS)?;
    let example = "for example [\"python3\", \"/agent/agent.py\"] (docs/reference/host.md)";
    let words = command.as_ref().and_then(Value::as_array).filter(|words| {
        let texts = words.iter().all(|word| word.as_str().is_some_and(|w| !w.contains('\0')));
        texts && words.first().is_some_and(|first| first != "")
    });
    let Some(words) = words else {
        let what = match &command {
            None => format!("the scaffold `{scaffold}` needs a `{COMMAND_KEY}`"),
            Some(_) => "must be a list of strings that starts with a program".to_owned(),
        };
        return Err(wrong(COMMAND_KEY, what, example));
    };
    let idle_seconds = parse_idle_seconds(idle.as_ref())?;
    if requests.is_some() && model_access == ModelAccess::Proctor {
        let what = format!(
            "not supported by the scaffold `{scaffold}`, in which each `model/ask` is a step"
        );
        return Err(wrong(REQUESTS_KEY, what, "if your agent needs this key, rename it"));
    }
    let rules = parse_request_rules(requests)?;
    let digest = match &program {
        None => None,
        Some(Value::String(path)) => {
            let hint = "set it to the path of your agent's file or folder, relative to the \
                        configuration file";
            let keep = |path: &str| programs.store_copy(Path::new(path));
            Some(keep(path).map_err(|error| wrong(PROGRAM_KEY, error.to_string(), hint))?)
        }
        Some(_) => {
            let what = "is not the path of a file or folder".to_owned();
            return Err(wrong(PROGRAM_KEY, what, "for example \"agents/mine\""));
        }
    };
    let mut resolved = json!({ PROGRAM_KEY: digest, COMMAND_KEY: words, IDLE_KEY: idle_seconds, OWN_SETTINGS_KEY: own });
    // Leave out default rules, so that existing arms keep their ids.
    if rules != RequestRules::default() {
        resolved[REQUESTS_KEY] = json!(rules);
    }
    Ok(resolved.as_object().cloned().unwrap_or_default())
}

/// Rejects a key for the agent if it looks like a misspelled key of the scaffold.
pub(crate) fn reject_misspelled_keys(
    program_settings: &Map<String, Value>,
    keys: &[&str],
) -> Result<(), SettingError> {
    for key in program_settings.keys() {
        if let Some(near) = keys.iter().find(|known| strsim::levenshtein(known, key) <= 2) {
            return Err(SettingError {
                key: key.clone(),
                problem: "resembles one of the scaffold's own keys".to_owned(),
                hint: format!("did you mean `{near}`? if your agent needs this key, rename it"),
            });
        }
    }
    Ok(())
}

/// Returns the value of `idle_seconds`. If it is not set, returns the default.
pub(crate) fn parse_idle_seconds(idle_seconds: Option<&Value>) -> Result<f64, SettingError> {
    let Some(value) = idle_seconds else { return Ok(DEFAULT_IDLE_SECONDS) };
    let seconds = value.as_f64().filter(|seconds| (1.0..=MAX_IDLE_SECONDS).contains(seconds));
    seconds.ok_or_else(|| SettingError {
        key: IDLE_KEY.to_owned(),
        problem: "must be a number from 1 to 86400".to_owned(),
        hint: "the unit is seconds".to_owned(),
    })
}

/// Returns the rules in the table `requests`. If there is no table, returns the default rules.
pub(crate) fn parse_request_rules(value: Option<Value>) -> Result<RequestRules, SettingError> {
    let Some(table) = value else { return Ok(RequestRules::default()) };
    serde_path_to_error::deserialize(table).map_err(|error| SettingError {
        key: REQUESTS_KEY.to_owned(),
        problem: format!("invalid table: {error}"),
        hint: "use the form of [requests] in manifests (docs/concepts/budgets.md)".to_owned(),
    })
}

/// Returns the rules in resolved settings. By default, each request from the agent is a step.
pub(crate) fn resolved_rules(settings: &Map<String, Value>) -> Value {
    settings.get(REQUESTS_KEY).cloned().unwrap_or_else(|| json!(RequestRules::default()))
}

impl Settings {
    /// Parses settings that [`resolve_settings`] returned.
    pub(crate) fn from_resolved(settings: &Map<String, Value>) -> Result<Self, String> {
        let command = settings.get(COMMAND_KEY).and_then(Value::as_array);
        let words = command.into_iter().flatten().filter_map(Value::as_str);
        let command: Vec<String> = words.map(str::to_owned).collect();
        if command.is_empty() {
            return Err(format!("the arm has no `{COMMAND_KEY}`"));
        }
        Ok(Self {
            program: settings.get(PROGRAM_KEY).and_then(Value::as_str).map(str::to_owned),
            command,
            idle_seconds: settings
                .get(IDLE_KEY)
                .and_then(Value::as_f64)
                .unwrap_or(DEFAULT_IDLE_SECONDS),
            program_settings: settings
                .get(OWN_SETTINGS_KEY)
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve_json(arm_settings: Value) -> Result<Settings, SettingError> {
        let folder = tempfile::tempdir().unwrap();
        let given = arm_settings.as_object().unwrap().clone();
        let settings = resolve_settings(
            "acp",
            ModelAccess::Direct,
            &given,
            &ProgramStore::new(folder.path().into()),
        )?;
        Ok(Settings::from_resolved(&settings).unwrap())
    }

    #[test]
    fn host_settings_keep_the_agents_own_keys() {
        let settings = resolve_json(json!({"command": ["x"], "effort": "low"})).unwrap();
        assert_eq!(
            (settings.idle_seconds, &settings.program_settings["effort"]),
            (600.0, &json!("low"))
        );
        assert_eq!(settings.program, None);
    }

    #[test]
    fn host_requests_table_needs_an_endpoint() {
        let programs = ProgramStore::new("/nowhere".into());
        let with = |asks: ModelAccess, requests: Value| {
            let given = json!({"command": ["x"], "requests": requests});
            resolve_settings("acp", asks, given.as_object().unwrap(), &programs)
        };
        let side = json!({"default": "main", "rules": [{"class": "side", "tools": false}]});
        let resolved = with(ModelAccess::Direct, side.clone()).unwrap();
        assert_eq!(resolved_rules(&resolved), side);
        assert_eq!(Settings::from_resolved(&resolved).unwrap().program_settings, Map::new());
        let bare = with(ModelAccess::Direct, json!({})).unwrap();
        assert!(!bare.contains_key("requests"), "{bare:?}");
        assert_eq!(resolved_rules(&bare)["default"], "main");
        let wrong = with(ModelAccess::Direct, json!({"rules": [{"class": "sidely"}]})).unwrap_err();
        assert!(wrong.problem.contains("rules[0].class"), "{}", wrong.problem);
        let wrong = with(ModelAccess::Proctor, side).unwrap_err();
        assert_eq!(wrong.key, "requests");
        assert!(wrong.problem.contains("each `model/ask` is a step"), "{}", wrong.problem);
    }

    #[test]
    fn host_program_factor_is_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let place = folder.path().join(name);
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("agent.py"), text).unwrap();
            json!({"command": ["x"], "program": place.to_str().unwrap()})
        };
        let one = resolve_json(at("one", "same")).unwrap();
        assert_eq!(one, resolve_json(at("two", "same")).unwrap());
        assert_ne!(one, resolve_json(at("three", "other")).unwrap());
    }

    #[test]
    fn host_setting_errors_name_the_key() {
        for (given, key, says) in [
            (json!({}), "command", "needs a `command`"),
            (json!({"command": "python3"}), "command", "must be a list"),
            (json!({"command": []}), "command", "must be a list"),
            (json!({"command": ["", "x"]}), "command", "must be a list"),
            (json!({"command": ["x"], "idle_second": 3}), "idle_second", "resembles"),
            (json!({"command": ["x"], "idle_seconds": 0}), "idle_seconds", "1 to 86400"),
            (json!({"command": ["x"], "program": 3}), "program", "not the path"),
            (json!({"command": ["x"], "program": "/no/such"}), "program", "/no/such"),
        ] {
            let wrong = resolve_json(given.clone()).unwrap_err();
            assert_eq!(wrong.key, key, "{given}");
            assert!(wrong.problem.contains(says), "{given}: {}", wrong.problem);
        }
    }
}
