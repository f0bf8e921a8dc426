//! Templates of `prompts/` for the statements of tasks.

use minijinja::{Environment, Error, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;

/// Fills a template in. What it names must be there.
///
/// # Errors
/// A template that cannot be read, or that names what is missing.
pub fn fill(template: &str, filling: impl Serialize) -> Result<String, Error> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).keep_trailing_newline(true).build()?;
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(syntax);
    environment.render_str(template, Serde(filling))
}
