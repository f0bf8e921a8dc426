//! Runs a model's command line in the sandbox and formats the output.

use std::time::Duration;

use proctor_sandbox_api::Command;
use proctor_scaffold_api::Stop;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    clip::{ClippedText, RawOutput, clip},
    prompts::Prompts,
    tools::{ToolContext, ToolError, ToolOutput},
};

/// The settings in the `[shell]` table of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellSettings {
    /// Maximum number of tokens that the model sees.
    pub(crate) output_tokens: usize,
    /// Maximum number of bytes to record from the start of the output. If the output is longer, its
    /// end is recorded too.
    pub(crate) output_bytes: usize,
}

/// Runs a command line until it exits or reaches the time limit. A failed or killed command is a
/// normal result.
///
/// Runs the line in bash if the sandbox has it, otherwise in sh: models write bash code even if
/// told not to. An sh wrapper could also choose the shell, but starting the wrapper took a tenth of
/// a step's time.
pub(crate) async fn run_line(
    context: &ToolContext,
    prompts: &Prompts,
    settings: ShellSettings,
    line: &str,
    timeout: Duration,
) -> Result<ToolOutput, ToolError> {
    let mut command =
        Command::new(["bash", "-c", line]).cwd(context.workdir.as_str()).time_limit(timeout);
    for (key, value) in &context.env {
        command = command.env(key, value.as_str());
    }
    command.user = context.user.clone();
    command.head_cap = settings.output_bytes;
    (command.fallback, command.merge_outputs) = (Some("/bin/sh".into()), true);
    let done = context.handle.run(command).await?;
    // Show stderr only if stdout is empty. Commands redirect stderr to stdout, so stderr contains
    // only messages from the sandbox agent, for example that no shell can be started.
    let printed = if done.stdout.total_bytes == 0 { done.stderr } else { done.stdout };
    let (output, full) = clip_for_model(prompts, "shell", printed, settings.output_tokens).await?;
    let exited = done.exit;
    let shown = prompts.render(
        "shell_result",
        json!({
            // Replace output that is only whitespace with an empty string, because some endpoints
            // reject a tool result that contains only whitespace.
            "output": if output.trim().is_empty() { "" } else { output.trim_end_matches('\n') },
            "exit_status": exited.code,
            "signal": exited.signal,
            "timed_out": exited.timed_out,
            "seconds": timeout.as_secs_f64(),
        }),
    )?;
    let exit_status = if exited.timed_out { None } else { exited.code };
    let shown = shown.trim_end().to_owned();
    Ok(ToolOutput { shown_output: shown, full_output: full, exit_status, ..ToolOutput::default() })
}

/// Returns the text for the model. If it is truncated, also returns the complete output.
pub(crate) async fn clip_for_model(
    prompts: &Prompts,
    kind: &str,
    output: impl Into<RawOutput>,
    cap: usize,
) -> Result<(String, Option<Vec<u8>>), Stop> {
    let (clipped, raw) = clip(output.into(), cap).await?;
    match clipped {
        ClippedText::Complete(text) => Ok((text, None)),
        ClippedText::Truncated { head, omission: cut, tail } => {
            let marker = prompts.render(
                "cut",
                json!({
                    "kind": kind, "tokens": cut.tokens, "lines": cut.lines, "bytes": cut.bytes,
                    "about": cut.about,
                }),
            )?;
            let gap = |text: &str| if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
            let shown = format!("{head}{}{marker}\n{tail}", gap(&head));
            Ok((shown, Some(raw.into_bytes())))
        }
    }
}
