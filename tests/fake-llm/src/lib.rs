//! A scripted model server over real HTTP: the model that tests and the demo talk to.
//!
//! It speaks OpenAI Chat Completions and Responses, Anthropic Messages and Gemini (streaming and not),
//! and does on demand what real
//! endpoints do on bad days: status codes, dropped connections, cut and malformed bodies, delays,
//! answers without usage. What it answers is a pure function of the script and of the request's own
//! messages, so it may be asked concurrently, restarted, and resumed in the middle of a
//! conversation. The one thing it counts is how often a fault has already happened.
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
