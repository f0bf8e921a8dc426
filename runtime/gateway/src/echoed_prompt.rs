//! Compares a response's text with what the request contained.
//!
//! Some servers put the whole prompt before the model's text (`return_full_text` of Hugging Face's
//! pipelines, `echo`). Others pass on a placeholder such as `[object Object]` instead of the
//! prompt, and the model asks what was meant.

use proctor_types::Api;

use crate::{
    TrialGateway,
    attempt_failure::AttemptFailure,
    checks::{EchoedPromptCheck, LostContentCheck},
    codec::neutral::{CollectedResponse, Item, Part, Request, Role},
    fences::without_code_blocks,
    outgoing_request::OutgoingRequest,
    usage,
};

impl TrialGateway {
    /// Returns why a response must be requested again, if its text repeats a part of the prompt
    /// that the endpoint did not count as output. A model may also repeat the prompt, but then the
    /// endpoint counts these tokens.
    pub(crate) async fn find_echoed_prompt(
        &self,
        check: &'static EchoedPromptCheck,
        request: &OutgoingRequest,
        response: &CollectedResponse,
        text: &str,
    ) -> Option<AttemptFailure> {
        let usage = response.usage.filter(|usage| !usage.estimated && usage.output > 0)?;
        let is_suspicious = text.len() >= check.least_bytes
            && text.len() as u64 > usage.output.saturating_mul(check.bytes_per_token);
        if !is_suspicious {
            return None;
        }
        let (api, body, text) = (self.route().model.api, request.body.clone(), text.to_owned());
        // Run this off the async threads, because parsing a long conversation takes many
        // milliseconds.
        let searching = tokio::task::spawn_blocking(move || {
            usage::parse_request(api, &body)
                .is_some_and(|request| check.repeats_prompt(&request, &text))
        });
        let is_echo = searching.await.unwrap_or_default();
        let why = || {
            format!(
                "the text contains the prompt, but the endpoint counted only {} output tokens",
                usage.output
            )
        };
        is_echo.then(|| AttemptFailure::corrupted_response(why(), &check.hint))
    }
}

impl EchoedPromptCheck {
    fn repeats_prompt(&self, request: &Request, text: &str) -> bool {
        sent_texts(request).any(|sent| sent.len() >= self.least_bytes && text.contains(sent))
    }
}

impl LostContentCheck {
    /// Whether the model quotes a placeholder that the scaffold did not send.
    pub(crate) fn has_lost_content(
        &self,
        api: Api,
        request: &[u8],
        response: &CollectedResponse,
    ) -> bool {
        if response.calls().next().is_some() {
            return false;
        }
        let texts = response.items.iter().filter_map(|item| match item {
            Item::Text(text) => Some(text.as_str()),
            Item::Refusal(_) | Item::Call(_) | Item::Reasoning(_) => None,
        });
        let text: String = texts.collect();
        // Code may handle such a string. Most strings contain no mark, so search before copying.
        let is_outside_code = |mark: &&String| {
            text.contains(mark.as_str()) && without_code_blocks(&text).contains(mark.as_str())
        };
        let Some(mark) = self.marks.iter().find(is_outside_code) else {
            return false;
        };
        usage::parse_request(api, request)
            .is_some_and(|request| !sent_texts(&request).any(|sent| sent.contains(mark.as_str())))
    }
}

/// Returns the strings in a request that the model did not write.
fn sent_texts(request: &Request) -> impl Iterator<Item = &str> {
    let turns = request.turns.iter().filter(|turn| turn.role != Role::Assistant);
    turns.flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Text(text) => Some(text.trim()),
        Part::Result { content, .. } => Some(content.trim()),
        Part::Reasoning(_) | Part::Call(_) | Part::Image(_) | Part::Media(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use proctor_types::Api;
    use serde_json::json;

    use super::{CollectedResponse, Part, Request, Role};
    use crate::{
        checks::EndpointChecks,
        codec::neutral::{Delta, Turn},
    };

    #[test]
    fn only_long_parts_of_the_prompt_count_as_an_echo() {
        let check = &EndpointChecks::shipped().expect("a valid table").echoed_prompt;
        let task = "Write `from_roman` and export it. ".repeat(20);
        let request = Request {
            turns: vec![
                Turn::new(
                    Role::User,
                    vec![Part::Text(format!("{task}\n")), Part::Text("go".into())],
                ),
                Turn::new(Role::Assistant, vec![Part::Text("I look. ".repeat(100))]),
            ],
            ..Request::default()
        };
        let repeats = |text: &str| check.repeats_prompt(&request, text);
        assert!(repeats(&format!("User: {task}\n\nAssistant: I look.")));
        assert!(!repeats("Write `from_roman` and export it. Let's go."));
        assert!(!repeats(&"I look. ".repeat(100)), "the model repeats itself");
    }

    #[test]
    fn placeholder_counts_only_if_the_scaffold_did_not_send_it() {
        let check = &EndpointChecks::shipped().expect("a valid table").lost_content;
        let is_lost = |sent: &str, text: &str| {
            let request = json!({"model": "m", "messages": [{"role": "user", "content": sent}]});
            let response = CollectedResponse::from_deltas(vec![Delta::Text(text.to_owned())]);
            check.has_lost_content(Api::Chat, request.to_string().as_bytes(), &response)
        };
        assert!(is_lost("Fix the bug.", "Your message is only `[object Object]`."));
        assert!(!is_lost("The page shows [object Object].", "I look for [object Object]."));
        assert!(!is_lost("Fix the bug.", "Done."));
        let code = "```bash\ngrep -rn \"=== '[object Object]'\" src\n```";
        assert!(!is_lost("Fix the bug.", code));
    }
}
