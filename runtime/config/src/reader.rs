//! Reads a configuration: crosses its matrix, checks its keys and resolves its paths.

use std::path::{Path, PathBuf};

use proctor_types::one_line;

use crate::{CheckExtent, ConfigFile, ConfigSource, UserError, check_keys, matrix, paths};

/// The tables that an arm inherits from the top of the file.
const INHERITED_TABLES: [&str; 5] = ["sandbox", "network", "leak_check", "statement", "budget"];

/// Returns the path of a built-in configuration (`demo`) or file (`tasks/demo.jsonl`). A name in a
/// configuration is looked up here if no file of the user has it.
pub type BuiltinLookup<'a> = &'a dyn Fn(&Path) -> Option<PathBuf>;

/// Finds no built-in file.
pub(crate) fn no_builtins(_: &Path) -> Option<PathBuf> {
    None
}

/// Reads a file, applies the `--set` values, and checks every key as written. Built-in files are
/// not available.
pub fn read_config(path: &Path, sets: &[String]) -> Result<(ConfigFile, ConfigSource), UserError> {
    read_config_with_builtins(path, sets, &no_builtins)
}

/// Like [`read_config`], with built-in files.
pub fn read_config_with_builtins(
    path: &Path,
    sets: &[String],
    builtins: BuiltinLookup<'_>,
) -> Result<(ConfigFile, ConfigSource), UserError> {
    let mut written = ConfigSource::read(path, sets, builtins)?;
    let mut table = written.table().clone();
    if table.contains_key("matrix") {
        // The matrix may create all arms.
        table.entry("arms").or_insert_with(|| toml::Value::Array(Vec::new()));
    }
    check_keys(&table, CheckExtent::Complete)
        .map_err(|problem| written.error_from_problem(&problem))?;
    let crossed = matrix::expand_matrix(&mut table, &written)
        .map_err(|problem| written.error_from_problem(&problem))?;
    written.set_matrix_origins(crossed);
    check_keys(&table, CheckExtent::Complete)
        .map_err(|problem| written.error_from_problem(&problem))?;
    inherit_tables(&mut table);
    let mut file = config_from_table(&table)
        .map_err(|why| UserError::new(one_line(&format!("{}: {why}", path.display()))))?;
    paths::resolve_paths(&mut file, path, &written, builtins);
    Ok((file, written))
}

/// Reads a table whose keys were already checked against the schema. An error here means that the
/// check has a gap, so the error includes the key.
pub fn config_from_table(table: &toml::Table) -> Result<ConfigFile, String> {
    let value = serde_json::to_value(table).map_err(|error| error.to_string())?;
    serde_path_to_error::deserialize(value)
        .map_err(|error| format!("key `{}`: {}", error.path(), error.inner()))
}

/// Merges each arm's tables over the file's top-level tables.
fn inherit_tables(table: &mut toml::Table) {
    let top: Vec<_> = INHERITED_TABLES
        .iter()
        .filter_map(|name| table.get(*name).map(|value| (*name, value.clone())))
        .collect();
    let Some(arms) = table.get_mut("arms").and_then(toml::Value::as_array_mut) else { return };
    for arm in arms.iter_mut().filter_map(toml::Value::as_table_mut) {
        for (name, inherited) in &top {
            let mut merged = inherited.clone();
            if let (Some(own), Some(merged)) = (arm.get(*name), merged.as_table_mut()) {
                for (key, value) in own.as_table().into_iter().flatten() {
                    merged.insert(key.clone(), value.clone());
                }
            }
            arm.insert((*name).to_owned(), merged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, sets: &[&str]) -> Result<ConfigFile, UserError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
        read_config(file.path(), &sets).map(|(config, _)| config)
    }

    const SMALL_CONFIG: &str = "tasks = []\n[budget]\nsteps = 5\ncost_usd = 1.5\n\
        [[arms]]\nname = \"a\"\nscaffold = \"noop\"\n[arms.budget]\nsteps = 9\n";

    #[test]
    fn arms_inherit_keys_that_they_do_not_set() {
        let config = read_text(SMALL_CONFIG, &[]).unwrap();
        assert_eq!(config.arms[0].budget.steps, Some(9));
        assert_eq!(config.arms[0].budget.cost_usd, Some(1.5));
    }

    #[test]
    fn shared_limits_and_endpoints_are_checked_like_all_keys() {
        let small = SMALL_CONFIG.replace("[[arms]]", "[budget.run]\ncost_usd = 50\n[[arms]]");
        let config = read_text(&small, &["budget.arm.steps=7"]).unwrap();
        let limits = &config.arms[0].budget;
        assert_eq!(limits.run.and_then(|run| run.cost_usd), Some(50.0));
        assert_eq!(limits.arm.and_then(|arm| arm.steps), Some(7));
        for (text, near) in [
            ("[budget.run]\ncost = 1", "cost_usd"),
            ("[endpoints.a]\nbase_url = 'http://h'\nmax_concurent = 1", "max_concurrent"),
            ("[budget]\ndisclosure = 'count_down'", "countdown"),
        ] {
            let error = read_text(&format!("tasks = []\narms = []\n{text}\n"), &[]).unwrap_err();
            let hint = error.hint.unwrap();
            assert!(hint.starts_with(&format!("did you mean `{near}`?")), "{hint}");
        }
    }

    #[test]
    fn set_changes_tables_arms_and_plain_text() {
        let sets = ["budget.cost_usd=3", "arms.0.name=b", "sandbox.kind=docker"];
        let config = read_text(SMALL_CONFIG, &sets).unwrap();
        assert_eq!(config.arms[0].name, "b");
        assert_eq!(config.arms[0].budget.cost_usd, Some(3.0));
        assert_eq!(config.arms[0].sandbox.kind, proctor_types::SandboxKind::Docker);
    }

    #[test]
    fn renamed_key_is_reported_with_its_new_name() {
        const OLD_KEY: &str = "seal";
        let lines = format!("[{OLD_KEY}]\non_finding = 'remove'\n");
        for text in [
            format!("{SMALL_CONFIG}[arms.{OLD_KEY}]\n"),
            SMALL_CONFIG.replace("[budget]", &format!("{lines}[budget]")),
        ] {
            let error = read_text(&text, &[]).unwrap_err();
            assert!(
                error.message.contains(OLD_KEY)
                    && error.message.contains("renamed to `leak_check`")
            );
            assert!(error.hint.unwrap().contains("its keys have not changed"));
        }
        let error =
            read_text(SMALL_CONFIG, &[&format!("{OLD_KEY}.on_finding=remove")]).unwrap_err();
        let told = format!("--set: key `{OLD_KEY}`: renamed to `leak_check`");
        assert!(error.message.starts_with(&told), "{error}");
    }

    #[test]
    fn unknown_key_error_suggests_the_nearest_key() {
        let error = read_text("tasks = []\narms = []\n[budget]\nstep = 1\n", &[]).unwrap_err();
        assert!(error.message.contains("budget"), "{}", error.message);
        assert!(error.hint.unwrap().starts_with("did you mean `steps`?"));
    }
}
