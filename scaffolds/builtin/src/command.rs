//! Runs a model's command line in the sandbox and formats the output.

use std::time::Duration;

use proctor_sandbox_api::Command;
use proctor_scaffold_api::Stop;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    clip::{Clipped, RawOutput, clip},
    prompts::Prompts,
    tools::{Output, ToolContext, ToolError},
};

/// `[shell]` of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellSettings {
    /// Maximum number of tokens shown to the model.
    pub(crate) output_tokens: usize,
    /// Maximum number of leading bytes kept for the record. The end of a longer output is kept as
    /// well.
    pub(crate) output_bytes: usize,
}

/// Runs a command line until it exits or reaches its time limit. A failed or killed command is a
/// normal result.
///
/// The line runs in bash if the sandbox has it, otherwise in sh: models write bash even if told not
/// to. An sh wrapper could choose too, but starting that shell took a tenth of a step's time.
pub(crate) async fn run_line(
    context: &ToolContext,
    prompts: &Prompts,
    settings: ShellSettings,
    line: &str,
    limit: Duration,
) -> Result<Output, ToolError> {
    let mut command =
        Command::new(["bash", "-c", line]).cwd(context.workdir.as_str()).time_limit(limit);
    for (key, value) in &context.env {
        command = command.env(key, value.as_str());
    }
    command.user = context.user.clone();
    command.output_cap = settings.output_bytes;
    (command.fallback, command.merged) = (Some("/bin/sh".into()), true);
    let done = context.handle.run(command).await?;
    // Show stderr only if stdout is empty. It contains only messages from the sandbox agent, such
    // as that a shell cannot be started.
    let printed = if done.stdout.total == 0 { done.stderr } else { done.stdout };
    let (output, full) = clip_for_model(prompts, "shell", printed, settings.output_tokens).await?;
    let exited = done.exited;
    let shown = prompts.render(
        "shell_result",
        json!({
            // Replace blank output with an empty text, because some endpoints reject blank tool
            // results.
            "output": if output.trim().is_empty() { "" } else { output.trim_end_matches('\n') },
            "exit_status": exited.code,
            "signal": exited.signal,
            "timed_out": exited.timed_out,
            "seconds": limit.as_secs_f64(),
        }),
    )?;
    let exit_status = if exited.timed_out { None } else { exited.code };
    let shown = shown.trim_end().to_owned();
    Ok(Output { shown, full, exit_status, ..Output::default() })
}

/// Returns the text shown to the model, and the complete output if that text is truncated.
pub(crate) async fn clip_for_model(
    prompts: &Prompts,
    kind: &str,
    output: impl Into<RawOutput>,
    cap: usize,
) -> Result<(String, Option<Vec<u8>>), Stop> {
    let (clipped, raw) = clip(output.into(), cap).await?;
    match clipped {
        Clipped::Whole(text) => Ok((text, None)),
        Clipped::Cut { head, cut, tail } => {
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
