//! Renders a level-1 task's statement in Proctor's format and in FeatureBench's.

use std::collections::{BTreeMap, BTreeSet};

use proctor_datasets::render_template;
use proctor_types::{Fault, FaultLayer};
use ruff_python_ast::Stmt;
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;
use serde::Serialize;

use super::{environment::WORKDIR, objects::Objects, project::Project, traverse::ExtractedObjects};
use crate::{Carving, Object, carve::lost_names, statement::TemplateObject};

const PROCTOR_TEMPLATE: &str = include_str!("../../../../prompts/collection/statement.md.j2");
const FEATUREBENCH_TEMPLATE: &str = include_str!("../../../../prompts/featurebench/level-1.md.j2");

/// A task's statement in both formats.
pub(super) struct Statements {
    pub(super) proctor: String,
    pub(super) featurebench: String,
    /// The fraction of the gold patch's lines that the statements reveal, not counting signatures
    /// and documentation. In [0, 1].
    pub(super) leak_score: f64,
}

#[derive(Serialize)]
struct OwnVariables<'a> {
    title: String,
    overview: Option<&'a str>,
    /// Further requirements of the tests, one sentence each.
    required: &'a [String],
    package: &'a str,
    version: &'a str,
    summary: &'a str,
    files: Vec<File<'a>>,
    helpers: Vec<Helpers<'a>>,
    exports: Vec<String>,
    test_command: &'a str,
    workdir: &'a str,
}

#[derive(Serialize)]
struct File<'a> {
    path: &'a str,
    objects: Vec<TemplateObject<'a>>,
}

#[derive(Serialize)]
struct Helpers<'a> {
    path: &'a str,
    names: Vec<&'a str>,
    /// The signatures of public functions.
    signatures: Vec<String>,
}

impl<'a> Helpers<'a> {
    fn from_objects(path: &'a str, objects: &[&'a Object]) -> Self {
        let is_public = |object: &&&Object| {
            !object.path.split('.').any(|name| name.starts_with('_') && !name.ends_with("__"))
        };
        Self {
            path,
            names: objects.iter().map(|object| object.path.as_str()).collect(),
            signatures: objects.iter().filter(is_public).map(|it| signature(it)).collect(),
        }
    }
}

#[derive(Serialize)]
struct FeatureBenchVariables<'a> {
    task_statement: String,
    task_name: &'a str,
    library_name: &'a str,
    black_links: String,
    example: Interface,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Serialize)]
struct Interface {
    path: String,
    code: String,
}

/// Renders one task's statements. `overview` is a description that a model wrote. `requirements`
/// contains a sentence about each further requirement of the tests.
///
/// # Errors
/// Fails if a template cannot be rendered.
pub(super) fn render_statements(
    (project, overview, requirements): (&Project, Option<&str>, &[String]),
    carving: &Carving,
    extracted: &ExtractedObjects,
    objects: &Objects,
    test_command: &str,
) -> Result<Statements, Fault> {
    let of = |indices: &BTreeSet<usize>| -> BTreeSet<(String, String)> {
        let found = indices.iter().filter_map(|&index| objects.list.get(index));
        found.map(|object| (object.file.clone(), object.path.clone())).collect()
    };
    let (tops, helpers) = (of(&extracted.shown_objects), of(&extracted.helpers));
    let is_in = |object: &Object, set: &BTreeSet<(String, String)>| {
        set.contains(&(object.file.clone(), object.path.clone()))
    };
    let mut files: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
    for object in carving.objects.iter().filter(|object| is_in(object, &tops)) {
        files.entry(&object.file).or_default().push(object);
    }
    let mut missing: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
    for object in carving.objects.iter().filter(|object| is_in(object, &helpers)) {
        missing.entry(&object.file).or_default().push(object);
    }
    let own = OwnVariables {
        title: statement_title(project, &files),
        overview,
        required: requirements,
        package: &project.name,
        version: &project.version,
        summary: project.summary.trim(),
        files: files
            .iter()
            .map(|(path, objects)| File {
                path,
                objects: objects.iter().map(|it| TemplateObject::from_object(it)).collect(),
            })
            .collect(),
        helpers: missing
            .iter()
            .map(|(path, objects)| Helpers::from_objects(path, objects))
            .collect(),
        exports: files_with_removed_names(carving),
        test_command,
        workdir: WORKDIR,
    };
    let title = own.title.clone();
    let own = render(PROCTOR_TEMPLATE, own)?;
    let interfaces: Vec<Interface> = files
        .iter()
        .map(|(path, objects)| {
            let code: Vec<String> =
                objects.iter().map(|object| in_class(&object.path, &object.stub)).collect();
            Interface { path: format!("{WORKDIR}/{path}"), code: code.join("\n") }
        })
        .collect();
    let theirs = FeatureBenchVariables {
        task_statement: {
            let overview = overview.map_or(String::new(), |overview| format!("\n\n{overview}"));
            format!("{title}.{overview}{}", format_requirements(requirements))
        },
        task_name: &project.name,
        library_name: &project.name,
        black_links: project.urls.join("\n"),
        example: interfaces
            .first()
            .cloned()
            .unwrap_or(Interface { path: String::new(), code: String::new() }),
        interfaces,
    };
    let featurebench = render(FEATUREBENCH_TEMPLATE, theirs)?;
    let leak_score = leak_score(carving, &[&own, &featurebench]);
    Ok(Statements { proctor: own, featurebench, leak_score })
}

pub(super) fn render(template: &str, variables: impl Serialize) -> Result<String, Fault> {
    render_template(template, variables).map_err(|error| {
        Fault::new(
            FaultLayer::Environment,
            format!("cannot render the statement template: {error:#}"),
        )
    })
}

/// Formats the tests' requirements as a list, for templates that have no variable for them.
pub(super) fn format_requirements(requirements: &[String]) -> String {
    match requirements.is_empty() {
        true => String::new(),
        false => format!("\n\nThe tests also require this:\n\n- {}", requirements.join("\n- ")),
    }
}

/// Returns the files that import or export removed objects, each with the names that the removal
/// takes from the file.
fn files_with_removed_names(carving: &Carving) -> Vec<String> {
    let touched: BTreeSet<&str> =
        carving.objects.iter().map(|object| object.file.as_str()).collect();
    let others = carving.files.iter().filter(|(path, _)| !touched.contains(path.as_str()));
    let told = others.map(|(path, (before, after))| {
        let mut names = lost_names(before, after);
        // A star import may be the only binding of a name that `__all__` lists, so compare quoted
        // names, too.
        let listed = |name: &&str| {
            let quoted = [format!("\"{name}\""), format!("'{name}'")];
            quoted.iter().any(|it| before.contains(it) && !after.contains(it))
        };
        let objects = carving.objects.iter().map(|object| object.path.as_str());
        names.extend(objects.filter(listed).map(str::to_owned));
        match names.is_empty() {
            true => format!("`{path}`"),
            false => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                format!("`{path}` ({})", names.join(", "))
            }
        }
    });
    told.collect()
}

/// Returns the signature of a function, without its documentation and its notes.
fn signature(object: &Object) -> String {
    let header = match parse_module(&object.stub) {
        Ok(parsed) => match &*parsed.syntax().body {
            [Stmt::FunctionDef(def)] => {
                let end = def.body.first().map_or(def.end(), |stmt| stmt.start());
                let header = &object.stub[def.start().to_usize()..end.to_usize()];
                // Notes are comments between the signature and the body.
                let lines = header.lines().filter(|line| !line.trim_start().starts_with('#'));
                let header = lines.collect::<Vec<_>>().join("\n");
                format!("{}\n    ...\n", header.trim_end())
            }
            _ => object.stub.clone(),
        },
        Err(_) => object.stub.clone(),
    };
    in_class(&object.path, &header)
}

/// Returns an object's code. As in FeatureBench, a method is wrapped in its class.
fn in_class(path: &str, code: &str) -> String {
    let Some((class, _)) = path.rsplit_once('.') else { return code.to_owned() };
    let inner: String = code
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
        .collect();
    format!("class {class}:\n{inner}")
}

fn statement_title(project: &Project, files: &BTreeMap<&str, Vec<&Object>>) -> String {
    let names: Vec<&str> = files.values().flatten().map(|object| object.path.as_str()).collect();
    let shown = names.iter().take(3).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("Implement {shown}{more} in {}", project.name)
}

/// Minimum length in bytes of a line that can reveal anything.
const MIN_REVEALING_BYTES: usize = 20;

/// Returns the fraction of the gold patch's lines that occur in a statement but not in a stub.
/// Lines that are too short to reveal anything don't count.
fn leak_score(carving: &Carving, statements: &[&str]) -> f64 {
    let shown_lines: BTreeSet<String> =
        carving.objects.iter().flat_map(|object| revealing_lines(&object.stub)).collect();
    let mut hidden = BTreeSet::new();
    for (before, after) in carving.files.values() {
        let remaining_lines = revealing_lines(after);
        hidden.extend(
            revealing_lines(before).into_iter().filter(|line| !remaining_lines.contains(line)),
        );
    }
    quoted_lines_fraction(hidden, &shown_lines, statements)
}

/// Like [`leak_score`], but for code that the agent's sandbox does not contain at all.
pub(super) fn quoted_fraction(code: &str, stubs: &str, statements: &[&str]) -> f64 {
    quoted_lines_fraction(revealing_lines(code), &revealing_lines(stubs), statements)
}

fn quoted_lines_fraction(
    mut hidden_lines: BTreeSet<String>,
    shown_lines: &BTreeSet<String>,
    statements: &[&str],
) -> f64 {
    hidden_lines.retain(|line| !shown_lines.contains(line));
    let statement_lines: BTreeSet<String> =
        statements.iter().flat_map(|text| revealing_lines(text)).collect();
    if hidden_lines.is_empty() {
        return 0.0;
    }
    hidden_lines.iter().filter(|line| statement_lines.contains(*line)).count() as f64
        / hidden_lines.len() as f64
}

fn revealing_lines(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(str::trim).filter(|line| line.len() >= MIN_REVEALING_BYTES);
    lines.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn signature_omits_documentation_and_notes() {
        let told = |path: &str, stub: &str| {
            signature(&Object {
                file: "p/a.py".into(),
                path: path.into(),
                kind: Kind::Function,
                aliases: Vec::new(),
                stub: stub.into(),
            })
        };
        assert_eq!(
            told(
                "f",
                "@cache\ndef f(\n    a, b='#'\n) -> int:\n    \"\"\"Does it.\"\"\"\n    # Raises E.\n    ...\n"
            ),
            "@cache\ndef f(\n    a, b='#'\n) -> int:\n    ...\n"
        );
        assert_eq!(
            told("C.m", "async def m(self):\n    # Seen in tests: returns int.\n    ...\n"),
            "class C:\n    async def m(self):\n        ...\n"
        );
    }

    #[test]
    fn files_with_removed_names_lists_names_by_file() {
        let object = |path: &str| Object {
            file: "p/a.py".into(),
            path: path.into(),
            kind: Kind::Function,
            aliases: Vec::new(),
            stub: String::new(),
        };
        let file = |path: &str, before: &str, after: &str| {
            (path.to_owned(), (before.to_owned(), after.to_owned()))
        };
        let carving = Carving {
            objects: vec![object("f"), object("g")],
            files: BTreeMap::from([
                file("p/__init__.py", "from .a import f, g as h, kept\n", "from .a import kept\n"),
                file("p/a.py", "", ""),
                file(
                    "p/b.py",
                    "from .a import *\n__all__ = ['f', 'k']\n",
                    "from .a import *\n__all__ = ['k']\n",
                ),
            ]),
        };
        assert_eq!(
            files_with_removed_names(&carving),
            ["`p/__init__.py` (`f`, `h`)", "`p/b.py` (`f`)"]
        );
    }
}
