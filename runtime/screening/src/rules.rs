//! The rules of `configs/tables/screening.toml`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use proctor_types::ShippedTable;
use regex::{Regex, RegexSet};
use serde::Deserialize;

/// The contents of `configs/tables/screening.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleTable {
    pub extension_points: BTreeSet<String>,
    pub any_module: Vec<String>,
    pub looking_functions: BTreeSet<String>,
    pub carried_modules: BTreeSet<String>,
    pub not_carried: BTreeSet<String>,
    pub test_names: Vec<String>,
    pub test_modules: Vec<String>,
    pub script_folders: BTreeSet<String>,
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

/// A rule, with everything that violates it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rule {
    pub name: String,
    /// The kind of evidence that a hit counts as.
    pub evidence: String,
    /// The explanation that a finding shows after its location.
    pub explanation: String,
    /// Files that cannot be read as source code.
    pub unreadable: bool,
    /// Functions that run a string as code. If the string is constant, its code is screened
    /// instead.
    pub dynamic: Vec<String>,
    /// Dotted names, including everything below them.
    pub references: Vec<String>,
    /// Groups of expressions that give the same access. An excused expression also excuses the
    /// other expressions in its group.
    pub equivalent: Vec<Vec<String>>,
    /// References that may be imported, named, compared with `is` and used as the class of
    /// `isinstance`.
    pub type_checks: Vec<String>,
    /// Names of methods whose definitions are findings.
    pub methods: Vec<String>,
    /// Assignments to attributes of other packages.
    pub foreign: bool,
    /// Modules of other packages that are passed as values.
    pub passed_modules: bool,
    /// Changes to `sys.modules`.
    pub module_table: bool,
    /// Attributes that are assigned on anything but `self` and `cls`.
    pub assigned: Vec<String>,
    /// Attributes in which code assigns an entry.
    pub filled: Vec<String>,
    /// Attributes that are used in any way.
    pub attributes: Vec<String>,
    /// Whether one use of an attribute in the old code excuses all uses of this attribute, no
    /// matter which object the code reads it from.
    pub excused_by_name: bool,
    /// Sums of the address of an object and a number.
    pub id_arithmetic: bool,
    /// Names of attributes that are selected by their position in `dir(it)`.
    pub attributes_by_position: bool,
    /// Positions of arguments that are functions which receive a frame, by function.
    pub frame_handlers: BTreeMap<String, usize>,
    /// Functions of other packages to which a frame handler may pass the frame.
    pub frame_printers: Vec<String>,
    /// Attributes to which code assigns functions that must not end the process with status 0.
    pub exit_hooks: Vec<String>,
    /// Functions and exceptions that end the process.
    pub exits: Vec<String>,
    /// Functions that empty an argument.
    pub emptied_arguments: bool,
    /// Modules whose tables and objects code must not change.
    pub reference_modules: BTreeSet<String>,
    /// Methods that change an object of the modules in `reference_modules`.
    pub table_changes: Vec<String>,
    /// Tables of the modules in `reference_modules` to which code may add entries.
    pub extensible_tables: Vec<String>,
    /// Values that the first argument of a function must not have. It must be constant.
    pub reserved_arguments: BTreeMap<String, Vec<String>>,
    /// Methods that must compare for equality.
    pub equalities: Vec<String>,
    /// Functions and methods that compare in another way.
    pub other_relations: Vec<String>,
    /// Functions that measure a distance, which an equality may compare with a tolerance.
    pub distances: Vec<String>,
    /// The methods that a class needs before code registers it for an interface.
    pub abstract_methods: BTreeMap<String, Vec<String>>,
    /// Classes of arrays.
    pub reduced_classes: Vec<String>,
    /// Methods that such a class inherits and that its subclasses must not replace.
    pub reductions: Vec<String>,
    /// Attributes whose names no other library uses, whatever object they are read from.
    pub unmistakable: Vec<String>,
    /// Keyword arguments.
    pub keywords: Vec<String>,
    /// Keyword arguments whose value is not the literal `False`.
    pub enabled_keywords: Vec<String>,
    /// Functions that these keyword arguments do not affect.
    pub unaffected_functions: Vec<String>,
    /// Positions of arguments whose value is not the literal `False`, by function.
    pub enabled_positions: BTreeMap<String, usize>,
    /// Attributes that are used on other packages.
    pub foreign_attributes: Vec<String>,
    /// Attributes that are read from another object without its own attribute lookup:
    /// `object.__getattribute__(it, name)`.
    pub taken: Vec<String>,
    /// Attributes that are reached through the bases of a class.
    pub climbed_attributes: Vec<String>,
    /// Regular expressions for strings. `{}` stands for a part that is not constant.
    pub strings: Vec<String>,
    /// Imported modules.
    pub imports: Vec<String>,
    /// The stack and its rows, which code may only read in certain ways. See
    /// `python/walker/held.rs`.
    pub held: Vec<String>,
    /// Tables that are iterated over or passed as a whole.
    pub listed: Vec<String>,
    /// Imports of test modules.
    pub test_imports: bool,
    /// Functions that import the module named by their argument.
    pub importers: Vec<String>,
    /// Strings that name test files.
    pub test_paths: bool,
    /// Methods that always return true.
    pub always_true: Vec<String>,
    /// Methods that always return false.
    pub always_false: Vec<String>,
    /// Comparison methods whose result does not depend on the other value, except for its class.
    pub comparisons_without_value: Vec<String>,
    /// Comparison methods whose result does not depend on the object itself.
    pub comparisons_without_object: Vec<String>,
    /// Arithmetic methods that combine the other value with itself.
    pub sums_without_object: Vec<String>,
    /// Arithmetic methods whose result does not depend on the other value at all.
    pub sums_without_value: Vec<String>,
    /// Comparison methods that look the other value up in a collection.
    pub lookups: Vec<String>,
    /// Comparison methods that store the other value.
    pub storing_comparisons: Vec<String>,
    /// Classes whose instances cannot be told apart, and classes with several names.
    pub indistinct: bool,
    /// Base classes of enums.
    pub enums: Vec<String>,
    /// Decorators that create a dataclass.
    pub dataclasses: Vec<String>,
    /// Base classes of protocols.
    pub protocols: Vec<String>,
    /// Decorators that let `isinstance` accept a protocol.
    pub runtime_protocols: Vec<String>,
    /// Methods that a class replaces in its subclasses.
    pub replaced_methods: bool,
    /// Comparison methods that are assigned to classes of other modules.
    pub replaced_comparisons: Vec<String>,
    /// Values that fit comparisons with any other value, as results of functions.
    pub void_values: Vec<String>,
    /// Parameters that an interface requires, so that functions may ignore them. If the list is not
    /// empty, the rule applies to functions that ignore all of their parameters.
    pub context_parameters: Vec<String>,
    /// Functions that code may call, but not pass on.
    pub called_only: Vec<String>,
    /// Attributes that lead from an object to the code that uses it, such as `__self__`.
    pub owner_attributes: Vec<String>,
    /// Functions that list the attributes of an object, for objects that `owner_attributes` returns.
    pub member_tables: Vec<String>,
    /// Functions that list the attributes of any object, unless `member_kinds` selects them.
    pub member_readers: Vec<String>,
    pub member_kinds: Vec<String>,
    /// Functions that return a function which reads the attributes in their arguments.
    pub attribute_getters: Vec<String>,
    /// Special attributes that such functions may read.
    pub plain_attributes: Vec<String>,
    /// Regular expressions for strings that code compares a name with to find out whether the name
    /// belongs to a test.
    pub name_tests: Vec<String>,
    /// Groups of dotted names. A rule is violated if code uses at least one name of each group. A
    /// name that begins with a dot is an attribute of any object.
    pub combined: Vec<Vec<String>>,
    /// Methods that return a value for every attribute name.
    pub always_answers: Vec<String>,
    /// Names that are assigned in a class body.
    pub class_names: Vec<String>,
    /// Methods that suppress the exception of a `with` statement.
    pub swallows: Vec<String>,
    /// Decorators that turn a generator into a context manager.
    pub managers: Vec<String>,
    /// Exception classes that include `AssertionError`.
    pub caught: Vec<String>,
    pub suppressors: Vec<String>,
    /// Functions that decode a constant text.
    pub decoders: Vec<String>,
    /// Names that are composed of parts or otherwise obscured.
    pub joined_names: bool,
    /// Classes that claim to belong to another package.
    pub foreign_module: bool,
    /// Regular expressions for the paths of files that violate the rule with any content.
    pub paths: Vec<String>,
    /// Files to which `lines` applies: a file name with `*`, or the end of a path.
    pub files: Vec<String>,
    /// Whether the code can only deceive a test runner of its own language.
    pub own_runner: bool,
    /// Files to which `lines` does not apply.
    pub except_files: Vec<String>,
    /// Regular expressions for lines of the files in `files`.
    pub lines: Vec<String>,
}

/// The rules with compiled patterns.
#[derive(Debug)]
pub(crate) struct Rules {
    pub table: &'static RuleTable,
    /// The references of all rules.
    reference_patterns: RegexSet,
    /// The rule and the text of each reference, in the order of `references`.
    reference_owners: Vec<(usize, &'static str)>,
    /// The rules and references of each unmistakable attribute.
    unmistakable_names: BTreeMap<&'static str, Vec<(usize, &'static str)>>,
    held_names: RegexSet,
    held_name_owners: Vec<(usize, &'static str)>,
    string_patterns: RegexSet,
    string_owners: Vec<usize>,
    name_test_patterns: RegexSet,
    name_test_owners: Vec<usize>,
    /// The names of all groups in `combined`.
    combined_patterns: RegexSet,
    /// The rule, the group and the text of each name in `combined_patterns`.
    combined_owners: Vec<(usize, usize, &'static str)>,
    /// The rule, the group and the text of each attribute in `combined`, by the attribute's name.
    combined_attributes: BTreeMap<&'static str, Vec<(usize, usize, &'static str)>>,
    any_module: RegexSet,
    test_names: RegexSet,
    test_modules: RegexSet,
    /// The line patterns of each rule.
    line_patterns: Vec<RegexSet>,
    /// The path patterns of each rule.
    path_patterns: Vec<RegexSet>,
    pub encoding_pattern: Regex,
    /// Bytes at the start or near the end of compiled code and archives.
    pub opaque_beginnings: Vec<Vec<u8>>,
    pub opaque_ends: Vec<Vec<u8>>,
}

static RULE_TABLE: ShippedTable<RuleTable> = ShippedTable::new(
    "tables/screening.toml",
    include_str!("../../../configs/tables/screening.toml"),
);

impl Rules {
    pub(crate) fn get() -> Result<&'static Self, String> {
        static RULES: OnceLock<Result<Rules, String>> = OnceLock::new();
        let read = || Self::compile(RULE_TABLE.get()?);
        RULES.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    pub(crate) fn compile(table: &'static RuleTable) -> Result<Self, String> {
        let wrong = |error: regex::Error| format!("configs/tables/screening.toml: {error}");
        let mut owners = Vec::new();
        let mut patterns = Vec::new();
        let (mut strings, mut string_owners) = (Vec::new(), Vec::new());
        let (mut held, mut held_owners) = (Vec::new(), Vec::new());
        let (mut name_tests, mut name_test_owners) = (Vec::new(), Vec::new());
        let (mut combined, mut combined_owners) = (Vec::new(), Vec::new());
        let mut combined_attributes: BTreeMap<&'static str, Vec<(usize, usize, &'static str)>> =
            BTreeMap::new();
        let mut unmistakable: BTreeMap<&'static str, Vec<(usize, &'static str)>> = BTreeMap::new();
        for (number, rule) in table.rules.iter().enumerate() {
            for reference in &rule.references {
                owners.push((number, reference.as_str()));
                patterns.push(format!("^{}(?:$|[.\\[(])", dotted_name_pattern(reference)));
            }
            for (group, references) in rule.combined.iter().enumerate() {
                for reference in references {
                    if let Some(name) = reference.strip_prefix('.') {
                        let known = combined_attributes.entry(name).or_default();
                        known.push((number, group, reference.as_str()));
                        continue;
                    }
                    combined_owners.push((number, group, reference.as_str()));
                    combined.push(format!("^{}(?:$|[.\\[(])", dotted_name_pattern(reference)));
                }
            }
            for text in &rule.name_tests {
                name_tests.push(text.as_str());
                name_test_owners.push(number);
            }
            for path in &rule.held {
                held.push(format!("^{}$", dotted_name_pattern(path)));
                held_owners.push((number, path.as_str()));
            }
            for name in &rule.unmistakable {
                let is_it = |known: &&String| known.rsplit('.').next() == Some(name.as_str());
                let reference = rule.references.iter().find(is_it).unwrap_or(name);
                unmistakable.entry(name.as_str()).or_default().push((number, reference.as_str()));
            }
            for text in &rule.strings {
                strings.push(text.as_str());
                string_owners.push(number);
            }
        }
        let bytes = |texts: &[String]| {
            let decoded = texts.iter().map(|text| decode_hex(text).ok_or(text));
            let decoded: Result<Vec<Vec<u8>>, &String> = decoded.collect();
            decoded.map_err(|text| {
                format!("configs/tables/screening.toml: {text:?} is not hexadecimal")
            })
        };
        let lines = table.rules.iter().map(|rule| RegexSet::new(&rule.lines).map_err(wrong));
        let lines = lines.collect::<Result<Vec<_>, String>>()?;
        let paths = table.rules.iter().map(|rule| RegexSet::new(&rule.paths).map_err(wrong));
        let paths = paths.collect::<Result<Vec<_>, String>>()?;
        let any: Vec<String> = table
            .any_module
            .iter()
            .map(|path| format!("^{}$", dotted_name_pattern(path)))
            .collect();
        Ok(Self {
            table,
            reference_patterns: RegexSet::new(&patterns).map_err(wrong)?,
            reference_owners: owners,
            unmistakable_names: unmistakable,
            held_names: RegexSet::new(&held).map_err(wrong)?,
            held_name_owners: held_owners,
            string_patterns: RegexSet::new(&strings).map_err(wrong)?,
            string_owners,
            name_test_patterns: RegexSet::new(&name_tests).map_err(wrong)?,
            name_test_owners,
            combined_patterns: RegexSet::new(&combined).map_err(wrong)?,
            combined_owners,
            combined_attributes,
            any_module: RegexSet::new(&any).map_err(wrong)?,
            test_names: RegexSet::new(&table.test_names).map_err(wrong)?,
            test_modules: RegexSet::new(&table.test_modules).map_err(wrong)?,
            line_patterns: lines,
            path_patterns: paths,
            encoding_pattern: Regex::new(r"^[ \t\x0c]*#.*?coding[:=][ \t]*([-\w.]+)")
                .map_err(wrong)?,
            opaque_beginnings: bytes(&table.opaque_beginnings)?,
            opaque_ends: bytes(&table.opaque_ends)?,
        })
    }

    /// Returns the rules that a dotted name violates but its prefix `shorter_path` does not, each
    /// with the reference in the table.
    pub(crate) fn rules_violated_by_reference(
        &self,
        path: &str,
        shorter_path: Option<&str>,
    ) -> Vec<(usize, &'static str)> {
        let found = self.reference_patterns.matches(path);
        if !found.matched_any() {
            return Vec::new();
        }
        let known = shorter_path.map(|shorter| self.reference_patterns.matches(shorter));
        let is_new = |at: &usize| !known.as_ref().is_some_and(|known| known.matched(*at));
        let mut broken: Vec<(usize, &'static str)> = Vec::new();
        for at in found.iter().filter(is_new) {
            let Some(owner) = self.reference_owners.get(at).copied() else { continue };
            if broken.iter().all(|(rule, _)| *rule != owner.0) {
                broken.push(owner);
            }
        }
        broken
    }

    /// Returns the rules that an attribute violates by its name alone, each with the reference in
    /// the table.
    pub(crate) fn rules_violated_by_name(&self, name: &str) -> &[(usize, &'static str)] {
        self.unmistakable_names.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the rules that restrict the uses of a value, each with its dotted name in the table.
    pub(crate) fn rules_restricting(&self, path: &str) -> Vec<(usize, &'static str)> {
        let found = self.held_names.matches(path);
        found.iter().filter_map(|at| self.held_name_owners.get(at).copied()).collect()
    }

    /// Whether a rule restricts the uses of a value.
    pub(crate) fn is_restricted(&self, path: &str) -> bool {
        self.held_names.is_match(path)
    }

    /// Returns the rules that a string violates.
    pub(crate) fn rules_violated_by_text(&self, text: &str) -> BTreeSet<usize> {
        let found = self.string_patterns.matches(text);
        found.iter().filter_map(|at| self.string_owners.get(at).copied()).collect()
    }

    /// Returns the rules that a string violates if code compares a name with it.
    pub(crate) fn rules_violated_by_name_test(&self, text: &str) -> BTreeSet<usize> {
        let found = self.name_test_patterns.matches(text);
        found.iter().filter_map(|at| self.name_test_owners.get(at).copied()).collect()
    }

    /// Returns the groups of combined names to which a dotted name belongs but its prefix
    /// `shorter_path` does not, each with its rule and the name in the table.
    pub(crate) fn groups_of_reference(
        &self,
        path: &str,
        shorter_path: Option<&str>,
    ) -> Vec<(usize, usize, &'static str)> {
        let found = self.combined_patterns.matches(path);
        if !found.matched_any() {
            return Vec::new();
        }
        let known = shorter_path.map(|shorter| self.combined_patterns.matches(shorter));
        let is_new = |at: &usize| !known.as_ref().is_some_and(|known| known.matched(*at));
        found.iter().filter(is_new).filter_map(|at| self.combined_owners.get(at).copied()).collect()
    }

    /// Returns the groups of combined names to which an attribute of any object belongs.
    pub(crate) fn groups_of_attribute(&self, name: &str) -> &[(usize, usize, &'static str)] {
        self.combined_attributes.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a dotted name is a table or another object of a module that tests use to compute
    /// expectations, not the module itself or a class.
    pub(crate) fn is_reference_object(&self, rule: &Rule, path: &str) -> bool {
        let Some((_, name)) = path.rsplit_once('.') else { return false };
        let module = path.split('.').next().unwrap_or(path);
        let is_class = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
        rule.reference_modules.contains(module) && !is_class && !path.contains(['(', '['])
    }

    /// Whether a line violates a rule.
    pub(crate) fn is_violated_by_line(&self, rule: usize, line: &str) -> bool {
        self.line_patterns.get(rule).is_some_and(|lines| lines.is_match(line))
    }

    /// Whether a file violates a rule by its path.
    pub(crate) fn is_violated_by_path(&self, rule: usize, path: &str) -> bool {
        self.path_patterns.get(rule).is_some_and(|paths| paths.is_match(path))
    }

    /// Whether Python can import a file with this name.
    pub(crate) fn is_importable(&self, path: &str) -> bool {
        let mut suffixes = self.table.source_suffixes.iter().chain(&self.table.opaque_suffixes);
        suffixes.any(|suffix| path.ends_with(suffix.as_str()))
    }

    /// Whether a dotted name may evaluate to any module, such as `importlib.import_module()`.
    pub(crate) fn may_evaluate_to_any_module(&self, path: &str) -> bool {
        self.any_module.is_match(path)
    }

    pub(crate) fn is_test_name(&self, component: &str) -> bool {
        self.test_names.is_match(component)
    }

    pub(crate) fn is_test_module(&self, component: &str) -> bool {
        self.test_modules.is_match(component)
    }

    /// Whether the rules have a reference below a module.
    pub(crate) fn has_references_below(&self, module: &str) -> bool {
        let below =
            |path: &str| path.strip_prefix(module).is_some_and(|rest| rest.starts_with('.'));
        self.reference_owners.iter().any(|(_, reference)| below(reference))
    }

    /// Whether the rules have a reference to a dotted name or below it.
    pub(crate) fn has_references_to(&self, path: &str) -> bool {
        self.has_references_below(path)
            || self.reference_owners.iter().any(|(_, known)| *known == path)
    }

    /// Whether a dotted name is exempt from a rule when it is only used in type checks.
    pub(crate) fn is_type_check(&self, rule: usize, path: &str) -> bool {
        let rule = self.table.rules.get(rule);
        rule.is_some_and(|rule| rule.type_checks.iter().any(|it| it == path))
    }

    /// Returns the expression that represents all expressions that give the same access.
    pub(crate) fn canonical_expression(&self, rule: usize, expression: String) -> String {
        let groups = self.table.rules.get(rule).map(|rule| rule.equivalent.as_slice());
        let mut groups = groups.unwrap_or_default().iter();
        let group = groups.find(|group| group.contains(&expression));
        group.and_then(|group| group.first()).cloned().unwrap_or(expression)
    }

    /// Returns the indices of the rules that satisfy a predicate.
    pub(crate) fn find_rules(&self, predicate: impl Fn(&Rule) -> bool) -> Vec<usize> {
        let rules = self.table.rules.iter().enumerate();
        rules.filter(|(_, rule)| predicate(rule)).map(|(number, _)| number).collect()
    }
}

/// Decodes hexadecimal digits.
fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs: Vec<char> = digits.chars().collect();
    let pairs = pairs.chunks(2).map(|pair| pair.iter().collect::<String>());
    pairs.map(|pair| u8::from_str_radix(&pair, 16).ok()).collect()
}

/// Converts a dotted name to a pattern. `[]` matches any subscript.
fn dotted_name_pattern(path: &str) -> String {
    regex::escape(path).replace(r"\[\]", r"\[[^\]]*\]")
}
