//! Reads `configs/tables/endpoint-checks.toml`.

use proctor_types::{Fault, FaultLayer, ShippedTable};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{anomalies::AnomalyCheck, fences, patterns::Patterns};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointChecks {
    pub input: InputCountCheck,
    pub output: OutputCountCheck,
    pub dropped: DroppedToolsCheck,
    pub text: UnparsedCallCheck,
    pub torn: LostArgumentsCheck,
    pub cut: TruncatedPromptCheck,
    pub length: LengthCheck,
    pub escaped: EscapedArgumentsCheck,
    pub replay: ReplayCheck,
    pub error_text: ErrorTextCheck,
    pub hidden_cap: HiddenCapCheck,
    pub trimmed: TrimmedArgumentsCheck,
    pub indentation: LostIndentationCheck,
    pub misdecoded: MisdecodedTextCheck,
    pub doubled: DoubledDeltasCheck,
    pub unfinished: UnfinishedResponseCheck,
    pub unknown_stop: UnknownStopCheck,
    pub stop_string: StopStringCheck,
    pub echoed_prompt: EchoedPromptCheck,
    pub applied_edits: AppliedEditsCheck,
    pub lost_content: LostContentCheck,
    pub added_prompt: AddedPromptCheck,
    pub wrapped: WrappedArgumentsCheck,
    pub undecoded: UndecodedTextCheck,
    pub masked: MaskedOutputCheck,
    pub run_of_one: RepeatedCharacterCheck,
    pub end_token: EndTokenCheck,
    pub thought_answer: AnswerAsReasoningCheck,
    pub hollow: HollowResponseCheck,
    pub leftover: LeftoverMarkupCheck,
    pub reported_usage: ReportedUsageCheck,
    pub anomalies: AnomalyCheck,
}

/// Detects token counts that exceed what a trial's requests and responses contain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportedUsageCheck {
    pub tokenizer_factor: f64,
    pub factor: f64,
    pub overhead: u64,
    pub cached_tolerance: f64,
    pub output_overhead: u64,
    pub hint: String,
}

/// Detects a response without any output for which the endpoint counted output tokens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HollowResponseCheck {
    pub least_output: u64,
    pub hint: String,
}

/// Detects special tokens that a server left in the text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeftoverMarkupCheck {
    pub tokens: Patterns,
}

/// Finds end-of-text tokens that a server failed to remove, and text after them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndTokenCheck {
    pub tokens: Vec<String>,
    /// How the next turn in a conversation begins.
    pub next_turns: Vec<String>,
}

/// Detects a server that returned the text of a non-thinking model as reasoning.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerAsReasoningCheck {
    pub off: Vec<String>,
    pub hint: String,
}

/// Detects a proxy that trimmed whitespace from each chunk of a call's arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrimmedArgumentsCheck {
    pub least_letters: usize,
}

/// Detects a stream that lost the indentation of code.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LostIndentationCheck {
    /// Lines that open a block of code.
    pub block_starts: Patterns,
    pub least: usize,
}

/// Detects text that was decoded with the wrong encoding.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MisdecodedTextCheck {
    pub least: usize,
}

/// Detects a stream in which each piece of the text was sent twice.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DoubledDeltasCheck {
    pub least: usize,
    pub least_distinct: usize,
}

/// Detects a response that was cut off, because it lacks a stop reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnfinishedResponseCheck {
    pub hint: String,
}

/// Detects a response that ended for a reason that `configs/tables/stop-words.toml` does not list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnknownStopCheck {
    pub hint: String,
}

/// Detects a server that stopped at a string that the request did not set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopStringCheck {
    /// The fields of a request that set stop strings.
    pub settings: Vec<String>,
}

/// Detects a response that contains the prompt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EchoedPromptCheck {
    pub least_bytes: usize,
    pub bytes_per_token: u64,
    pub hint: String,
}

/// Detects a gateway that edits the conversation before the model receives it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppliedEditsCheck {
    pub hint: String,
}

/// Detects a proxy that replaced the prompt with a placeholder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LostContentCheck {
    pub marks: Vec<String>,
}

/// Detects an endpoint that added another conversation to a trial's first prompt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddedPromptCheck {
    pub similar: f64,
    pub least: u64,
    pub factor: f64,
    pub least_bytes_per_token: f64,
    pub most_bytes_per_token: f64,
}

/// Detects a stream parser that left commands in the form of JSON strings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrappedArgumentsCheck {
    pub names: Vec<String>,
}

/// Detects a server that did not decode byte-level tokens, so that marks such as `\u{120}` appear
/// in place of blanks and newlines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UndecodedTextCheck {
    pub marks: String,
    pub least: usize,
    pub least_in_call: usize,
    pub hint: String,
}

/// Detects a guardrail that masked parts of the model's output.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MaskedOutputCheck {
    pub placeholders: Vec<String>,
    pub least: usize,
    pub hint: String,
}

/// Detects a response that consists of, or ends with, one repeated character.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RepeatedCharacterCheck {
    pub least_whole: usize,
    pub least_guarded: usize,
    pub hint: String,
}

/// Detects a proxy that HTML-escaped a call's arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EscapedArgumentsCheck {
    pub entities: Vec<String>,
    pub least: usize,
    pub hint: String,
}

/// Detects a cache that returned an earlier response.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayCheck {
    pub hint: String,
}

/// Detects a proxy that returned its own error as the model's text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorTextCheck {
    pub most_bytes: usize,
    pub starts: Vec<String>,
    pub models: Vec<String>,
    pub hint: String,
}

/// Detects a response that ended at an output limit that the server does not report.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HiddenCapCheck {
    pub least_tokens: u64,
    pub multiples: Vec<u64>,
    pub hint: String,
}

/// Detects a call that lost its arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LostArgumentsCheck {
    pub least_output: u64,
}

/// Detects an endpoint that truncated the prompt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TruncatedPromptCheck {
    pub least_tokens: u64,
    pub least_told: u64,
    pub share: f64,
    pub least_growth: usize,
    pub new_part_factor: f64,
    pub new_part_share: f64,
    pub fallen_share: f64,
    pub noise: f64,
    pub stalled_share: f64,
    pub hint: String,
    pub results_hint: String,
}

/// Detects a response that ended at the server's own output limit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LengthCheck {
    pub explicit_limit: u64,
    pub share: f64,
    pub least_window: u64,
    pub window_share: f64,
    pub least_own: u64,
    pub hint: String,
}

/// Detects an implausible input token count.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputCountCheck {
    pub tokens_per_byte: u64,
    pub least_tokens: u64,
}

/// Detects an implausible output token count.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutputCountCheck {
    pub bytes_per_token: u64,
    pub factor: u64,
}

/// Detects an endpoint that dropped a request's tools.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DroppedToolsCheck {
    pub least_schema_tokens: u64,
    pub conversation_share: f64,
    pub schema_share: f64,
    pub least_share: f64,
    pub fall_factor: f64,
    pub hint: String,
}

/// Detects a call that the server left in the text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnparsedCallCheck {
    pub reach: usize,
    pub lines: usize,
    pub name_keys: Vec<String>,
    pub argument_keys: Vec<String>,
    pub wrapper_keys: Vec<String>,
    pub name_prefixes: Vec<String>,
    pub hint: String,
    pub form: Vec<UnparsedCallFormat>,
    /// Calls without a marker. `marker` is what may precede the tool's name.
    pub bare: Vec<UnparsedCallFormat>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnparsedCallFormat {
    pub marker: String,
    /// A string that the text must also contain.
    #[serde(default)]
    pub with: Option<String>,
    /// The name of vLLM's parser for this format.
    #[serde(default)]
    pub vllm: Option<String>,
    /// The name of SGLang's parser for this format.
    #[serde(default)]
    pub sglang: Option<String>,
}

impl EndpointChecks {
    /// Returns the built-in table. A test checks that it is valid.
    pub(crate) fn shipped() -> Result<&'static Self, Fault> {
        static SHIPPED: ShippedTable<EndpointChecks> = ShippedTable::new(
            "tables/endpoint-checks.toml",
            include_str!("../../../configs/tables/endpoint-checks.toml"),
        );
        SHIPPED.get().map_err(|what| Fault::new(FaultLayer::Model, what))
    }
}

impl EscapedArgumentsCheck {
    /// Whether a call's arguments contain a character that HTML would escape.
    pub(crate) fn has_html_characters(&self, arguments: &str) -> bool {
        if arguments.contains(['<', '>']) || arguments.contains("\\\"") {
            return true;
        }
        let begins = |rest: &str| self.entities.iter().any(|entity| rest.starts_with(entity));
        arguments.match_indices('&').any(|(at, _)| !begins(&arguments[at..]))
    }

    /// Whether a call's arguments contain HTML entities but none of the characters that the
    /// entities represent.
    pub(crate) fn is_escaped(&self, arguments: &str) -> bool {
        let entities: usize =
            self.entities.iter().map(|entity| arguments.matches(entity.as_str()).count()).sum();
        entities >= self.least && !self.has_html_characters(arguments)
    }
}

impl TrimmedArgumentsCheck {
    /// Whether long arguments contain no spaces. Text in languages without spaces between words is
    /// not affected, because it contains few ASCII letters.
    pub(crate) fn is_trimmed(&self, arguments: &str) -> bool {
        let letters = || arguments.bytes().filter(u8::is_ascii_alphabetic).count();
        arguments.len() >= self.least_letters
            && !arguments.contains(' ')
            && letters() >= self.least_letters
    }
}

impl WrappedArgumentsCheck {
    /// Whether a call's command is a JSON string with several words. The name of a program may be
    /// in quotes, but not a program with its arguments.
    pub(crate) fn is_wrapped(&self, arguments: &str) -> bool {
        // Don't parse arguments in which no value starts with a quotation mark.
        if !arguments.contains("\"\\\"") {
            return false;
        }
        let Ok(fields) = serde_json::from_str::<Map<String, Value>>(arguments) else {
            return false;
        };
        let mut values = self.names.iter().filter_map(|name| fields.get(name)?.as_str());
        values.any(|value| {
            serde_json::from_str::<String>(value)
                .is_ok_and(|command| command.trim().contains(char::is_whitespace))
        })
    }
}

impl UndecodedTextCheck {
    /// Whether a response's text contains byte-level marks in place of all its blanks and newlines.
    pub(crate) fn is_undecoded(&self, text: &str) -> bool {
        self.has_only_marks(text, self.least)
    }

    /// Whether a call's arguments contain byte-level marks in place of all their blanks and
    /// newlines.
    pub(crate) fn is_undecoded_call(&self, arguments: &str) -> bool {
        // Arguments with marks outside of strings are not valid JSON.
        let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok();
        self.has_only_marks(arguments, self.least_in_call)
            || (self.has_only_marks(arguments, 1) && !is_json())
    }

    fn has_only_marks(&self, text: &str, least: usize) -> bool {
        let text = text.trim();
        let is_mark = |one: &char| self.marks.contains(*one);
        !text.contains([' ', '\n']) && text.chars().filter(is_mark).count() >= least
    }
}

impl MaskedOutputCheck {
    /// Counts the masking placeholders in the arguments that do not also occur in the request.
    pub(crate) fn count_placeholders(
        &self,
        arguments: &str,
        is_requested: impl Fn(&str) -> bool,
    ) -> usize {
        if !arguments.contains('<') {
            return 0;
        }
        let new = self.placeholders.iter().filter(|word| !is_requested(word));
        new.map(|word| arguments.matches(word.as_str()).count()).sum()
    }
}

impl DroppedToolsCheck {
    /// Whether a number of missing tokens is about the number of tokens in the tools' schemas.
    pub(crate) fn matches_schemas(&self, missing_tokens: f64, schema_tokens: u64) -> bool {
        let schemas = schema_tokens as f64;
        schema_tokens >= self.least_schema_tokens
            && missing_tokens >= schemas / self.fall_factor
            && missing_tokens <= schemas * self.fall_factor
    }
}

impl RepeatedCharacterCheck {
    /// Describes the defect if a string consists of one repeated character.
    pub(crate) fn describe_single_character(&self, text: &str) -> Option<String> {
        let text = text.trim();
        let first = text.chars().next()?;
        let run = text.chars().take_while(|one| *one == first).count();
        let is_whole = run >= self.least_whole
            && text.len() == run * first.len_utf8()
            && !first.is_ascii_digit();
        is_whole.then(|| format!("the response consists of `{first}` repeated {run} times"))
    }

    /// Describes the defect if a string ends with one repeated character inside an open code fence.
    pub(crate) fn describe_guarded_run(&self, text: &str) -> Option<String> {
        let text = text.trim();
        let last = text.chars().next_back()?;
        let run = text.chars().rev().take_while(|one| *one == last).count();
        let is_open = text.matches("```").count() % 2 == 1;
        let is_guarded =
            run >= self.least_guarded && is_open && !last.is_alphanumeric() && last != '`';
        is_guarded.then(|| format!("the response ended after repeating `{last}` {run} times"))
    }
}

impl EndTokenCheck {
    /// Removes end-of-text tokens from the end of a string. Returns whether any were removed.
    pub(crate) fn strip_end_tokens(&self, text: &mut String) -> bool {
        let before = text.len();
        loop {
            let end = text.trim_end();
            let mut tokens = self.tokens.iter().filter(|token| !closes_element(end, token));
            let rest = tokens.find_map(|token| end.strip_suffix(token.as_str()));
            let Some(length) = rest.map(str::len) else { break };
            text.truncate(length);
        }
        text.len() < before
    }

    /// Removes the turns that follow the model's own turn, because the server did not stop at its
    /// end. Returns whether any were removed.
    pub(crate) fn strip_next_turns(&self, text: &mut String) -> bool {
        let ends = self.tokens.iter().filter_map(|token| {
            let mut places = text.match_indices(token.as_str()).map(|(at, _)| at);
            places.find(|at| self.ends_turn(&text[..*at], &text[at + token.len()..]))
        });
        let Some(end) = ends.min() else { return false };
        text.truncate(end);
        true
    }

    /// Whether an end-of-text token between the two pieces of text is followed by another turn.
    /// Ignores a token that the model quotes.
    fn ends_turn(&self, before: &str, after: &str) -> bool {
        let after = after.trim_start();
        self.next_turns.iter().any(|header| after.starts_with(header.as_str()))
            && !before.trim().is_empty()
            && !ends_in_quotation(before)
    }
}

/// Whether the text ends in a code block, in a quotation, or in the middle of a sentence.
fn ends_in_quotation(text: &str) -> bool {
    // A line that begins with backticks may be a fence.
    let line = text.rsplit('\n').next().unwrap_or_default().trim_start_matches('`');
    let opens = |quote: char| line.matches(quote).count() % 2 == 1;
    let is_mid_sentence = line.ends_with(' ') && !line.trim().is_empty();
    is_mid_sentence || opens('"') || opens('`') || fences::has_incomplete_block(text)
}

/// Whether the token closes an element in the text, as `</s>` does in HTML.
fn closes_element(text: &str, token: &str) -> bool {
    token.strip_prefix("</").is_some_and(|name| text.contains(&format!("<{name}")))
}

impl AnswerAsReasoningCheck {
    /// Whether a request turns thinking off. `body` is JSON without whitespace.
    pub(crate) fn disables_thinking(&self, body: &[u8]) -> bool {
        self.off.iter().any(|words| memchr::memmem::find(body, words.as_bytes()).is_some())
    }
}

impl ErrorTextCheck {
    /// Whether a string begins like a proxy's error.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let text = text.trim_start_matches(|one: char| !one.is_alphanumeric()).to_lowercase();
        let text = text.replace('\u{2019}', "'");
        text.len() <= self.most_bytes && self.starts.iter().any(|start| text.starts_with(start))
    }
}

impl HiddenCapCheck {
    /// Whether a string ends in the middle of a sentence after a round number of tokens.
    pub(crate) fn matches(&self, tokens: u64, text: &str) -> bool {
        let ends = |one: char| !one.is_alphanumeric() && !",;([{<-+=/&|".contains(one);
        self.is_round(tokens) && !text.trim_end().ends_with(ends)
    }

    /// Whether a response's token count is a round number that may be a limit.
    pub(crate) fn is_round(&self, tokens: u64) -> bool {
        tokens >= self.least_tokens
            && self.multiples.iter().any(|number| tokens.is_multiple_of(*number))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::EndpointChecks;

    #[test]
    fn is_escaped_rejects_arguments_with_plain_characters() {
        let check = &EndpointChecks::shipped().expect("a valid table").escaped;
        let of = |command: &str| {
            let arguments = json!({ "command": command }).to_string();
            check.is_escaped(&arguments)
        };
        for command in [
            "cd src &amp;&amp; python -c &quot;print(1)&quot;",
            "cat &lt;&lt;EOF &gt; a.py\nx = &#39;y&#39;\nEOF",
            "if [ 1 -gt 0 ]; then echo a &#x3e; b &#x3E; c; fi",
        ] {
            assert!(of(command), "{command}");
        }
        for command in [
            "ls",
            "cd src && ls",
            "grep -n '&amp;' page.html",
            "echo \"&lt;p&gt;\" >> page.html",
            "sed -i 's/&lt;/</; s/&gt;/>/' page.html",
            "curl 'http://h/?a=1&b=2&amp;c=3&amp;d=4'",
        ] {
            assert!(!of(command), "{command}");
        }
    }

    #[test]
    fn masked_and_trimmed_calls_are_detected() {
        let checks = EndpointChecks::shipped().expect("a valid table");
        let masked = |arguments: &str, request: &str| {
            checks.masked.count_placeholders(arguments, |word| request.contains(word))
                >= checks.masked.least
        };
        assert!(masked("def <PERSON>(x): return <PERSON>(x)", ""));
        assert!(!masked("def <PERSON>(x): return <PERSON>(x)", "replace <PERSON> by a name"));
        assert!(!masked("usage: fetch <URL> <PATH>", "") && !masked("echo '<PERSON>'", ""));
        let long = "deffrom_roman(text:str)->int:total,rest=0,text".repeat(6);
        assert!(checks.trimmed.is_trimmed(&long));
        assert!(!checks.trimmed.is_trimmed(&format!("{long} {long}")));
        assert!(!checks.trimmed.is_trimmed("{\"path\":\"/testbed/numerals/roman.py\"}"));
        assert!(!checks.trimmed.is_trimmed(&"\u{4e00}".repeat(400)));
    }

    #[test]
    fn commands_in_the_form_of_json_are_wrapped() {
        let check = &EndpointChecks::shipped().expect("a valid table").wrapped;
        let of = |command: &str| {
            check.is_wrapped(&json!({ "command": command, "timeout": null }).to_string())
        };
        for command in ["ls -la", "cat > a.py <<'E'\nx = \"1\"\nE", "echo \"a\""] {
            assert!(of(&json!(command).to_string()) && !of(command), "{command}");
        }
        for command in ["\"./run.sh\"", "\"$PYTHON\" -m pytest", "\"a b\" \"c\"", "\"ls -la"] {
            assert!(!of(command), "{command}");
        }
        let edit = json!({"command": "replace", "old_str": "\"a b\""}).to_string();
        assert!(!check.is_wrapped(&edit), "a text may be in quotes");
    }

    #[test]
    fn undecoded_tokens_are_detected() {
        let check = &EndpointChecks::shipped().expect("a valid table").undecoded;
        let undecoded = |text: &str| text.replace(' ', "\u{120}").replace('\n', "\u{10a}");
        for text in
            ["I look around.\n\n```bash\nls -la\n```", "```bash\nls\n```\n", "Done, I think."]
        {
            assert!(check.is_undecoded(&undecoded(text)) && !check.is_undecoded(text), "{text}");
        }
        // Both marks are letters in Maltese, and a model may write about the marks.
        for text in [
            "Il-\u{120}gantija u \u{10a}-\u{10a}irkewwa huma f'Malta u G\u{127}awdex.",
            "\u{120}gantija",
            "`\u{120}` is a blank, and `\u{10a}` is a newline.",
        ] {
            assert!(!check.is_undecoded(text), "{text}");
        }
        let is_call = |arguments: &str| check.is_undecoded_call(arguments);
        assert!(is_call(&undecoded("{\"command\": \"ls\"}")));
        assert!(is_call(&undecoded("{\"command\":\"cd src && python -m pytest\"}")));
        for arguments in [
            "{\"command\": \"grep -c '\u{120}\u{10a}\u{120}\u{10a}' vocab.json\"}",
            "{\"pattern\":\"\u{120}\u{10a}\"}",
            "{}",
            "",
        ] {
            assert!(!is_call(arguments), "{arguments}");
        }
    }

    #[test]
    fn repeated_characters_are_detected() {
        let check = &EndpointChecks::shipped().expect("a valid table").run_of_one;
        let is_single = |text: &str| check.describe_single_character(text).is_some();
        assert!(!is_single(&"0".repeat(512)), "weak models repeat digits");
        for one in ["!", "G", "漢"] {
            assert!(is_single(&one.repeat(512)) && !is_single(&one.repeat(10)), "{one}");
            assert!(!is_single(&format!("Done{}", one.repeat(512))), "{one}");
        }
        assert!(!is_single("It works!!!") && !is_single("") && !is_single(&" ".repeat(512)));
        let found = |text: &str| check.describe_guarded_run(text).is_some();
        assert!(found("```bash\necho ================"));
        assert!(!found("```\na\n```\n================"), "the fence is closed");
        assert!(!found("```bash\nls"), "a model may forget the end of its fence");
    }

    #[test]
    fn end_tokens_are_removed_only_from_the_end() {
        let check = &EndpointChecks::shipped().expect("a valid table").end_token;
        for (text, wanted) in [
            ("```bash\nls\n```</s>", "```bash\nls\n```"),
            ("Done.<|im_end|>\n<|im_end|>\n", "Done."),
            ("Done.", "Done."),
            ("+<s>old</s>", "+<s>old</s>"),
            ("The token is `<|im_end|>`", "The token is `<|im_end|>`"),
            ("<|im_end|> ends it", "<|im_end|> ends it"),
        ] {
            let mut cut = text.to_owned();
            assert_eq!(check.strip_end_tokens(&mut cut), text != wanted, "{text}");
            assert_eq!(cut, wanted);
        }
    }

    #[test]
    fn turns_after_the_models_own_turn_are_removed() {
        let check = &EndpointChecks::shipped().expect("a valid table").end_token;
        for (own, more) in [
            (
                "```bash\nls\n```",
                "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n[no output]\n```bash\npwd\n```",
            ),
            ("Done.", "<|im_end|>\n<|im_start|>assistant\nDone.<|im_end|>"),
            ("Done.", "<end_of_turn>\n<start_of_turn>user\nContinue."),
            ("Done.", "<|end|><|start|>user<|message|>Continue."),
            ("I said \"go\".\n", "<|endoftext|><|im_end|>\n<|im_start|>user\nContinue."),
        ] {
            let mut cut = format!("{own}{more}");
            assert!(check.strip_next_turns(&mut cut), "{own}{more}");
            check.strip_end_tokens(&mut cut);
            assert_eq!(cut, own);
        }
        for text in [
            "Done.<|im_end|>",
            "Done.<|im_end|>\nMore.",
            "```bash\ncat > t.py <<'E'\nx = '<|im_end|>\n<|im_start|>user'\nE\n```",
            "The template joins turns with `<|im_end|><|im_start|>`.",
            "The template writes <|im_end|><|im_start|> between turns.",
            "x = \"<|im_end|><|im_start|>\"",
            "<|im_end|>\n<|im_start|>assistant\nDone.",
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Done.",
        ] {
            assert!(!check.strip_next_turns(&mut text.to_owned()), "{text}");
        }
    }

    #[test]
    fn error_text_and_hidden_limits_are_detected() {
        let checks = EndpointChecks::shipped().expect("a valid table");
        for text in [
            "Error: upstream connect error or disconnect/reset before headers",
            "[ERROR] 503 Service Unavailable",
            "Upstream error: provider returned 502",
            "⚠️ Internal server error",
            "You've hit your session limit \u{b7} resets 1:40pm (Europe/Berlin)",
            "You\u{2019}ve reached your usage limit. Your limit will reset at 3pm.",
            "Claude AI usage limit reached|1755273600",
            "5-hour limit reached \u{2219} resets 3pm",
            "Invalid API key \u{b7} Please run /login",
        ] {
            assert!(checks.error_text.matches(text), "{text}");
        }
        for text in [
            "I fixed the error in `parse`.",
            "Done.",
            "The request failed at first.",
            "The limit of `to_roman` is 3999.",
        ] {
            assert!(!checks.error_text.matches(text), "{text}");
        }
        let cap = |tokens, text| checks.hidden_cap.matches(tokens, text);
        assert!(
            cap(256, "First I look at the parser, which") && cap(1000, "def f(x):\n    return x +")
        );
        assert!(!cap(256, "All tests pass.") && !cap(257, "First I look at the"));
        assert!(!cap(20, "Done"), "short answers may end anywhere");
    }
}
