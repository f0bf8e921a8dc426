//! Records `session/update` notifications, which contain what the agent shows its user, as notes.

use serde_json::{Map, Value, json};

use crate::limits::Limits;

/// Updates that arrive in chunks, with the name for the note that combines them.
const CHUNKED_UPDATES: [(&str, &str); 2] =
    [("agent_message_chunk", "message"), ("agent_thought_chunk", "thought")];
/// Updates that are recorded as they arrive. Lists of commands and modes are not recorded at all.
const COMPLETE_UPDATES: [&str; 3] = ["tool_call", "tool_call_update", "plan"];
/// If an update is too long, only these fields are recorded.
const SUMMARY_FIELDS: [&str; 5] = ["sessionUpdate", "toolCallId", "title", "kind", "status"];

pub(super) struct UpdateRecorder {
    limits: &'static Limits,
    note_count: u32,
    /// The text collected so far, and the name of its note.
    open_note: Option<(&'static str, String)>,
}

impl UpdateRecorder {
    pub(super) fn new(limits: &'static Limits) -> Self {
        Self { limits, note_count: 0, open_note: None }
    }

    /// Adds an update. Returns the notes that are now complete.
    pub(super) fn add_update(&mut self, update: &Value) -> Vec<Map<String, Value>> {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        if let Some((_, name)) = CHUNKED_UPDATES.iter().find(|(piece, _)| *piece == kind) {
            let done = match &self.open_note {
                Some((open, _)) if open == name => None,
                _ => self.flush(),
            };
            let (_, text) = self.open_note.get_or_insert_with(|| (name, String::new()));
            text.push_str(update["content"]["text"].as_str().unwrap_or_default());
            text.truncate(floor_char_boundary(text, self.limits.log_bytes));
            return done.into_iter().collect();
        }
        if !COMPLETE_UPDATES.contains(&kind) {
            return Vec::new();
        }
        let done = self.flush();
        let short = match update.to_string().len() > self.limits.log_bytes {
            true => {
                SUMMARY_FIELDS.iter().map(|key| ((*key).to_owned(), update[*key].clone())).collect()
            }
            false => update.clone(),
        };
        done.into_iter().chain(self.count_note(short)).collect()
    }

    /// Returns a note about a request for permission and the response to it.
    pub(super) fn permission_note(
        &mut self,
        title: &Value,
        choice: &Value,
    ) -> Option<Map<String, Value>> {
        self.count_note(json!({ "permission": title, "chosen": choice }))
    }

    /// Returns the note with the text collected so far.
    pub(super) fn flush(&mut self) -> Option<Map<String, Value>> {
        let (name, text) = self.open_note.take()?;
        // Some agents send an empty chunk before a tool call. Ignore it.
        if text.is_empty() { None } else { self.count_note(json!({ name: text })) }
    }

    fn count_note(&mut self, content: Value) -> Option<Map<String, Value>> {
        self.note_count += 1;
        (self.note_count <= self.limits.log_texts)
            .then(|| Map::from_iter([("agent_showed".to_owned(), content)]))
    }
}

fn floor_char_boundary(text: &str, max_bytes: usize) -> usize {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_join_chunks_and_truncate_long_output() {
        let limits = Limits::get().unwrap();
        let mut updates = UpdateRecorder::new(limits);
        let piece = |kind: &str, text: &str| json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
        assert!(updates.add_update(&piece("agent_thought_chunk", "I ")).is_empty());
        assert!(updates.add_update(&piece("agent_thought_chunk", "think")).is_empty());
        let notes = updates.add_update(&piece("agent_message_chunk", "Done."));
        assert_eq!(json!(notes), json!([{"agent_showed": {"thought": "I think"}}]));
        assert!(
            updates.add_update(&json!({"sessionUpdate": "available_commands_update"})).is_empty()
        );
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "ls",
                          "rawInput": "x".repeat(limits.log_bytes)});
        let notes = updates.add_update(&call);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert_eq!(notes[1]["agent_showed"]["title"], "ls");
        assert!(notes[1]["agent_showed"].get("rawInput").is_none());
        let many = (0..2 * limits.log_texts).flat_map(|_| updates.add_update(&call)).count();
        assert_eq!(many as u32, limits.log_texts - 3);
    }
}
