//! Documents the keys of a configuration for `docs/reference/configuration.md`.

use crate::{
    keys::keys_from_schema,
    kind::{ConfigKey, ValueKind},
    schema::{generated_config_schema, require_arms},
};

/// Returns the tables of keys in Markdown. Keys that an arm inherits are not repeated.
pub fn keys_markdown() -> String {
    let mut out = String::new();
    write_tables("", &keys_from_schema(&require_arms(generated_config_schema())), &mut out);
    out
}

fn write_tables(table_path: &str, keys: &[ConfigKey], markdown: &mut String) {
    let head =
        if table_path.is_empty() { "Top level".to_owned() } else { format!("`{table_path}`") };
    markdown.push_str(&format!(
        "**{head}**\n\n| key | meaning | values | default |\n| --- | --- | --- | --- |\n"
    ));
    for key in keys {
        let is_table = matches!(
            key.kind,
            ValueKind::Table(_) | ValueKind::NamedTables(_) | ValueKind::TableList(_)
        );
        let default = match &key.default {
            _ if key.is_required => "required".to_owned(),
            Some(default) if !is_table => format!("`{default}`"),
            _ => String::new(),
        };
        let (name, says) = (&key.name, escape_bars(&key.description));
        markdown
            .push_str(&format!("| `{name}` | {says} | {} | {default} |\n", describe_values(key)));
    }
    markdown.push('\n');
    for key in keys {
        let name = &key.name;
        let path = if table_path.is_empty() {
            name.clone()
        } else {
            format!("{}.{name}", table_path.trim_matches(['[', ']']))
        };
        match &key.kind {
            // Skip an arm's tables, which are the same as the top-level tables.
            ValueKind::Table(_) if table_path == "[[arms]]" => {}
            ValueKind::Table(inner) => write_tables(&format!("[{path}]"), inner, markdown),
            ValueKind::NamedTables(inner) => {
                write_tables(&format!("[{path}.NAME]"), inner, markdown)
            }
            ValueKind::TableList(inner) => write_tables(&format!("[[{path}]]"), inner, markdown),
            _ => {}
        }
    }
}

fn describe_values(key: &ConfigKey) -> String {
    match &key.kind {
        ValueKind::Text => "text".to_owned(),
        ValueKind::Url => "URL, or `script:FILE`".to_owned(),
        ValueKind::EnvironmentVariable => "variable name".to_owned(),
        ValueKind::Flag => "`true`, `false`".to_owned(),
        ValueKind::Choice(known) => {
            known.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ")
        }
        ValueKind::Count(i64::MIN, _) => "whole number".to_owned(),
        ValueKind::Count(least, most) => format!("{least} to {most}"),
        ValueKind::Number(least, most) => format!("{least} to {most}"),
        ValueKind::PositiveNumber(most) => format!("above 0, up to {most}"),
        ValueKind::TextList(_) => "list of text".to_owned(),
        ValueKind::Table(_) | ValueKind::AnyTable => "table".to_owned(),
        ValueKind::NamedTables(_) => "tables by name".to_owned(),
        ValueKind::TableList(_) => "tables".to_owned(),
    }
}

/// Escapes vertical bars, because an unescaped bar would end the table cell.
fn escape_bars(text: &str) -> String {
    text.replace('|', "\\|")
}
