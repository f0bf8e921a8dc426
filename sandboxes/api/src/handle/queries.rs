//! Requests that are one question and one answer.

use super::{SandboxError, SandboxHandle, call::Call};
use crate::wire::{DirEntry, Match, RawPath, Reply, Request, SearchRequest};

impl SandboxHandle {
    /// Entries of one folder, sorted by name.
    pub async fn list(&self, path: &RawPath) -> Result<Vec<DirEntry>, SandboxError> {
        match self.ask(Request::List { path: path.clone() }).await? {
            Reply::Entries { entries } => Ok(entries),
            _ => Err(self.wrong_reply()),
        }
    }

    /// The entry itself, links not followed; `None` where nothing is there.
    pub async fn stat(&self, path: &RawPath) -> Result<Option<DirEntry>, SandboxError> {
        match self.ask(Request::Stat { path: path.clone() }).await? {
            Reply::Stat { found } => Ok(found),
            _ => Err(self.wrong_reply()),
        }
    }

    /// The matches, and whether there are more past the request's limit.
    pub async fn search(&self, request: SearchRequest) -> Result<(Vec<Match>, bool), SandboxError> {
        match self.ask(Request::Search(request)).await? {
            Reply::Matches { matches, more } => Ok((matches, more)),
            _ => Err(self.wrong_reply()),
        }
    }

    /// Processes in the sandbox, the agent left out, and the agent's resident kilobytes.
    pub async fn ping(&self) -> Result<(u64, u64), SandboxError> {
        match self.ask(Request::Ping).await? {
            Reply::Pong { processes, agent_rss_kb } => Ok((processes, agent_rss_kb)),
            _ => Err(self.wrong_reply()),
        }
    }

    /// Asks the agent to kill everything and leave. A sandbox that is gone already is no error. Every
    /// other pending request is broken from now on: that a command was killed by the end of its
    /// sandbox is not its result.
    pub async fn shutdown(&self) -> Result<(), SandboxError> {
        let call = match Call::open(&self.link, &Request::Shutdown) {
            Ok(call) => call,
            Err(SandboxError::Broken { .. }) => return Ok(()),
            Err(refused) => return Err(refused),
        };
        self.link.retire(call.id(), "it was shut down");
        match call.reply().await {
            Ok(_) | Err(SandboxError::Broken { .. }) => {
                self.link.end("it was shut down");
                Ok(())
            }
            Err(refused) => Err(refused),
        }
    }

    pub(super) async fn ask(&self, request: Request) -> Result<Reply, SandboxError> {
        Call::open(&self.link, &request)?.reply().await
    }

    pub(super) fn wrong_reply(&self) -> SandboxError {
        self.link.end("the agent left the grammar: the reply of another request");
        self.link.error()
    }
}
