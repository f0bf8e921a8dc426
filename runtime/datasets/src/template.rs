//! Renders the templates in `prompts/` for task statements.

use minijinja::{Environment, Error, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;

/// Renders a template. All variables that it uses must be defined.
///
/// # Errors
/// The template is invalid, or a variable is missing.
pub fn render_template(template: &str, variables: impl Serialize) -> Result<String, Error> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).keep_trailing_newline(true).build()?;
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(syntax);
    environment.render_str(template, Serde(variables))
}
