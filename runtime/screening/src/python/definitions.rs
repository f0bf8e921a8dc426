//! Finds the functions and classes that a file defines at any depth, to look them up by name.

use std::collections::BTreeMap;

use ruff_python_ast::{
    Expr, Stmt, StmtClassDef, StmtFunctionDef,
    visitor::{self, Visitor},
};

use super::shapes::BoundedVisitor;

/// Maximum number of assignments through which a name is followed.
const MAX_ALIAS_STEPS: usize = 4;

/// The functions and classes of a file, by name. Several functions may have the same name.
#[derive(Default)]
pub(super) struct Definitions<'b> {
    functions: BTreeMap<&'b str, Vec<&'b StmtFunctionDef>>,
    classes: BTreeMap<&'b str, &'b StmtClassDef>,
    /// Names that are assigned another name.
    aliases: BTreeMap<&'b str, &'b str>,
}

impl<'b> Definitions<'b> {
    /// Collects the definitions of a module.
    pub(super) fn new(body: &'b [Stmt], depth: usize) -> Self {
        let mut collector = DefinitionCollector { depth, found: Self::default() };
        body.iter().for_each(|stmt| collector.visit_stmt(stmt));
        collector.found
    }

    /// Returns the functions and methods with a name.
    pub(super) fn functions(&self, name: &str) -> Vec<&'b StmtFunctionDef> {
        let mut name = name;
        for _ in 0..MAX_ALIAS_STEPS {
            if let Some(found) = self.functions.get(name) {
                return found.clone();
            }
            match self.aliases.get(name) {
                Some(other) => name = other,
                None => break,
            }
        }
        Vec::new()
    }

    pub(super) fn class(&self, name: &str) -> Option<&'b StmtClassDef> {
        self.classes.get(name).copied()
    }

    /// Returns the functions to which an expression may refer: by a name, as a method of any object,
    /// through `functools.partial` or as an object that can be called.
    pub(super) fn referenced_functions(&self, value: &Expr) -> Vec<&'b StmtFunctionDef> {
        let value = match value {
            Expr::Call(call) => match &*call.func {
                Expr::Name(name) if self.class(name.id.as_str()).is_some() => {
                    let class = self.class(name.id.as_str());
                    return class.and_then(|class| method(class, "__call__")).into_iter().collect();
                }
                _ => match call.arguments.args.first() {
                    Some(first) => first,
                    None => return Vec::new(),
                },
            },
            value => value,
        };
        match value {
            Expr::Name(name) => self.functions(name.id.as_str()),
            Expr::Attribute(attribute) => self.functions(attribute.attr.as_str()),
            _ => Vec::new(),
        }
    }
}

/// Returns a method that the body of a class defines.
pub(super) fn method<'c>(class: &'c StmtClassDef, name: &str) -> Option<&'c StmtFunctionDef> {
    class.body.iter().find_map(|stmt| match stmt {
        Stmt::FunctionDef(def) if def.name.as_str() == name => Some(def),
        _ => None,
    })
}

struct DefinitionCollector<'b> {
    depth: usize,
    found: Definitions<'b>,
}

impl<'b> BoundedVisitor<'b> for DefinitionCollector<'b> {
    fn depth(&mut self) -> &mut usize {
        &mut self.depth
    }
}

impl<'b> Visitor<'b> for DefinitionCollector<'b> {
    fn visit_stmt(&mut self, stmt: &'b Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => {
                self.found.functions.entry(def.name.as_str()).or_default().push(def);
            }
            Stmt::ClassDef(class) => {
                self.found.classes.insert(class.name.as_str(), class);
            }
            Stmt::Assign(assign) => {
                if let (Expr::Name(value), [Expr::Name(target)]) =
                    (&*assign.value, &*assign.targets)
                {
                    self.found.aliases.insert(target.id.as_str(), value.id.as_str());
                }
            }
            _ => {}
        }
        self.descend(|own| visitor::walk_stmt(own, stmt));
    }

    // Statements contain no statements below expressions.
    fn visit_expr(&mut self, _expr: &'b Expr) {}
}
