//! Extracts examples from a test: comparisons of the library's results with fixed strings.
//!
//! For a parametrized test, and for a loop over a table, each row of the table yields an example.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{
    CmpOp, Expr, ExprBytesLiteral, ExprCall, ExprContext, Keyword, Stmt, StmtFor, StmtFunctionDef,
    visitor::{self, Visitor},
};
use ruff_text_size::{Ranged, TextRange};

use super::expectation::{is_message, last_component};

/// Maximum number of names that are followed to find a value. Code may define names in a cycle.
pub(super) const MAX_DEPTH: usize = 6;

/// Methods of unittest that compare two values.
const EQUAL_METHODS: [&str; 8] = [
    "assertEqual",
    "assertEquals",
    "assertListEqual",
    "assertTupleEqual",
    "assertSetEqual",
    "assertDictEqual",
    "assertSequenceEqual",
    "assertMultiLineEqual",
];

/// A comparison of a result with fixed strings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Example {
    /// The comparison, as in `parse("a") == "b"`. `None` if it does not fit on one line.
    pub(super) code: Option<String>,
    /// The strings with which the result is compared.
    pub(super) expected: Vec<String>,
    /// The string literals in the compared expression.
    pub(super) inputs: BTreeSet<String>,
    /// The functions that the compared expression calls. Only the last component of a dotted name
    /// is kept.
    pub(super) called: BTreeSet<String>,
    /// Whether the compared expression uses a local variable that other code may have changed, such
    /// as a list to which a callback appends.
    pub(super) uses_state: bool,
}

/// Values of names, as expressions.
pub(super) type Values<'a> = BTreeMap<&'a str, &'a Expr>;

/// All values that each name may have, as expressions.
pub(super) type NameValues<'a> = BTreeMap<&'a str, Vec<&'a Expr>>;

/// Returns the values of a function's parameters, loop variables and local variables. Parameters
/// have values only if the function is parametrized.
pub(super) fn read_name_values<'a>(
    def: &'a StmtFunctionDef,
    variables: &Values<'a>,
) -> NameValues<'a> {
    let mut body = BodyReader::default();
    def.body.iter().for_each(|stmt| body.visit_stmt(stmt));
    let mut out = NameValues::new();
    for table in read_tables(def, &body, variables) {
        for row in &table.rows {
            for (name, value) in table.names.iter().zip(row) {
                out.entry(*name).or_default().push(*value);
            }
        }
    }
    for (name, value) in body.assigned {
        out.entry(name).or_default().push(value);
    }
    out
}

/// Returns the tables that a function's decorators and loops go through.
fn read_tables<'a>(
    def: &'a StmtFunctionDef,
    body: &BodyReader<'a>,
    variables: &Values<'a>,
) -> Vec<Table<'a>> {
    let decorators = def.decorator_list.iter();
    let mut tables: Vec<Table<'a>> =
        decorators.filter_map(|it| Table::from_decorator(&it.expression, variables)).collect();
    let loops = body.loops.iter().copied();
    tables.extend(loops.filter_map(|it| Table::from_loop(it, body, variables)));
    tables
}

/// What the code of a test file defines outside its test functions.
#[derive(Debug, Clone, Default)]
pub(super) struct Definitions<'a> {
    /// The values of module-level variables.
    pub(super) variables: Values<'a>,
    /// The values of class variables, by class and name.
    pub(super) class_variables: BTreeMap<(String, &'a str), &'a Expr>,
    /// Functions and methods, by class and name. A function's class is empty.
    pub(super) functions: BTreeMap<(String, &'a str), &'a StmtFunctionDef>,
}

/// Returns the examples in a test function or a helper, including comparisons in the helpers that
/// it calls directly. `text` is the file's text, and `class` is the function's class.
pub(super) fn read_examples<'a>(
    text: &'a str,
    def: &'a StmtFunctionDef,
    class: &str,
    definitions: &Definitions<'a>,
) -> Vec<Example> {
    let mut body = BodyReader::default();
    def.body.iter().for_each(|stmt| body.visit_stmt(stmt));
    let variables = &definitions.variables;
    let tables = read_tables(def, &body, variables);
    let locals = body.inlinable_locals();
    let mut out = Vec::new();
    for comparison in &body.comparisons {
        let mut used = NameCollector::default();
        comparison.sides.iter().for_each(|side| used.collect(side, &locals));
        let Some((table, rows)) = rows_for(&tables, &used.0, comparison.sides[0]) else { continue };
        let uses_state = used.0.iter().any(|name| {
            let is_filled_in =
                locals.contains_key(name) || table.is_some_and(|it| it.names.contains(name));
            body.bound.contains_key(name) && !is_filled_in
        });
        for row in rows {
            let mut values = locals.clone();
            values.extend(row);
            let example = comparison.to_example(text, (&values, &PackedValues::new()), variables);
            out.extend(example.map(|example| Example { uses_state, ..example }));
        }
    }
    for call in body.calls.iter().copied() {
        let Some(helper) = Helper::find(call, class, definitions) else { continue };
        let mut used = NameCollector::default();
        call.arguments.args.iter().for_each(|it| used.collect(it, &locals));
        call.arguments.keywords.iter().for_each(|it| used.collect(&it.value, &locals));
        let Some((_, rows)) = rows_for(&tables, &used.0, &call.func) else { continue };
        for row in rows {
            let caller = Caller { body: &body, locals: &locals, row, class, definitions };
            out.extend(helper.read_examples(text, call, &caller));
        }
    }
    out
}

/// Returns the table that gives values to the used names of an expression, and the values for each
/// of its rows. Without such a table, there is one row without values. Returns `None` if there are
/// several tables, because only one can be filled in.
fn rows_for<'a, 't>(
    tables: &'t [Table<'a>],
    used: &BTreeSet<&str>,
    expr: &Expr,
) -> Option<(Option<&'t Table<'a>>, Vec<Values<'a>>)> {
    let mut found = tables.iter().filter(|it| it.contains(expr) && it.binds_any(used));
    let Some(table) = found.next() else { return Some((None, vec![Values::new()])) };
    if found.next().is_some() {
        return None;
    }
    let values = |row: &Vec<&'a Expr>| -> Values<'a> {
        table.names.iter().copied().zip(row.iter().copied()).collect()
    };
    Some((Some(table), table.rows.iter().map(values).collect()))
}

/// The values of parameters such as `*args` and `**kwargs`, each with its keyword.
type PackedValues<'a> = BTreeMap<&'a str, Vec<(Option<&'a str>, &'a Expr)>>;

/// The function that calls a helper.
struct Caller<'c, 'a> {
    body: &'c BodyReader<'a>,
    locals: &'c Values<'a>,
    /// The values of a table's row.
    row: Values<'a>,
    class: &'c str,
    definitions: &'c Definitions<'a>,
}

impl<'a> Caller<'_, 'a> {
    /// Returns an argument's value. Returns `None` if the value contains local names of the caller
    /// or the helper, because the same name may have another value in the other function. `bound`
    /// are the names that the helper's body binds.
    fn argument_value(
        &self,
        argument: &'a Expr,
        helper: &Helper<'a>,
        bound: &BTreeMap<&'a str, usize>,
    ) -> Option<&'a Expr> {
        let value = match argument {
            Expr::Name(name) => {
                let name = name.id.as_str();
                self.row.get(name).or_else(|| self.locals.get(name)).copied().unwrap_or(argument)
            }
            Expr::Attribute(attribute) => {
                let key = (self.class.to_owned(), attribute.attr.as_str());
                let variable = self.definitions.class_variables.get(&key).copied();
                variable.filter(|_| is_own_instance(&attribute.value)).unwrap_or(argument)
            }
            argument => argument,
        };
        let mut used = NameCollector::default();
        used.visit_expr(value);
        let is_local = |name: &&str| {
            matches!(*name, "self" | "cls")
                || self.body.bound.contains_key(*name)
                || self.row.contains_key(*name)
                || helper.def.parameters.includes(name)
                || bound.contains_key(*name)
        };
        (!used.0.iter().any(is_local)).then_some(value)
    }
}

fn is_own_instance(expr: &Expr) -> bool {
    matches!(expr, Expr::Name(name) if matches!(name.id.as_str(), "self" | "cls"))
}

/// A function or a method of the test file that a test calls.
struct Helper<'a> {
    def: &'a StmtFunctionDef,
    is_method: bool,
}

impl<'a> Helper<'a> {
    /// Returns the called helper. `class` is the caller's class.
    fn find(call: &ExprCall, class: &str, definitions: &Definitions<'a>) -> Option<Self> {
        let key = match &*call.func {
            Expr::Name(name) => (String::new(), name.id.as_str()),
            Expr::Attribute(method) if is_own_instance(&method.value) => {
                (class.to_owned(), method.attr.as_str())
            }
            _ => return None,
        };
        let def = definitions.functions.get(&key).copied()?;
        let is_static = def
            .decorator_list
            .iter()
            .any(|it| last_component(&it.expression).as_deref() == Some("staticmethod"));
        Some(Self { def, is_method: !key.0.is_empty() && !is_static })
    }

    /// Returns the helper's comparisons with the values that a call passes.
    fn read_examples(
        &self,
        text: &'a str,
        call: &'a ExprCall,
        caller: &Caller<'_, 'a>,
    ) -> Vec<Example> {
        let mut body = BodyReader::default();
        self.def.body.iter().for_each(|stmt| body.visit_stmt(stmt));
        let Some((parameters, packed)) = self.bind(call, caller, &body) else { return Vec::new() };
        let mut values = body.inlinable_locals();
        let is_filled_in =
            |name: &&str| values.contains_key(*name) || !body.bound.contains_key(*name);
        let mut fixed = Vec::new();
        for comparison in &body.comparisons {
            let mut used = NameCollector::default();
            comparison.sides.iter().for_each(|side| used.collect(side, &values));
            // A method of the test may return anything.
            if !used.0.contains("self") && used.0.iter().all(is_filled_in) {
                fixed.push(comparison);
            }
        }
        // A parameter that the helper binds again has lost the caller's value.
        values.extend(parameters.into_iter().filter(|(name, _)| !body.bound.contains_key(*name)));
        let variables = &caller.definitions.variables;
        let examples =
            fixed.into_iter().map(|it| it.to_example(text, (&values, &packed), variables));
        examples.flatten().collect()
    }

    /// Binds the helper's parameters to the arguments of a call. Returns `None` if an argument has
    /// no fixed value, or if the call doesn't fit the parameters.
    fn bind(
        &self,
        call: &'a ExprCall,
        caller: &Caller<'_, 'a>,
        body: &BodyReader<'a>,
    ) -> Option<(Values<'a>, PackedValues<'a>)> {
        let parameters = &self.def.parameters;
        let positional: Vec<&'a str> = parameters
            .posonlyargs
            .iter()
            .chain(&parameters.args)
            .map(|it| it.parameter.name.as_str())
            .skip(usize::from(self.is_method))
            .collect();
        let by_name: BTreeSet<&'a str> = parameters
            .args
            .iter()
            .chain(&parameters.kwonlyargs)
            .map(|it| it.parameter.name.as_str())
            .collect();
        let (mut values, mut packed) = (Values::new(), PackedValues::new());
        let rest = parameters.vararg.as_ref().map(|it| it.name.as_str());
        let keyword_rest = parameters.kwarg.as_ref().map(|it| it.name.as_str());
        for name in rest.into_iter().chain(keyword_rest) {
            packed.insert(name, Vec::new());
        }
        for (at, argument) in call.arguments.args.iter().enumerate() {
            let value = caller
                .argument_value(argument, self, &body.bound)
                .filter(|it| !it.is_starred_expr())?;
            match positional.get(at) {
                Some(name) => drop(values.insert(*name, value)),
                None => packed.get_mut(rest?)?.push((None, value)),
            }
        }
        for keyword in call.arguments.keywords.iter() {
            let name = keyword.arg.as_ref()?.as_str();
            let value = caller.argument_value(&keyword.value, self, &body.bound)?;
            if by_name.contains(name) {
                values.insert(name, value);
            } else {
                packed.get_mut(keyword_rest?)?.push((Some(name), value));
            }
        }
        let all =
            parameters.posonlyargs.iter().chain(&parameters.args).skip(usize::from(self.is_method));
        for parameter in all.chain(&parameters.kwonlyargs) {
            let name = parameter.parameter.name.as_str();
            if values.contains_key(name) {
                continue;
            }
            values.insert(name, parameter.default.as_deref()?);
        }
        Some((values, packed))
    }
}

/// How a comparison is written.
#[derive(Debug, Clone, Copy)]
enum Form<'a> {
    /// `a == b`
    Equal,
    /// `a in b`
    In,
    /// `a.startswith(b)`
    Method(&'a str),
    /// `re.search(b, a)`
    Search(&'a str),
}

struct Comparison<'a> {
    form: Form<'a>,
    /// For `Equal`, in any order. Otherwise, the result and the fixed string.
    sides: [&'a Expr; 2],
}

impl<'a> Comparison<'a> {
    /// Collects the comparisons in a condition that a test asserts.
    fn collect(expr: &'a Expr, out: &mut Vec<Self>) {
        match expr {
            Expr::BoolOp(operation) if operation.op.is_and() => {
                operation.values.iter().for_each(|value| Self::collect(value, out));
            }
            Expr::Compare(compare) => {
                let ([op], [right]) = (&*compare.ops, &*compare.comparators) else { return };
                match op {
                    CmpOp::Eq => {
                        out.push(Self { form: Form::Equal, sides: [&*compare.left, right] });
                    }
                    CmpOp::In => out.push(Self { form: Form::In, sides: [right, &*compare.left] }),
                    _ => {}
                }
            }
            Expr::Call(call) => out.extend(Self::from_condition_call(call)),
            _ => {}
        }
    }

    /// Reads a call whose result a test asserts.
    fn from_condition_call(call: &'a ExprCall) -> Option<Self> {
        let Expr::Attribute(method) = &*call.func else { return None };
        let name = method.attr.as_str();
        match (name, &*call.arguments.args) {
            ("startswith" | "endswith", [text]) => {
                Some(Self { form: Form::Method(name), sides: [&*method.value, text] })
            }
            ("search" | "match" | "fullmatch", [pattern, result, ..])
                if last_component(&method.value).as_deref() == Some("re") =>
            {
                Some(Self { form: Form::Search(name), sides: [result, pattern] })
            }
            _ => None,
        }
    }

    /// Reads a call of an assertion method.
    fn from_assertion_method(call: &'a ExprCall) -> Option<Self> {
        let Expr::Attribute(method) = &*call.func else { return None };
        let [first, second, ..] = &*call.arguments.args else { return None };
        match method.attr.as_str() {
            name if EQUAL_METHODS.contains(&name) => {
                Some(Self { form: Form::Equal, sides: [first, second] })
            }
            "assertIn" => Some(Self { form: Form::In, sides: [second, first] }),
            "assertRegex" => Some(Self { form: Form::Search("search"), sides: [first, second] }),
            _ => None,
        }
    }

    /// Returns the example with the given values filled in. Returns `None` if neither side is
    /// fixed, if both are, or if the fixed side contains no string.
    fn to_example(
        &self,
        text: &'a str,
        (values, packed): (&Values<'a>, &PackedValues<'a>),
        variables: &Values<'a>,
    ) -> Option<Example> {
        let fixed = |expr| {
            let mut strings = Vec::new();
            collect_constant(expr, (values, variables), &mut strings, 0).then_some(strings)
        };
        let [first, second] = self.sides;
        let (result, constant, expected) = match (fixed(first), fixed(second), self.form) {
            (None, Some(expected), _) => (first, second, expected),
            (Some(expected), None, Form::Equal) => (second, first, expected),
            _ => return None,
        };
        // The messages of exceptions are requirements of another kind.
        if expected.is_empty() || is_message(result) {
            return None;
        }
        let mut writer = ExampleWriter::new(text, values, packed);
        let result = writer.write(result, 0);
        let ExampleWriter { inputs, called, .. } = writer;
        // The fixed side may be a name. Write its value instead.
        let all: Values<'a> =
            variables.iter().chain(values).map(|(name, it)| (*name, *it)).collect();
        let constant = ExampleWriter::new(text, &all, packed).write(constant, 0);
        let code = match self.form {
            Form::Equal => format!("{result} == {constant}"),
            Form::In => format!("{constant} in {result}"),
            Form::Method(name) => format!("{result}.{name}({constant})"),
            Form::Search(name) => format!("re.{name}({constant}, {result})"),
        };
        let code = to_one_line(&code);
        Some(Example { code, expected, inputs, called, uses_state: false })
    }
}

/// Whether an expression consists of literals. Adds its strings to `out`.
fn collect_constant<'a>(
    expr: &'a Expr,
    known: (&Values<'a>, &Values<'a>),
    out: &mut Vec<String>,
    depth: usize,
) -> bool {
    let parts: Vec<&'a Expr> = match expr {
        Expr::StringLiteral(literal) => {
            out.push(literal.value.to_str().to_owned());
            return true;
        }
        Expr::BytesLiteral(literal) => {
            out.push(bytes_text(literal));
            return true;
        }
        Expr::NumberLiteral(_) | Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) => return true,
        Expr::UnaryOp(operation) => vec![&*operation.operand],
        Expr::List(list) => list.elts.iter().collect(),
        Expr::Tuple(tuple) => tuple.elts.iter().collect(),
        Expr::Set(set) => set.elts.iter().collect(),
        Expr::Dict(dict) => {
            dict.items.iter().flat_map(|it| it.key.iter().chain([&it.value])).collect()
        }
        Expr::Name(name) => {
            let name = name.id.as_str();
            match known.0.get(name).or_else(|| known.1.get(name)) {
                Some(value) => vec![*value],
                None => return false,
            }
        }
        _ => return false,
    };
    depth < MAX_DEPTH && parts.into_iter().all(|part| collect_constant(part, known, out, depth + 1))
}

/// Returns the text in a bytes literal. Bytes that are not UTF-8 are replaced.
fn bytes_text(literal: &ExprBytesLiteral) -> String {
    let bytes: Vec<u8> = literal.value.bytes().collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The rows of a `parametrize` decorator, or of a loop over a list.
struct Table<'a> {
    names: Vec<&'a str>,
    rows: Vec<Vec<&'a Expr>>,
    /// The loop. A decorator's values are valid in the whole function.
    range: Option<TextRange>,
}

impl<'a> Table<'a> {
    fn from_decorator(decorator: &'a Expr, variables: &Values<'a>) -> Option<Self> {
        // A module-level variable may hold the decorator.
        let decorator = match decorator {
            Expr::Name(name) => variables.get(name.id.as_str()).copied()?,
            decorator => decorator,
        };
        let Expr::Call(call) = decorator else { return None };
        if last_component(&call.func)? != "parametrize" {
            return None;
        }
        let names: Vec<&'a str> = match call.arguments.find_argument_value("argnames", 0)? {
            Expr::StringLiteral(names) => names.value.to_str().split(',').map(str::trim).collect(),
            Expr::List(list) => string_values(&list.elts)?,
            Expr::Tuple(tuple) => string_values(&tuple.elts)?,
            _ => return None,
        };
        let rows = call.arguments.find_argument_value("argvalues", 1)?;
        Self::from_rows(names, rows, variables)
    }

    /// Reads a loop. The rows may be in a local variable that nothing else uses.
    fn from_loop(stmt: &'a StmtFor, body: &BodyReader<'a>, variables: &Values<'a>) -> Option<Self> {
        let name = |expr: &'a Expr| expr.as_name_expr().map(|name| name.id.as_str());
        let names = match &*stmt.target {
            Expr::Tuple(tuple) => tuple.elts.iter().map(name).collect::<Option<Vec<_>>>()?,
            target => vec![name(target)?],
        };
        let rows = match &*stmt.iter {
            Expr::Name(name) => {
                let name = name.id.as_str();
                let is_unchanged =
                    body.bound.get(name) == Some(&1) && body.used.get(name) == Some(&1);
                match body.assigned.get(name).copied() {
                    Some(rows) if is_unchanged => rows,
                    Some(_) => return None,
                    None => &*stmt.iter,
                }
            }
            rows => rows,
        };
        let table = Self::from_rows(names, rows, variables)?;
        Some(Self { range: Some(stmt.range()), ..table })
    }

    fn from_rows(names: Vec<&'a str>, rows: &'a Expr, variables: &Values<'a>) -> Option<Self> {
        let rows = match rows {
            Expr::Name(name) => variables.get(name.id.as_str()).copied()?,
            rows => rows,
        };
        let values = |row: &'a Expr| -> Option<Vec<&'a Expr>> {
            let values: Vec<&'a Expr> = match row {
                // `pytest.param(1, 2, id="one")`
                Expr::Call(call) if last_component(&call.func).as_deref() == Some("param") => {
                    call.arguments.args.iter().collect()
                }
                row if names.len() == 1 => vec![row],
                row => elements(row)?.iter().collect(),
            };
            (values.len() == names.len()).then_some(values)
        };
        let rows = elements(rows)?.iter().filter_map(values).collect();
        Some(Self { names, rows, range: None })
    }

    /// Whether an expression is in the loop, if this is a loop.
    fn contains(&self, expr: &Expr) -> bool {
        self.range.is_none_or(|range| range.contains_range(expr.range()))
    }

    fn binds_any(&self, names: &BTreeSet<&str>) -> bool {
        self.names.iter().any(|name| names.contains(name))
    }
}

fn string_values(exprs: &[Expr]) -> Option<Vec<&str>> {
    exprs.iter().map(|it| it.as_string_literal_expr().map(|it| it.value.to_str())).collect()
}

fn elements(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::List(list) => Some(&list.elts),
        Expr::Tuple(tuple) => Some(&tuple.elts),
        Expr::Set(set) => Some(&set.elts),
        _ => None,
    }
}

/// Collects names that an expression uses, including those in the values of local variables.
#[derive(Default)]
struct NameCollector<'a>(BTreeSet<&'a str>);

impl<'a> NameCollector<'a> {
    fn collect(&mut self, expr: &'a Expr, locals: &Values<'a>) {
        self.visit_expr(expr);
        // The value of a local variable may contain other local variables.
        loop {
            let before = self.0.len();
            let values: Vec<&'a Expr> =
                self.0.iter().filter_map(|name| locals.get(name).copied()).collect();
            values.into_iter().for_each(|value| self.visit_expr(value));
            if self.0.len() == before {
                break;
            }
        }
    }
}

impl<'a> Visitor<'a> for NameCollector<'a> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr {
            self.0.insert(name.id.as_str());
        }
        visitor::walk_expr(self, expr);
    }
}

/// Reads the comparisons, loops and local variables in a function's body.
#[derive(Default)]
struct BodyReader<'a> {
    comparisons: Vec<Comparison<'a>>,
    /// Calls whose results are not used.
    calls: Vec<&'a ExprCall>,
    loops: Vec<&'a StmtFor>,
    /// Values of names that a plain assignment binds.
    assigned: BTreeMap<&'a str, &'a Expr>,
    /// Number of times that each name is bound.
    bound: BTreeMap<&'a str, usize>,
    /// How often code other than assertions uses each name.
    used: BTreeMap<&'a str, usize>,
    /// Names that assertions use.
    asserted: NameCollector<'a>,
}

impl<'a> BodyReader<'a> {
    /// Returns local variables whose values can replace them in an assertion: they are bound once,
    /// and nothing else uses them, so nothing else can change their values. A variable whose only
    /// use is in the value of another local variable qualifies too.
    fn inlinable_locals(&self) -> Values<'a> {
        let mut in_values = NameCollector::default();
        self.assigned.values().copied().for_each(|value| in_values.visit_expr(value));
        let is_kept = |name: &str, value: &Expr| {
            let is_simple = matches!(
                value,
                Expr::Call(_)
                    | Expr::BinOp(_)
                    | Expr::UnaryOp(_)
                    | Expr::Attribute(_)
                    | Expr::Subscript(_)
                    | Expr::StringLiteral(_)
                    | Expr::NumberLiteral(_)
            );
            let is_unchanged = match self.used.get(name) {
                None => true,
                Some(1) => in_values.0.contains(name) && !self.asserted.0.contains(name),
                Some(_) => false,
            };
            is_simple && self.bound.get(name) == Some(&1) && is_unchanged
        };
        let locals = self.assigned.iter().filter(|(name, value)| is_kept(name, value));
        locals.map(|(name, value)| (*name, *value)).collect()
    }
}

impl<'a> Visitor<'a> for BodyReader<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Assert(assert) => {
                Comparison::collect(&assert.test, &mut self.comparisons);
                self.asserted.visit_expr(&assert.test);
                return;
            }
            Stmt::Expr(expr) => {
                let call = expr.value.as_call_expr();
                if let Some(comparison) = call.and_then(Comparison::from_assertion_method) {
                    self.comparisons.push(comparison);
                    self.asserted.visit_expr(&expr.value);
                    return;
                }
                self.calls.extend(call);
            }
            Stmt::Assign(assign) => {
                if let [Expr::Name(target)] = &*assign.targets {
                    self.assigned.insert(target.id.as_str(), &*assign.value);
                }
            }
            Stmt::For(stmt) => self.loops.push(stmt),
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr {
            match name.ctx {
                ExprContext::Load => *self.used.entry(name.id.as_str()).or_default() += 1,
                _ => *self.bound.entry(name.id.as_str()).or_default() += 1,
            }
        }
        visitor::walk_expr(self, expr);
    }
}

/// Writes an expression as source text with values filled in.
struct ExampleWriter<'a, 'v> {
    text: &'a str,
    values: &'v Values<'a>,
    packed: &'v PackedValues<'a>,
    /// The strings and called functions in the written code.
    inputs: BTreeSet<String>,
    called: BTreeSet<String>,
}

impl<'a, 'v> ExampleWriter<'a, 'v> {
    fn new(text: &'a str, values: &'v Values<'a>, packed: &'v PackedValues<'a>) -> Self {
        Self { text, values, packed, inputs: BTreeSet::new(), called: BTreeSet::new() }
    }

    fn write(&mut self, expr: &'a Expr, depth: usize) -> String {
        let (start, end) = (expr.start().to_usize(), expr.end().to_usize());
        let mut out = self.text[start..end].to_owned();
        let mut found = ReplacementCollector {
            values: self.values,
            packed: self.packed,
            replacements: Vec::new(),
            inputs: BTreeSet::new(),
            called: BTreeSet::new(),
        };
        found.visit_expr(expr);
        let ReplacementCollector { mut replacements, inputs, called, .. } = found;
        self.inputs.extend(inputs);
        self.called.extend(called);
        if depth >= MAX_DEPTH {
            return out;
        }
        replacements.sort_by_key(|it| it.start);
        for replacement in replacements.iter().rev() {
            let is_whole = (replacement.start, replacement.end) == (start, end);
            let value = match &replacement.value {
                ReplacementValue::Expr(expr) => {
                    let value = self.write(expr, depth + 1);
                    match expr {
                        // Write `f(*["a", 1])` as `f("a", 1)`.
                        Expr::List(_) | Expr::Tuple(_) if replacement.is_starred => {
                            strip_brackets(&value)
                        }
                        _ if replacement.is_starred => format!("*{value}"),
                        expr if is_whole || self.is_argument(replacement) || is_atom(expr) => value,
                        _ => format!("({value})"),
                    }
                }
                ReplacementValue::Arguments(arguments) => {
                    let mut values = Vec::new();
                    for (keyword, argument) in arguments {
                        let value = self.write(argument, depth + 1);
                        values.push(match keyword {
                            Some(keyword) => format!("{keyword}={value}"),
                            None => value,
                        });
                    }
                    values.join(", ")
                }
            };
            let mut first = replacement.start - start;
            // Write `f(a, **kwargs)` as `f(a)` if there are no keyword arguments.
            if value.is_empty() {
                let before = out[..first].trim_end();
                first = before.strip_suffix(',').unwrap_or(before).len();
            }
            out.replace_range(first..replacement.end - start, &value);
        }
        out
    }

    /// Whether a name is a whole argument or element, so that its value needs no parentheses.
    fn is_argument(&self, replacement: &Replacement<'_>) -> bool {
        let before = self.text[..replacement.start].trim_end();
        let after = self.text[replacement.end..].trim_start();
        before.ends_with(['(', '[', ',', '=']) && after.starts_with([')', ']', ','])
    }
}

/// Whether an expression binds its parts as tightly as a name does.
fn is_atom(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Name(_)
            | Expr::Attribute(_)
            | Expr::Subscript(_)
            | Expr::Call(_)
            | Expr::StringLiteral(_)
            | Expr::BytesLiteral(_)
            | Expr::FString(_)
            | Expr::BooleanLiteral(_)
            | Expr::NoneLiteral(_)
            | Expr::NumberLiteral(_)
            | Expr::List(_)
            | Expr::Dict(_)
            | Expr::Set(_)
    )
}

fn strip_brackets(list: &str) -> String {
    let inner = list.strip_prefix(['[', '(']).and_then(|it| it.strip_suffix([']', ')']));
    inner.unwrap_or(list).trim().trim_end_matches(',').to_owned()
}

/// A name to be replaced by its value, with the bytes that it spans in the file.
struct Replacement<'a> {
    start: usize,
    end: usize,
    value: ReplacementValue<'a>,
    /// Whether the span includes a star, as in `f(*name)`.
    is_starred: bool,
}

enum ReplacementValue<'a> {
    Expr(&'a Expr),
    /// Arguments with their keywords, instead of `*args` or `**kwargs`.
    Arguments(Vec<(Option<&'a str>, &'a Expr)>),
}

/// Collects the names in an expression that have values.
struct ReplacementCollector<'a, 'v> {
    values: &'v Values<'a>,
    packed: &'v PackedValues<'a>,
    replacements: Vec<Replacement<'a>>,
    inputs: BTreeSet<String>,
    called: BTreeSet<String>,
}

impl ReplacementCollector<'_, '_> {
    /// Adds a replacement if `name` is a name with a value. `whole` also includes a star.
    fn replace(&mut self, whole: &Expr, name: &Expr) -> bool {
        let Expr::Name(name) = name else { return false };
        let Some(value) = self.values.get(name.id.as_str()).copied() else { return false };
        self.replacements.push(Replacement {
            start: whole.start().to_usize(),
            end: whole.end().to_usize(),
            value: ReplacementValue::Expr(value),
            is_starred: matches!(whole, Expr::Starred(_)),
        });
        true
    }

    /// Adds a replacement for `*args` or `**kwargs` if `name` has packed values. The range includes
    /// the stars.
    fn replace_packed(&mut self, range: TextRange, name: &Expr) -> bool {
        let Expr::Name(name) = name else { return false };
        let Some(arguments) = self.packed.get(name.id.as_str()) else { return false };
        self.replacements.push(Replacement {
            start: range.start().to_usize(),
            end: range.end().to_usize(),
            value: ReplacementValue::Arguments(arguments.clone()),
            is_starred: true,
        });
        true
    }
}

impl<'e> Visitor<'e> for ReplacementCollector<'_, '_> {
    fn visit_keyword(&mut self, keyword: &'e Keyword) {
        if keyword.arg.is_some() || !self.replace_packed(keyword.range(), &keyword.value) {
            visitor::walk_keyword(self, keyword);
        }
    }

    fn visit_expr(&mut self, expr: &'e Expr) {
        let is_replaced = match expr {
            Expr::Starred(starred) => {
                self.replace(expr, &starred.value)
                    || self.replace_packed(expr.range(), &starred.value)
            }
            _ => self.replace(expr, expr),
        };
        if is_replaced {
            return;
        }
        match expr {
            Expr::StringLiteral(literal) => {
                self.inputs.insert(literal.value.to_str().to_owned());
            }
            Expr::BytesLiteral(literal) => drop(self.inputs.insert(bytes_text(literal))),
            Expr::Call(call) => self.called.extend(last_component(&call.func)),
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

/// Joins the lines of code. Returns `None` if that could change the code's meaning.
fn to_one_line(code: &str) -> Option<String> {
    if !code.contains('\n') {
        return Some(code.to_owned());
    }
    if has_comment_or_long_string(code) {
        return None;
    }
    let mut out = String::new();
    for line in code.lines().map(str::trim) {
        let closes = line.starts_with([')', ']', '}']);
        if closes && out.ends_with(',') {
            out.pop();
        } else if !out.is_empty() && !closes && !out.ends_with(['(', '[', '{']) {
            out.push(' ');
        }
        out.push_str(line);
    }
    Some(out)
}

/// Whether code contains something that must not share a line with the code after it: a comment, a
/// backslash that joins lines, or a string of several lines.
fn has_comment_or_long_string(code: &str) -> bool {
    let mut quote = None;
    let mut chars = code.chars();
    while let Some(next) = chars.next() {
        match (quote, next) {
            (None, '#' | '\\') => return true,
            (None, '"' | '\'') => {
                let rest = chars.as_str();
                if rest.starts_with(next) && rest[1..].starts_with(next) {
                    return true;
                }
                quote = Some(next);
            }
            (None, _) => {}
            // In a string, a backslash escapes the next character.
            (Some(_), '\\') if chars.next() == Some('\n') => return true,
            (Some(open), _) if open == next => quote = None,
            (Some(_), _) => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use ruff_python_parser::parse_module;

    use super::*;

    const TEST_FILE: &str = r#"
CASES = [("b", "B"), pytest.param("c", "C", id="last")]
ANSWER = "forty-two"

@pytest.mark.parametrize("args, expected", [([math.inf], "+Inf"), (["a", 1], "A1"), ([None], None)])
def test_args(args, expected):
    assert pkg.show(*args) == expected

@pytest.mark.parametrize(("text", "shown"), CASES)
def test_variable(text, shown):
    assert shown == show(text)

@pytest.mark.parametrize("seconds", [3, NOW - 3])
def test_local(seconds):
    moment = NOW - seconds
    assert tell(moment) == "3 seconds"

def test_log():
    log = []
    run(log.append)
    assert log == [
        "Call f(1)",
        '-> 3',
    ]
    assert len(log) == 2 and log[0].startswith("Call") and log == log
    assert ANSWER == answer()
    assert re.search(r"no \d+", str(e.value)) and re.match("^a", first(log)) and "x" == "y"

def test_loop(self):
    for text, shown in (("d", "D"), ("e", "E")):
        self.assertEqual(show(text), shown)
    self.assertIn("D", {"d": show("d")})

def test_bytes():
    parsed = parse("d.ws")
    encoded = parsed.encode("idna")
    assert encoded.url() == b"https://d.ws" and encoded.parts == (
        "https",
        b"d.ws/#a",
        {"port": [80]},
    )
    built = build()
    grown = built.grow(3)
    assert built.name == "kept" and grown.name == "grown"
"#;

    fn examples(name: &str) -> Vec<Example> {
        let parsed = parse_module(TEST_FILE).unwrap();
        let mut definitions = Definitions::default();
        let mut out = Vec::new();
        for stmt in &parsed.syntax().body {
            match stmt {
                Stmt::Assign(assign) => {
                    let target = assign.targets[0].as_name_expr().unwrap();
                    definitions.variables.insert(target.id.as_str(), &*assign.value);
                }
                Stmt::FunctionDef(def) => {
                    definitions.functions.insert((String::new(), def.name.as_str()), def);
                    if def.name.as_str() == name {
                        out = read_examples(TEST_FILE, def, "", &definitions);
                    }
                }
                _ => {}
            }
        }
        out
    }

    #[test]
    fn examples_contain_the_values_of_parameters_loops_and_variables() {
        for (name, expected) in [
            ("test_args", vec![r#"pkg.show(math.inf) == "+Inf""#, r#"pkg.show("a", 1) == "A1""#]),
            ("test_variable", vec![r#"show("b") == "B""#, r#"show("c") == "C""#]),
            (
                "test_local",
                vec![r#"tell(NOW - 3) == "3 seconds""#, r#"tell(NOW - (NOW - 3)) == "3 seconds""#],
            ),
            (
                "test_log",
                vec![
                    r#"log == ["Call f(1)", '-> 3']"#,
                    r#"log[0].startswith("Call")"#,
                    r#"answer() == "forty-two""#,
                    r#"re.match("^a", first(log))"#,
                ],
            ),
            (
                "test_loop",
                vec![r#"show("d") == "D""#, r#"show("e") == "E""#, r#""D" in {"d": show("d")}"#],
            ),
            (
                "test_bytes",
                vec![
                    r#"parse("d.ws").encode("idna").url() == b"https://d.ws""#,
                    r#"parse("d.ws").encode("idna").parts == ("https", b"d.ws/#a", {"port": [80]})"#,
                    r#"built.name == "kept""#,
                    r#"built.grow(3).name == "grown""#,
                ],
            ),
        ] {
            let found = examples(name);
            let codes: Vec<&str> = found.iter().filter_map(|it| it.code.as_deref()).collect();
            assert_eq!(codes, expected, "{name}");
        }
        let states = |name: &str| -> Vec<bool> {
            examples(name).into_iter().map(|it| it.uses_state).collect()
        };
        assert_eq!(states("test_log"), [true, true, false, true]);
        assert_eq!(states("test_local"), [false, false]);
        assert_eq!(states("test_loop"), [false, false, false]);
        assert_eq!(states("test_bytes"), [false, false, true, true]);
        assert_eq!(examples("test_bytes")[0].expected, ["https://d.ws"]);
        let second = &examples("test_args")[1];
        assert_eq!((second.expected.as_slice(), second.inputs.len()), (&["A1".to_owned()][..], 1));
        assert!(second.inputs.contains("a") && second.called.contains("show"), "{second:?}");
    }

    #[test]
    fn to_one_line_rejects_code_that_it_would_change() {
        assert_eq!(to_one_line("f(\n    1,\n    2,\n) == 'a'").as_deref(), Some("f(1, 2) == 'a'"));
        assert_eq!(to_one_line("a == '#'").as_deref(), Some("a == '#'"));
        let tuple = to_one_line("f('a/#b') == (\n    '\\'#',\n    '',\n)");
        assert_eq!(tuple.as_deref(), Some("f('a/#b') == ('\\'#', '')"));
        for code in [
            "f(  # why\n 1)",
            "f('',  # why\n 1)",
            "a == 'b\\\n'",
            "a == \\\n 'b'",
            "a == '''b\n'''",
        ] {
            assert_eq!(to_one_line(code), None, "{code}");
        }
    }
}
