//! A scripted model server over real HTTP. Tests and the demo use it.
//!
//! The server supports OpenAI Chat Completions and Responses, Anthropic Messages and Gemini, with
//! or without streaming. A script can make it imitate the failures of real endpoints: error
//! statuses, dropped connections, truncated and malformed bodies, delays, and responses without
//! usage. Responses depend only on the script and on the request's own messages. Therefore, the
//! server can be called concurrently, be restarted, or resume a conversation in the middle. The
//! only state is how often each fault has occurred.
//!
//! See `docs/reference/fake-llm.md` and the types in [`Script`] for the script format.

mod chat;
mod check;
mod format;
mod gemini;
mod matching;
mod messages;
mod responses;
mod script;
mod server;

pub use script::{
    Answer, Call, Conversation, Fault, FaultKind, Rule, Script, ScriptError, TokenCounts, UsageSpec,
};
pub use server::{FakeLlm, ReceivedRequest};
