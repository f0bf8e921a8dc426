//! Loads and fills in the templates. No other module inserts values into pages.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use minijinja::{
    AutoEscape, Environment, Error, UndefinedBehavior, Value, escape_formatter,
    syntax::SyntaxConfig, value::Serde,
};
use proctor_report::{abbreviate_count, format_percent};
use proctor_types::{EvidenceClass, escape_unprintable, sha256_hex};
use serde::Serialize;

use crate::html::{
    figures::arm_color_class,
    isolation::{breakable_name, isolate_names},
};

/// Includes files from `templates/` and pairs them with their names.
macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../templates/", $name)))),+]
    };
}

static TEMPLATE_FILES: [(&str, &str); 17] = files![
    "arms.html",
    "beside.html",
    "charts.html",
    "comparison.html",
    "dashboard.html",
    "diff.html",
    "loading.html",
    "matrix.html",
    "page.html",
    "report.html",
    "search.html",
    "sides.html",
    "step.html",
    "steps.html",
    "timeline.svg",
    "trial.html",
    "viewer.html",
];

/// The style sheets of self-contained pages.
const STYLE: [&str; 3] = [
    include_str!("../../templates/style.css"),
    include_str!("../../templates/charts.css"),
    include_str!("../../templates/report.css"),
];

static TEMPLATES: LazyLock<Result<Environment<'static>, Error>> = LazyLock::new(build_environment);

/// Fills in a template.
///
/// # Errors
/// Fails if a template refers to a name that does not exist. The values in `values` cannot cause
/// this.
pub(crate) fn render_template(name: &str, values: impl Serialize) -> Result<String, Error> {
    let templates =
        TEMPLATES.as_ref().map_err(|error| Error::new(error.kind(), error.to_string()))?;
    templates.get_template(name)?.render(Serde(values))
}

fn build_environment() -> Result<Environment<'static>, Error> {
    let mut templates = Environment::new();
    let blocks = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    templates.set_syntax(blocks);
    templates.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    // Escape values as HTML in every template, whatever the template's name.
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    templates.set_formatter(|out, state, value| match value.as_str() {
        // Text that a template has rendered is already escaped.
        Some(text) if !value.is_safe() => {
            escape_formatter(out, state, &Value::from(escape_unprintable(text).into_owned()))
        }
        _ => escape_formatter(out, state, value),
    });
    let style = STYLE.concat();
    templates.add_global("style_hash", csp_hash_source(&style));
    templates.add_global("style", Value::from_safe_string(style));
    templates.add_filter("percent", format_percent);
    templates.add_filter("tone", arm_color_class);
    templates.add_filter("points", |share: f64| format!("{:.1}", share * 100.0 + 0.0));
    templates.add_filter("short", abbreviate_count);
    templates.add_filter("money", |dollars: f64| format!("${dollars:.4}"));
    templates.add_filter("fixed", |value: f64, digits: usize| format!("{value:.digits$}"));
    templates.add_filter("isolate", |text: &str| Value::from_safe_string(isolate_names(text)));
    templates.add_filter("breakable", |name: &str| Value::from_safe_string(breakable_name(name)));
    templates.add_filter("pvalue", |p: f64| match p < 0.0001 {
        true => "< 0.0001".to_owned(),
        false => format!("{p:.4}"),
    });
    templates.add_filter("digest", |text: String| text.chars().take(12).collect::<String>());
    templates.add_filter("words", |text: String| text.replace('_', " "));
    templates.add_filter("evidenceclass", |kind: &str| {
        EvidenceClass::for_kind(kind).map(|class| class.to_string()).unwrap_or_default()
    });
    templates.add_filter("difflines", |text: &str| Serde(diff_lines(text)));
    for (name, text) in &TEMPLATE_FILES {
        templates.add_template(name, text)?;
    }
    Ok(templates)
}

/// Returns the lines of a diff, each as its CSS class and its text.
fn diff_lines(text: &str) -> Vec<Vec<String>> {
    // A file's header may contain `---` and `+++`, which are not changed lines.
    let mut is_header = true;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with("diff ") {
            is_header = true;
        } else if line.starts_with("@@") {
            is_header = false;
        }
        let class = match line.as_bytes() {
            _ if is_header => "place",
            [b'@', ..] => "place",
            [b'+', ..] => "added",
            [b'-', ..] => "removed",
            _ => "same",
        };
        lines.push(vec![class.to_owned(), line.to_owned()]);
    }
    lines
}

/// Returns the source expression with which a content security policy allows the style sheet of a
/// report page, and nothing else.
pub fn report_style_source() -> String {
    csp_hash_source(&STYLE.concat())
}

/// Returns the source expression for a content security policy that allows exactly this text.
fn csp_hash_source(text: &str) -> String {
    let hex = sha256_hex(text.as_bytes());
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).filter_map(byte).collect();
    format!("'sha256-{}'", STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::{csp_hash_source, diff_lines};

    #[test]
    fn headers_of_a_diff_are_not_changes() {
        let diff = "diff --git a/a b/a\nindex 1..2\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n same\n--- old\n\
                    +++ new\ndiff --git a/b b/b\n--- a/b\n@@ -1 +0,0 @@\n-gone";
        let classes: Vec<String> =
            diff_lines(diff).into_iter().map(|line| line[0].clone()).collect();
        assert_eq!(classes[..5], ["place"; 5]);
        let rest = ["same", "removed", "added", "place", "place", "place", "removed"];
        assert_eq!(classes[5..], rest);
    }

    #[test]
    fn hash_source_is_base64_digest() {
        // The digest of the empty text.
        assert_eq!(csp_hash_source(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
    }
}
