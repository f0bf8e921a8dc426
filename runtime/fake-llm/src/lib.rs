//! A scripted model server over real HTTP: the model that tests and the demo talk to.
//!
//! It speaks OpenAI Chat Completions and Responses, Anthropic Messages and Gemini (streaming and
//! not), and imitates failures of real endpoints on demand: status codes, dropped connections,
//! truncated and malformed bodies, delays, responses without usage. Its response is a pure function
//! of the script and of the request's own messages, so it can be called concurrently, restarted,
//! and resumed in the middle of a conversation. Its only state counts how often a fault has already
//! happened.
//!
//! The script format is described in `docs/fake-llm.md` and by the types of [`Script`].

mod check;
mod format;
mod gemini;
mod matching;
mod messages;
mod responses;
mod script;
mod server;
mod wire;

pub use script::{
    Answer, Call, Conversation, Fault, FaultKind, Rule, Script, ScriptError, TokenCounts, UsageSpec,
};
pub use server::{FakeLlm, Seen};
