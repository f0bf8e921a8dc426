//! An arm: everything that is compared, and nothing else.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    ArmId, Budget, ForkOrigin, LeakCheckSpec, ModelSpec, NetworkPolicy, SandboxSpec, StatementSpec,
    sha256_hex,
};

/// Increased whenever the set of factors or their meaning changes, so that old and new arms stay
/// distinct.
pub const FACTOR_SCHEMA: u32 = 2;

/// The scaffold of an arm of predictions. Proctor did not run it.
pub const PREDICTIONS: &str = "predictions";

/// Scaffolds whose arms are always controls.
const CONTROLS: [&str; 2] = ["gold", "noop"];

/// scaffold x model x settings x budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// SHA-256 of [`Arm::factors`], computed by [`Arm::identified`]. Its first 12 hex digits name
    /// the arm's directory on disk.
    pub id: ArmId,
    /// For people. Not a factor.
    pub name: String,
    /// The scaffold's name, as in `scaffold` of `[[arms]]`: `tools`, `bash`, `gold`, ...
    pub scaffold: String,
    /// The model that the scaffold calls. Absent for scaffolds without one (`gold`, `noop`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSpec>,
    /// The limits of each trial of the arm.
    pub budget: Budget,
    /// The back end, and the resources of each sandbox.
    pub sandbox: SandboxSpec,
    /// What the trial's sandbox can reach.
    pub network: NetworkPolicy,
    /// How copies of the hidden solution in a sandbox are handled.
    #[serde(default)]
    pub leak_check: LeakCheckSpec,
    /// Which parts of a task the agent is told.
    #[serde(default, skip_serializing_if = "StatementSpec::is_plain")]
    pub statement: StatementSpec,
    /// Every prompt text of the scaffold, by template name.
    pub prompts: Value,
    /// The scaffold's own settings.
    #[serde(default)]
    pub settings: Value,
    /// The arm is compared with the others as a control and is not part of the question. Not a
    /// factor. `gold` and `noop` need no such key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// Where its trials start, if not at the task's own start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOrigin>,
}

impl Arm {
    /// An arm of existing patches, such as predictions.
    pub fn of_patches(name: &str, sandbox: &SandboxSpec, settings: Value) -> Self {
        Self {
            control: false,
            forked_from: None,
            id: ArmId::new(""),
            name: name.to_owned(),
            scaffold: PREDICTIONS.to_owned(),
            model: None,
            budget: Budget::default(),
            sandbox: sandbox.clone(),
            network: NetworkPolicy::default(),
            leak_check: LeakCheckSpec::default(),
            statement: StatementSpec::default(),
            prompts: Value::Null,
            settings,
        }
        .identified()
    }

    /// The same arm with its id computed from its factors.
    #[must_use]
    pub fn identified(mut self) -> Self {
        self.id = ArmId::new(sha256_hex(canonical(&self.factors()).as_bytes()));
        self
    }

    /// Whether the arm is a control: an upper or a lower bound for the others.
    pub fn is_control(&self) -> bool {
        self.control || CONTROLS.contains(&self.scaffold.as_str())
    }

    /// The scaffold's own settings as a table; empty if there are none.
    pub fn settings_table(&self) -> Map<String, Value> {
        self.settings.as_object().cloned().unwrap_or_default()
    }

    /// All factors. The endpoint's URL, the key's variable and the price are recorded but not
    /// compared: the same model at two URLs is one arm.
    pub fn factors(&self) -> Value {
        let mut model = serde_json::to_value(&self.model).unwrap_or_default();
        if let Some(model) = model.as_object_mut() {
            ModelSpec::NO_FACTORS.iter().for_each(|key| drop(model.remove(*key)));
            if let Some(file) = model.get_mut("tokenizer").and_then(Value::as_object_mut) {
                file.remove("path");
            }
        }
        let mut network = serde_json::to_value(&self.network).unwrap_or_default();
        if let Some(network) = network.as_object_mut() {
            network.remove("ca_file");
        }
        let budget = Budget { arm: None, run: None, ..self.budget.clone() };
        let mut factors = json!({
            "factor_schema": FACTOR_SCHEMA,
            "scaffold": self.scaffold,
            "model": model,
            "budget": budget,
            "sandbox": self.sandbox,
            "network": network,
            "leak_check": self.leak_check,
            "prompts": self.prompts,
            "settings": self.settings,
        });
        if let (Some(origin), Some(factors)) = (&self.forked_from, factors.as_object_mut()) {
            let mut origin = json!(origin);
            if let Some(origin) = origin.as_object_mut() {
                origin.remove("run");
                origin.remove("name");
            }
            factors.insert("forked_from".into(), origin);
        }
        // An arm that was planned before this factor existed keeps its id.
        if let (false, Some(factors)) = (self.statement.is_plain(), factors.as_object_mut()) {
            factors.insert("statement".into(), json!(self.statement));
        }
        factors
    }
}

/// Canonical JSON: keys sorted, no white space.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort();
            let parts: Vec<_> = keys
                .into_iter()
                .map(|key| format!("{}:{}", Value::from(key.as_str()), canonical(&map[key])))
                .collect();
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => {
            let parts: Vec<_> = items.iter().map(canonical).collect();
            format!("[{}]", parts.join(","))
        }
        other => other.to_string(),
    }
}
