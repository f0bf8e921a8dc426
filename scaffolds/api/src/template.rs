//! The syntax of the templates in prompts and manifests, and how their errors are formatted.

use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, syntax::SyntaxConfig};

/// Returns an environment for rendering templates. An undefined name is an error. If a line
/// contains only a block tag, the output has no such line.
///
/// # Errors
/// Fails if the library rejects the syntax configuration. A test makes sure that it doesn't.
pub fn template_environment(keeps_last_newline: bool) -> Result<Environment<'static>, Error> {
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(keeps_last_newline)
        .build()?;
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_syntax(syntax);
    // Enable debug mode. In release builds without it, an error does not name the undefined
    // variable.
    templates.set_debug(true);
    Ok(templates)
}

/// Formats a template error in one line. The library's own message includes an excerpt of several
/// lines.
pub fn template_error(error: &Error) -> String {
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::UndefinedError, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    match error.line() {
        Some(line) => format!("line {line}: {what}"),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render_error(template: &str) -> String {
        let templates = template_environment(true).unwrap();
        let with = minijinja::value::Serde(json!({ "prompt": "p", "settings": {} }));
        template_error(&templates.render_str(template, with).unwrap_err())
    }

    #[test]
    fn template_error_has_line_and_name() {
        for (template, line, says) in [
            ("{{ promt }}", 1, "`promt`"),
            ("a\n{{ settings.effort }}", 2, "`settings.effort`"),
            ("{{ prompt | shout }}", 1, "shout"),
            ("{% if prompt %}", 1, "end of input"),
        ] {
            let told = render_error(template);
            assert!(told.starts_with(&format!("line {line}: ")), "{told}");
            assert!(told.contains(says) && !told.contains('\n'), "{told}");
            assert!(!told.contains("<string>"), "{told}");
        }
    }

    #[test]
    fn template_environment_keeps_the_last_newline_only_if_requested() {
        let render = |keeps| template_environment(keeps).unwrap().render_str("a\n", ()).unwrap();
        assert_eq!(render(true), "a\n");
        assert_eq!(render(false), "a");
    }
}
