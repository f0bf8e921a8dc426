//! The `[arms.settings]` of a host scaffold: how to start the program, and keys for the program
//! itself.

use std::path::Path;

use proctor_scaffold_api::SettingError;
use proctor_types::RequestRules;
use serde_json::{Map, Value, json};

use crate::program::Programs;

/// The key for the file or directory of the program. In a configuration, its value is a path; in a
/// plan, it is a digest.
pub const PROGRAM: &str = "program";
/// The key for the command line of the program.
pub const COMMAND: &str = "command";
pub(crate) const IDLE_KEY: &str = "idle_seconds";
/// The key for the program's own settings in the resolved settings.
pub(crate) const OWN_SETTINGS_KEY: &str = "settings";
/// The key for the rules that say which requests belong to the main conversation. They apply to an
/// agent that calls the model itself.
pub(crate) const REQUESTS_KEY: &str = "requests";
const KEYS: [&str; 4] = [PROGRAM, COMMAND, IDLE_KEY, REQUESTS_KEY];

pub(crate) const DEFAULT_IDLE_SECONDS: f64 = 600.0;
const MAX_IDLE_SECONDS: f64 = 86_400.0;

/// How the agent requests responses from the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelAccess {
    Proctor,
    Itself,
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
pub(crate) fn resolve(
    scaffold: &str,
    asks: ModelAccess,
    given: &Map<String, Value>,
    programs: &Programs,
) -> Result<Map<String, Value>, SettingError> {
    let wrong = SettingError::new;
    let mut own = given.clone();
    let [program, command, idle, requests] = KEYS.map(|key| own.remove(key));
    reject_misspelled_keys(&own, &KEYS)?;
    let example = "for example [\"python3\", \"/agent/agent.py\"] (docs/host.md)";
    let words = command.as_ref().and_then(Value::as_array).filter(|words| {
        let texts = words.iter().all(|word| word.as_str().is_some_and(|w| !w.contains('\0')));
        texts && words.first().is_some_and(|first| first != "")
    });
    let Some(words) = words else {
        let what = match &command {
            None => format!("the scaffold `{scaffold}` needs a `{COMMAND}`"),
            Some(_) => "must be a list of strings that starts with a program".to_owned(),
        };
        return Err(wrong(COMMAND, what, example));
    };
    let idle_seconds = parse_idle_seconds(idle.as_ref())?;
    if requests.is_some() && asks == ModelAccess::Proctor {
        let what = format!(
            "not supported by the scaffold `{scaffold}`, in which each `model/ask` is a step"
        );
        return Err(wrong(REQUESTS_KEY, what, "if your agent needs this key, rename it"));
    }
    let rules = parse_request_rules(requests)?;
    let digest = match &program {
        None => None,
        Some(Value::String(path)) => {
            let hint = "set it to the file or folder of your agent, relative to the configuration";
            let keep = |path: &str| programs.store_copy(Path::new(path));
            Some(keep(path).map_err(|error| wrong(PROGRAM, error.to_string(), hint))?)
        }
        Some(_) => {
            let what = "is not the path of a file or folder".to_owned();
            return Err(wrong(PROGRAM, what, "for example \"agents/mine\""));
        }
    };
    let mut resolved =
        json!({ PROGRAM: digest, COMMAND: words, IDLE_KEY: idle_seconds, OWN_SETTINGS_KEY: own });
    // Leave out default rules, so that existing arms keep their ids.
    if rules != RequestRules::default() {
        resolved[REQUESTS_KEY] = json!(rules);
    }
    Ok(resolved.as_object().cloned().unwrap_or_default())
}

/// Rejects a key for the agent if it looks like a misspelled key of the scaffold.
pub(crate) fn reject_misspelled_keys(
    own: &Map<String, Value>,
    keys: &[&str],
) -> Result<(), SettingError> {
    for key in own.keys() {
        if let Some(near) = keys.iter().find(|known| strsim::levenshtein(known, key) <= 2) {
            return Err(SettingError {
                key: key.clone(),
                what: "resembles a key of the scaffold".to_owned(),
                hint: format!("did you mean `{near}`? if your agent needs this key, rename it"),
            });
        }
    }
    Ok(())
}

/// Returns the value of `idle_seconds`. If it is not set, returns the default.
pub(crate) fn parse_idle_seconds(given: Option<&Value>) -> Result<f64, SettingError> {
    let Some(value) = given else { return Ok(DEFAULT_IDLE_SECONDS) };
    let seconds = value.as_f64().filter(|seconds| (1.0..=MAX_IDLE_SECONDS).contains(seconds));
    seconds.ok_or_else(|| SettingError {
        key: IDLE_KEY.to_owned(),
        what: "must be a number from 1 to 86400".to_owned(),
        hint: "the unit is seconds".to_owned(),
    })
}

/// Returns the rules in the table `requests`. If there is no table, returns the default rules.
pub(crate) fn parse_request_rules(given: Option<Value>) -> Result<RequestRules, SettingError> {
    let Some(table) = given else { return Ok(RequestRules::default()) };
    serde_path_to_error::deserialize(table).map_err(|error| SettingError {
        key: REQUESTS_KEY.to_owned(),
        what: format!("invalid table: {error}"),
        hint: "use the form of [requests] in manifests (docs/budgets.md)".to_owned(),
    })
}

/// Returns the rules in resolved settings. By default, each request from the agent is a step.
pub(crate) fn resolved_rules(resolved: &Map<String, Value>) -> Value {
    resolved.get(REQUESTS_KEY).cloned().unwrap_or_else(|| json!(RequestRules::default()))
}

impl Settings {
    /// Parses settings that [`resolve`] returned.
    pub(crate) fn from_resolved(resolved: &Map<String, Value>) -> Result<Self, String> {
        let command = resolved.get(COMMAND).and_then(Value::as_array);
        let words = command.into_iter().flatten().filter_map(Value::as_str);
        let command: Vec<String> = words.map(str::to_owned).collect();
        if command.is_empty() {
            return Err(format!("the arm has no `{COMMAND}`"));
        }
        Ok(Self {
            program: resolved.get(PROGRAM).and_then(Value::as_str).map(str::to_owned),
            command,
            idle_seconds: resolved
                .get(IDLE_KEY)
                .and_then(Value::as_f64)
                .unwrap_or(DEFAULT_IDLE_SECONDS),
            program_settings: resolved
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

    fn resolve_json(given: Value) -> Result<Settings, SettingError> {
        let folder = tempfile::tempdir().unwrap();
        let given = given.as_object().unwrap().clone();
        let settings =
            resolve("acp", ModelAccess::Itself, &given, &Programs::new(folder.path().into()))?;
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
        let programs = Programs::new("/nowhere".into());
        let with = |asks: ModelAccess, requests: Value| {
            let given = json!({"command": ["x"], "requests": requests});
            resolve("acp", asks, given.as_object().unwrap(), &programs)
        };
        let side = json!({"default": "main", "rules": [{"class": "side", "tools": false}]});
        let resolved = with(ModelAccess::Itself, side.clone()).unwrap();
        assert_eq!(resolved_rules(&resolved), side);
        assert_eq!(Settings::from_resolved(&resolved).unwrap().program_settings, Map::new());
        let bare = with(ModelAccess::Itself, json!({})).unwrap();
        assert!(!bare.contains_key("requests"), "{bare:?}");
        assert_eq!(resolved_rules(&bare)["default"], "main");
        let wrong = with(ModelAccess::Itself, json!({"rules": [{"class": "sidely"}]})).unwrap_err();
        assert!(wrong.what.contains("rules[0].class"), "{}", wrong.what);
        let wrong = with(ModelAccess::Proctor, side).unwrap_err();
        assert_eq!(wrong.key, "requests");
        assert!(wrong.what.contains("each `model/ask` is a step"), "{}", wrong.what);
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
            assert!(wrong.what.contains(says), "{given}: {}", wrong.what);
        }
    }
}
