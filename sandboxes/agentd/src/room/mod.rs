//! Makes a native sandbox around the agent.

/// Builds the room and serves in it; returns the exit status.
pub fn run() -> i32 {
    1
}
