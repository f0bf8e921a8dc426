//! Applies the rules to one tool call.

use crate::{
    calls::Call,
    command::{Command, WrittenFiles, commands},
    finding::Finding,
    install::detect_install,
    rules::{Rules, any_matches},
    solution_names::SolutionNames,
    upstream::detect_fetch,
};

/// Applies the rules to one tool call and returns the findings.
pub(crate) fn apply_rules(
    call: &Call,
    rules: &Rules,
    subject: &SolutionNames,
    written_files: &mut WrittenFiles,
) -> Vec<Finding> {
    let all = commands(&call.line, rules.file);
    // A background job does not keep running if the same line waits for it or kills it.
    let minded = all.iter().any(|command| {
        matches!(command.words.first().map(String::as_str), Some("wait" | "kill" | "pkill" | "fg"))
    });
    let mut findings = Vec::new();
    for command in &all {
        let said =
            |what: &str| format!("{what}: {}", shorten_command(command, rules.file.limits.shown));
        for rule in &rules.rules {
            let hits = command.forms.iter().any(|form| any_matches(&rule.commands, form))
                || (rule.requires_background && command.is_background && !minded);
            if hits && !command.forms.iter().any(|form| any_matches(&rule.exclusions, form)) {
                findings.push(Finding {
                    kind: rule.kind,
                    description: said(rule.description),
                    step: Some(call.step),
                });
            }
        }
        if let Some((path, words)) = &command.written_file {
            let text = written_files.entry(path.clone()).or_default();
            text.push(' ');
            text.push_str(words);
        }
        if let Some((kind, what)) =
            detect_install(command, &call.output, rules, subject, written_files)
        {
            findings.push(Finding { kind, description: said(what), step: Some(call.step) });
        }
        if let Some((kind, what)) = detect_fetch(command, rules) {
            findings.push(Finding { kind, description: said(what), step: Some(call.step) });
        }
    }
    findings
}

fn shorten_command(command: &Command, limit: usize) -> String {
    let line = &command.display_text;
    match line.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.clone(),
    }
}
