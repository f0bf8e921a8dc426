//! The configuration as it is meant: arms with their ids, every name looked up.

use std::collections::{BTreeMap, BTreeSet};

use proctor_scaffold_api::Scaffold;
use proctor_types::{Arm, ArmId, Budget, BudgetEnding, Disclosure, ModelSpec};

use crate::{
    config::{ConfigFile, check::check},
    error::UserError,
};

/// A resolved configuration.
pub struct RunConfig {
    pub file: ConfigFile,
    pub arms: Vec<Arm>,
}

type Lookup<'a> = &'a dyn Fn(&str) -> Option<std::sync::Arc<dyn Scaffold>>;

/// Looks up every scaffold and model, and names each arm by its factors.
pub fn resolve(
    file: ConfigFile,
    scaffold: Lookup<'_>,
    known: &[&str],
) -> Result<RunConfig, UserError> {
    if file.arms.is_empty() {
        return Err(UserError::new("key `arms`: a run needs at least one arm"));
    }
    check(&file)?;
    let mut arms = Vec::new();
    let mut names = BTreeSet::new();
    let mut ids: BTreeMap<ArmId, String> = BTreeMap::new();
    for (index, arm) in file.arms.iter().enumerate() {
        let place = format!("arms.{index} ({})", arm.name);
        if !names.insert(arm.name.clone()) {
            return Err(UserError::new(format!("{place}: two arms have this name")));
        }
        let Some(found) = scaffold(&arm.scaffold) else {
            let what = format!("{place}: no scaffold is called `{}`", arm.scaffold);
            return Err(UserError::new(what).mend(format!("known: {}", known.join(", "))));
        };
        let model = match (&arm.model, found.needs_model()) {
            (None, true) => {
                let what = format!("{place}: the scaffold `{}` needs a model", arm.scaffold);
                return Err(UserError::new(what).mend("add `model = \"...\"` to the arm"));
            }
            (Some(_), false) | (None, false) => None,
            (Some(name), true) => Some(model_named(&file.models, name, &place)?),
        };
        if arm.scaffold == "replay" {
            match &arm.replay {
                Some(file) if file.is_file() => {}
                Some(file) => {
                    let what = format!("{place}: replay: no file {}", file.display());
                    return Err(UserError::new(what).mend("name a trial's trajectory.jsonl"));
                }
                None => {
                    return Err(UserError::new(format!("{place}: nothing to replay"))
                        .mend("add `replay = \"RUN/trials/.../trajectory.jsonl\"` to the arm"));
                }
            }
        }
        proctor_egress::Policy::of_arm(&arm.network)
            .and_then(|_| proctor_egress::read_certificates(arm.network.ca_file.as_deref()))
            .map_err(|why| {
                UserError::new(format!("{place}: {why}")).mend("docs/egress.md has the grammar")
            })?;
        if arm.budget.run != file.budget.run {
            let what = format!("{place}: budget.run: a run has one such limit, for all its arms");
            return Err(UserError::new(what).mend("set it in [budget.run] at the top"));
        }
        if let (Some(key), Some(_)) = (inner(&arm.budget), found.model_door()) {
            let what = format!("{place}: budget.{key}: cannot be kept for `{}`", arm.scaffold);
            return Err(UserError::new(what).mend(
                "its loop runs inside the room, where nobody can tell it or hold its tools",
            ));
        }
        let mut prompts = found.factors();
        let notices = proctor_core::notices(&arm.budget);
        if let (Some(prompts), false) = (prompts.as_object_mut(), notices.is_empty()) {
            prompts.insert("budget".into(), notices.into());
        }
        let resolved = Arm {
            id: ArmId::new(""),
            name: arm.name.clone(),
            scaffold: arm.scaffold.clone(),
            model,
            budget: arm.budget.clone(),
            sandbox: arm.sandbox.clone(),
            network: arm.network.clone(),
            seal: arm.seal,
            prompts,
            settings: serde_json::json!({ "replay": arm.replay }),
        }
        .identified();
        if let Some(other) = ids.insert(resolved.id.clone(), arm.name.clone()) {
            let what = format!("{place}: has the same factors as the arm `{other}`");
            return Err(
                UserError::new(what).mend("change a factor, or raise `attempts` to repeat an arm")
            );
        }
        arms.push(resolved);
    }
    Ok(RunConfig { file, arms })
}

/// What only a loop in the runtime's own process can keep.
fn inner(budget: &Budget) -> Option<&'static str> {
    let kept = [
        ("disclosure", budget.disclosure == Disclosure::Countdown),
        ("ending", budget.ending == BudgetEnding::Grace),
        ("tool_seconds", budget.tool_seconds.is_some()),
    ];
    kept.into_iter().find(|(_, asked)| *asked).map(|(key, _)| key)
}

fn model_named(
    models: &BTreeMap<String, ModelSpec>,
    name: &str,
    place: &str,
) -> Result<ModelSpec, UserError> {
    models.get(name).cloned().ok_or_else(|| {
        let nearest = models
            .keys()
            .max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
        let error = UserError::new(format!("{place}: no model is called `{name}`"));
        match nearest {
            Some(nearest) => error.mend(format!("did you mean `{nearest}`?")),
            None => error.mend(format!("add a table [models.\"{name}\"]")),
        }
    })
}
