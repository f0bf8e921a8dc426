//! The user of a task's commands.

use crate::Task;

impl Task {
    /// Returns the name or number of the user, without a group. `None` for root.
    pub fn user_name(&self) -> Option<&str> {
        let user = self.user.as_deref()?;
        let name = user.split(':').next().unwrap_or(user);
        (!matches!(name, "root" | "0")).then_some(name)
    }

    /// Returns the user's home directory: the task's `HOME`, or else a directory below `/home`.
    /// `None` for root.
    pub fn user_home(&self) -> Option<String> {
        let name = self.user_name()?;
        if let Some(home) = self.env.get("HOME") {
            return Some(home.clone());
        }
        let is_plain = !name.is_empty()
            && !name.starts_with('.')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        Some(format!("/home/{}", if is_plain { name } else { "user" }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(user: Option<&str>, home: Option<&str>) -> Task {
        let mut task: Task = serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": [], "test_command": []
        }))
        .unwrap();
        task.user = user.map(str::to_owned);
        task.env.extend(home.map(|home| ("HOME".to_owned(), home.to_owned())));
        task
    }

    #[test]
    fn user_home_is_set_for_every_user_except_root() {
        for (user, home, expected) in [
            (Some("1000"), None, Some("/home/1000")),
            (Some("1000:5"), None, Some("/home/1000")),
            (Some("ann"), None, Some("/home/ann")),
            (Some("ann"), Some("/srv/ann"), Some("/srv/ann")),
            (Some("../x"), None, Some("/home/user")),
            (Some("root"), None, None),
            (Some("0:0"), None, None),
            (None, Some("/x"), None),
        ] {
            let task = task(user, home);
            assert_eq!(task.user_home().as_deref(), expected, "{user:?} {home:?}");
            let home_variable = task.command_env().get("HOME").cloned();
            assert_eq!(home_variable.as_deref(), expected.or(home), "{user:?} {home:?}");
        }
    }
}
