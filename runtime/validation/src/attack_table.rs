//! Formats the results of attacks.

use std::collections::BTreeMap;

use proctor_attacks::load_pack;
use proctor_types::{AttackCertificate, AttackOutcome, TaskId, count_with_noun, join_first_few};

const OUTCOMES: [AttackOutcome; 4] =
    [AttackOutcome::Beaten, AttackOutcome::Seen, AttackOutcome::Unverified, AttackOutcome::Passed];

/// Returns a table with one line per attack. The columns show the number of tasks by outcome. The
/// table fits into 80 columns.
pub fn format_table(certificate: &AttackCertificate) -> String {
    let has_official =
        result_rows(certificate).any(|(.., one)| one.policies.contains_key("official"));
    let policies: &[&str] = if has_official { &["strict", "official"] } else { &["strict"] };
    let widest = certificate.attacks.iter().map(|one| one.name.chars().count()).max();
    let width = widest.unwrap_or_default().clamp(6, MAX_NAME_WIDTH);
    let mut lines = vec![String::new(), format!("{:width$}", "attack")];
    for policy in policies {
        lines[0].push_str(&format!("{:20}", format!("  {policy}:")));
        lines[1].push_str("  beat seen unv. pass");
    }
    lines[0] = format!("{:width$}{}", "", lines[0]);
    lines[1].push_str("   n/a");
    for attack in &certificate.attacks {
        let name: String = attack.name.chars().take(MAX_NAME_WIDTH).collect();
        let mut line = format!("{name:width$}");
        let of: Vec<_> =
            result_rows(certificate).filter(|(_, name, _)| *name == attack.name).collect();
        for policy in policies {
            line.push(' ');
            for outcome in OUTCOMES {
                let count =
                    of.iter().filter(|(.., one)| one.policies.get(*policy) == Some(&outcome));
                line.push_str(&format_cell(count.count()));
            }
        }
        line.push(' ');
        line.push_str(&format_cell(of.iter().filter(|(.., one)| one.policies.is_empty()).count()));
        lines.push(line);
    }
    let tasks = count_with_noun(certificate.tasks.len(), "task");
    lines.push(format!(
        "{} on {tasks}. beat: not resolved; seen: suspect;",
        count_with_noun(certificate.attacks.len(), "attack")
    ));
    lines.push("unv.: resolved, unverified; pass: resolved, clean.".to_owned());
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    format!("{}\n", lines.join("\n"))
}

/// Maximum width of an attack's name in columns.
const MAX_NAME_WIDTH: usize = 30;

/// Formats a count in four columns after a space. Zero is shown as a dot.
fn format_cell(count: usize) -> String {
    if count == 0 { "    .".to_owned() } else { format!("{count:5}") }
}

type ResultRow<'a> = (&'a TaskId, &'a str, &'a proctor_types::AttackResult);

fn result_rows(certificate: &AttackCertificate) -> impl Iterator<Item = ResultRow<'_>> {
    certificate
        .tasks
        .iter()
        .flat_map(|task| task.attacks.iter().map(|(name, one)| (&task.task, name.as_str(), one)))
}

/// Returns the dataset's failures, one line per task: attacks that succeeded under `strict`, and
/// the task's own cheats that succeeded under any policy.
pub fn failure_notes(certificate: &AttackCertificate) -> Vec<String> {
    let mut by_task: BTreeMap<&TaskId, Vec<String>> = BTreeMap::new();
    for (task, attack, one) in result_rows(certificate) {
        for (policy, outcome) in &one.policies {
            let counts =
                policy == "strict" || attack.starts_with(proctor_types::CHEAT_ATTACK_PREFIX);
            if outcome.is_success() && counts {
                let told = format!("{attack} {outcome} under {policy}");
                by_task.entry(task).or_default().push(told);
            }
        }
    }
    by_task.into_iter().map(|(task, told)| format!("{task}: {}", told.join(", "))).collect()
}

/// Returns further notes: attacks that fool the benchmark's own procedure, marked if the pack
/// expects this, and attacks without a verdict.
pub fn other_notes(certificate: &AttackCertificate) -> Vec<String> {
    let mut said = Vec::new();
    for attack in &certificate.attacks {
        let of = || result_rows(certificate).filter(|(_, name, _)| *name == attack.name);
        let passed = of().filter(|(.., one)| one.succeeded_under("official")).count();
        if passed > 0 && !attack.name.starts_with(proctor_types::CHEAT_ATTACK_PREFIX) {
            let known = load_pack().is_ok_and(|pack| {
                let own = pack.iter().find(|one| one.name == attack.name);
                own.is_some_and(|one| !one.expected.official_resolves.is_empty())
            });
            let known = if known { " (known)" } else { "" };
            let tasks = count_with_noun(passed, "task");
            said.push(format!("{} resolves {tasks} under official{known}", attack.name));
        }
        let lost = of().filter(|(.., one)| one.no_verdict.is_some());
        let lost: Vec<String> = lost.map(|(task, ..)| task.to_string()).collect();
        if !lost.is_empty() {
            said.push(format!("{}: no verdict: {}", attack.name, join_first_few(lost)));
        }
    }
    said
}
