//! Documents the keys of a configuration for `docs/configuration.md`.

use crate::{
    keys::keys_from_schema,
    kind::{Key, Kind},
    schema::{generated_config_schema, require_arms},
};

/// Returns the tables of keys in Markdown. Keys that an arm inherits are not repeated.
pub fn keys_markdown() -> String {
    let mut out = String::new();
    write_tables("", &keys_from_schema(&require_arms(generated_config_schema())), &mut out);
    out
}

fn write_tables(place: &str, keys: &[Key], out: &mut String) {
    let head = if place.is_empty() { "Top level".to_owned() } else { format!("`{place}`") };
    out.push_str(&format!(
        "**{head}**\n\n| key | meaning | values | default |\n| --- | --- | --- | --- |\n"
    ));
    for key in keys {
        let is_table = matches!(key.kind, Kind::Table(_) | Kind::Named(_) | Kind::Rows(_));
        let default = match &key.default {
            _ if key.required => "required".to_owned(),
            Some(default) if !is_table => format!("`{default}`"),
            _ => String::new(),
        };
        let (name, says) = (&key.name, escape_bars(&key.description));
        out.push_str(&format!("| `{name}` | {says} | {} | {default} |\n", describe_values(key)));
    }
    out.push('\n');
    for key in keys {
        let name = &key.name;
        let path = if place.is_empty() {
            name.clone()
        } else {
            format!("{}.{name}", place.trim_matches(['[', ']']))
        };
        match &key.kind {
            // Skip an arm's tables, which are the same as the top-level tables.
            Kind::Table(_) if place == "[[arms]]" => {}
            Kind::Table(inner) => write_tables(&format!("[{path}]"), inner, out),
            Kind::Named(inner) => write_tables(&format!("[{path}.NAME]"), inner, out),
            Kind::Rows(inner) => write_tables(&format!("[[{path}]]"), inner, out),
            _ => {}
        }
    }
}

fn describe_values(key: &Key) -> String {
    match &key.kind {
        Kind::Text => "text".to_owned(),
        Kind::Address => "URL, or `script:FILE`".to_owned(),
        Kind::Variable => "variable name".to_owned(),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Choice(known) => {
            known.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ")
        }
        Kind::Count(i64::MIN, _) => "whole number".to_owned(),
        Kind::Count(least, most) => format!("{least} to {most}"),
        Kind::Number(least, most) => format!("{least} to {most}"),
        Kind::Positive(most) => format!("above 0, up to {most}"),
        Kind::Texts(_) => "list of text".to_owned(),
        Kind::Table(_) | Kind::Free => "table".to_owned(),
        Kind::Named(_) => "tables by name".to_owned(),
        Kind::Rows(_) => "tables".to_owned(),
    }
}

/// Escapes vertical bars, because an unescaped bar would end the table cell.
fn escape_bars(text: &str) -> String {
    text.replace('|', "\\|")
}
