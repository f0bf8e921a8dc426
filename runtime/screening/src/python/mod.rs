//! Screens Python code. The code is parsed but never run.

mod constant;
mod definitions;
mod exports;
mod names;
mod operands;
mod parser;
mod shapes;
mod walker;

use std::{borrow::Cow, collections::BTreeSet};

use crate::{
    language::{Hit, LanguageScreen},
    rules::Rules,
};
pub(crate) use exports::Exports;
use names::NameTable;
use parser::{nests_too_deeply, parse};
use walker::Walker;

/// Number of bytes at the end of a ZIP archive that may contain its last record, including the
/// longest comment.
const ZIP_TAIL_BYTES: usize = (1 << 16) + 22;

/// Name of the file that runs if a package is started as a program.
const SCRIPT_NAME: &str = "__main__.py";

pub(crate) struct PythonScreen<'e> {
    pub rules: &'static Rules,
    /// The names that the screened file can import from the patch's other files.
    pub exports: &'e Exports,
}

impl LanguageScreen for PythonScreen<'_> {
    fn can_read(&self, path: &str, bytes: &[u8]) -> bool {
        let suffixes = &self.rules.table.source_suffixes;
        suffixes.iter().any(|suffix| path.ends_with(suffix)) || self.is_opaque(path, bytes)
    }

    fn find_hits(&self, path: &str, bytes: &[u8], owned_modules: &BTreeSet<String>) -> Vec<Hit> {
        let text = match self.read_text(path, bytes) {
            Ok(text) => text,
            Err(why) => return self.unreadable_hits(&why, path),
        };
        let parsed = parse(&text);
        let mut walker =
            Walker::new(self.rules, &text, NameTable::new(self.rules, owned_modules, self.exports));
        walker.is_package_module = self.is_package_module(path, owned_modules);
        walker.walk_module(&parsed.syntax().body);
        let mut hits = walker.hits;
        if walker.is_too_deep {
            hits.extend(self.unreadable_hits("nested too deeply", path));
        }
        hits
    }
}

impl PythonScreen<'_> {
    /// Returns the names that the modules in a set of files can import from each other.
    pub(crate) fn exports<'f>(
        &self,
        files: impl Iterator<Item = (&'f String, &'f [u8])>,
        owned_modules: &BTreeSet<String>,
    ) -> Exports {
        let mut exports = Exports::default();
        for (path, bytes) in files.filter(|(path, bytes)| self.can_read(path, bytes)) {
            if let Ok(text) = self.read_text(path, bytes) {
                exports.add(self.rules, owned_modules, (path.as_str(), text.as_ref()));
            }
        }
        exports
    }

    /// Whether a file is a module of the repository's own package, which other code imports.
    fn is_package_module(&self, path: &str, owned_modules: &BTreeSet<String>) -> bool {
        let scripts = &self.rules.table.script_folders;
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let first = folders.split('/').next().unwrap_or_default();
        name != SCRIPT_NAME
            && !scripts.contains(first)
            && folders.split('/').any(|folder| owned_modules.contains(folder))
    }

    /// Returns the text of a file.
    ///
    /// # Errors
    ///
    /// Returns the reason if the file cannot be screened.
    fn read_text<'f>(&self, path: &str, bytes: &'f [u8]) -> Result<Cow<'f, str>, String> {
        let table = self.rules.table;
        if self.is_opaque(path, bytes) {
            return Err("compiled code".to_owned());
        }
        if bytes.len() > table.limits.file_bytes {
            return Err("too large".to_owned());
        }
        let mut text = String::from_utf8_lossy(bytes);
        if let Some(coding) = self.declared_encoding(&text) {
            if !table.encodings.contains(&coding) {
                return Err(format!("encoding {coding}"));
            }
            if table.latin_encodings.contains(&coding) {
                text = bytes.iter().copied().map(char::from).collect();
            }
        }
        if nests_too_deeply(&text, &table.limits) {
            return Err("nested too deeply".to_owned());
        }
        Ok(text)
    }

    /// Returns the encoding that a file declares.
    fn declared_encoding(&self, text: &str) -> Option<String> {
        // Python also ends a line at a lone carriage return.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (first, rest) = text.split_at(text.find(['\n', '\r']).unwrap_or(text.len()));
        let rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix(['\n', '\r']));
        let second = rest.unwrap_or_default().split(['\n', '\r']).next().unwrap_or_default();
        let start = first.trim_start_matches([' ', '\t', '\x0c']);
        // PEP 263: the second line counts only if the first line is blank or a comment.
        let counts = start.is_empty() || start.starts_with('#');
        let coding = &self.rules.encoding_pattern;
        let declared =
            coding.captures(first).or_else(|| coding.captures(second).filter(|_| counts))?;
        Some(declared.get(1)?.as_str().to_ascii_lowercase().replace('_', "-"))
    }

    /// Whether a file contains code that is not text: a compiled module such as
    /// `_speed.cpython-312-x86_64-linux-gnu.so`, or an archive, which may have any name.
    fn is_opaque(&self, path: &str, bytes: &[u8]) -> bool {
        let table = self.rules.table;
        let last = bytes.get(bytes.len().saturating_sub(ZIP_TAIL_BYTES)..).unwrap_or_default();
        table.opaque_suffixes.iter().any(|suffix| path.ends_with(suffix))
            || self.rules.opaque_beginnings.iter().any(|mark| bytes.starts_with(mark))
            || self.rules.opaque_ends.iter().any(|mark| contains_bytes(last, mark))
    }

    /// Returns the hits for a file that cannot be screened.
    pub(crate) fn unreadable_hits(&self, reason: &str, path: &str) -> Vec<Hit> {
        let rules = self.rules.find_rules(|rule| rule.unreadable);
        let hit = |rule| Hit {
            rule,
            line: 1,
            expression: format!("{reason}: {path}"),
            snippet: reason.to_owned(),
            group: None,
        };
        rules.into_iter().map(hit).collect()
    }
}

/// Whether `bytes` contains `needle`. An empty `needle` is never contained.
fn contains_bytes(bytes: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && bytes.windows(needle.len()).any(|window| window == needle)
}
