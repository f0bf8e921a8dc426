//! The gold patch of a task.

use proctor_types::Task;

use crate::{Patch, PatchError};

/// Returns the task's own gold patch or the reversed mask. Returns `None` if the task has neither.
///
/// # Errors
/// Returns an error if the mask cannot be reversed.
pub fn gold_patch(task: &Task) -> Result<Option<Vec<u8>>, PatchError> {
    match (&task.gold, &task.mask) {
        (Some(gold), _) => Ok(Some(gold.as_bytes().to_vec())),
        (None, Some(mask)) => Ok(Some(Patch::parse(mask.as_bytes()).reverse()?.to_bytes())),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: &str = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-new\n+old\n";

    fn gold(gold: Option<&str>, mask: Option<&str>) -> Result<Option<String>, PatchError> {
        let mut task: Task = serde_json::from_str(
            r#"{"schema_version": 1, "id": "t", "statement": "", "environment": {},
                "fail_to_pass": [], "test_command": []}"#,
        )
        .unwrap();
        (task.gold, task.mask) = (gold.map(Into::into), mask.map(Into::into));
        Ok(gold_patch(&task)?.map(|gold| String::from_utf8(gold).unwrap()))
    }

    #[test]
    fn gold_patch_prefers_the_task_patch_to_the_reversed_mask() {
        assert_eq!(gold(Some("own"), Some(MASK)).unwrap().unwrap(), "own");
        let reversed = gold(None, Some(MASK)).unwrap().unwrap();
        assert!(reversed.contains("-old\n+new\n"), "{reversed}");
        assert_eq!(gold(None, None).unwrap(), None);
        assert!(gold(None, Some("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n")).is_err());
    }
}
