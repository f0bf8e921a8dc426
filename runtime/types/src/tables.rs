//! The repository's tables that are embedded in the program.

use std::sync::OnceLock;

use serde::de::DeserializeOwned;

/// An embedded table, parsed on first use.
#[derive(Debug)]
pub struct ShippedTable<T> {
    file: &'static str,
    text: &'static str,
    read: OnceLock<Result<T, String>>,
}

impl<T> ShippedTable<T> {
    /// `file` is its name below `configs/`, for messages.
    pub const fn new(file: &'static str, text: &'static str) -> Self {
        Self { file, text, read: OnceLock::new() }
    }
}

impl<T: DeserializeOwned> ShippedTable<T> {
    /// The table, or why it cannot be read. It is an error and never an empty table: nothing could
    /// violate a missing rule.
    ///
    /// # Errors
    ///
    /// The text is invalid. The error starts with the file name.
    pub fn get(&self) -> Result<&T, String> {
        let read =
            || from_toml(self.text).map_err(|error| format!("configs/{}: {error}", self.file));
        self.read.get_or_init(read).as_ref().map_err(Clone::clone)
    }
}

/// Parses TOML.
///
/// Goes through a neutral value: a parser per type, as with `toml::from_str`, takes five times the
/// space in the program. The crates that own user-written files parse these themselves, with line
/// numbers.
///
/// # Errors
///
/// The text is not TOML, or does not match the type.
pub fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let value: serde_json::Value = toml::from_str(text).map_err(|error| error.to_string())?;
    serde_json::from_value(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_table_is_read_once_and_a_broken_one_names_its_file() {
        static SOUND: ShippedTable<BTreeMap<String, f64>> =
            ShippedTable::new("s.toml", "a = 1\nb = 2.5");
        let read = SOUND.get().unwrap();
        assert_eq!((read["a"], read["b"]), (1.0, 2.5));
        assert!(std::ptr::eq(read, SOUND.get().unwrap()));
        for text in ["a = ", "a = 'one'"] {
            let broken = ShippedTable::<BTreeMap<String, f64>>::new("b.toml", text);
            assert!(broken.get().unwrap_err().starts_with("configs/b.toml: "), "{text}");
        }
    }
}
