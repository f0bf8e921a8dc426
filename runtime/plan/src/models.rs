//! Checks whether a plan's models can be called.

use std::path::Path;

use proctor_gateway::{Gateway, PriceTable};
use proctor_types::{Arm, SCRIPT_URL_PREFIX, UserError};

use crate::PlanError;

/// Checks that every arm's model can be called as configured: the URL is valid, the key's
/// environment variable is set, and a price is known if cost is limited. `add_location` adds the
/// location of the arm's model to an error. `check_script` returns an error if a scripted model's
/// file cannot be read.
///
/// # Errors
/// Fails if a model cannot be called.
pub fn check_models(
    arms: &[Arm],
    check_script: &dyn Fn(&Path) -> Result<(), String>,
    add_location: &dyn Fn(&Arm, UserError) -> UserError,
) -> Result<(), PlanError> {
    let gateway = Gateway::new(PriceTable::shipped()?)?;
    for arm in arms {
        let Some(model) = &arm.model else { continue };
        // A scripted model has no key, and its URL is not known until the script is served.
        let checked = match model.base_url.strip_prefix(SCRIPT_URL_PREFIX) {
            Some(file) => {
                check_script(Path::new(file))
                    .map_err(|error| UserError::new(format!("script {file}: {error}")))?;
                gateway.check_price(model, &arm.budget)
            }
            None => gateway.check_model(model, &arm.budget),
        };
        checked.map_err(|fault| {
            let what = format!("arm {}: {}", arm.name, fault.what);
            add_location(arm, UserError { message: what, hint: fault.hint })
        })?;
    }
    Ok(())
}
