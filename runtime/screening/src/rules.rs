//! The rules of `configs/screening.toml`.

use std::{collections::BTreeSet, sync::OnceLock};

use proctor_types::ShippedTable;
use regex::{Regex, RegexSet};
use serde::Deserialize;

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub extension_points: BTreeSet<String>,
    pub any_module: Vec<String>,
    pub looking_functions: BTreeSet<String>,
    pub carried_modules: BTreeSet<String>,
    pub test_names: Vec<String>,
    pub test_modules: Vec<String>,
    pub source_suffixes: Vec<String>,
    pub opaque_suffixes: Vec<String>,
    pub opaque_beginnings: Vec<String>,
    pub opaque_ends: Vec<String>,
    pub encodings: BTreeSet<String>,
    pub latin_encodings: BTreeSet<String>,
    pub builtins: BTreeSet<String>,
    pub aliased_builtins: BTreeSet<String>,
    pub limits: Limits,
    pub rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub file_bytes: usize,
    pub brackets: usize,
    pub tokens: usize,
    pub depth: usize,
    pub snippet: usize,
}

/// One rule, with all the ways in which it can be broken.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rule {
    pub name: String,
    /// The kind of evidence that a hit is.
    pub evidence: String,
    /// A plain explanation, shown after the place.
    pub explanation: String,
    /// Files that cannot be read as source.
    pub unreadable: bool,
    /// Calls that run text which is not written in the patch.
    pub dynamic: Vec<String>,
    /// Dotted names, with everything below them.
    pub references: Vec<String>,
    /// Methods that a class defines.
    pub methods: Vec<String>,
    /// Assignment to an attribute of another package.
    pub foreign: bool,
    /// Modules of other packages that are passed on.
    pub passed_modules: bool,
    /// Changes of `sys.modules`.
    pub module_table: bool,
    /// Attributes assigned on anything but `self` and `cls`.
    pub assigned: Vec<String>,
    /// Attributes whose entries are assigned.
    pub filled: Vec<String>,
    /// Attributes used in any way.
    pub attributes: Vec<String>,
    /// Names of keyword arguments.
    pub keywords: Vec<String>,
    /// Attributes of other packages that are used.
    pub foreign_attributes: Vec<String>,
    /// Attributes of another object that are taken past its own way to give them:
    /// `object.__getattribute__(it, name)`.
    pub taken: Vec<String>,
    /// Attributes of what is reached by way of the bases of a class.
    pub climbed_attributes: Vec<String>,
    /// Strings, as regular expressions. `{}` stands for a part that is not constant.
    pub strings: Vec<String>,
    /// Modules that are imported.
    pub imports: Vec<String>,
    /// Tables that are gone through, or handed on whole.
    pub listed: Vec<String>,
    /// Imports of modules that hold tests.
    pub test_imports: bool,
    /// Functions that import the module given by their argument.
    pub importers: Vec<String>,
    /// Texts that name files of tests.
    pub test_paths: bool,
    /// Methods that return true whatever their arguments.
    pub always_true: Vec<String>,
    pub always_false: Vec<String>,
    /// Methods that return something for every name.
    pub always_answers: Vec<String>,
    /// Names that are assigned in the body of a class.
    pub class_names: Vec<String>,
    /// Methods that end a `with` statement without its exception.
    pub swallows: Vec<String>,
    /// Decorators that turn a generator into a context manager.
    pub managers: Vec<String>,
    /// Exceptions that cover a failed assertion.
    pub caught: Vec<String>,
    pub suppressors: Vec<String>,
    /// Functions that decode a text.
    pub decoders: Vec<String>,
    /// Names composed of pieces.
    pub joined_names: bool,
    /// A class that claims to belong to another package.
    pub foreign_module: bool,
    /// Files that `lines` is for, by name with `*`, or by the end of a path.
    pub files: Vec<String>,
    /// Lines of those files, as regular expressions.
    pub lines: Vec<String>,
}

/// The rules with their patterns compiled.
#[derive(Debug)]
pub(crate) struct Rules {
    pub table: &'static Table,
    /// Every reference of every rule.
    references: RegexSet,
    /// The rule and the text of each reference, in the order of the set.
    owners: Vec<(usize, &'static str)>,
    strings: RegexSet,
    string_owners: Vec<usize>,
    any_module: RegexSet,
    test_names: RegexSet,
    test_modules: RegexSet,
    /// The lines of each rule.
    lines: Vec<RegexSet>,
    pub coding: Regex,
    /// What files of compiled code and archives begin with, or end with.
    pub opaque_beginnings: Vec<Vec<u8>>,
    pub opaque_ends: Vec<Vec<u8>>,
}

static TABLE: ShippedTable<Table> =
    ShippedTable::new("screening.toml", include_str!("../../../configs/screening.toml"));

impl Rules {
    pub(crate) fn get() -> Result<&'static Self, String> {
        static RULES: OnceLock<Result<Rules, String>> = OnceLock::new();
        let read = || Self::compile(TABLE.get()?);
        RULES.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    fn compile(table: &'static Table) -> Result<Self, String> {
        let wrong = |error: regex::Error| format!("configs/screening.toml: {error}");
        let mut owners = Vec::new();
        let mut patterns = Vec::new();
        let (mut strings, mut string_owners) = (Vec::new(), Vec::new());
        for (number, rule) in table.rules.iter().enumerate() {
            for reference in &rule.references {
                owners.push((number, reference.as_str()));
                patterns.push(format!("^{}(?:$|[.\\[(])", dotted(reference)));
            }
            for text in &rule.strings {
                strings.push(text.as_str());
                string_owners.push(number);
            }
        }
        let bytes = |texts: &[String]| {
            let decoded = texts.iter().map(|text| bytes_of(text).ok_or(text));
            let decoded: Result<Vec<Vec<u8>>, &String> = decoded.collect();
            decoded.map_err(|text| format!("configs/screening.toml: {text:?} is not hexadecimal"))
        };
        let lines = table.rules.iter().map(|rule| RegexSet::new(&rule.lines).map_err(wrong));
        let lines = lines.collect::<Result<Vec<_>, String>>()?;
        let any: Vec<String> =
            table.any_module.iter().map(|path| format!("^{}$", dotted(path))).collect();
        Ok(Self {
            table,
            references: RegexSet::new(&patterns).map_err(wrong)?,
            owners,
            strings: RegexSet::new(&strings).map_err(wrong)?,
            string_owners,
            any_module: RegexSet::new(&any).map_err(wrong)?,
            test_names: RegexSet::new(&table.test_names).map_err(wrong)?,
            test_modules: RegexSet::new(&table.test_modules).map_err(wrong)?,
            lines,
            coding: Regex::new(r"^[ \t\x0c]*#.*?coding[:=][ \t]*([-\w.]+)").map_err(wrong)?,
            opaque_beginnings: bytes(&table.opaque_beginnings)?,
            opaque_ends: bytes(&table.opaque_ends)?,
        })
    }

    /// The rules that a dotted name breaks but `shorter`, a part of it, does not: each with the
    /// reference as written in the table.
    pub(crate) fn broken(&self, path: &str, shorter: Option<&str>) -> Vec<(usize, &'static str)> {
        let found = self.references.matches(path);
        if !found.matched_any() {
            return Vec::new();
        }
        let known = shorter.map(|shorter| self.references.matches(shorter));
        let is_new = |at: &usize| !known.as_ref().is_some_and(|known| known.matched(*at));
        let mut broken: Vec<(usize, &'static str)> = Vec::new();
        for at in found.iter().filter(is_new) {
            let Some(owner) = self.owners.get(at).copied() else { continue };
            if broken.iter().all(|(rule, _)| *rule != owner.0) {
                broken.push(owner);
            }
        }
        broken
    }

    /// The rules that a string breaks.
    pub(crate) fn broken_by_text(&self, text: &str) -> BTreeSet<usize> {
        let found = self.strings.matches(text);
        found.iter().filter_map(|at| self.string_owners.get(at).copied()).collect()
    }

    /// Whether a line breaks a rule.
    pub(crate) fn broken_by_line(&self, rule: usize, line: &str) -> bool {
        self.lines.get(rule).is_some_and(|lines| lines.is_match(line))
    }

    pub(crate) fn is_any_module(&self, path: &str) -> bool {
        self.any_module.is_match(path)
    }

    pub(crate) fn is_test_name(&self, component: &str) -> bool {
        self.test_names.is_match(component)
    }

    pub(crate) fn is_test_module(&self, component: &str) -> bool {
        self.test_modules.is_match(component)
    }

    /// Whether some reference is below a module.
    pub(crate) fn has_references_below(&self, module: &str) -> bool {
        let below =
            |path: &str| path.strip_prefix(module).is_some_and(|rest| rest.starts_with('.'));
        self.owners.iter().any(|(_, reference)| below(reference))
    }

    /// Whether some reference is a dotted name or below it.
    pub(crate) fn names(&self, path: &str) -> bool {
        self.has_references_below(path) || self.owners.iter().any(|(_, known)| *known == path)
    }

    /// The numbers of the rules that satisfy a predicate.
    pub(crate) fn which(&self, holds: impl Fn(&Rule) -> bool) -> Vec<usize> {
        let rules = self.table.rules.iter().enumerate();
        rules.filter(|(_, rule)| holds(rule)).map(|(number, _)| number).collect()
    }
}

/// The bytes that hexadecimal digits stand for.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs: Vec<char> = digits.chars().collect();
    let pairs = pairs.chunks(2).map(|pair| pair.iter().collect::<String>());
    pairs.map(|pair| u8::from_str_radix(&pair, 16).ok()).collect()
}

/// A dotted name as a pattern: `[]` stands for any subscript.
fn dotted(path: &str) -> String {
    regex::escape(path).replace(r"\[\]", r"\[[^\]]*\]")
}
