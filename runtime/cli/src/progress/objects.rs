//! Progress for programs: one JSON object per line.

use proctor_run::{Progress, TrialActivity};
use proctor_types::TrialId;
use serde_json::{Map, Value, json};

/// Converts an event to a JSON object. The value of its `event` key determines its other keys.
/// Returns `None` for events that programs don't need.
pub(super) fn event_to_json(event: &Progress, seconds: f64) -> Option<Value> {
    let (kind, trial, rest) = match event {
        Progress::Started { trial, arm } => ("started", Some((trial, arm)), json!({})),
        Progress::Resumed { trial, arm, step } => {
            ("resumed", Some((trial, arm)), json!({ "step": step }))
        }
        Progress::StepEnded { trial, arm, step } => {
            ("stepped", Some((trial, arm)), json!({ "step": step }))
        }
        Progress::ActivityChanged {
            trial,
            arm,
            activity: TrialActivity::RunningTool { tool, input: what },
        } => ("tool_called", Some((trial, arm)), json!({ "tool": tool, "what": what })),
        Progress::ActivityChanged { .. } => return None,
        Progress::WaitStarted { trial, arm, wait: waiting } => {
            ("waiting", Some((trial, arm)), json!({ "why": super::board::describe_wait(waiting) }))
        }
        Progress::WaitEnded { trial, arm, seconds } => {
            ("waited", Some((trial, arm)), json!({ "for_seconds": seconds }))
        }
        Progress::TryFailed { trial, arm, fault, will_retry } => {
            let rest = json!({ "why": fault.to_string(), "will_retry": will_retry });
            ("try_failed", Some((trial, arm)), rest)
        }
        Progress::SandboxNotClosed { trial, arm, fault } => {
            ("not_closed", Some((trial, arm)), json!({ "why": fault.to_string() }))
        }
        Progress::Ended { trial, arm, outcome } => {
            let spent = outcome.spent;
            let rest = json!({
                "outcome": outcome.ending.name(),
                "steps": spent.steps,
                "input_tokens": spent.input_tokens,
                "output_tokens": spent.output_tokens,
                "cost_usd": (!spent.unpriced).then_some(spent.cost_usd),
            });
            ("ended", Some((trial, arm)), rest)
        }
        Progress::Graded { trial, arm, verdict } => {
            let rest = json!({
                "resolved": verdict.resolved,
                "passed_rate": verdict.passed_rate,
                "integrity": verdict.integrity,
            });
            ("graded", Some((trial, arm)), rest)
        }
        Progress::GradingFailed { trial, arm, fault } => {
            ("grading_failed", Some((trial, arm)), json!({ "why": fault.to_string() }))
        }
        Progress::GradingRecorded { trial, arm } => ("grading", Some((trial, arm)), json!({})),
        Progress::RunsElsewhere { trial, arm } => ("elsewhere", Some((trial, arm)), json!({})),
        Progress::EndedElsewhere { trial, arm } => {
            ("ended_elsewhere", Some((trial, arm)), json!({}))
        }
        Progress::TakenOver { trial, arm } => ("taken_over", Some((trial, arm)), json!({})),
        Progress::WorkerLost { trial, arm, worker } => {
            ("worker_lost", Some((trial, arm)), json!({ "worker": worker }))
        }
        Progress::NotResumed { trial, arm, reason: why } => {
            ("not_resumed", Some((trial, arm)), json!({ "why": why }))
        }
        Progress::NotStarted { trial, arm, scope, budget } => {
            let rest = json!({ "limit": format!("{scope}_{budget}") });
            ("not_started", Some((trial, arm)), rest)
        }
        Progress::EnvironmentBuilt { task, seconds } => {
            ("environment_built", None, json!({ "task": task, "for_seconds": seconds }))
        }
        Progress::FileDamaged { trial, difference: what, reaction: then } => {
            let rest = json!({ "task": trial.task, "what": what, "then": then });
            ("damaged", None, rest)
        }
    };
    let mut object = Map::from_iter([
        ("event".to_owned(), json!(kind)),
        ("seconds".to_owned(), json!((seconds * 1e3).round() / 1e3)),
    ]);
    if let Some((TrialId { task, attempt, .. }, arm)) = trial {
        object.extend([
            ("task".to_owned(), json!(task)),
            ("arm".to_owned(), json!(arm)),
            ("attempt".to_owned(), json!(attempt)),
        ]);
    }
    object.extend(rest.as_object().cloned().unwrap_or_default());
    Some(Value::Object(object))
}
