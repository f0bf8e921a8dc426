//! Writes OpenTelemetry spans that follow the generative AI conventions: one span for the agent,
//! one per request and one per call.

use proctor_types::{Envelope, Event, ModelResponse};
use serde_json::{Value, json};

use crate::{Fidelity, Trial};

/// Span kinds, with the numbers that the protocol defines.
const SPAN_KIND_INTERNAL: u32 = 1;
const SPAN_KIND_CLIENT: u32 = 3;
/// The status code for a failed span.
const STATUS_ERROR: u32 = 2;

/// Converts the trial to an OTLP request in JSON. A collector accepts the request as a line of a
/// file or over HTTP.
///
/// # Errors
/// Returns an error if the built-in table of omissions cannot be read.
pub fn otel_spans(trial: &Trial<'_>, fidelity: &mut Fidelity) -> Result<Value, String> {
    fidelity.record_trial(trial.events)?;
    let mut trace = Trace::new(trial);
    trace.push_agent_span();
    let (mut asked, mut called) = (None, Vec::new());
    for event in trial.events {
        match &event.event {
            Event::ModelAsked { .. } => asked = Some(event),
            Event::ModelAnswered { answer } | Event::GraceAnswered { answer } => {
                let from = asked.take().map_or(event.t_wall, |asked: &Envelope| asked.t_wall);
                trace.push_chat_span(answer, from, event);
            }
            Event::ToolCalled { .. } => called.push(event),
            Event::ToolReturned { call_id, .. } => {
                let is_its = |one: &&Envelope| matches!(&one.event, Event::ToolCalled { call_id: id, .. } if id == call_id);
                let at = called.iter().position(is_its);
                trace.push_tool_span(at.map(|at| called.remove(at)), event);
            }
            _ => {}
        }
    }
    let scope = json!({ "name": "proctor", "version": trial.proctor_version });
    let resource = json!({ "attributes": attributes([
        ("service.name", Some("proctor".into())),
        ("service.version", Some(trial.proctor_version.into())),
    ]) });
    Ok(json!({ "resourceSpans": [{
        "resource": resource,
        "scopeSpans": [{ "scope": scope, "spans": trace.spans }],
    }]}))
}

struct Trace<'a> {
    trial: &'a Trial<'a>,
    trace_id: String,
    root_span_id: String,
    spans: Vec<Value>,
}

impl<'a> Trace<'a> {
    /// Derives ids from the trial's name, so that exporting a trial twice produces identical
    /// output.
    fn new(trial: &'a Trial<'a>) -> Self {
        let name = format!("{}/{}", trial.arm.id, trial.name());
        let trace_id = derive_hex_id(&name, 16);
        Self {
            trial,
            root_span_id: derive_hex_id(&format!("{name}/0"), 8),
            trace_id,
            spans: Vec::new(),
        }
    }

    fn push_agent_span(&mut self) {
        let Trial { arm, events, outcome, verdict, .. } = self.trial;
        let at =
            |event: Option<&Envelope>| format_nanoseconds(event.map_or(0.0, |event| event.t_wall));
        let spent = outcome.map(|outcome| outcome.spent).unwrap_or_default();
        let fault = outcome.is_some_and(|outcome| outcome.ending.is_fault());
        let span = json!({
            "traceId": self.trace_id,
            "spanId": self.root_span_id,
            "name": format!("invoke_agent {}", arm.scaffold),
            "kind": SPAN_KIND_INTERNAL,
            "startTimeUnixNano": at(events.first()),
            "endTimeUnixNano": at(events.last()),
            "attributes": attributes([
                ("gen_ai.operation.name", Some("invoke_agent".into())),
                ("gen_ai.agent.name", Some(arm.scaffold.as_str().into())),
                ("gen_ai.conversation.id", Some(self.trial.name().into())),
                ("gen_ai.request.model", self.trial.model().map(Value::from)),
                ("gen_ai.usage.input_tokens", Some(spent.input_tokens.into())),
                ("gen_ai.usage.output_tokens", Some(spent.output_tokens.into())),
                ("proctor.task", Some(self.trial.task.id.as_str().into())),
                ("proctor.arm", Some(arm.name.as_str().into())),
                ("proctor.attempt", Some(self.trial.attempt.into())),
                ("proctor.outcome", self.trial.ending().map(Value::from)),
                (
                    "proctor.interruptions",
                    self.trial.interruptions().map(|all| all.to_string().into()),
                ),
                ("proctor.resolved", verdict.map(|verdict| verdict.resolved.into())),
                ("proctor.passed_rate", verdict.map(|verdict| verdict.passed_rate.into())),
                ("error.type", fault.then(|| self.trial.ending().into())),
            ]),
            "status": if fault { json!({ "code": STATUS_ERROR }) } else { json!({}) },
        });
        self.spans.push(span);
    }

    fn push_chat_span(&mut self, response: &ModelResponse, start: f64, response_event: &Envelope) {
        let model = self.trial.model().unwrap_or_default();
        let text = json!({ "type": "text", "content": response.content });
        let calls = response.tool_calls.iter().map(|call| {
            json!({ "type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments })
        });
        let parts: Vec<Value> = [text].into_iter().chain(calls).collect();
        let finish = response.finish_reason.clone().unwrap_or_default();
        let output_messages =
            json!([{ "role": "assistant", "parts": parts, "finish_reason": finish }]);
        let listed = json!({ "arrayValue": { "values": [{ "stringValue": finish }] } });
        let mut attributes = attributes([
            ("gen_ai.operation.name", Some("chat".into())),
            ("gen_ai.request.model", Some(model.into())),
            ("gen_ai.usage.input_tokens", Some(response.usage.input.into())),
            ("gen_ai.usage.output_tokens", Some(response.usage.output.into())),
            ("gen_ai.usage.cache_read.input_tokens", Some(response.usage.cached.into())),
            ("gen_ai.output.messages", Some(output_messages.to_string().into())),
            ("proctor.step", Some(response_event.step.into())),
            ("proctor.cost_usd", response.cost_usd.map(Value::from)),
        ]);
        attributes.push(json!({ "key": "gen_ai.response.finish_reasons", "value": listed }));
        self.push_span(
            format!("chat {model}"),
            SPAN_KIND_CLIENT,
            (start, response_event.t_wall),
            attributes,
            None,
        );
    }

    fn push_tool_span(&mut self, call_event: Option<&Envelope>, result_event: &Envelope) {
        let Event::ToolReturned { call_id, name, shown, exit_status, seconds, .. } =
            &result_event.event
        else {
            return;
        };
        let start = call_event.map_or(result_event.t_wall - seconds, |called| called.t_wall);
        let arguments = call_event.and_then(|called| match &called.event {
            Event::ToolCalled { arguments, .. } => Some(arguments.to_string().into()),
            _ => None,
        });
        let failed = exit_status.filter(|status| *status != 0);
        let attributes = attributes([
            ("gen_ai.operation.name", Some("execute_tool".into())),
            ("gen_ai.tool.name", Some(name.as_str().into())),
            ("gen_ai.tool.type", Some("function".into())),
            ("gen_ai.tool.call.id", Some(call_id.as_str().into())),
            ("gen_ai.tool.call.arguments", arguments),
            ("gen_ai.tool.call.result", Some(shown.as_str().into())),
            ("proctor.exit_status", exit_status.map(Value::from)),
            ("error.type", failed.map(|status| format!("exit_status_{status}").into())),
        ]);
        let name = format!("execute_tool {name}");
        self.push_span(name, SPAN_KIND_INTERNAL, (start, result_event.t_wall), attributes, failed);
    }

    fn push_span(
        &mut self,
        name: String,
        kind: u32,
        (from, end): (f64, f64),
        attributes: Vec<Value>,
        failed: Option<i32>,
    ) {
        let number = self.spans.len();
        let id = derive_hex_id(&format!("{}/{}/{number}", self.trial.arm.id, self.trial.name()), 8);
        self.spans.push(json!({
            "traceId": self.trace_id,
            "spanId": id,
            "parentSpanId": self.root_span_id,
            "name": name,
            "kind": kind,
            "startTimeUnixNano": format_nanoseconds(from),
            "endTimeUnixNano": format_nanoseconds(end),
            "attributes": attributes,
            "status": if failed.is_some() { json!({ "code": STATUS_ERROR }) } else { json!({}) },
        }));
    }
}

/// Returns the attributes that have a value. In OTLP's JSON encoding, 64-bit integers are strings.
fn attributes<const N: usize>(optional_attributes: [(&str, Option<Value>); N]) -> Vec<Value> {
    let written = optional_attributes.into_iter().filter_map(|(key, value)| {
        let value = match value? {
            Value::Bool(yes) => json!({ "boolValue": yes }),
            Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
            Value::Number(number) => json!({ "intValue": number.to_string() }),
            Value::String(text) => json!({ "stringValue": text }),
            other => json!({ "stringValue": other.to_string() }),
        };
        Some(json!({ "key": key, "value": value }))
    });
    written.collect()
}

fn format_nanoseconds(seconds: f64) -> String {
    format!("{:.0}", (seconds * 1e9).max(0.0))
}

fn derive_hex_id(name: &str, bytes: usize) -> String {
    let hash = blake3::hash(name.as_bytes()).to_hex();
    hash.as_str().get(..bytes * 2).unwrap_or_default().to_owned()
}
