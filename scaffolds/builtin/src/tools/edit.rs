use std::{fmt, sync::Arc};

use async_trait::async_trait;
use proctor_sandbox_api::{
    SandboxError,
    wire::{DirEntry, EntryKind, RawPath, RefusalKind},
};
use proctor_scaffold_api::FileEdit as EditedFile;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Tool, ToolContext, ToolError, ToolOutput,
    arguments::encode_texts,
    edit_find::{Occurrence, find_once},
    edit_history::{History, UndoEntry},
    edit_spec::{EditArguments, EditCommand},
    edit_view::{format_excerpt, format_folder, format_numbered_lines},
    specs::EDIT,
    tool::parse_arguments,
};
use crate::{clip::decode_lossy, command::clip_for_model, prompts::Prompts, schema::strict_schema};

/// The fields that contain file content, which may be JSON. Paths and command lines never are.
const CONTENT_FIELDS: [&str; 4] = ["file_text", "old_str", "new_str", "insert_text"];

/// The settings in the `[edit]` table of the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditSettings {
    /// Maximum number of tokens that one view shows.
    pub(crate) view_tokens: usize,
    /// Maximum size, in bytes, of a file to view or edit.
    pub(crate) file_bytes: u64,
    /// Maximum number of entries to list for a folder.
    pub(crate) folder_entries: usize,
    /// Number of edits per file that can be undone.
    pub(crate) undo_depth: usize,
}

/// Views and edits files through the sandbox agent. Works on exact bytes and needs no editor in the
/// image.
pub(crate) struct Edit {
    prompts: Arc<Prompts>,
    settings: EditSettings,
    history: History,
}

impl Edit {
    pub(crate) fn new(prompts: Arc<Prompts>, settings: EditSettings) -> Self {
        Self { prompts, settings, history: History::new(settings.undo_depth) }
    }
}

#[async_trait]
impl Tool for Edit {
    fn name(&self) -> &'static str {
        EDIT
    }

    fn restore_edit(&mut self, edit: &EditedFile) {
        let path = RawPath::from(edit.path.as_str());
        match edit.new_content.clone() {
            Some(after) => {
                self.history.push(
                    path,
                    UndoEntry { old_content: edit.old_content.clone(), new_content: after },
                );
            }
            None => self.history.remove_last(&path),
        }
    }

    async fn call(
        &mut self,
        context: &ToolContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let schema = strict_schema::<EditArguments>();
        let arguments = encode_texts(&CONTENT_FIELDS, arguments);
        let arguments: EditArguments = parse_arguments(EDIT, &schema, arguments)?;
        let path = EditTarget { path: context.resolve(&arguments.path), name: arguments.path };
        match arguments.command {
            EditCommand::View => self.view(context, &path, arguments.view_range.as_deref()).await,
            EditCommand::Create => {
                let text = require_field(arguments.file_text, "create", "file_text")?;
                self.create(context, path, text.into_bytes()).await
            }
            EditCommand::Replace => {
                let old = require_field(arguments.old_str, "replace", "old_str")?;
                self.replace(context, path, &old, &arguments.new_str.unwrap_or_default()).await
            }
            EditCommand::Insert => {
                let line = require_field(arguments.insert_line, "insert", "insert_line")?;
                let text = require_field(arguments.insert_text, "insert", "insert_text")?;
                self.insert(context, path, line, &text).await
            }
            EditCommand::Undo => self.undo(context, &path).await,
        }
    }
}

fn require_field<T>(value: Option<T>, command: &str, field: &str) -> Result<T, ToolError> {
    value.ok_or_else(|| {
        ToolError::Malformed(format!(
            "The arguments of `edit` could not be read: `{command}` needs the field `{field}`."
        ))
    })
}

/// A file or folder: the path as the model wrote it, and the resolved path.
#[derive(Debug)]
struct EditTarget {
    path: RawPath,
    name: String,
}

impl fmt::Display for EditTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Edit {
    async fn view(
        &self,
        context: &ToolContext,
        path: &EditTarget,
        range: Option<&[i64]>,
    ) -> Result<ToolOutput, ToolError> {
        let text = if stat_file(context, path).await?.kind == EntryKind::Dir {
            if range.is_some() {
                return Err(ToolError::Tell(format!(
                    "{path} is a folder, so view_range does not apply."
                )));
            }
            format_folder(&context.handle.list(&path.path).await?, self.settings.folder_entries)
        } else {
            format_numbered_lines(&decode_lossy(&self.read_file(context, path).await?), range)?
        };
        let (shown, full) =
            clip_for_model(&self.prompts, "view", text, self.settings.view_tokens).await?;
        Ok(ToolOutput { full_output: full, ..ToolOutput::from_text(shown) })
    }

    async fn create(
        &mut self,
        context: &ToolContext,
        path: EditTarget,
        bytes: Vec<u8>,
    ) -> Result<ToolOutput, ToolError> {
        let before = match context.handle.stat(&path.path).await? {
            None => None,
            Some(found) if found.kind == EntryKind::Dir => {
                return Err(ToolError::Tell(format!("{path} is a folder.")));
            }
            Some(_) => Some(self.read_file(context, &path).await?),
        };
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        let done = if before.is_some() { "Replaced" } else { "Created" };
        let said = format!("{done} {path} ({lines} lines).");
        let edited = Some(self.write_file(context, path, before, bytes).await?);
        Ok(ToolOutput { file_edit: edited, ..ToolOutput::from_text(said) })
    }

    async fn replace(
        &mut self,
        context: &ToolContext,
        path: EditTarget,
        old_text: &str,
        new_text: &str,
    ) -> Result<ToolOutput, ToolError> {
        let before = self.read_existing(context, &path).await?;
        let at = match find_once(&before, old_text) {
            Occurrence::Once(at) => at,
            Occurrence::NotUnique(why) => {
                return Err(ToolError::Tell(format!("Nothing was changed in {path}: {why}")));
            }
        };
        if old_text == new_text {
            return Err(ToolError::Tell(format!(
                "Nothing was changed in {path}: old_str and new_str are equal."
            )));
        }
        let mut after = before[..at].to_vec();
        after.extend(new_text.bytes());
        after.extend(&before[at + old_text.len()..]);
        let said = format!("Edited {path}:\n{}", format_excerpt(&after, at, new_text.len()));
        let edited = Some(self.write_file(context, path, Some(before), after).await?);
        Ok(ToolOutput { file_edit: edited, ..ToolOutput::from_text(said.trim_end()) })
    }

    async fn insert(
        &mut self,
        context: &ToolContext,
        path: EditTarget,
        line: u64,
        text: &str,
    ) -> Result<ToolOutput, ToolError> {
        let before = self.read_existing(context, &path).await?;
        let mut head = Vec::new();
        let mut lines = before.split_inclusive(|byte| *byte == b'\n');
        for count in 0..line {
            let Some(next) = lines.next() else {
                let why = format!("{path} has {count} lines: insert_line {line} is out of range.");
                return Err(ToolError::Tell(why));
            };
            head.extend(next);
        }
        // If the preceding line has no line break, add one, so that the inserted text does not
        // continue that line.
        if !head.is_empty() && !head.ends_with(b"\n") {
            head.push(b'\n');
        }
        let at = head.len();
        let mut after = head;
        after.extend(text.bytes());
        // Always insert whole lines, even if the text has no line break at its end.
        if !text.ends_with('\n') {
            after.push(b'\n');
        }
        let size = after.len() - at;
        after.extend(lines.flatten());
        let said = format!("Edited {path}:\n{}", format_excerpt(&after, at, size));
        let edited = Some(self.write_file(context, path, Some(before), after).await?);
        Ok(ToolOutput { file_edit: edited, ..ToolOutput::from_text(said.trim_end()) })
    }

    async fn undo(
        &mut self,
        context: &ToolContext,
        path: &EditTarget,
    ) -> Result<ToolOutput, ToolError> {
        let Some(last) = self.history.last_entry(&path.path) else {
            return Err(ToolError::Tell(format!("No edit of {path} can be undone.")));
        };
        let now = match context.handle.read(&path.path, self.settings.file_bytes).await {
            Ok(bytes) => Some(bytes),
            Err(SandboxError::Refused(no)) if no.why == RefusalKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        if now.as_ref() != Some(&last.new_content) {
            let why = format!(
                "Nothing was undone: {path} was changed by something else since its last edit."
            );
            return Err(ToolError::Tell(why));
        }
        let said = match &last.old_content {
            Some(before) => {
                context.write_file(&path.path, before).await?;
                format!("Undid the last edit of {path}.")
            }
            None => {
                context.handle.remove(&path.path).await?;
                format!("Undid the last edit of {path}: the file was removed.")
            }
        };
        let edited = to_file_edit(&path.path, last.old_content.clone(), None);
        self.history.remove_last(&path.path);
        Ok(ToolOutput { file_edit: Some(edited), ..ToolOutput::from_text(said) })
    }

    async fn read_file(
        &self,
        context: &ToolContext,
        path: &EditTarget,
    ) -> Result<Vec<u8>, ToolError> {
        match context.handle.read(&path.path, self.settings.file_bytes).await {
            Err(SandboxError::Refused(no)) if no.why == RefusalKind::TooLarge => {
                let limit = self.settings.file_bytes;
                let why =
                    format!("{path} is larger than {limit} bytes. Use shell commands instead.");
                Err(ToolError::Tell(why))
            }
            other => Ok(other?),
        }
    }

    async fn read_existing(
        &self,
        context: &ToolContext,
        path: &EditTarget,
    ) -> Result<Vec<u8>, ToolError> {
        if stat_file(context, path).await?.kind == EntryKind::Dir {
            return Err(ToolError::Tell(format!("{path} is a folder.")));
        }
        self.read_file(context, path).await
    }

    /// Writes the file first and then stores the undo entry, so that a failed edit leaves no entry.
    async fn write_file(
        &mut self,
        context: &ToolContext,
        path: EditTarget,
        old_content: Option<Vec<u8>>,
        new_content: Vec<u8>,
    ) -> Result<EditedFile, ToolError> {
        context.write_file(&path.path, &new_content).await?;
        let edited = to_file_edit(&path.path, old_content.clone(), Some(new_content.clone()));
        self.history.push(path.path, UndoEntry { old_content, new_content });
        Ok(edited)
    }
}

/// Converts an edit to its recorded form. The path came from the model as text, so it is valid
/// UTF-8.
fn to_file_edit(
    path: &RawPath,
    old_content: Option<Vec<u8>>,
    new_content: Option<Vec<u8>>,
) -> EditedFile {
    let path = String::from_utf8_lossy(path.as_bytes()).into_owned();
    EditedFile { path, old_content, new_content }
}

async fn stat_file(context: &ToolContext, path: &EditTarget) -> Result<DirEntry, ToolError> {
    let found = context.handle.stat(&path.path).await?;
    found.ok_or_else(|| ToolError::Tell(format!("{path} does not exist.")))
}
