//! An arm: one configuration that a run compares with others.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    ArmId, Budget, ForkOrigin, LeakCheckSpec, ModelSpec, NetworkPolicy, SandboxSpec, StatementSpec,
    sha256_hex,
};

/// The version of the set of factors. Increment it whenever a factor is added or removed or changes
/// its meaning, so that old and new arms have different ids.
pub const FACTOR_SCHEMA_VERSION: u32 = 2;

/// The scaffold name of arms whose patches were produced outside Proctor.
pub const PREDICTIONS_SCAFFOLD: &str = "predictions";

/// Scaffolds whose arms are always controls.
const CONTROL_SCAFFOLDS: [&str; 2] = ["gold", "noop"];

/// One configuration under test: a scaffold with its model, settings and budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// SHA-256 of [`Arm::factors`], computed by [`Arm::with_computed_id`]. Its first 12 hex digits name
    /// the arm's directory on disk.
    pub id: ArmId,
    /// The display name. Not a factor.
    pub name: String,
    /// The scaffold's name, as in `scaffold` of `[[arms]]`: `tools`, `bash`, `gold`, ...
    pub scaffold: String,
    /// The model that the scaffold calls. Absent for scaffolds without one (`gold`, `noop`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSpec>,
    /// The limits of each trial.
    pub budget: Budget,
    /// The sandbox back end and the resources of each sandbox.
    pub sandbox: SandboxSpec,
    /// Which hosts the sandbox can reach.
    pub network: NetworkPolicy,
    /// How to handle copies of the hidden solution in a sandbox.
    #[serde(default)]
    pub leak_check: LeakCheckSpec,
    /// Which optional parts of a task the agent receives.
    #[serde(default, skip_serializing_if = "StatementSpec::is_default")]
    pub statement: StatementSpec,
    /// The scaffold's prompts, by template name.
    pub prompts: Value,
    /// Scaffold-specific settings.
    #[serde(default)]
    pub settings: Value,
    /// Whether the arm is a control, which the other arms are compared with. Not a factor. `gold`
    /// and `noop` are controls even without this key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// The trial and step that the arm's trials continue from. Absent if they start from the
    /// beginning of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOrigin>,
}

impl Arm {
    /// Creates an arm for existing patches, such as imported predictions.
    pub fn for_patches(name: &str, sandbox: &SandboxSpec, settings: Value) -> Self {
        Self {
            control: false,
            forked_from: None,
            id: ArmId::new(""),
            name: name.to_owned(),
            scaffold: PREDICTIONS_SCAFFOLD.to_owned(),
            model: None,
            budget: Budget::default(),
            sandbox: sandbox.clone(),
            network: NetworkPolicy::default(),
            leak_check: LeakCheckSpec::default(),
            statement: StatementSpec::default(),
            prompts: Value::Null,
            settings,
        }
        .with_computed_id()
    }

    /// Computes the arm's id from its factors and returns the arm.
    #[must_use]
    pub fn with_computed_id(mut self) -> Self {
        self.id = ArmId::new(sha256_hex(canonical_json(&self.factors()).as_bytes()));
        self
    }

    /// Returns whether the arm is a control: an upper or a lower bound for the others.
    pub fn is_control(&self) -> bool {
        self.control || CONTROL_SCAFFOLDS.contains(&self.scaffold.as_str())
    }

    /// Returns the scaffold's settings as a table; empty if there are none.
    pub fn settings_table(&self) -> Map<String, Value> {
        self.settings.as_object().cloned().unwrap_or_default()
    }

    /// Returns all factors as JSON. The endpoint's URL, the name of the API key's
    /// environment variable and the price are recorded but not compared, so the same model at two
    /// URLs counts as one arm.
    pub fn factors(&self) -> Value {
        let mut model = serde_json::to_value(&self.model).unwrap_or_default();
        if let Some(model) = model.as_object_mut() {
            ModelSpec::NON_FACTOR_KEYS.iter().for_each(|key| drop(model.remove(*key)));
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
            "factor_schema": FACTOR_SCHEMA_VERSION,
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
        // Omit the default, so that arms planned before this factor existed keep their ids.
        if let (false, Some(factors)) = (self.statement.is_default(), factors.as_object_mut()) {
            factors.insert("statement".into(), json!(self.statement));
        }
        factors
    }
}

/// Serializes a value as canonical JSON: sorted keys, no whitespace.
pub fn canonical_json(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort();
            let parts: Vec<_> = keys
                .into_iter()
                .map(|key| format!("{}:{}", Value::from(key.as_str()), canonical_json(&map[key])))
                .collect();
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => {
            let parts: Vec<_> = items.iter().map(canonical_json).collect();
            format!("[{}]", parts.join(","))
        }
        other => other.to_string(),
    }
}
