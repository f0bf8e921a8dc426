//! Requests with a single reply.

use super::{SandboxError, SandboxHandle, call::Call};
use crate::wire::{DirEntry, Match, RawPath, Reply, Request, SearchRequest};

impl SandboxHandle {
    /// Lists the entries of a directory, sorted by name.
    pub async fn list(&self, path: &RawPath) -> Result<Vec<DirEntry>, SandboxError> {
        match self.ask(Request::List { path: path.clone() }).await? {
            Reply::Entries { entries } => Ok(entries),
            _ => Err(self.close_with_wrong_reply_error()),
        }
    }

    /// Describes an entry without following links. Returns `None` if it does not exist.
    pub async fn stat(&self, path: &RawPath) -> Result<Option<DirEntry>, SandboxError> {
        match self.ask(Request::Stat { path: path.clone() }).await? {
            Reply::Stat { found } => Ok(found),
            _ => Err(self.close_with_wrong_reply_error()),
        }
    }

    /// Searches files. Returns the matches, and whether there are more than the request's limit.
    pub async fn search(&self, request: SearchRequest) -> Result<(Vec<Match>, bool), SandboxError> {
        match self.ask(Request::Search(request)).await? {
            Reply::Matches { matches, more } => Ok((matches, more)),
            _ => Err(self.close_with_wrong_reply_error()),
        }
    }

    /// Returns the number of processes in the sandbox except the agent, and the agent's resident
    /// memory in KiB.
    pub async fn ping(&self) -> Result<(u64, u64), SandboxError> {
        match self.ask(Request::Ping).await? {
            Reply::Pong { processes, agent_rss_kb } => Ok((processes, agent_rss_kb)),
            _ => Err(self.close_with_wrong_reply_error()),
        }
    }

    /// Asks the agent to kill everything and exit. Succeeds if the sandbox is already gone. Every
    /// other pending request fails, because a command that the shutdown killed has no result.
    pub async fn shutdown(&self) -> Result<(), SandboxError> {
        let call = match Call::open(&self.link, &Request::Shutdown) {
            Ok(call) => call,
            Err(SandboxError::Broken { .. }) => return Ok(()),
            Err(refused) => return Err(refused),
        };
        self.link.close_except(call.id(), "shut down");
        match call.wait_for_reply().await {
            Ok(_) | Err(SandboxError::Broken { .. }) => {
                self.link.close("shut down");
                Ok(())
            }
            Err(refused) => Err(refused),
        }
    }

    pub(super) async fn ask(&self, request: Request) -> Result<Reply, SandboxError> {
        Call::open(&self.link, &request)?.wait_for_reply().await
    }

    pub(super) fn close_with_wrong_reply_error(&self) -> SandboxError {
        self.link.close("protocol error by the sandbox agent: wrong kind of reply");
        self.link.error()
    }
}
