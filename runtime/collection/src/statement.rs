//! Renders a recipe's statement from the removed code's signatures and docstrings.

use std::collections::BTreeMap;

use proctor_datasets::render_template;
use serde::Serialize;

use crate::{Carving, Kind, Object, RecipeError};

const STATEMENT_TEMPLATE: &str = include_str!("../../../prompts/recipes/statement.md.j2");

/// The template variables that don't come from the carving.
#[derive(Serialize)]
pub(crate) struct StatementMetadata<'a> {
    pub(crate) title: &'a str,
    pub(crate) package: &'a str,
    pub(crate) version: &'a str,
    pub(crate) workdir: &'a str,
    pub(crate) test_command: String,
}

#[derive(Serialize)]
struct TemplateVariables<'a> {
    #[serde(flatten)]
    facts: &'a StatementMetadata<'a>,
    files: Vec<File<'a>>,
    exports: Vec<String>,
}

#[derive(Serialize)]
struct File<'a> {
    path: &'a str,
    objects: Vec<TemplateObject<'a>>,
}

#[derive(Serialize)]
pub(crate) struct TemplateObject<'a> {
    path: &'a str,
    kind: &'static str,
    aliases: &'a [String],
    stub: &'a str,
}

pub(crate) fn render(
    metadata: &StatementMetadata<'_>,
    carving: &Carving,
) -> Result<String, RecipeError> {
    let mut files: BTreeMap<&str, Vec<TemplateObject<'_>>> = BTreeMap::new();
    for object in &carving.objects {
        files.entry(&object.file).or_default().push(TemplateObject::from_object(object));
    }
    let exports: Vec<String> = carving
        .files
        .keys()
        .filter(|path| !files.contains_key(path.as_str()))
        .map(|path| format!("`{path}`"))
        .collect();
    let files: Vec<File<'_>> =
        files.into_iter().map(|(path, objects)| File { path, objects }).collect();
    render_template(STATEMENT_TEMPLATE, TemplateVariables { facts: metadata, files, exports })
        .map_err(|error| RecipeError::Statement { why: format!("{error:#}") })
}

impl<'a> TemplateObject<'a> {
    pub(crate) fn from_object(object: &'a Object) -> Self {
        Self {
            path: &object.path,
            kind: match object.kind {
                Kind::Function => "Function",
                Kind::Class => "Class",
                Kind::Method => "Method",
            },
            aliases: &object.aliases,
            stub: &object.stub,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn render_shows_every_object_with_its_file_and_aliases() {
        let object = |path: &str, kind, stub: &str| Object {
            file: "p/a.py".into(),
            path: path.into(),
            kind,
            aliases: if path == "f" { vec!["g".into(), "h".into()] } else { Vec::new() },
            stub: stub.into(),
        };
        let carving = Carving {
            objects: vec![
                object("f", Kind::Function, "def f(a, /, *, b=1):\n    ...\n"),
                object("C.m", Kind::Method, "async def m(self):\n    ...\n"),
            ],
            files: ["p/__init__.py", "p/a.py"]
                .map(|path| (path.to_owned(), (String::new(), String::new())))
                .into(),
        };
        let facts = StatementMetadata {
            title: "Put f back",
            package: "p",
            version: "1.0",
            workdir: "/testbed",
            test_command: "python -m pytest".into(),
        };
        let text = render(&facts, &carving).unwrap();
        for part in [
            "# Put f back\n",
            "## `p/a.py`\n\nFunction `f`, also available under the names `g`, `h`\n\n```python\ndef f(a, /, *, b=1):\n    ...\n```\n",
            "Method `C.m`\n\n```python\nasync def m(self):\n    ...\n```\n\n## Rules\n",
            "removed from `p/__init__.py`.",
            "`python -m pytest PATH` in `/testbed`.",
        ] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }
}
