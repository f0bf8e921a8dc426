//! Detects from an endpoint's first responses whether it supports tools.
//!
//! Two server misconfigurations make a model look weak. Either the server drops the tool schemas,
//! or it has no parser for calls and returns them as text. Both are infrastructure faults. The
//! gateway detects them in the first response and halts the model for the run. Once the model has
//! made a call, a response with a call in its text is requested again (`defects.rs`).

use proctor_types::{Api, Fault, FaultCause, FaultLayer, RequestClass};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    TrialGateway,
    checks::{DroppedToolsCheck, EndpointChecks, UnparsedCallCheck, UnparsedCallFormat},
    codec::{
        Part, Request,
        neutral::{CollectedResponse, Item},
    },
    fences::without_code,
    outgoing_request::OutgoingRequest,
    tokens, usage,
};

/// A problem, and a hint on how to fix it.
pub(crate) type Finding = (String, String);

impl TrialGateway {
    /// Returns a fault if the response to a request with tools shows that the endpoint does not
    /// support them.
    pub(crate) async fn unsupported_tools_fault(
        &self,
        request: &OutgoingRequest,
        response: &CollectedResponse,
    ) -> Option<Fault> {
        if !request.offers_tools || request.is_grace || request.class != RequestClass::Main {
            return None;
        }
        let (model, halts) = (&self.route().model, &self.route().halts);
        if model.tool_check == Some(false) {
            return None;
        }
        if response.calls().next().is_some() {
            halts.note_call(model);
            return None;
        }
        if halts.has_returned_call(model) {
            return None;
        }
        let checks = match EndpointChecks::shipped() {
            Ok(checks) => checks,
            Err(fault) => return Some(fault),
        };
        let (api, body) = (model.api, request.body.clone());
        let reported = response.usage.map(|usage| usage.input);
        let text = text_or_reasoning(&response.items);
        // Run this off the async threads, because parsing a long conversation takes many
        // milliseconds.
        let found =
            tokio::task::spawn_blocking(move || find_problem(checks, api, &body, &text, reported));
        let (what, hint) = found.await.ok()??;
        let (base, name) = (self.route().endpoint.base_url(), &model.name);
        let what = self.route().endpoint.redact_text(&format!("{base}: model `{name}`: {what}"));
        let fault = Fault::new(FaultLayer::Model, what).hint(hint).cause(FaultCause::Refused);
        halts.halt_tools(model, &fault);
        Some(fault)
    }
}

/// The tools of a request in any format.
#[derive(Debug, Deserialize)]
struct OfferedTools {
    tools: Vec<Value>,
}

/// Returns the names of the tools that a request offers.
pub(crate) fn offered_tools(request: &[u8]) -> Vec<String> {
    let Ok(OfferedTools { tools }) = serde_json::from_slice(request) else { return Vec::new() };
    let places = tools.iter().flat_map(|tool| {
        let declared = tool["functionDeclarations"].as_array().into_iter().flatten();
        [tool, &tool["function"]].into_iter().chain(declared)
    });
    places.filter_map(|place| place["name"].as_str().map(ToOwned::to_owned)).collect()
}

/// Whether a string contains a special token, or the start of a call without a marker to one of the
/// tools, outside of code. `tools` is called only if a line looks like a call, because requests are
/// long.
pub(crate) fn has_leftover_markup(
    checks: &EndpointChecks,
    text: &str,
    tools: impl FnOnce() -> Vec<String>,
) -> bool {
    let text = without_code(text);
    if checks.leftover.tokens.matches(&text) {
        return true;
    }
    let lines: Vec<&str> =
        text.lines().filter(|line| may_be_bare_call(&checks.text, line)).collect();
    if lines.is_empty() {
        return false;
    }
    let tools = tools();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    lines.into_iter().any(|line| bare_call(&checks.text, line, &tools).is_some())
}

fn find_problem(
    checks: &EndpointChecks,
    api: Api,
    body: &[u8],
    text: &str,
    reported_tokens: Option<u64>,
) -> Option<Finding> {
    let request = usage::parse_request(api, body)?;
    let made_before = |part: &Part| matches!(part, Part::Call(_));
    // Skip the check if the conversation already contains calls: a resumed conversation shows that
    // the endpoint supports tools.
    if request.turns.iter().flat_map(|turn| &turn.parts).any(made_before) {
        return None;
    }
    let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    find_call_in_text(&checks.text, text, &names)
        .or_else(|| find_dropped_tools(&checks.dropped, request, reported_tokens?))
}

/// Detects dropped tools: the reported prompt tokens roughly match the conversation without tools.
fn find_dropped_tools(
    check: &DroppedToolsCheck,
    mut request: Request,
    reported_count: u64,
) -> Option<Finding> {
    let seen = |part: &Part| matches!(part, Part::Image(_) | Part::Media(_));
    // Each vendor counts images differently.
    if request.turns.iter().flat_map(|turn| &turn.parts).any(seen) {
        return None;
    }
    let schemas = tokens::count_tools(&request.tools);
    if schemas < check.least_schema_tokens {
        return None;
    }
    request.tools.clear();
    let conversation = tokens::count_request(&request);
    let share = |tokens: u64, share: f64| tokens as f64 * share;
    let least = share(conversation, check.least_share);
    let with_tools =
        share(conversation, check.conversation_share) + share(schemas, check.schema_share);
    let reported_tokens = reported_count as f64;
    (reported_tokens >= least && reported_tokens < with_tools).then(|| {
        let what = format!(
            "the endpoint dropped the tools of the request: it counted {reported_count} prompt tokens, but \
             the conversation has about {conversation} and the tools about {schemas} more"
        );
        (what, check.hint.clone())
    })
}

/// Returns the text of a response, or its reasoning if there is no text. Some servers parse calls
/// only in the text, so unparsed calls may be in the reasoning.
pub(crate) fn text_or_reasoning(items: &[Item]) -> String {
    let said = items.iter().filter_map(|item| match item {
        Item::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let said: String = said.collect();
    if !said.trim().is_empty() {
        return said;
    }
    let thought = items.iter().filter_map(|item| match item {
        Item::Reasoning(thought) => Some(thought.text.as_str()),
        _ => None,
    });
    thought.collect()
}

/// Finds a call to an offered tool in a string.
pub(crate) fn find_call_in_text(
    check: &UnparsedCallCheck,
    text: &str,
    tools: &[&str],
) -> Option<Finding> {
    let found =
        match_marked_call(check, text, tools).or_else(|| match_bare_calls(check, text, tools));
    let found = found.map(|(form, tool)| (Some(form), tool));
    let (form, tool) = found.or_else(|| Some((None, tool_in_json_line(check, text, tools)?)))?;
    Some(finding(check, form, tool))
}

/// Finds a call to an offered tool after a marker in a string.
pub(crate) fn find_call_after_marker(
    check: &UnparsedCallCheck,
    text: &str,
    tools: &[&str],
) -> Option<Finding> {
    let (form, tool) = match_marked_call(check, text, tools)?;
    Some(finding(check, Some(form), tool))
}

/// Finds calls without a marker that make up a string or its end.
pub(crate) fn find_bare_calls(
    check: &UnparsedCallCheck,
    text: &str,
    tools: &[&str],
) -> Option<Finding> {
    let (form, tool) = match_bare_calls(check, text, tools)?;
    Some(finding(check, Some(form), tool))
}

fn match_bare_calls<'a, 'b>(
    check: &'a UnparsedCallCheck,
    text: &str,
    tools: &[&'b str],
) -> Option<(&'a UnparsedCallFormat, &'b str)> {
    let text = text.trim();
    line_starts(check, text).find_map(|at| {
        let (form, tool, _) = bare_call(check, &text[at..], tools)?;
        let is_quoted = text[..at].matches("```").count() % 2 == 1;
        let is_end = !is_quoted && consists_of_bare_calls(check, &text[at..], tools);
        is_end.then_some((form, tool))
    })
}

/// Whether a string begins like a call without a marker, to a tool of any name.
fn may_be_bare_call(check: &UnparsedCallCheck, text: &str) -> bool {
    check.bare.iter().filter_map(|form| text.strip_prefix(form.marker.as_str())).any(|call| {
        let rest = call.trim_start_matches(is_name_character);
        rest.len() < call.len() && rest.starts_with(['{', '('])
    })
}

/// If a string begins with a call without a marker, returns the form, the tool, and the text from
/// the call's opening bracket on.
fn bare_call<'a, 'b, 'c>(
    check: &'a UnparsedCallCheck,
    text: &'c str,
    tools: &[&'b str],
) -> Option<(&'a UnparsedCallFormat, &'b str, &'c str)> {
    check.bare.iter().find_map(|form| {
        let call = text.strip_prefix(form.marker.as_str())?;
        tools.iter().copied().find_map(|tool| {
            let arguments = call.strip_prefix(tool)?;
            arguments.starts_with(['{', '(']).then_some((form, tool, arguments))
        })
    })
}

/// Whether a string consists of calls without a marker and nothing else. Arguments may contain
/// unbalanced brackets: they then extend to the end of the text.
fn consists_of_bare_calls(check: &UnparsedCallCheck, text: &str, tools: &[&str]) -> bool {
    let mut rest = text;
    while let Some((_, _, arguments)) = bare_call(check, rest, tools) {
        let Some(end) = bracket_end(arguments) else { return arguments.ends_with(['}', ')']) };
        rest = arguments[end..].trim_start();
    }
    rest.is_empty()
}

/// Returns the end of the bracketed part at the start of a string, or `None` if the bracket is not
/// closed.
fn bracket_end(text: &str) -> Option<usize> {
    let close = if text.starts_with('{') { '}' } else { ')' };
    let open = text.chars().next()?;
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, one)| {
        if one == open {
            depth += 1;
        } else if one == close {
            depth -= 1;
        }
        (depth == 0).then_some(at + 1)
    })
}

fn match_marked_call<'a, 'b>(
    check: &'a UnparsedCallCheck,
    text: &str,
    tools: &[&'b str],
) -> Option<(&'a UnparsedCallFormat, &'b str)> {
    let fits = |form: &&UnparsedCallFormat| {
        form.with.as_ref().is_none_or(|word| text.contains(word.as_str()))
    };
    check.form.iter().filter(fits).find_map(|form| {
        let rests = text.match_indices(form.marker.as_str());
        let mut rests = rests.map(|(at, marker)| &text[at + marker.len()..]);
        let tool = rests.find_map(|rest| tool_after_marker(check, rest, tools))?;
        Some((form, tool))
    })
}

fn finding(
    check: &UnparsedCallCheck,
    call_format: Option<&UnparsedCallFormat>,
    tool: &str,
) -> Finding {
    let shown = match call_format {
        Some(form) if form.marker.is_empty() => "NAME(...)",
        Some(form) => form.marker.as_str(),
        None => "JSON",
    };
    let parser = |of: fn(&UnparsedCallFormat) -> &Option<String>| {
        call_format.and_then(|form| of(form).as_deref()).unwrap_or("NAME")
    };
    let hint = check
        .hint
        .replace("{vllm}", parser(|form| &form.vllm))
        .replace("{sglang}", parser(|form| &form.sglang));
    let what = format!("the endpoint returned a call to the tool `{tool}` as text ({shown})");
    (what, hint)
}

/// Returns the tool that is called after a marker. Arguments that are not JSON are the model's
/// mistake: even a server with a parser returns such a call as text.
fn tool_after_marker<'a>(
    check: &UnparsedCallCheck,
    text: &str,
    tools: &[&'a str],
) -> Option<&'a str> {
    let inner = text.trim_start();
    if inner.starts_with(['{', '[']) {
        return called_tool(check, &first_value(inner)?, tools);
    }
    let end = text.char_indices().nth(check.reach).map_or(text.len(), |(at, _)| at);
    let near = &text[..end];
    tools.iter().copied().find(|tool| has_word(near, tool))
}

/// Returns the tool that is called by JSON at the start of a line.
fn tool_in_json_line<'a>(
    check: &UnparsedCallCheck,
    text: &str,
    tools: &[&'a str],
) -> Option<&'a str> {
    let rests = line_starts(check, text).map(|at| text[at..].trim_start());
    let mut json = rests.filter(|rest| rest.starts_with(['{', '[']));
    json.find_map(|rest| called_tool(check, &first_value(rest)?, tools))
}

/// Returns the offsets of the lines in which a call is searched.
fn line_starts(check: &UnparsedCallCheck, text: &str) -> impl Iterator<Item = usize> {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    starts.take(check.lines)
}

/// Returns the JSON value at the start of a string.
fn first_value(text: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(text).into_iter::<Value>().next()?.ok()
}

/// Returns the tool that a value calls.
fn called_tool<'a>(check: &UnparsedCallCheck, value: &Value, tools: &[&'a str]) -> Option<&'a str> {
    match value {
        Value::Array(items) => items.iter().find_map(|item| called_tool(check, item, tools)),
        Value::Object(fields) => {
            let argued = check.argument_keys.iter().any(|key| fields.contains_key(key));
            let named = || check.name_keys.iter().find_map(|key| fields.get(key)?.as_str());
            let name = if argued { named() } else { None };
            let tool = name.and_then(|name| {
                let prefixes = check.name_prefixes.iter();
                let bare = prefixes
                    .fold(name, |name, prefix| name.strip_prefix(prefix.as_str()).unwrap_or(name));
                tools.iter().copied().find(|tool| *tool == bare)
            });
            let mut wrapped = check.wrapper_keys.iter();
            tool.or_else(|| wrapped.find_map(|key| called_tool(check, fields.get(key)?, tools)))
        }
        _ => None,
    }
}

/// Whether a word occurs in a string as a whole word.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_name_character) && !after.is_some_and(is_name_character)
    })
}

/// Whether a character may be part of a tool's name.
fn is_name_character(one: char) -> bool {
    one.is_ascii_alphanumeric() || one == '_' || one == '-'
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        find_bare_calls, find_call_in_text, find_dropped_tools, find_problem, has_leftover_markup,
        offered_tools,
    };
    use crate::{
        checks::EndpointChecks,
        codec::{Part, Request, Role, neutral::Tool, neutral::Turn},
    };
    use proctor_types::Api;

    const TOOLS: [&str; 2] = ["shell", "str_replace_edit"];

    #[test]
    fn calls_in_text_are_detected_in_many_formats() {
        let check = &EndpointChecks::shipped().expect("a valid table").text;
        let found = |text: &str| find_call_in_text(check, text, &TOOLS);
        for (text, parser) in [
            (
                "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>",
                "hermes",
            ),
            ("Let me look.\n<tool_call>{\"name\":\"shell\",\"arguments\":{}}", "hermes"),
            (
                "<tool_call>\n<function=shell>\n<parameter=command>\nls\n</parameter>\n</function>",
                "qwen3_coder",
            ),
            ("<function=shell>{\"command\": \"ls\"}</function>", "qwen3_coder"),
            ("<tool_call>shell\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>", "glm45"),
            (
                "[TOOL_CALLS][{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}]",
                "mistral",
            ),
            ("[TOOL_CALLS]shell[ARGS]{\"command\": \"ls\"}", "mistral"),
            ("```tool_code\nprint(shell(command='ls'))\n```", "pythonic"),
            (
                "<|python_tag|>{\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}",
                "llama3_json",
            ),
            (
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>shell\n```json\n{}\n```",
                "deepseek_v3",
            ),
            ("<|tool_call_begin|>functions.shell:0<|tool_call_argument_begin|>{}", "kimi_k2"),
            ("<|channel|>commentary to=functions.shell <|constrain|>json<|message|>{}", "openai"),
            ("<function_calls>\n<invoke name=\"str_replace_edit\">", "minimax_m2"),
            ("{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}", "NAME"),
            (
                "I list the files.\n```json\n{\"name\": \"shell\", \"parameters\": {}}\n```\n",
                "NAME",
            ),
            ("[{\"name\": \"functions.shell\", \"args\": {}}]", "NAME"),
            (
                "{\"tool_calls\": [{\"function\": {\"name\": \"shell\", \"arguments\": \"{}\"}}]}",
                "NAME",
            ),
        ] {
            let (what, hint) = found(text).unwrap_or_else(|| panic!("{text}"));
            assert!(what.contains("as text"), "{what}");
            assert!(
                hint.contains(&format!("--tool-call-parser {parser}`; SGLang")),
                "{text}: {hint}"
            );
            assert!(hint.contains("scaffold = \"bash\"") && hint.contains("--jinja"), "{hint}");
        }
        for text in [
            "",
            "I cannot do that.",
            "The shell is at the end of its life.",
            "Use `<tool_call>` with care.",
            // The request does not offer this tool.
            "<tool_call>{\"name\": \"weather\", \"arguments\": {}}</tool_call>",
            "<tool_call>{\"name\": \"shell_2\", \"arguments\": {}}</tool_call>",
            "{\"name\": \"shell\"}",
            "{\"name\": \"shell\", \"version\": 3}",
            // The model's own mistakes.
            "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls}\n</tool_call>",
            "{\"name\": \"shell\", \"arguments\": {\"command\": ",
            "a dict `{\"name\": \"shell\", \"arguments\": {}}` within a line",
        ] {
            assert!(found(text).is_none(), "{text}");
        }
    }

    #[test]
    fn bare_calls_are_found_only_at_the_end_of_text() {
        let check = &EndpointChecks::shipped().expect("a valid table").text;
        for (text, parser) in [
            ("call:shell{command:ls -la,timeout:null}", "gemma4"),
            (
                "I look.\n\ncall:shell{command:ls}call:shell{command:echo '{',timeout:null}",
                "gemma4",
            ),
            ("shell{\"command\": \"ls\"}\nshell{\"command\": \"pwd\"}\n", "NAME"),
            ("functions.shell(command=\"ls (a)\")", "NAME"),
            ("<|tool_call>call:shell{command:<|\"|>ls<|\"|>}<tool_call|>", "gemma4"),
        ] {
            let (what, hint) =
                find_call_in_text(check, text, &TOOLS).unwrap_or_else(|| panic!("{text}"));
            assert!(what.contains("tool `shell` as text"), "{what}");
            assert!(hint.contains(&format!("--tool-call-parser {parser}`; SGLang")), "{hint}");
        }
        for text in [
            "My template writes `call:shell{command:ls}`",
            "Send this:\n```\ncall:shell{command:ls}\n```",
            "Send this:\n```\nshell(command='ls')",
            "Send this:\n\n    shell(command='ls')",
            "shell(command='ls') lists the files (and folders)",
            "call:shell{command:ls} is how I list files.",
            "call:weather{city:Rome}",
            "shell_2(command='ls')",
            "shell (of an egg)",
        ] {
            assert!(find_bare_calls(check, text, &TOOLS).is_none(), "{text}");
        }
    }

    #[test]
    fn leftover_markup_is_detected_outside_of_code() {
        let checks = EndpointChecks::shipped().expect("a valid table");
        let names = || TOOLS.map(ToOwned::to_owned).to_vec();
        let found = |text: &str| has_leftover_markup(checks, text, names);
        for text in [
            "<|channel>thought\nI list the files.<channel|>",
            "I look.<|im_start|>assistant",
            "[TOOL_CALLS]bash[ARGS]{\"command\": \"ls",
            "<｜tool▁calls▁begin｜>",
            "I look.\nshell(command='ls') and then more",
            "```bash\nls\n```\ncall:shell{command:ls",
        ] {
            assert!(found(text), "{text}");
        }
        for text in [
            "",
            "I could not find out how numerals are read. I stop.",
            "The tokenizer adds `<|im_end|>` and `[TOOL_CALLS]`.",
            "```text\n<|channel|>final<|message|>\nshell(command='ls')\n```",
            "Call `shell(command='ls')` to list the files.",
            "The tool shell(command) lists files.",
            "F# writes `f <| x`, so a <| b |> c is valid, too.",
            "def f(): return a <b> c | d",
        ] {
            assert!(!found(text), "{text}");
        }
        let is_unread = |text: &str| !has_leftover_markup(checks, text, || panic!("{text}"));
        assert!(is_unread("I look.") && is_unread("The tool shell(command) lists files."));
        assert!(!has_leftover_markup(checks, "print('a')", names), "no tool has this name");
    }

    #[test]
    fn offered_tools_are_read_in_every_format() {
        for body in [
            json!({"tools": [{"type": "function", "function": {"name": "shell"}}]}),
            json!({"tools": [{"type": "function", "name": "shell", "parameters": {"name": {}}}]}),
            json!({"tools": [{"name": "shell", "input_schema": {"type": "object"}}]}),
            json!({"tools": [{"functionDeclarations": [{"name": "shell"}]}]}),
        ] {
            assert_eq!(offered_tools(body.to_string().as_bytes()), ["shell"], "{body}");
        }
        for body in [json!({"messages": [{"name": "shell"}]}), json!({"tools": []}), json!([])] {
            assert!(offered_tools(body.to_string().as_bytes()).is_empty(), "{body}");
        }
    }

    fn request(words: usize) -> Request {
        let text = Part::Text("word ".repeat(words));
        let tool = |name: &str| Tool {
            name: name.into(),
            description: "Runs a command and returns what it prints. ".repeat(10),
            parameters: json!({"type": "object", "properties": {"command": {"type": "string",
                "description": "What is run by the shell of the sandbox. ".repeat(10)}}}),
            strict: None,
        };
        Request {
            turns: vec![Turn::new(Role::User, vec![text])],
            tools: TOOLS.into_iter().map(tool).collect(),
            ..Request::default()
        }
    }

    #[test]
    fn dropped_tools_are_detected_from_the_prompt_count() {
        let check = &EndpointChecks::shipped().expect("a valid table").dropped;
        let words = 1000;
        let (all, alone) = {
            let mut bare = request(words);
            let all = crate::tokens::count_request(&bare);
            bare.tools.clear();
            (all, crate::tokens::count_request(&bare))
        };
        assert!(all - alone > 300, "{all} {alone}");
        let found = |reported: u64| find_dropped_tools(check, request(words), reported).is_some();
        assert!(found(alone) && found(alone + 10) && found(alone - alone / 20));
        // The endpoint counted the schemas: in full, by half, or with a tokenizer that counts fewer
        // or more tokens.
        let half = (all - alone) / 2;
        assert!(!found(all) && !found(alone + half) && !found(all * 13 / 10));
        assert!(!found((alone + half) * 97 / 100));
        // Counts that don't measure the whole prompt are not evidence of dropped tools: a fixed
        // number, or only uncached tokens.
        assert!(!found(100) && !found(0) && !found(alone / 2));
        let mut few = request(words);
        few.tools.truncate(1);
        few.tools[0].description.clear();
        few.tools[0].parameters = json!({"type": "object"});
        assert!(find_dropped_tools(check, few, alone).is_none(), "a short schema proves nothing");
    }

    #[test]
    fn conversation_with_calls_proves_tool_support() {
        let checks = EndpointChecks::shipped().expect("a valid table");
        let function = json!({"name": "shell", "description": "Runs.", "parameters": {}});
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": function}]});
        let text = "<tool_call>{\"name\": \"shell\", \"arguments\": {}}</tool_call>";
        let found = |body: &Value| {
            let body = body.to_string();
            find_problem(checks, Api::Chat, body.as_bytes(), text, Some(10)).is_some()
        };
        assert!(found(&body));
        let call = json!({"id": "c", "type": "function",
            "function": {"name": "shell", "arguments": "{}"}});
        let more = json!([{"role": "user", "content": "hi"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "x"}]);
        body["messages"] = more;
        assert!(!found(&body));
    }
}
