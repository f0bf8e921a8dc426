//! Tables from `configs/` that are embedded in the program.

use std::sync::OnceLock;

use serde::de::DeserializeOwned;

/// An embedded table, parsed on first use.
#[derive(Debug)]
pub struct ShippedTable<T> {
    file_name: &'static str,
    text: &'static str,
    parse_result: OnceLock<Result<T, String>>,
}

impl<T> ShippedTable<T> {
    /// Creates a table. `file_name` is the name of the table's file below `configs/`, for messages.
    pub const fn new(file_name: &'static str, text: &'static str) -> Self {
        Self { file_name, text, parse_result: OnceLock::new() }
    }
}

impl<T: DeserializeOwned> ShippedTable<T> {
    /// Returns the parsed table. An invalid table is an error: treating it as empty would silently
    /// disable its rules.
    ///
    /// # Errors
    ///
    /// Fails if the table is invalid. The error starts with the file name.
    pub fn get(&self) -> Result<&T, String> {
        let read =
            || from_toml(self.text).map_err(|error| format!("configs/{}: {error}", self.file_name));
        self.parse_result.get_or_init(read).as_ref().map_err(Clone::clone)
    }
}

/// Parses TOML.
///
/// Parses into a JSON value first. Instantiating `toml::from_str` for each type would take five
/// times the space in the binary. Crates that own user-written files parse them directly, to report
/// line numbers.
///
/// # Errors
///
/// Fails if the text is not TOML, or if it does not match the type.
pub fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let value: serde_json::Value = toml::from_str(text).map_err(|error| error.to_string())?;
    serde_json::from_value(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn table_is_parsed_once_and_invalid_table_error_names_its_file() {
        static VALID_TABLE: ShippedTable<BTreeMap<String, f64>> =
            ShippedTable::new("s.toml", "a = 1\nb = 2.5");
        let read = VALID_TABLE.get().unwrap();
        assert_eq!((read["a"], read["b"]), (1.0, 2.5));
        assert!(std::ptr::eq(read, VALID_TABLE.get().unwrap()));
        for text in ["a = ", "a = 'one'"] {
            let invalid = ShippedTable::<BTreeMap<String, f64>>::new("b.toml", text);
            assert!(invalid.get().unwrap_err().starts_with("configs/b.toml: "), "{text}");
        }
    }
}
