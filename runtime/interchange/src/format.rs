//! The formats of other tools.

use std::fmt;

/// Another tool's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Harbor's trajectory format, version 1.8: one document per trial.
    Atif,
    /// Inspect AI's logs: one archive per arm, with one sample per trial.
    Inspect,
    /// mini-swe-agent's trajectories, format 1.1.
    Mini,
    /// OpenTelemetry spans: one line per trial.
    Otel,
    /// Conversations with rewards, for training: one line per trial.
    Rollouts,
    /// SWE-agent's trajectories.
    SweAgent,
    /// Predictions, one line per trial. Used by SWE-bench, FEA-Bench and other tools that read the
    /// same three keys.
    SweBench,
    /// A directory in the form that SWE-bench's experiments repository accepts.
    Submission,
}

impl Format {
    /// Returns the name that commands and tables use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Atif => "atif",
            Self::Inspect => "inspect",
            Self::Mini => "mini",
            Self::Otel => "otel",
            Self::Rollouts => "rollouts",
            Self::SweAgent => "swe-agent",
            Self::SweBench => "swebench",
            Self::Submission => "swebench-submission",
        }
    }

    /// All formats.
    pub const ALL: [Self; 8] = [
        Self::Atif,
        Self::Inspect,
        Self::Mini,
        Self::Otel,
        Self::Rollouts,
        Self::SweAgent,
        Self::SweBench,
        Self::Submission,
    ];

    /// Returns the file extension.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Atif => "json",
            Self::Mini | Self::Submission => "traj.json",
            Self::SweAgent => "traj",
            Self::Inspect => "eval",
            Self::Otel | Self::Rollouts | Self::SweBench => "jsonl",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
