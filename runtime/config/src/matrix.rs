//! `[matrix]`: crosses factors into plain arms before anything else reads them, so that later
//! stages need not know about matrices.
//!
//! Each key is the dotted key of an arm's factor (`"budget.steps"`, `scaffold`,
//! `"model.temperature"`), and each value is a list. Every `[[arms]]` table is crossed with every
//! combination. A matrix that crosses `scaffold` needs no arms.

mod axes;
mod derived;
mod names;

use toml::{Table, Value};

use crate::{
    kind::{KeyError, display_value},
    source::{ArmOrigin, ConfigSource, MatrixOrigins},
    walk::KeyProblem,
};
use axes::{Axis, Choice, FactorKey, flatten_table, list_values, parse_factor_key, values_equal};
use names::ValueLabels;

/// Maximum number of arms. A larger matrix must be a mistake.
const MAX_ARMS: usize = 10_000;

/// Replaces the arms of a table with the arms that its matrix creates, and removes the matrix.
pub(crate) fn expand_matrix(
    table: &mut Table,
    source: &ConfigSource,
) -> Result<MatrixOrigins, KeyProblem> {
    let Some(Value::Table(matrix)) = table.remove("matrix") else {
        return Ok(MatrixOrigins::default());
    };
    let axes = axes::parse_axes(&matrix, source)?;
    let includes = entry_tables(&matrix, "include")?;
    let excludes = entry_tables(&matrix, "exclude")?;
    if axes.is_empty() && includes.is_empty() {
        let wrong = KeyError::new(
            "no factors to cross",
            "add a key with a list, as in scaffold = [\"tools\", \"bash\"]",
        );
        return Err(KeyProblem { path: vec!["matrix".into()], error: wrong });
    }
    let names = ValueLabels::for_axes(&axes);
    let combinations = combinations(&axes, &names)?;
    let bases: Vec<(Option<usize>, Table)> = match table.get("arms").and_then(Value::as_array) {
        Some(arms) if !arms.is_empty() => {
            let arms = arms.iter().filter_map(Value::as_table).cloned().enumerate();
            arms.map(|(index, arm)| (Some(index), arm)).collect()
        }
        _ => vec![(None, Table::new())],
    };
    let excludes = excludes
        .iter()
        .enumerate()
        .map(|(index, one)| ExcludeRule::read(index, one))
        .collect::<Result<Vec<_>, _>>()?;
    let mut used = vec![false; excludes.len()];
    let mut builder = MatrixBuilder {
        top_level: table.clone(),
        origins: MatrixOrigins::default(),
        arms: Vec::new(),
    };
    for (index, base) in &bases {
        for choices in &combinations {
            let Some(choices) = relevant_choices(choices, base, &axes) else { continue };
            let mut out = false;
            for (exclude, used) in excludes.iter().zip(&mut used) {
                if exclude.matches(base, &choices, &builder.top_level) {
                    (*used, out) = (true, true);
                }
            }
            if !out {
                let named = base.get("name").and_then(Value::as_str);
                builder.add_arm(*index, base, &choices, names.arm_name(named, &choices))?;
            }
        }
        for (number, include) in includes.iter().enumerate() {
            let (mut choices, own) = read_include(number, include)?;
            // Sort the choices, so that the arm's name lists them in the order of the file.
            choices.sort_by_key(|choice| {
                axes.iter().position(|axis| axis.factor == choice.factor).unwrap_or(usize::MAX)
            });
            let named = base.get("name").and_then(Value::as_str);
            let name = match (own, named, bases.len()) {
                (Some(own), Some(named), 2..) => format!("{named}/{own}"),
                (Some(own), ..) => own,
                (None, ..) => names.arm_name(named, &choices),
            };
            builder.add_arm(*index, base, &choices, name)?;
        }
    }
    if let Some(index) = used.iter().position(|used| !used) {
        return Err(excludes[index].unused_error(&axes));
    }
    if builder.arms.is_empty() {
        let wrong =
            KeyError::new("excludes every arm", "narrow one of the [[matrix.exclude]] tables");
        return Err(KeyProblem { path: vec!["matrix".into(), "exclude".into()], error: wrong });
    }
    table.insert("arms".into(), Value::Array(builder.arms));
    if let Some(models) = builder.top_level.remove("models") {
        table.insert("models".into(), models);
    }
    Ok(builder.origins)
}

/// Returns the tables of `[[matrix.include]]` or `[[matrix.exclude]]`.
fn entry_tables(matrix: &Table, name: &str) -> Result<Vec<Table>, KeyProblem> {
    let wrong = || KeyProblem {
        path: vec!["matrix".into(), name.into()],
        error: KeyError::new(
            "not a list of tables",
            format!("use [[matrix.{name}]] for each, with its keys below it"),
        ),
    };
    match matrix.get(name) {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_table().cloned().ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

/// Returns every combination. The last axis changes fastest.
fn combinations(axes: &[Axis], names: &ValueLabels) -> Result<Vec<Vec<Choice>>, KeyProblem> {
    let count = axes.iter().try_fold(1_usize, |all, axis| all.checked_mul(axis.values.len()));
    if count.is_none_or(|count| count > MAX_ARMS) {
        let wrong = KeyError::new(
            format!("creates more than {MAX_ARMS} arms from a single arm"),
            "cross fewer values, or list combinations as [[matrix.include]]",
        );
        return Err(KeyProblem { path: vec!["matrix".into()], error: wrong });
    }
    if axes.is_empty() {
        return Ok(Vec::new());
    }
    let mut all: Vec<Vec<Choice>> = vec![Vec::new()];
    for (number, axis) in axes.iter().enumerate() {
        let mut longer = Vec::with_capacity(all.len() * axis.values.len());
        for before in &all {
            for (index, value) in axis.values.iter().enumerate() {
                let choice = Choice {
                    factor: axis.factor.clone(),
                    value: value.clone(),
                    path: [axis.path.clone(), vec![index.to_string()]].concat(),
                    label: names.label(number, index),
                };
                longer.push([before.clone(), vec![choice]].concat());
            }
        }
        all = longer;
    }
    Ok(all)
}

/// Returns the choices that affect an arm. Choices for a model that the arm does not use are
/// dropped. If combinations differ only in such choices, one of them is kept, and the function
/// returns `None` for the others.
fn relevant_choices(choices: &[Choice], base: &Table, axes: &[Axis]) -> Option<Vec<Choice>> {
    let asked = choices.iter().find(|choice| choice.factor.is_arm(&["model"]));
    let asked = asked.map(|choice| &choice.value).or_else(|| base.get("model"));
    let asked = asked.and_then(Value::as_str);
    let mut kept = Vec::new();
    for (choice, axis) in choices.iter().zip(axes) {
        match &choice.factor {
            FactorKey::Model { model: Some(model), .. } if asked != Some(model) => {
                if !axis.values.first().is_some_and(|first| values_equal(first, &choice.value)) {
                    return None;
                }
            }
            _ => kept.push(choice.clone()),
        }
    }
    Some(kept)
}

/// Returns the choices of one `[[matrix.include]]` table, and its name if it has one.
fn read_include(
    index: usize,
    include: &Table,
) -> Result<(Vec<Choice>, Option<String>), KeyProblem> {
    let (mut choices, mut name) = (Vec::new(), None);
    let at = vec!["matrix".to_owned(), "include".to_owned(), index.to_string()];
    for (path, value) in flatten_table(include) {
        let at = [at.clone(), path.clone()].concat();
        if path == ["name"] {
            let Value::String(text) = value else {
                return Err(KeyProblem {
                    path: at,
                    error: KeyError::new("not text", "write name = \"...\""),
                });
            };
            name = Some(text);
            continue;
        }
        let place = parse_factor_key(&path)
            .map_err(|wrong| KeyProblem { path: at.clone(), error: wrong })?;
        let label = Some(display_value(&value));
        choices.push(Choice { factor: place, value, path: at, label });
    }
    Ok((choices, name))
}

/// One `[[matrix.exclude]]` table, which removes every combination in which each of the table's
/// keys has one of the listed values.
struct ExcludeRule {
    path: Vec<String>,
    keys: Vec<(Vec<String>, Option<FactorKey>, Vec<Value>)>,
}

impl ExcludeRule {
    fn read(index: usize, table: &Table) -> Result<Self, KeyProblem> {
        let at = vec!["matrix".to_owned(), "exclude".to_owned(), index.to_string()];
        if table.is_empty() {
            let wrong = KeyError::new(
                "excludes everything",
                "list the values of a combination, as in scaffold = \"bash\"",
            );
            return Err(KeyProblem { path: at, error: wrong });
        }
        let mut keys = Vec::new();
        for (path, value) in flatten_table(table) {
            // Apart from `name`, every key must be a matrix factor.
            let place = match path == ["name"] {
                true => None,
                false => Some(parse_factor_key(&path).map_err(|wrong| KeyProblem {
                    path: [at.clone(), path.clone()].concat(),
                    error: wrong,
                })?),
            };
            let values = match value {
                Value::Array(values) => values,
                value => vec![value],
            };
            keys.push((path, place, values));
        }
        Ok(Self { path: at, keys })
    }

    fn matches(&self, base: &Table, choices: &[Choice], top_level: &Table) -> bool {
        self.keys.iter().all(|(_, place, values)| {
            let found = match place {
                None => base.get("name").cloned(),
                Some(place) => derived::factor_value(place, base, choices, top_level),
            };
            found.is_some_and(|found| values.iter().any(|value| values_equal(value, &found)))
        })
    }

    /// Returns the error for a table that matches no combination. The usual cause is a mistyped
    /// value.
    fn unused_error(&self, axes: &[Axis]) -> KeyProblem {
        let of = |place: &Option<FactorKey>| {
            axes.iter().find(|axis| Some(&axis.factor) == place.as_ref())
        };
        let strange = self.keys.iter().find_map(|(path, place, values)| {
            let axis = of(place)?;
            let value = values
                .iter()
                .find(|value| !axis.values.iter().any(|one| values_equal(one, value)))?;
            Some((path, value, axis))
        });
        match strange {
            Some((path, value, axis)) => KeyProblem {
                path: [self.path.clone(), path.clone()].concat(),
                error: KeyError::new(
                    format!("no combination has the value `{}`", display_value(value)),
                    format!("the matrix crosses {}", list_values(&axis.values)),
                ),
            },
            None => KeyProblem {
                path: self.path.clone(),
                error: KeyError::new(
                    "no combination has all of these values",
                    "fix or remove the table",
                ),
            },
        }
    }
}

/// Builds the arms and models of a matrix.
struct MatrixBuilder {
    top_level: Table,
    origins: MatrixOrigins,
    arms: Vec<Value>,
}

impl MatrixBuilder {
    fn add_arm(
        &mut self,
        index: Option<usize>,
        base: &Table,
        choices: &[Choice],
        name: String,
    ) -> Result<(), KeyProblem> {
        let mut arm = base.clone();
        let mut keys = Vec::new();
        let mut sampling = Vec::new();
        for choice in choices {
            match &choice.factor {
                FactorKey::Arm(path) => {
                    axes::merge_value(&mut arm, path, choice.value.clone());
                    keys.push((path.clone(), choice.path.clone()));
                }
                FactorKey::Model { .. } => sampling.push(choice),
            }
        }
        if !sampling.is_empty() {
            derived::derive_model(&mut self.top_level, &mut self.origins, &mut arm, &sampling)?;
        }
        arm.insert("name".into(), name.clone().into());
        self.arms.push(arm.into());
        self.origins.arms.push(ArmOrigin { name, arm_index: index, keys });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
