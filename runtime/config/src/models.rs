//! Checks `[models]`. Rejects settings that a request cannot express, and arm settings that the
//! arm's model cannot support.

use std::path::Path;

use proctor_gateway::{PriceTable, check_settings};
use proctor_tokens::Encoding;
use proctor_types::{Budget, ModelSpec, is_iso_date, sha256_hex};

use crate::{ConfigFile, ConfigSource, SCRIPT_URL_PREFIX, UserError};

/// Rejects model settings that the model's wire format cannot express or that are not allowed. For
/// models that arms use, also rejects an unreadable script, and a cost limit without a price.
pub fn check_models(
    file: &ConfigFile,
    source: &ConfigSource,
    validate_script: &dyn Fn(&Path) -> Result<(), String>,
) -> Result<(), UserError> {
    for (name, model) in &file.models {
        check_settings(model).map_err(|wrong| {
            let path = [&["models", name.as_str()], &wrong.key[..]].concat();
            source.error(&path, wrong.problem).hint(wrong.hint)
        })?;
        if let Some(cutoff) = model.cutoff.as_deref().filter(|cutoff| !is_iso_date(cutoff)) {
            let what = format!("{cutoff:?} is not a date");
            return Err(source
                .error(&["models", name, "cutoff"], what)
                .hint("write it as 2025-01-31"));
        }
    }
    let prices = PriceTable::shipped().map_err(|fault| UserError::new(fault.to_string()))?;
    for (index, arm) in file.arms.iter().enumerate() {
        let used = arm.model.as_ref().and_then(|name| file.models.get_key_value(name));
        let Some((name, model)) = used else { continue };
        check_script(name, model, source, validate_script)?;
        if model.price.is_none() && prices.listed_price(&model.name).is_none() {
            check_unpriced(name, &arm.budget, &index.to_string(), source)?;
        }
    }
    Ok(())
}

/// Reads the model's tokenizer now, because its content is a factor, and because an unusable file
/// must be reported before the first trial.
pub fn read_tokenizer(model: &mut ModelSpec) -> Result<(), (String, String)> {
    let Some(file) = &mut model.tokenizer else { return Ok(()) };
    match builtin_encoding(&file.path) {
        // Remove the default encoding, so that it does not distinguish two arms.
        Some(Encoding::O200k) => {
            model.tokenizer = None;
            return Ok(());
        }
        Some(Encoding::Cl100k) => return Ok(()),
        None => {}
    }
    let shown = file.path.display().to_string();
    let hint = "set it to the path of the model's `tokenizer.json` (relative to the configuration \
                file or the current directory), or `cl100k_base`";
    let bytes = std::fs::read(&file.path)
        .map_err(|error| (format!("cannot read {shown}: {error}"), hint.to_owned()))?;
    proctor_tokens::Tokenizer::parse(&bytes).map_err(|why| {
        (format!("{shown}: {why}"), "remove the key to count tokens with o200k_base".into())
    })?;
    file.sha256 = sha256_hex(&bytes);
    Ok(())
}

/// Returns the built-in encoding with this name. To use a file that has such a name, include its
/// directory: `./cl100k_base`.
pub fn builtin_encoding(name: &Path) -> Option<Encoding> {
    name.to_str().and_then(Encoding::from_name)
}

fn check_script(
    name: &str,
    model: &ModelSpec,
    source: &ConfigSource,
    validate_script: &dyn Fn(&Path) -> Result<(), String>,
) -> Result<(), UserError> {
    let Some(file) = model.base_url.strip_prefix(SCRIPT_URL_PREFIX) else { return Ok(()) };
    validate_script(Path::new(file)).map_err(|error| {
        source.error(&["models", name, "base_url"], format!("script {file}: {error}")).hint(
            "set it to the path of a script (see docs/reference/fake-llm.md), relative to the configuration \
             file or the current directory",
        )
    })
}

/// Rejects a cost limit for a model without a price, because the limit could never be reached.
fn check_unpriced(
    name: &str,
    budget: &Budget,
    arm_index: &str,
    source: &ConfigSource,
) -> Result<(), UserError> {
    let of_arm = ["arms", arm_index, "budget", "arm", "cost_usd"];
    let own = if source.contains(&of_arm) { 0 } else { 2 };
    let limits = [
        (budget.cost_usd, source.arm_key_path(arm_index, "budget", "cost_usd")),
        (budget.arm.and_then(|shared| shared.cost_usd), of_arm[own..].to_vec()),
        (budget.run.and_then(|shared| shared.cost_usd), vec!["budget", "run", "cost_usd"]),
    ];
    match limits.into_iter().find(|(limit, _)| limit.is_some()) {
        None => Ok(()),
        Some((_, path)) => {
            let what = format!(
                "no price is configured for `{name}`, so the cost limit cannot be enforced"
            );
            Err(source.error(&path, what).hint(format!(
                "add `price = {{ input = 1.25, output = 10.0 }}` (US dollars per million tokens) to \
                 [models.{name:?}], or remove the limit"
            )))
        }
    }
}
