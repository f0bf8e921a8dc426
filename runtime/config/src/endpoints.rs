//! Checks `[endpoints]`. Limits that apply to no request indicate a mistyped URL or name.

use proctor_types::ModelSpec;

use crate::{ConfigFile, ConfigSource, UserError, kind::closest_name};

/// Rejects a table that applies to no model of the configuration or sets no limit. A table for a
/// model that no arm uses only causes a note, because such a table is harmless and `--model` can
/// leave one behind.
pub fn check_endpoints(file: &ConfigFile, source: &ConfigSource) -> Result<(), UserError> {
    for (name, table) in &file.endpoints {
        let path = |key| ["endpoints", name.as_str(), key];
        let limits = [table.max_concurrent, table.requests_per_minute, table.tokens_per_minute];
        if limits.iter().all(Option::is_none) {
            return Err(source.error(&path("base_url")[..2], "does not set a limit").hint(
                "add max_concurrent, requests_per_minute or tokens_per_minute, or remove the \
                 table; limits are then learned from rejections",
            ));
        }
        let there: Vec<&ModelSpec> =
            file.models.values().filter(|model| table.matches_model_url(model)).collect();
        if there.is_empty() {
            let known = file.models.values().map(|model| model.base_url.as_str());
            let error = source.error(&path("base_url"), "no model in [models] has this URL");
            return Err(match closest_name(&table.base_url, known) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("use the same `base_url` as the model"),
            });
        }
        if !there.iter().any(|model| table.applies_to(model)) {
            let wrong = table.model.as_deref().unwrap_or_default();
            let names: Vec<&str> = there.iter().map(|model| model.name.as_str()).collect();
            let what = format!("no model at this URL has the name `{wrong}`");
            let hint = format!("use a model's `name` at the endpoint: {}", names.join(", "));
            return Err(source.error(&path("model"), what).hint(hint));
        }
        let used = |model: &ModelSpec| {
            let of =
                |arm: &crate::ArmFile| arm.model.as_ref().and_then(|name| file.models.get(name));
            file.arms.iter().filter_map(of).any(|used| used == model)
        };
        if !there.iter().any(|model| table.applies_to(model) && used(model)) {
            eprintln!("note: [endpoints.{name}] applies to no model that an arm uses");
        }
    }
    Ok(())
}
