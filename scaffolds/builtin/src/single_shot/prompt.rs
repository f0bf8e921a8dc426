//! Builds the prompt from the same sections as FEA-Bench does.

use proctor_scaffold_api::{Material, Stop};
use proctor_types::{Message, NewComponent};
use serde_json::json;

use super::{
    context::{Files, PromptContext},
    file_block::format_block,
    settings::{AnswerFormat, Hints},
};
use crate::prompts::Prompts;

fn format_blocks(prompts: &Prompts, files: &Files, has_line_numbers: bool) -> Result<String, Stop> {
    files
        .iter()
        .map(|(path, text)| format_block(prompts, path, text.as_deref(), has_line_numbers))
        .collect()
}

/// Renders the whole prompt in the requested format.
pub(super) fn render_prompt(
    prompts: &Prompts,
    material: &Material,
    context: &PromptContext,
    (format, hints): (AnswerFormat, Hints),
) -> Result<String, Stop> {
    let detailed = hints == Hints::Detailed;
    let (name, numbers) = match format {
        AnswerFormat::Patch => ("patch", true),
        _ => ("natural", false),
    };
    let with = json!({
        "request": material.request,
        "discussion": material.discussion,
        "detailed": detailed,
        "changes": material.description_changes.trim(),
        "definitions": format_definitions(prompts, &material.components, detailed)?,
        "readmes": format_blocks(prompts, &context.readmes, numbers)?,
        "files": format_blocks(prompts, &context.files, numbers)?,
    });
    prompts.render(name, with)
}

fn format_definitions(
    prompts: &Prompts,
    components: &[NewComponent],
    is_detailed: bool,
) -> Result<String, Stop> {
    if components.is_empty() {
        return Ok(String::new());
    }
    let mut files: Vec<(&str, Vec<&NewComponent>)> = Vec::new();
    for component in components {
        match files.iter_mut().find(|(file, _)| *file == component.file) {
            Some((_, list)) => list.push(component),
            None => files.push((&component.file, vec![component])),
        }
    }
    let files: Vec<_> =
        files.iter().map(|(file, list)| json!({ "file": file, "components": list })).collect();
    prompts.render("definitions", json!({ "files": files, "detailed": is_detailed }))
}

/// Splits the prompt as FEA-Bench does: the first line is the system message, and the rest is the
/// user message.
pub(super) fn split_messages(text: &str) -> Vec<Message> {
    let (system, user) = text.split_once('\n').unwrap_or(("", text));
    vec![
        Message::System { content: system.to_owned() },
        Message::User { content: format!("{user}\n\n") },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prompts that FEA-Bench's own functions create from the same parts
    /// (`collect/make_instructions.py` at cb5f4ac).
    const EXPECTED: [(AnswerFormat, Hints, &str); 4] = [
        (
            AnswerFormat::Natural,
            Hints::Detailed,
            include_str!("../../tests/single_shot/natural-detailed.txt"),
        ),
        (
            AnswerFormat::Natural,
            Hints::Brief,
            include_str!("../../tests/single_shot/natural-brief.txt"),
        ),
        (
            AnswerFormat::Patch,
            Hints::Detailed,
            include_str!("../../tests/single_shot/patch-detailed.txt"),
        ),
        (
            AnswerFormat::Patch,
            Hints::Brief,
            include_str!("../../tests/single_shot/patch-brief.txt"),
        ),
    ];

    fn component(file: &str, name: &str, signature: &str, doc: &str) -> NewComponent {
        NewComponent {
            file: file.into(),
            kind: "function".into(),
            name: name.into(),
            signature: signature.into(),
            doc: doc.into(),
        }
    }

    #[test]
    fn prompts_equal_the_reference_exactly() {
        let prompts = Prompts::load("single-shot", None).unwrap();
        let material = Material {
            request: "<request>\nAdd f\nIt adds f.\n----------\n</request>".into(),
            discussion:
                "Here is the discussion in the issues of the pull request.\n<issues>\nT\n</issues>"
                    .into(),
            description_changes:
                "diff --git a/d.md b/d.md\n--- a/d.md\n+++ b/d.md\n@@ -1 +1,2 @@\n x\n+y\n".into(),
            components: vec![
                component("p/a.py", "f", "def f(x):", "Does f.\n\nMore."),
                component("p/a.py", "C.g", "def g(self):", ""),
                component("p/new.py", "h", "def h():", ""),
            ],
            ..Material::default()
        };
        let mut context = PromptContext::default();
        context.readmes.insert("README.md".into(), Some("# p\n\ntext\n".into()));
        for (path, text) in
            [("p/new.py", None), ("p/a.py", Some("x = 1\n\ny = 2\n")), ("p/empty.py", Some(""))]
        {
            context.files.insert(path.into(), text.map(str::to_owned));
        }
        for (format, hints, expected) in EXPECTED {
            let text = render_prompt(&prompts, &material, &context, (format, hints)).unwrap();
            assert_eq!(text, expected, "{format:?} {hints:?}");
        }
    }

    #[test]
    fn prompt_without_definitions_mentions_none() {
        let prompts = Prompts::load("single-shot", None).unwrap();
        let material =
            Material { request: "<request>\nDo it.\n</request>".into(), ..Material::default() };
        let form = (AnswerFormat::Natural, Hints::Detailed);
        let text = render_prompt(&prompts, &material, &PromptContext::default(), form).unwrap();
        assert!(!text.contains("definitions>"), "{text}");
        assert!(text.contains("\nPlease solve the feature request. You do not need"), "{text}");
    }
}
