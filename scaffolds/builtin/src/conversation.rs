use proctor_scaffold_api::{ForkContext, Session, Stop, TaskBrief};
use proctor_types::{Message, ModelRequest, ModelResponse, ToolSpec};

use crate::prompts::{OpeningVariables, Prompts};

/// The conversation so far. Messages are only appended, so that endpoints can cache the prefix.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// The next request. The session borrows it, because copying a long conversation is expensive.
    request: ModelRequest,
    /// Number of tokens up to the last response, as the provider counted them.
    counted_tokens: u64,
    /// Number of messages that `counted_tokens` includes.
    counted_messages: usize,
    /// Number of responses so far.
    response_count: u64,
    fork: Option<ForkContext>,
}

impl Conversation {
    /// Starts the conversation with the prompts `system` and `task`.
    pub(crate) fn start(
        prompts: &Prompts,
        brief: &TaskBrief,
        tools: Vec<ToolSpec>,
    ) -> Result<Self, Stop> {
        let opening = OpeningVariables::from_brief(brief);
        let told = brief.fork.as_ref().and_then(|fork| fork.first_messages.clone());
        let messages = match told {
            Some(told) => told,
            None => vec![
                Message::System { content: prompts.render("system", &opening)? },
                Message::User { content: prompts.render("task", &opening)? },
            ],
        };
        let fork = brief.fork.clone();
        let ask = ModelRequest { messages, tools };
        Ok(Self { request: ask, counted_tokens: 0, counted_messages: 0, response_count: 0, fork })
    }

    /// Runs one step. If the model refuses in a normal response, returns [`Stop::Refused`].
    pub(crate) async fn ask(&mut self, session: &mut dyn Session) -> Result<ModelResponse, Stop> {
        self.add_due_hint();
        let answer = session.ask(&self.request).await?;
        self.response_count += 1;
        if answer.refused {
            return Err(Stop::Refused(answer.content));
        }
        self.request.messages.push(match answer.to_message() {
            // Leave out calls if no tools were offered: the history would need a result for each of
            // them.
            Message::Assistant { content, tool_calls, extra, native }
                if self.request.tools.is_empty() =>
            {
                let native = native.filter(|_| tool_calls.is_empty());
                Message::Assistant { content, tool_calls: Vec::new(), extra, native }
            }
            message => message,
        });
        self.counted_tokens = answer.usage.input + answer.usage.output;
        self.counted_messages = self.request.messages.len();
        Ok(answer)
    }

    /// Adds a fork's hint when it is due. If the last message is the user's, appends the hint to
    /// it, because some endpoints reject two consecutive messages with the same role.
    fn add_due_hint(&mut self) {
        let hint = self.fork.as_ref().and_then(|fork| fork.hint.as_ref());
        let Some((_, hint)) = hint.filter(|(after, _)| *after == self.response_count) else {
            return;
        };
        let hint = hint.clone();
        match self.request.messages.last_mut() {
            Some(Message::User { content }) => *content = format!("{content}\n\n{hint}"),
            _ => self.push_user_message(hint),
        }
    }

    pub(crate) fn push_user_message(&mut self, content: String) {
        self.request.messages.push(Message::User { content });
    }

    pub(crate) fn push_tool_result(&mut self, call_id: &str, content: String) {
        self.request.messages.push(Message::Tool { call_id: call_id.to_owned(), content });
    }

    /// If the next request cannot fit in the model's context window, returns the reason. This is
    /// checked before the request, because the endpoint's error would look like an endpoint fault.
    pub(crate) fn context_overflow_reason(&self, session: &dyn Session) -> Option<String> {
        let window = session.brief().context_window?;
        let fresh = self.request.messages.get(self.counted_messages..).unwrap_or_default();
        let estimated = session.count_tokens(fresh);
        let tokens = self.counted_tokens + estimated;
        session
            .exceeds_context_window(self.counted_tokens, estimated, window)
            .then(|| format!("context window full: {tokens} tokens of {window}"))
    }
}

/// Returns whether the provider paused the turn. The turn continues when the conversation is sent
/// back unchanged.
pub(crate) fn is_paused(response: &ModelResponse) -> bool {
    response.finish_reason.as_deref() == Some("pause_turn") && response.tool_calls.is_empty()
}

/// Returns whether the endpoint truncated the response at its output limit.
pub(crate) fn is_truncated(response: &ModelResponse) -> bool {
    response.finish_reason.as_deref() == Some("length")
}
