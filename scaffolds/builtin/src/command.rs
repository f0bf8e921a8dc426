//! Runs a model's command line in the sandbox and formats the output.

use std::time::Duration;

use proctor_sandbox_api::Command;
use proctor_scaffold_api::Stop;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    clip::{Clipped, Raw, clip},
    prompts::Prompts,
    tools::{Output, ToolContext, ToolError},
};

/// `[shell]` of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellSettings {
    /// Maximum tokens shown to the model.
    pub(crate) output_tokens: usize,
    /// Bytes kept for the record; the end of a longer output is kept, too.
    pub(crate) output_bytes: usize,
}

/// Runs one line to its end or its limit. Failing or being killed is a result.
///
/// The line runs in bash if the sandbox has it, else in sh: models write bash whatever they are
/// told. A wrapper in sh could choose too, but starting that shell cost a tenth of a step.
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
    // Standard error only contains what the sandbox's agent says: the shell cannot be started.
    let printed = if done.stdout.total == 0 { done.stderr } else { done.stdout };
    let (output, full) = show(prompts, "shell", printed, settings.output_tokens).await?;
    let exited = done.exited;
    let shown = prompts.render(
        "shell_result",
        json!({
            // Endpoints reject a blank result.
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

/// What the model sees of an output, and the complete output if that is cut.
pub(crate) async fn show(
    prompts: &Prompts,
    kind: &str,
    output: impl Into<Raw>,
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
