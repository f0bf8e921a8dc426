//! A scripted model server over real HTTP, used by tests and the demo.
//!
//! It supports OpenAI Chat Completions and Responses, Anthropic Messages and Gemini, with or
//! without streaming. If the script asks for it, the server imitates failures of real endpoints:
//! error statuses, dropped connections, truncated and malformed bodies, delays, and responses
//! without usage. Responses depend only on the script and on the request's own messages. The server
//! can therefore be called concurrently, be restarted, or resume a conversation in the middle. Its
//! only state is how often each fault has occurred.
//!
//! `docs/fake-llm.md` and the types of [`Script`] describe the script format.

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
