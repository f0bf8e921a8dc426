//! Resolves names through imports and simple assignments in each scope.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{Expr, ExprContext, Number, Parameters, Stmt, UnaryOp, visitor::Visitor};

use super::{
    constant::constant_string,
    exports::{Export, Exports},
};
use crate::rules::Rules;

mod binder;
mod patterns;

use binder::NameBinder;
pub(super) use patterns::pattern_pairs;

/// Functions that return the module named by their argument.
const IMPORTING_FUNCTIONS: [&str; 5] = [
    "builtins.__import__",
    "importlib.__import__",
    "importlib.import_module",
    "importlib.reload",
    "sys.modules.get",
];

/// Methods that return an entry of a mapping.
const ENTRY_METHODS: [&str; 4] = ["get", "__getitem__", "pop", "setdefault"];

/// Maximum number of components of a dotted name.
const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScopeKind {
    Module,
    Function,
    /// Names in a class body are not visible in the functions inside it.
    Class,
}

/// The code of a scope.
pub(super) enum ScopeCode<'a> {
    Body(&'a [Stmt]),
    Expr(&'a Expr),
}

#[derive(Debug, Clone)]
struct Scope {
    kind: ScopeKind,
    /// The dotted names that local names refer to.
    aliases: BTreeMap<String, String>,
    /// Local names that refer to anything else.
    bound_names: BTreeSet<String>,
    /// Names that are declared `global` or `nonlocal`.
    outer_names: BTreeSet<String>,
    /// Local names of imported modules.
    module_names: BTreeSet<String>,
}

/// The names that are visible at the current location.
#[derive(Clone)]
pub(super) struct NameTable<'a> {
    rules: &'static Rules,
    owned_modules: &'a BTreeSet<String>,
    exports: &'a Exports,
    scopes: Vec<Scope>,
}

impl<'a> NameTable<'a> {
    pub(super) fn new(
        rules: &'static Rules,
        owned_modules: &'a BTreeSet<String>,
        exports: &'a Exports,
    ) -> Self {
        Self { rules, owned_modules, exports, scopes: Vec::new() }
    }

    /// Returns the names in a module that refer to something outside it.
    pub(super) fn module_aliases(&mut self, body: &[Stmt]) -> BTreeMap<String, Export> {
        self.enter_scope(ScopeKind::Module, None, &ScopeCode::Body(body));
        let Some(Scope { aliases, module_names: modules, .. }) = self.scopes.pop() else {
            return BTreeMap::new();
        };
        let export = |(name, path): (String, String)| {
            let is_module = modules.contains(&name);
            (name, Export { path, is_module })
        };
        aliases.into_iter().map(export).collect()
    }

    /// Returns the object in another package to which `name` in the repository's module
    /// `module_path` refers. Returns `None` if the patch does not contain that module.
    fn find_export(&self, module_path: &str, name: &str) -> Option<Export> {
        if !self.is_owned(module_path) {
            return None;
        }
        self.exports.find_foreign(module_path, name, &|path: &str| self.is_owned(path))
    }

    /// Enters a scope, and collects all names that are bound anywhere in it.
    pub(super) fn enter_scope(
        &mut self,
        kind: ScopeKind,
        parameters: Option<&Parameters>,
        code: &ScopeCode<'_>,
    ) {
        let empty = BTreeMap::new();
        let scope = Scope {
            kind,
            aliases: empty,
            bound_names: BTreeSet::new(),
            outer_names: BTreeSet::new(),
            module_names: BTreeSet::new(),
        };
        self.scopes.push(scope);
        if let Some(parameters) = parameters {
            for parameter in parameters.iter() {
                self.bind(parameter.name().as_str());
            }
            for parameter in parameters.iter_non_variadic_params() {
                if let Some(default) = &parameter.default {
                    self.alias_name(parameter.parameter.name.as_str(), default);
                }
            }
        }
        let mut binder = NameBinder::new(self);
        match code {
            ScopeCode::Body(body) => body.iter().for_each(|stmt| binder.visit_stmt(stmt)),
            ScopeCode::Expr(expr) => binder.visit_expr(expr),
        }
    }

    pub(super) fn leave_scope(&mut self) {
        self.scopes.pop();
    }

    /// Whether a dotted name belongs to the repository's own packages.
    pub(super) fn is_owned(&self, path: &str) -> bool {
        path.starts_with('.') || self.owned_modules.contains(top_level_name(path))
    }

    pub(super) fn owns_package(&self, top: &str) -> bool {
        self.owned_modules.contains(top)
    }

    /// Whether a dotted name is a module, class or function of another package.
    pub(super) fn is_foreign(&self, path: &str) -> bool {
        if self.is_owned(path) {
            return false;
        }
        // The result of a call or subscript is an instance, unless it may be any module.
        !path.contains(['(', '[']) || self.rules.may_evaluate_to_any_module(path)
    }

    /// Returns the dotted name that an expression refers to.
    pub(super) fn dotted_path(&self, expr: &Expr) -> Option<String> {
        self.path_at_depth(expr, MAX_DEPTH)
    }

    fn path_at_depth(&self, expr: &Expr, depth: usize) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        match expr {
            Expr::Name(name) => self.lookup(name.id.as_str()),
            Expr::Attribute(attribute) => {
                let of = self.path_at_depth(&attribute.value, depth)?;
                Some(self.attribute_path(&of, attribute.attr.as_str()))
            }
            Expr::Call(call) => {
                let function = self.path_at_depth(&call.func, depth)?;
                let first = call.arguments.args.first();
                let text = first.and_then(constant_string);
                match function.as_str() {
                    "importlib.import_module" if text.as_deref().is_some_and(is_absolute) => {
                        return text;
                    }
                    "builtins.__import__" | "importlib.__import__"
                        if text.as_deref().is_some_and(is_absolute) =>
                    {
                        return text.map(|module| top_level_name(&module).to_owned());
                    }
                    "pkgutil.resolve_name" | "pydoc.locate"
                        if text.as_deref().is_some_and(is_absolute) =>
                    {
                        return text.map(|name| named_object(&name));
                    }
                    "builtins.getattr" => {
                        if let (Some(of), Some(name)) = (first, call.arguments.args.get(1)) {
                            return Some(self.attribute_path(
                                &self.path_at_depth(of, depth)?,
                                &constant_string(name)?,
                            ));
                        }
                    }
                    "importlib.reload" => {
                        if let Some(of) = first.and_then(|of| self.path_at_depth(of, depth)) {
                            return Some(of);
                        }
                    }
                    "builtins.vars" => {
                        if let Some(of) = first {
                            return Some(format!("{}.__dict__", self.path_at_depth(of, depth)?));
                        }
                    }
                    _ => {}
                }
                if let (Some((of, method)), Some(key)) = (function.rsplit_once('.'), first)
                    && text.is_some()
                    && ENTRY_METHODS.contains(&method)
                    && self.is_table(of)
                {
                    return Some(self.entry_path(of, key));
                }
                Some(function + "()")
            }
            Expr::Subscript(subscript) => {
                let of = self.path_at_depth(&subscript.value, depth)?;
                Some(self.entry_path(&of, &subscript.slice))
            }
            Expr::Named(named) => self.path_at_depth(&named.value, depth),
            Expr::If(either) => self
                .path_at_depth(&either.body, depth)
                .or_else(|| self.path_at_depth(&either.orelse, depth)),
            Expr::BoolOp(either) => {
                either.values.iter().find_map(|value| self.path_at_depth(value, depth))
            }
            _ => None,
        }
    }

    /// Returns the dotted name of an entry in a mapping.
    fn entry_path(&self, table: &str, key: &Expr) -> String {
        if let Some(key) = constant_string(key) {
            if table == "sys.modules" {
                return key;
            }
            if let Some(of) = table.strip_suffix(".__dict__") {
                return self.attribute_path(of, &key);
            }
            let found = match table {
                "builtins.globals()" => {
                    self.scopes.first().and_then(|scope| scope.aliases.get(&key).cloned())
                }
                "builtins.locals()" | "builtins.vars()" => self.lookup(&key),
                _ => None,
            };
            if let Some(found) = found {
                return found;
            }
        }
        // A slice of `inspect.stack()` counts as a stack.
        if matches!(key, Expr::Slice(_)) && table.ends_with(')') && self.rules.is_restricted(table)
        {
            return table.to_owned();
        }
        format!("{table}[{}]", subscript_index(key).unwrap_or_default())
    }

    /// Whether a dotted name is a mapping from names to objects, such as `sys.modules` or a
    /// `__dict__`.
    fn is_table(&self, path: &str) -> bool {
        let names = ["sys.modules", "builtins.globals()", "builtins.locals()", "builtins.vars()"];
        names.contains(&path) || path.ends_with(".__dict__")
    }

    /// Returns the dotted name of an expression that evaluates to a module but is not an imported
    /// name: `__import__("math")`, `sys.modules["math"]`, `globals()["math"]`, `collections._sys`.
    pub(super) fn find_module_path(&self, expr: &Expr) -> Option<String> {
        let is_module = match expr {
            Expr::Call(call) => {
                let first = call.arguments.args.first()?;
                let function = self.dotted_path(&call.func)?;
                IMPORTING_FUNCTIONS.contains(&function.as_str())
                    || self.is_module_entry(function.rsplit_once('.')?.0, first)
            }
            Expr::Subscript(subscript) if subscript.ctx == ExprContext::Load => {
                let of = self.dotted_path(&subscript.value)?;
                of == "sys.modules" || self.is_module_entry(&of, &subscript.slice)
            }
            Expr::Attribute(attribute) => {
                let module = attribute.attr.as_str().trim_start_matches('_');
                if !self.rules.table.carried_modules.contains(module) {
                    return None;
                }
                return self
                    .dotted_path(expr)
                    .filter(|path| self.rules.table.carried_modules.contains(path));
            }
            _ => false,
        };
        let path = self.dotted_path(expr).filter(|_| is_module)?;
        // If the module is only known at run time, its dotted name contains a call or subscript.
        (!path.contains(['(', '['])).then_some(path)
    }

    /// Whether a mapping such as `sys.modules` has a module under a constant key.
    fn is_module_entry(&self, table: &str, key: &Expr) -> bool {
        match table {
            "builtins.globals()" => constant_string(key).is_some_and(|key| {
                self.scopes.first().is_some_and(|scope| scope.module_names.contains(&key))
            }),
            "builtins.locals()" | "builtins.vars()" => {
                constant_string(key).is_some_and(|key| self.is_module(&key))
            }
            _ => false,
        }
    }

    pub(super) fn is_in_class(&self) -> bool {
        self.scopes.last().is_some_and(|scope| scope.kind == ScopeKind::Class)
    }

    /// Whether a name that the current scope binds has the same meaning wherever it is visible.
    /// This is not the case for attributes of a class and for names that a function declares
    /// `global`.
    pub(super) fn keeps_meaning(&self, name: &str) -> bool {
        self.scopes.last().is_some_and(|scope| {
            scope.kind != ScopeKind::Class && !scope.outer_names.contains(name)
        })
    }

    /// Returns the dotted name of an attribute. If the attribute is a module that another module
    /// imports, returns the module's own name: `sys` for `collections._sys`.
    fn attribute_path(&self, base: &str, name: &str) -> String {
        if let Some(export) = self.find_export(base, name) {
            return export.path;
        }
        let module = name.trim_start_matches('_');
        let is_carried = self.rules.table.carried_modules.contains(module);
        let whole = format!("{base}.{name}");
        // The condition on `base` excludes `signal.signal`, which is a function. Keep names to
        // which the rules refer directly, such as `importlib.util`.
        if is_carried
            && base != module
            && !self.rules.table.not_carried.contains(&whole)
            && !self.is_owned(base)
            && (!base.contains(['(', '[']) || self.rules.may_evaluate_to_any_module(base))
            && !self.rules.has_references_to(&whole)
        {
            return module.to_owned();
        }
        whole
    }

    fn lookup(&self, name: &str) -> Option<String> {
        for (number, scope) in self.scopes.iter().rev().enumerate() {
            if scope.kind == ScopeKind::Class && number > 0 {
                continue;
            }
            if let Some(path) = scope.aliases.get(name) {
                return Some(path.clone());
            }
            if scope.bound_names.contains(name) && !scope.outer_names.contains(name) {
                return None;
            }
        }
        self.rules.table.builtins.contains(name).then(|| format!("builtins.{name}"))
    }

    /// Whether a name refers to an imported module.
    pub(super) fn is_module(&self, name: &str) -> bool {
        for (number, scope) in self.scopes.iter().rev().enumerate() {
            if scope.kind == ScopeKind::Class && number > 0 {
                continue;
            }
            if scope.module_names.contains(name) {
                return true;
            }
            let is_other = scope.aliases.contains_key(name) || scope.bound_names.contains(name);
            if is_other && !scope.outer_names.contains(name) {
                return false;
            }
        }
        false
    }

    fn bind(&mut self, name: &str) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.bound_names.insert(name.to_owned());
        }
    }

    /// Adds an alias. Replaces an existing alias only if it belongs to the repository and the new
    /// alias does not, because names of other packages matter more.
    fn add_alias(&mut self, name: &str, path: String) {
        let known = self.scopes.last().and_then(|scope| scope.aliases.get(name));
        let replaces = known.is_none_or(|known| self.is_owned(known) && !self.is_owned(&path));
        if replaces && let Some(scope) = self.scopes.last_mut() {
            scope.aliases.insert(name.to_owned(), path);
        }
    }

    /// Adds the names that `from module import *` imports from one of the repository's modules.
    fn alias_all_exports(&mut self, module_path: &str) {
        if !self.is_owned(module_path) {
            return;
        }
        let found = self.exports.find_all_foreign(module_path, &|path: &str| self.is_owned(path));
        for (name, export) in found {
            if export.is_module
                && let Some(scope) = self.scopes.last_mut()
            {
                scope.module_names.insert(name.clone());
            }
            self.alias_path(&name, export.path);
        }
    }

    fn alias_name(&mut self, name: &str, value: &Expr) {
        if let Some(path) = self.dotted_path(value) {
            self.alias_path(name, path);
        }
    }

    fn alias_path(&mut self, name: &str, path: String) {
        let builtin = path.strip_prefix("builtins.");
        if builtin.is_none_or(|name| self.rules.table.aliased_builtins.contains(name)) {
            self.add_alias(name, path);
        }
    }

    fn alias_target(&mut self, target: &Expr, value: &Expr) {
        match target {
            Expr::Name(name) => {
                self.alias_name(name.id.as_str(), value);
                let is_module = match value {
                    Expr::Name(value) => self.is_module(value.id.as_str()),
                    value => self.find_module_path(value).is_some(),
                };
                if is_module && let Some(scope) = self.scopes.last_mut() {
                    scope.module_names.insert(name.id.as_str().to_owned());
                }
            }
            Expr::Tuple(_) | Expr::List(_) => {
                let targets = elements(target).unwrap_or_default();
                if let Some(values) = elements(value) {
                    for (target, value) in targets.iter().zip(values) {
                        self.alias_target(target, value);
                    }
                } else if let Some(path) = self.dotted_path(value) {
                    self.alias_elements(targets, &path);
                }
            }
            _ => {}
        }
    }

    fn alias_elements(&mut self, targets: &[Expr], path: &str) {
        let indices = element_indices(targets, |target| matches!(target, Expr::Starred(_)));
        for (target, index) in targets.iter().zip(indices) {
            match (target, index) {
                (Expr::Name(name), Some(index)) => {
                    self.add_alias(name.id.as_str(), format!("{path}[{index}]"));
                }
                // A starred target receives the rest of a row at shifted indices, so treat it as a
                // whole stack.
                (Expr::Starred(rest), None) if self.rules.is_restricted(path) => {
                    if let Expr::Name(name) = &*rest.value {
                        let whole = path.split_once('[').map_or(path, |(whole, _)| whole);
                        self.add_alias(name.id.as_str(), whole.to_owned());
                    }
                }
                _ => {}
            }
        }
    }

    fn alias_each(&mut self, target: &Expr, values: &Expr) {
        let several = match values {
            Expr::Set(set) => Some(set.elts.as_slice()),
            _ => elements(values),
        };
        if let Some(values) = several {
            values.iter().for_each(|value| self.alias_target(target, value));
            return;
        }
        let Some(path) = self.dotted_path(values) else { return };
        if path.starts_with("builtins.") {
            return;
        }
        match target {
            Expr::Name(name) => self.add_alias(name.id.as_str(), format!("{path}[]")),
            _ => self.alias_elements(elements(target).unwrap_or_default(), &format!("{path}[]")),
        }
    }
}

fn is_absolute(module: &str) -> bool {
    !module.starts_with('.')
}

/// Returns the dotted name for an argument of `pkgutil.resolve_name`, such as `sys:_getframe`.
pub(super) fn named_object(name: &str) -> String {
    name.trim_end_matches(':').replace(':', ".")
}

/// Returns the first component of a dotted name.
pub(super) fn top_level_name(path: &str) -> &str {
    path.split(['.', '[', '(']).next().unwrap_or(path)
}

/// Returns the elements of a tuple or list.
fn elements(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(tuple) => Some(&tuple.elts),
        Expr::List(list) => Some(&list.elts),
        _ => None,
    }
}

/// Returns the index of each target of an unpacked sequence. A starred target has no index, and the
/// indices of the targets after it count from the end.
fn element_indices<T>(targets: &[T], is_rest: impl Fn(&T) -> bool) -> Vec<Option<String>> {
    let rest = targets.iter().position(is_rest);
    let index = |number: usize| match rest {
        Some(rest) if number == rest => None,
        Some(rest) if number > rest => Some(format!("-{}", targets.len() - number)),
        _ => Some(number.to_string()),
    };
    (0..targets.len()).map(index).collect()
}

/// Formats an integer subscript.
fn subscript_index(expr: &Expr) -> Option<String> {
    match expr {
        Expr::NumberLiteral(literal) => match &literal.value {
            Number::Int(number) => number.as_u64().map(|number| number.to_string()),
            _ => None,
        },
        Expr::UnaryOp(negative) if negative.op == UnaryOp::USub => {
            subscript_index(&negative.operand).map(|number| format!("-{number}"))
        }
        _ => None,
    }
}
