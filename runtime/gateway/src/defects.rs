//! Detects corrupted responses: broken calls, calls left in the text, undecoded tokens, a truncated
//! prompt, a response cut off at the server's own output limit, or no output at all.
//!
//! Most servers that corrupt calls do so only in streams, so the gateway repeats the request
//! without streaming. If the second response also contains broken calls, the model itself wrote
//! them that way. The thresholds are in `configs/tables/endpoint-checks.toml`.

use bytes::Bytes;
use proctor_types::{Api, Fault, RequestClass, ToolCall};
use serde_json::{Map, Value};

use crate::{
    TrialGateway,
    attempt_failure::{AttemptFailure, FailureKind},
    checks::EndpointChecks,
    codec::{
        lenient_json,
        neutral::{CollectedResponse, Item, Request, StopReason, Tool},
    },
    context_window::ContextWindowRules,
    cut_points::is_cut_off,
    fences,
    merged_calls::is_merged,
    outgoing_request::OutgoingRequest,
    send::AttemptResult,
    tokens,
    tool_support::{find_bare_calls, find_call_after_marker, find_call_in_text, text_or_reasoning},
    usage,
};

impl TrialGateway {
    /// Returns why a response without any output must be requested again, or `None` if it counts as
    /// the model's empty turn. `attempt` is the number of the attempt, counted from 1.
    ///
    /// # Errors
    /// Fails if a built-in table cannot be read.
    pub(crate) fn find_missing_output(
        &self,
        request: &OutgoingRequest,
        response: &CollectedResponse,
        attempt: u32,
    ) -> Result<Option<AttemptFailure>, Fault> {
        let (model, halts) = (&self.route().model, &self.route().halts);
        if request.is_grace || request.class != RequestClass::Main || !response.is_hollow() {
            return Ok(None);
        }
        let usage = response.usage.unwrap_or_default();
        let output = usage.output;
        let why = format!("empty response, although the endpoint counted {output} output tokens");
        // The Gemini API itself returns such responses, and repeating the request helps. In other
        // formats, a model may also end its turn without output.
        if model.api != Api::Gemini {
            let checks = EndpointChecks::shipped()?;
            if output < checks.hollow.least_output {
                return Ok(None);
            }
            let is_lost = model.tool_check != Some(false)
                && checks.knows_reasoning(&request.body, &usage)
                && checks.reported_usage.excess_output(response, &usage) > 0;
            if !is_lost && halts.ends_turns_without_output(model) {
                return Ok(None);
            }
            // Some servers lose the content only in streams.
            if request.is_streaming && !halts.is_stream_only(model) {
                halts.note_hollow_stream(model);
                return Ok(Some(AttemptFailure::new(FailureKind::Corrupted, why)));
            }
            if is_lost {
                let hint = Some(checks.hollow.hint.clone());
                return Ok(Some(AttemptFailure {
                    hint,
                    ..AttemptFailure::new(FailureKind::Empty, why)
                }));
            }
            let policy = &self.route().policy;
            if attempt >= policy.empty_attempts.min(policy.attempts) {
                halts.note_turn_without_output(model);
                return Ok(None);
            }
        }
        Ok(Some(AttemptFailure::new(FailureKind::Empty, why)))
    }

    /// Returns why a response must be requested again if it ended for a reason that
    /// `configs/tables/stop-words.toml` does not list. The model did not end such a response.
    ///
    /// # Errors
    /// Fails if a built-in table cannot be read.
    pub(crate) fn find_unknown_stop(
        &self,
        request: &OutgoingRequest,
        response: &CollectedResponse,
    ) -> Result<Option<AttemptFailure>, Fault> {
        let model = &self.route().model;
        let is_checked = model.api == Api::Gemini
            || request.class == RequestClass::Main
                && !request.is_grace
                && model.tool_check != Some(false);
        if !is_checked {
            return Ok(None);
        }
        let checks = EndpointChecks::shipped()?;
        Ok(describe_unknown_stop(checks, model.api, request.max_output, response))
    }

    /// Returns why a response must be requested again if a limit that the server does not report cut
    /// off its last call. Such a server reports that the model ended the response. Models rarely
    /// end two responses in the middle of a call at the same round number of tokens.
    fn find_cut_call(
        &self,
        checks: &EndpointChecks,
        request: &OutgoingRequest,
        response: &CollectedResponse,
    ) -> Option<AttemptFailure> {
        let output = response.usage.map_or(0, |usage| usage.output);
        let is_cut = response.reported_stop != Some(StopReason::Length)
            && checks.hidden_cap.is_round(output)
            && response.calls().last().is_some_and(is_cut_off);
        let is_hidden_limit = is_cut
            && self.cut_points().repeats_output(output)
            && request.max_output.is_none_or(|most| output < most);
        let why = || format!("the response ended in the middle of a call after {output} tokens");
        is_hidden_limit.then(|| match request.max_output {
            None => AttemptFailure::new(FailureKind::OutputCapped, why()),
            Some(_) => AttemptFailure::corrupted_response(why(), &checks.length.hint),
        })
    }

    /// Returns why a complete response must be requested again, or `None` if it is accepted as the
    /// model's own output.
    ///
    /// # Errors
    /// Fails if a built-in table cannot be read.
    pub(crate) async fn find_defect(
        &self,
        request: &OutgoingRequest,
        result: &AttemptResult,
    ) -> Result<Option<AttemptFailure>, Fault> {
        let response = &result.response;
        let (model, halts) = (&self.route().model, &self.route().halts);
        if request.is_grace || request.class != RequestClass::Main {
            return Ok(None);
        }
        let checks = EndpointChecks::shipped()?;
        if model.tool_check != Some(false)
            && let Some(trouble) = self.find_missing_stop(&checks.unfinished, result)
        {
            return Ok(Some(trouble));
        }
        let output = response.usage.map_or(0, |usage| usage.output);
        // No model has an output limit below this value, so a lower limit must come from the
        // server.
        let least_own = match model.api {
            Api::Chat | Api::Responses => checks.length.explicit_limit,
            Api::Gemini => checks.length.least_own,
            Api::Messages => 0,
        };
        let is_length = response.reported_stop == Some(StopReason::Length);
        let total = response.usage.map_or(0, |usage| usage.input + usage.output);
        // Note the total also if the response is requested again for another reason.
        let repeats_total = is_length && total > 0 && self.cut_points().repeats_total(total);
        let is_capped = is_length && request.max_output.is_none() && output < least_own;
        if is_capped {
            let why = format!(
                "the response ended after {output} tokens at an output limit that the request did not set"
            );
            return Ok(Some(AttemptFailure::new(FailureKind::OutputCapped, why)));
        }
        if let Some(most) = request.max_output.filter(|_| is_length) {
            let room = self.route().context_window.unwrap_or(checks.length.least_window);
            let is_cut = output > 0
                && (output as f64) < most as f64 * checks.length.share
                && (total as f64) < room as f64 * checks.length.share;
            if is_cut {
                let why = format!(
                    "the response ended after {output} tokens, but the request allows {most}"
                );
                return Ok(Some(AttemptFailure::corrupted_response(why, &checks.length.hint)));
            }
            let window =
                ContextWindowRules::shipped()?.window_or_least(self.route().context_window);
            let is_hidden_window = repeats_total
                && (output as f64) < most as f64 * checks.length.share
                && (total as f64) < window as f64 * checks.length.window_share;
            if is_hidden_window {
                let why = format!(
                    "the server's context window is full after {total} tokens of prompt and output"
                );
                return Ok(Some(AttemptFailure::corrupted_response(why, &checks.cut.hint)));
            }
        }
        if let Some(trouble) = self.find_cut_call(checks, request, response) {
            return Ok(Some(trouble));
        }
        if model.tool_check == Some(false) {
            return Ok(None);
        }
        let has_called = response.calls().next().is_some();
        let text = if has_called { String::new() } else { text_or_reasoning(&response.items) };
        if let Some(trouble) = self.find_proxy_text(&checks.error_text, result, &text) {
            return Ok(Some(trouble));
        }
        if let Some(trouble) = checks.applied_edits.find(&request.body, &result.raw) {
            return Ok(Some(trouble));
        }
        if let Some(trouble) = self.find_dropped_prompt_part(checks, request, result).await {
            return Ok(Some(trouble));
        }
        let is_undecoded = checks.undecoded.is_undecoded(&text)
            || response.calls().any(|call| checks.undecoded.is_undecoded_call(&call.arguments));
        if is_undecoded {
            let why = "the server did not decode the blanks and newlines of its tokens";
            return Ok(Some(AttemptFailure::corrupted_response(why, &checks.undecoded.hint)));
        }
        let runs = &checks.run_of_one;
        let guarded_run = match response.reported_stop {
            Some(StopReason::End) => runs.describe_guarded_run(&text),
            _ => None,
        };
        if let Some(why) = runs.describe_single_character(&text).or(guarded_run) {
            return Ok(Some(AttemptFailure::corrupted_response(why, &runs.hint)));
        }
        let echo = self.find_echoed_prompt(&checks.echoed_prompt, request, response, &text);
        if let Some(trouble) = echo.await {
            return Ok(Some(trouble));
        }
        let is_silent = |item: &Item| match item {
            Item::Text(text) | Item::Refusal(text) => text.trim().is_empty(),
            Item::Call(_) => false,
            Item::Reasoning(_) => true,
        };
        let has_thought_alone = response.reported_stop == Some(StopReason::End)
            && !text.is_empty()
            && response.items.iter().all(is_silent);
        if has_thought_alone && checks.thought_answer.disables_thinking(&request.body) {
            let why =
                "the response contains only reasoning, although the request turns thinking off";
            return Ok(Some(AttemptFailure::corrupted_response(why, &checks.thought_answer.hint)));
        }
        if let Some(trouble) = self.find_stream_damage(checks, request, result) {
            return Ok(Some(trouble));
        }
        if !request.offers_tools {
            let mut text = if has_thought_alone { String::new() } else { text };
            checks.end_token.strip_next_turns(&mut text);
            checks.end_token.strip_end_tokens(&mut text);
            return Ok(self.find_lost_fence(request, response, &text));
        }
        // Whether the call uses a tool that the request does not contain. Every format puts tool
        // names in double quotes, so a search for the quoted name finds them.
        let is_foreign = |call: &ToolCall| {
            memchr::memmem::find(&request.body, format!("\"{}\"", call.name).as_bytes()).is_none()
        };
        let is_odd = |call: &ToolCall| {
            lacks_valid_arguments(call)
                || is_foreign(call)
                || checks.trimmed.is_trimmed(&call.arguments)
                || checks.wrapped.is_wrapped(&call.arguments)
        };
        let mut doubts_calls = response.calls().any(is_odd) && !halts.writes_malformed_calls(model);
        if !halts.returns_unescaped_calls(model) {
            if response.calls().any(|call| checks.escaped.has_html_characters(&call.arguments)) {
                halts.note_unescaped_call(model);
            } else {
                doubts_calls |=
                    response.calls().any(|call| checks.escaped.is_escaped(&call.arguments));
            }
        }
        doubts_calls |= response
            .calls()
            .any(|call| checks.masked.count_placeholders(&call.arguments, |_| false) > 0);
        // Parse the request only if the response looks suspicious: parsing a long conversation
        // takes many milliseconds.
        if !doubts_calls && (has_called || response.reported_stop == Some(StopReason::Filter)) {
            return Ok(None);
        }
        let inspection = Inspection {
            checks,
            api: model.api,
            body: request.body.clone(),
            text,
            output_tokens: output,
            is_end_of_turn: response.reported_stop == Some(StopReason::End),
            reached_output_limit: response.reported_stop == Some(StopReason::Length)
                || request.max_output.is_some_and(|most| output >= most),
            counted_prompt_tokens: response
                .usage
                .filter(|usage| !usage.estimated)
                .map(|usage| usage.input),
            calls: response.calls().cloned().collect(),
        };
        let found = tokio::task::spawn_blocking(move || inspection.find()).await.ok().flatten();
        Ok(match found {
            // This response was not streamed, so streaming did not break the call: the model itself
            // writes its calls this way.
            Some(Defect::BrokenCall(_))
                if !request.is_streaming && !halts.is_stream_only(model) =>
            {
                // The gateway splits calls that the server merged.
                if !response.calls().any(is_merged) {
                    halts.note_malformed_calls(model);
                }
                None
            }
            Some(Defect::BrokenCall(why)) => Some(AttemptFailure::new(FailureKind::Corrupted, why)),
            Some(Defect::EndpointProblem(why, hint)) => {
                Some(AttemptFailure::corrupted_response(why, &hint))
            }
            None => None,
        })
    }
}

/// Describes a response that ended for an unknown reason. Some proxies report such a reason for
/// their own output limit, which the response reached if it ended in a code block after a round
/// number of tokens. `max_output` is the limit that the request set.
///
/// Outside of the Gemini format, whose reasons are documented, a server may use a word of its own
/// for calls. A response with whole calls is therefore accepted.
fn describe_unknown_stop(
    checks: &EndpointChecks,
    api: Api,
    max_output: Option<u64>,
    response: &CollectedResponse,
) -> Option<AttemptFailure> {
    let word = response.reported_stop.as_ref()?.unlisted_word()?;
    if api != Api::Gemini && has_whole_calls(response) {
        return None;
    }
    let output = response.usage.map_or(0, |usage| usage.output);
    let is_capped = max_output.is_none()
        && checks.hidden_cap.is_round(output)
        && fences::has_incomplete_block(&text_or_reasoning(&response.items));
    let kind = if is_capped { FailureKind::OutputCapped } else { FailureKind::Empty };
    let why = format!("the response ended after {output} tokens with the unknown reason {word:?}");
    let hint = (api != Api::Gemini).then(|| checks.unknown_stop.hint.clone());
    Some(AttemptFailure { hint, ..AttemptFailure::new(kind, why) })
}

/// Whether a response has calls, and the arguments of each are an object or absent.
fn has_whole_calls(response: &CollectedResponse) -> bool {
    let is_whole = |call: &ToolCall| {
        let arguments = call.arguments.trim();
        let parsed = || lenient_json::parse(arguments.as_bytes());
        arguments.is_empty() || parsed().is_ok_and(|arguments| arguments.is_object())
    };
    response.calls().next().is_some() && response.calls().all(is_whole)
}

/// A problem with a response.
enum Defect {
    BrokenCall(String),
    /// The endpoint is the cause. Contains the reason, and a hint on how to fix the endpoint.
    EndpointProblem(String, String),
}

/// A response to inspect, with its request.
struct Inspection {
    checks: &'static EndpointChecks,
    api: Api,
    body: Bytes,
    /// Text of the response, or its reasoning if there is no text.
    text: String,
    calls: Vec<ToolCall>,
    output_tokens: u64,
    /// Whether the endpoint reports that the model ended the response.
    is_end_of_turn: bool,
    /// Whether an output limit cut off the response.
    reached_output_limit: bool,
    /// Prompt tokens that the endpoint counted.
    counted_prompt_tokens: Option<u64>,
}

impl Inspection {
    fn find(&self) -> Option<Defect> {
        let request = usage::parse_request(self.api, &self.body)?;
        let checks = self.checks;
        if !self.calls.is_empty() {
            let torn =
                |call| describe_corrupted_call(checks, call, &request.tools, self.output_tokens);
            let found = self.calls.iter().find_map(torn).map(Defect::BrokenCall);
            let escaped = || {
                let call =
                    self.calls.iter().find(|call| checks.escaped.is_escaped(&call.arguments))?;
                let why = format!("the arguments of a call to `{}` are HTML-escaped", call.name);
                Some(Defect::EndpointProblem(why, checks.escaped.hint.clone()))
            };
            let broken = || {
                let mut calls = self.calls.iter().filter(|_| !self.reached_output_limit);
                calls.find_map(describe_invalid_arguments).map(Defect::BrokenCall)
            };
            let trimmed = || {
                let is_trimmed = |call: &&ToolCall| checks.trimmed.is_trimmed(&call.arguments);
                let name = &self.calls.iter().find(is_trimmed)?.name;
                Some(Defect::BrokenCall(format!(
                    "the arguments of a call to `{name}` lost their spaces"
                )))
            };
            let wrapped = || {
                let is_wrapped = |call: &&ToolCall| checks.wrapped.is_wrapped(&call.arguments);
                let name = &self.calls.iter().find(is_wrapped)?.name;
                Some(Defect::BrokenCall(format!(
                    "the command in a call to `{name}` still has the quotes of JSON"
                )))
            };
            let masked = || {
                let is_requested =
                    |word: &str| memchr::memmem::find(&self.body, word.as_bytes()).is_some();
                let call = self.calls.iter().find(|call| {
                    checks.masked.count_placeholders(&call.arguments, is_requested)
                        >= checks.masked.least
                })?;
                let why = format!("parts of the arguments of a call to `{}` are masked", call.name);
                Some(Defect::EndpointProblem(why, checks.masked.hint.clone()))
            };
            let found = found.or_else(escaped).or_else(broken).or_else(trimmed);
            return found.or_else(wrapped).or_else(masked);
        }
        if self.is_end_of_turn && checks.hidden_cap.matches(self.output_tokens, &self.text) {
            let why = format!("the response stopped after {} tokens", self.output_tokens);
            return Some(Defect::EndpointProblem(why, checks.hidden_cap.hint.clone()));
        }
        let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        // A final answer may quote a call. Only a call that is the whole text, or an unquoted part
        // at the end of the text, counts as an unparsed call.
        let found = if serde_json::from_str::<Value>(&self.text).is_ok() {
            find_call_in_text(&checks.text, &self.text, &names)
        } else {
            let marked = ends_with_markup(&self.text)
                .then(|| find_call_after_marker(&checks.text, &self.text, &names));
            marked.flatten().or_else(|| find_bare_calls(&checks.text, &self.text, &names))
        };
        if let Some((why, hint)) = found {
            return Some(Defect::EndpointProblem(why, hint));
        }
        self.find_truncated_prompt(&request)
    }

    /// Reports a truncated prompt if the endpoint counted too few tokens for the whole request.
    fn find_truncated_prompt(&self, request: &Request) -> Option<Defect> {
        let checks = self.checks;
        let counted =
            self.counted_prompt_tokens.filter(|counted| *counted >= checks.cut.least_told)?;
        let ours = tokens::count_request(request);
        let is_cut =
            ours >= checks.cut.least_tokens && (counted as f64) < ours as f64 * checks.cut.share;
        let why = || {
            format!(
                "the endpoint truncated the prompt: it counted {counted} of about {ours} tokens"
            )
        };
        is_cut.then(|| Defect::EndpointProblem(why(), checks.cut.hint.clone()))
    }
}

fn ends_with_markup(text: &str) -> bool {
    let text = text.trim_end();
    let is_fenced = text.ends_with("```") && text.contains("```tool_");
    is_fenced || (text.ends_with(['>', ']', '}']) && !text.contains('`'))
}

/// Whether a call's arguments are missing or not a JSON object.
fn lacks_valid_arguments(call: &ToolCall) -> bool {
    call.arguments.contains(char::REPLACEMENT_CHARACTER)
        || serde_json::from_str::<Map<String, Value>>(&call.arguments)
            .map_or(true, |map| map.is_empty())
}

/// Describes how the server broke a call: the tool's name is changed, one character of the
/// arguments is missing, or the arguments are missing although the endpoint billed tokens for them.
fn describe_corrupted_call(
    checks: &EndpointChecks,
    call: &ToolCall,
    tools: &[Tool],
    output_tokens: u64,
) -> Option<String> {
    let (name, text) = (&call.name, call.arguments.trim());
    let is_ours = tools.iter().any(|tool| tool.name == *name);
    if let Some(tool) =
        tools.iter().find(|tool| !is_ours && is_tool_name_with_affix(&tool.name, name))
    {
        return Some(format!("a call uses the name `{name}` instead of the tool `{}`", tool.name));
    }
    // Some streams deliver a name in several chunks.
    if let Some(tool) = tools.iter().find(|tool| !is_ours && is_tool_name_prefix(&tool.name, name))
    {
        return Some(format!(
            "a call uses the name `{name}`, a prefix of the tool `{}`",
            tool.name
        ));
    }
    let is_object = |text: &str| {
        serde_json::from_str::<Map<String, Value>>(text).is_ok_and(|map| !map.is_empty())
    };
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return Some(format!("characters in the arguments of a call to `{name}` are corrupted"));
    }
    if is_object(text) {
        return None;
    }
    if matches!(text, "" | "{}") {
        let needs = |tool: &Tool| {
            tool.name == *name
                && tool.parameters["required"].as_array().is_some_and(|list| !list.is_empty())
        };
        let lost = output_tokens >= checks.torn.least_output && tools.iter().any(needs);
        return lost.then(|| format!("a call to `{name}` has no arguments"));
    }
    let repaired = [format!("{{\"{text}"), format!("{{{text}"), format!("{text}}}")];
    let is_repairable = repaired.iter().any(|text| is_object(text.as_str()))
        || text.strip_prefix("{}").is_some_and(is_object);
    is_repairable.then(|| format!("the arguments of a call to `{name}` are corrupted"))
}

/// Describes a call whose arguments even a lenient parser cannot read as a JSON object. Either the
/// stream lost parts of the arguments, or the model wrote them that way. Quotes after the object
/// come from the model and are ignored.
fn describe_invalid_arguments(call: &ToolCall) -> Option<String> {
    let text = call.arguments.trim();
    let plain = text.trim_end_matches('"');
    let is_object = |text: &str| match lenient_json::parse(text.as_bytes()) {
        Ok(Value::Object(_)) => true,
        // The object was encoded twice.
        Ok(Value::String(inner)) => serde_json::from_str::<Map<String, Value>>(&inner).is_ok(),
        _ => false,
    };
    let is_sound = text.is_empty() || is_object(text) || is_object(plain);
    (!is_sound).then(|| format!("the arguments of a call to `{}` are not JSON", call.name))
}

/// Whether `name` is a tool's name with a prefix or suffix that a proxy added: `shell_ide`,
/// `mcp__shell`.
fn is_tool_name_with_affix(tool: &str, name: &str) -> bool {
    let is_sign = |c: char| !c.is_ascii_alphanumeric();
    name.strip_prefix(tool).is_some_and(|rest| rest.starts_with(is_sign))
        || name.strip_suffix(tool).is_some_and(|rest| rest.ends_with(is_sign))
}

/// Whether `name` is only the beginning of a tool's name.
fn is_tool_name_prefix(tool: &str, name: &str) -> bool {
    !name.is_empty() && tool.len() > name.len() && tool.starts_with(name)
}

#[cfg(test)]
mod tests {
    use proctor_types::{Api, ToolCall, Usage};
    use serde_json::json;

    use super::{
        CollectedResponse, EndpointChecks, FailureKind, StopReason, Tool, describe_corrupted_call,
        describe_invalid_arguments, describe_unknown_stop, lacks_valid_arguments,
    };
    use crate::codec::neutral::Delta;

    #[test]
    fn response_with_an_unknown_stop_reason_is_unfinished() {
        let checks = EndpointChecks::shipped().expect("a valid table");
        let kind = |stop: StopReason, text: &str, output: u64, max_output: Option<u64>| {
            let usage = Usage { output, ..Usage::default() };
            let response = CollectedResponse::from_deltas(vec![
                Delta::Text(text.to_owned()),
                Delta::Stopped(stop),
                Delta::Usage(usage),
            ]);
            let kinds = [Api::Chat, Api::Messages, Api::Responses, Api::Gemini].map(|api| {
                describe_unknown_stop(checks, api, max_output, &response)
                    .map(|failure| failure.kind)
            });
            assert!(kinds.iter().all(|kind| *kind == kinds[0]), "{kinds:?}");
            kinds[0]
        };
        let other = || StopReason::Other("OTHER".to_owned());
        let (cut, whole) = ("```bash\ncat > a.py <<'E'\nx = (1)", "```bash\nls\n```");
        assert_eq!(kind(other(), cut, 4096, None), Some(FailureKind::OutputCapped));
        for (text, output, max_output) in
            [(cut, 4096, Some(32_000)), (cut, 4097, None), (whole, 4096, None), ("Done.", 9, None)]
        {
            assert_eq!(kind(other(), text, output, max_output), Some(FailureKind::Empty), "{text}");
        }
        // The model itself ended these responses, or continues them later.
        let paused = StopReason::Other("pause_turn".to_owned());
        for stop in [StopReason::End, StopReason::Length, StopReason::Refusal, paused] {
            assert_eq!(kind(stop, cut, 4096, None), None);
        }
    }

    #[test]
    fn whole_calls_are_accepted_with_any_stop_reason() {
        let checks = EndpointChecks::shipped().expect("a valid table");
        let is_accepted = |api: Api, arguments: &[&str]| {
            let calls = arguments.iter().enumerate().flat_map(|(index, text)| {
                let (id, name) = (format!("call_{index}"), "shell".to_owned());
                let text = (*text).to_owned();
                [Delta::Call { index, id, name }, Delta::Arguments { index, text }]
            });
            let stop = Delta::Stopped(StopReason::Other("other".to_owned()));
            let response = CollectedResponse::from_deltas(calls.chain([stop]).collect());
            describe_unknown_stop(checks, api, None, &response).is_none()
        };
        let whole = "{\"command\": \"ls\"}";
        for api in [Api::Chat, Api::Messages, Api::Responses] {
            assert!(is_accepted(api, &[whole]) && is_accepted(api, &[whole, ""]));
            for cut in ["{\"command\": \"l", "ls", "{"] {
                assert!(!is_accepted(api, &[cut]) && !is_accepted(api, &[whole, cut]), "{cut}");
            }
        }
        assert!(!is_accepted(Api::Gemini, &[whole]), "the format documents its reasons");
    }

    #[test]
    fn arguments_that_are_not_json_are_detected() {
        let is_broken = |arguments: &str| {
            describe_invalid_arguments(&ToolCall {
                id: "a".into(),
                name: "f".into(),
                arguments: arguments.into(),
            })
            .is_some()
        };
        for text in ["{{\"a\": 1}", "{\"a\": 1}{\"a\": 1}", "\"commandls\"", "{a: 1}"] {
            assert!(is_broken(text), "{text}");
        }
        for text in
            ["", "{}", "{\"a\": 1}", "{\"a\": 1}\"", "{\"a\": \"b\nc\"}", "\"{\\\"a\\\": 1}\""]
        {
            assert!(!is_broken(text), "{text}");
        }
    }

    #[test]
    fn model_mistakes_are_not_corrupted_calls() {
        let checks = EndpointChecks::shipped().expect("a valid table");
        let tool = |name: &str, required: &[&str]| Tool {
            name: name.into(),
            description: String::new(),
            parameters: json!({"type": "object", "required": required}),
            strict: None,
        };
        let tools = [tool("shell", &["command"]), tool("submit", &[])];
        let of = |name: &str, arguments: &str, output: u64| {
            let call = ToolCall { id: "a".into(), name: name.into(), arguments: arguments.into() };
            lacks_valid_arguments(&call)
                && describe_corrupted_call(checks, &call, &tools, output).is_some()
        };
        for text in
            ["command\": \"ls\"}", "\"command\": \"ls\"}", "{\"command\": \"ls\"", "{}{\"a\": 1}"]
        {
            assert!(of("shell", text, 20), "{text}");
        }
        assert!(of("shell", "{}", 126) && of("shell", "", 126));
        for (name, torn_name) in [
            ("shell_ide", true),
            ("proxy.shell", true),
            ("sh", true),
            ("bash", false),
            ("shells", false),
        ] {
            let call = ToolCall {
                id: "a".into(),
                name: name.into(),
                arguments: "{\"command\": \"ls\"}".into(),
            };
            assert_eq!(
                describe_corrupted_call(checks, &call, &tools, 20).is_some(),
                torn_name,
                "{name}"
            );
        }
        // The model itself wrote these arguments: few tokens were billed, no arguments are
        // required, or no single missing character would complete them.
        for (name, text, output) in [
            ("shell", "{}", 10),
            ("submit", "{}", 126),
            ("shell", "{\"command\": \"ls", 126),
            ("shell", "ls -la", 126),
            ("shell", "{\"command\": \"ls\"}", 126),
        ] {
            assert!(!of(name, text, output), "{text}");
        }
    }
}
