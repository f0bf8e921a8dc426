use std::sync::Arc;

use async_trait::async_trait;
use proctor_sandbox_api::wire::{EntryKind, Match, SearchRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Tool, ToolContext, ToolError, ToolOutput, search_spec::SearchArguments, specs::SEARCH,
    tool::parse_arguments,
};
use crate::{clip::decode_lossy, command::clip_for_model, prompts::Prompts, schema::strict_schema};

/// The settings in the `[search]` table of the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchSettings {
    /// Maximum number of matches.
    pub(crate) matches: u32,
    /// Maximum number of tokens that the model sees.
    pub(crate) output_tokens: usize,
    /// Maximum number of characters to show of a matching line.
    pub(crate) line_chars: usize,
}

/// Searches with regular expressions and globs in the sandbox agent, so the image needs no `grep`.
pub(crate) struct Search {
    pub(crate) prompts: Arc<Prompts>,
    pub(crate) settings: SearchSettings,
}

#[async_trait]
impl Tool for Search {
    fn name(&self) -> &'static str {
        SEARCH
    }

    async fn call(
        &mut self,
        context: &ToolContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let schema = strict_schema::<SearchArguments>();
        let arguments: SearchArguments = parse_arguments(SEARCH, &schema, arguments)?;
        if arguments.pattern.is_none() && arguments.glob.is_none() {
            let why = "The arguments of `search` could not be read: give `pattern`, `glob` or both";
            return Err(ToolError::Malformed(why.into()));
        }
        let root = context.resolve(arguments.path.as_deref().unwrap_or("."));
        let request = SearchRequest {
            root: root.clone(),
            pattern: arguments.pattern,
            glob: arguments.glob,
            ignore_case: arguments.ignore_case.unwrap_or(false),
            honour_ignore: true,
            limit: self.settings.matches,
        };
        let (matches, more) = context.handle.search(request).await?;
        if matches.is_empty() {
            return Ok(ToolOutput::from_text("No matches."));
        }
        // The agent returns paths relative to the search root. If the root is a file, show the
        // file's own path.
        let is_file = arguments.path.is_some()
            && context.handle.stat(&root).await?.is_some_and(|root| root.kind == EntryKind::File);
        let mut text = String::new();
        for found in &matches {
            let path = if is_file { root.as_bytes().to_vec() } else { root.join(&found.path).0 };
            text.push_str(&self.format_match(context, &path, found));
        }
        let (mut shown, full) =
            clip_for_model(&self.prompts, "search", text, self.settings.output_tokens).await?;
        if more {
            shown.push_str(&format!(
                "[only the first {} matches are shown; narrow the search]",
                matches.len()
            ));
        }
        Ok(ToolOutput { full_output: full, ..ToolOutput::from_text(shown.trim_end()) })
    }
}

impl Search {
    /// Formats a match as `path:line: text`. The path is relative to the work directory if the file
    /// is below it.
    fn format_match(&self, context: &ToolContext, path: &[u8], search_match: &Match) -> String {
        let below = path
            .strip_prefix(context.workdir.trim_end_matches('/').as_bytes())
            .and_then(|rest| rest.strip_prefix(b"/"));
        let path = decode_lossy(below.unwrap_or(path));
        if search_match.line == 0 {
            return format!("{path}\n");
        }
        let text = search_match.text.trim_end();
        match text.char_indices().nth(self.settings.line_chars) {
            Some((end, _)) => format!("{path}:{}: {}[...]\n", search_match.line, &text[..end]),
            None => format!("{path}:{}: {text}\n", search_match.line),
        }
    }
}
