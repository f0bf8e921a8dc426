//! Arguments of `init`.

use std::path::PathBuf;

use clap::Args;

use super::sandbox::SandboxArg;

#[derive(Debug, Args)]
pub struct InitArgs {
    /// The file to write. It must not exist yet.
    #[arg(default_value = "proctor.toml")]
    pub file: PathBuf,
    /// A dataset to run: a file, folder, glob or `hf://owner/name@revision/split`. Repeat for more
    /// datasets. Default: the demo's task.
    #[arg(long, value_name = "DATASET")]
    pub tasks: Vec<String>,
    /// A model to benchmark: `openai/gpt-5.1`, or `ollama/NAME` for a server on this machine. Repeat to compare models.
    #[arg(long, value_name = "VENDOR/NAME")]
    pub model: Vec<String>,
    /// A scaffold to use, as listed by `proctor scaffold list`. Repeat to compare scaffolds. Default: `tools`.
    #[arg(long, value_name = "NAME")]
    pub scaffold: Vec<String>,
    /// Sandbox back end to use.
    #[arg(long, value_enum, default_value_t = SandboxArg::Native)]
    pub sandbox: SandboxArg,
}
