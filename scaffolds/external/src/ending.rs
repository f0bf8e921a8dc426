//! What the end of an agent means.

use proctor_sandbox_api::{Captured, Completed, ending_of};
use proctor_scaffold_api::{Finish, Traffic};
use proctor_types::{Answer, ExitCause, plural};

use crate::{ExitRule, Manifest};

/// Characters of the agent's last words in a reason.
const WORDS: usize = 300;

/// How an agent came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Itself,
    /// The trial was over: what it ended as does not count.
    Stopped,
    Idle,
    /// Its requests were turned away one after the other.
    Refused,
}

/// The table of `docs/external.md`, from its second line on.
pub fn judge(manifest: &Manifest, ended: Ended, done: &Completed, traffic: &Traffic) -> Finish {
    let exited = |cause, why| Finish::Exited { cause, why };
    let name = &manifest.name;
    match ended {
        Ended::Itself | Ended::Stopped => {}
        Ended::Idle => {
            let seconds = manifest.idle_seconds;
            let why = format!("{name} asked nothing and did nothing for {seconds} s");
            // A program that waits for a person hangs like any other: its words tell them apart.
            let rule =
                manifest.exit.iter().find(|rule| says(rule, done) && !rule.output.is_empty());
            let cause = rule.and_then(|rule| rule.means.cause()).unwrap_or(ExitCause::Idle);
            return exited(cause, with_words(why, done));
        }
        Ended::Refused => {
            let times = plural(traffic.refused, "request");
            return exited(ExitCause::Loop, format!("{name} had {times} in a row turned away"));
        }
    }
    let status = ending_of(&done.exited);
    if let Some(rule) = manifest.exit.iter().find(|rule| holds(rule, done)) {
        return match rule.means.cause() {
            None => Finish::Submitted,
            Some(cause) => exited(cause, with_words(format!("{name} ended with {status}"), done)),
        };
    }
    let Some(answer) = &traffic.answer else {
        let why = format!("{name} ended with {status}, without one answer of the model");
        return exited(ExitCause::Crashed, with_words(why, done));
    };
    if done.exited.code != Some(0) {
        return exited(ExitCause::Crashed, with_words(format!("{name} ended with {status}"), done));
    }
    let called = !answer.tool_calls.is_empty();
    match answer.content.trim().is_empty() {
        _ if submits(manifest, answer) => Finish::Submitted,
        true if !called => exited(ExitCause::EmptyTurn, format!("{name} ended at an empty answer")),
        false if !called => Finish::Submitted,
        _ => {
            let why = format!("{name} ended by itself while the model was calling tools");
            exited(ExitCause::Finished, with_words(why, done))
        }
    }
}

fn holds(rule: &ExitRule, done: &Completed) -> bool {
    let code = || done.exited.code.is_some_and(|code| rule.codes.contains(&code));
    (rule.codes.is_empty() || code()) && says(rule, done)
}

fn says(rule: &ExitRule, done: &Completed) -> bool {
    let text = |stream: &Captured, text: &str| {
        let within = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(text);
        within(&stream.head) || within(&stream.tail)
    };
    rule.output.is_empty()
        || rule.output.iter().any(|one| text(&done.stdout, one) || text(&done.stderr, one))
}

fn submits(manifest: &Manifest, answer: &Answer) -> bool {
    let named = |name: &str, arguments: &str| {
        manifest.submits.iter().any(|one| name == one || arguments.contains(one))
    };
    answer.tool_calls.iter().any(|call| named(&call.name, &call.arguments))
}

/// The reason with the last words of standard error, else of standard output.
fn with_words(why: String, done: &Completed) -> String {
    let last = |stream: &Captured| {
        let end = if stream.tail.is_empty() { &stream.head } else { &stream.tail };
        let text = String::from_utf8_lossy(end);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        line.map(|line| line.chars().filter(|c| !c.is_control()).take(WORDS).collect::<String>())
    };
    match last(&done.stderr).or_else(|| last(&done.stdout)) {
        Some(words) => format!("{why}: {words}"),
        None => why,
    }
}
