//! An image's container settings, and how a task inherits them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Task;

/// The default work directory of a task whose image sets none.
const DEFAULT_WORKDIR: &str = "/testbed";

/// The container settings of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageSettings {
    /// The image's `ENV`.
    pub env: BTreeMap<String, String>,
    /// The image's `WORKDIR`. Absent if the image has none, which Docker treats as `/`.
    pub workdir: Option<String>,
    /// The image's `USER`. Absent for root.
    pub user: Option<String>,
    /// The image's `ENTRYPOINT`, which a sandbox does not run.
    pub entrypoint: Vec<String>,
    /// The image's `CMD`, which a sandbox does not run.
    pub cmd: Vec<String>,
}

/// What a task inherits from its image. Not recorded, because Proctor can read the image's settings
/// again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageInheritance {
    /// Whether the task's user comes from the image. That user's directories are then left
    /// unchanged.
    pub is_user_inherited: bool,
    /// The image's `USER`, even if the task sets another one. Absent for root.
    pub image_user: Option<String>,
    /// Whether commands start in `/` instead of the work directory, which snapshots cover.
    pub starts_at_root: bool,
}

impl Task {
    /// Returns the task with the image's `ENV` merged in, and with the image's `WORKDIR` and `USER`
    /// if the task sets none. The task's own values take precedence.
    ///
    /// ```
    /// use proctor_types::{ImageSettings, Task};
    ///
    /// let row = r#"{"schema_version": 1, "id": "t", "statement": "s", "environment": {"image": "i"}, "workdir": "",
    ///     "env": {"A": "task"}, "fail_to_pass": [], "test_command": []}"#;
    /// let task: Task = serde_json::from_str(row).unwrap();
    /// let image = ImageSettings {
    ///     env: [("A", "image"), ("B", "image")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
    ///     workdir: Some("/app".into()),
    ///     user: Some("dev".into()),
    ///     ..ImageSettings::default()
    /// };
    /// let on_image = task.with_image_settings(&image);
    /// assert_eq!((on_image.workdir.as_str(), on_image.user.as_deref()), ("/app", Some("dev")));
    /// assert_eq!((on_image.env["A"].as_str(), on_image.env["B"].as_str()), ("task", "image"));
    /// ```
    #[must_use]
    pub fn with_image_settings(&self, image: &ImageSettings) -> Self {
        let mut task = self.clone();
        for (name, value) in &image.env {
            task.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        task.from_image.image_user = image.user.clone().filter(|user| !is_root(user));
        if task.user.is_none() && task.from_image.image_user.is_some() {
            task.user.clone_from(&task.from_image.image_user);
            task.from_image.is_user_inherited = true;
        }
        if task.workdir.is_empty() {
            let own = task.harbor.as_ref().and_then(|harbor| harbor.workdir.clone());
            let named = own.or_else(|| image.workdir.clone());
            match named.filter(|named| !named.trim_end_matches('/').is_empty()) {
                Some(named) => task.workdir = named,
                None if task.harbor.is_some() => {
                    task.from_image.starts_at_root = true;
                    task.workdir = task.user_home().unwrap_or_else(|| "/root".to_owned());
                }
                None => task.workdir = DEFAULT_WORKDIR.to_owned(),
            }
        }
        task
    }

    /// Returns the working directory of commands.
    pub fn cwd(&self) -> &str {
        if self.from_image.starts_at_root { "/" } else { &self.workdir }
    }

    /// Whether the task's user becomes the owner of the work directory and the home directory.
    /// Returns `false` if the user comes from the image, or if the task's format requires an
    /// unmodified image.
    pub fn should_chown_folders(&self) -> bool {
        !self.from_image.is_user_inherited && self.harbor.is_none()
    }
}

fn is_root(user: &str) -> bool {
    matches!(user.split(':').next().unwrap_or(user), "" | "root" | "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Harbor;

    fn task(workdir: &str) -> Task {
        serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {"image": "i"}, "workdir": workdir,
            "fail_to_pass": [], "test_command": []
        }))
        .unwrap()
    }

    #[test]
    fn image_settings_fill_only_values_that_the_task_does_not_set() {
        let image = ImageSettings {
            workdir: Some("/app".into()),
            user: Some("dev".into()),
            ..ImageSettings::default()
        };
        let mut own = task("/own");
        own.user = Some("ann".into());
        let set = own.with_image_settings(&image);
        assert_eq!((set.workdir.as_str(), set.user.as_deref()), ("/own", Some("ann")));
        assert!(set.should_chown_folders());
        let taken = task("").with_image_settings(&image);
        assert_eq!((taken.workdir.as_str(), taken.user.as_deref()), ("/app", Some("dev")));
        assert!(!taken.should_chown_folders());
    }

    #[test]
    fn root_user_of_image_is_ignored_and_missing_workdir_has_a_default() {
        for root in ["root", "0", "0:0", "root:root", ""] {
            let image = ImageSettings { user: Some(root.into()), ..ImageSettings::default() };
            let taken = task("").with_image_settings(&image);
            assert_eq!(
                (taken.user.as_deref(), taken.workdir.as_str()),
                (None, "/testbed"),
                "{root}"
            );
        }
    }

    #[test]
    fn harbor_task_with_root_as_workdir_starts_at_root_and_snapshots_home() {
        let mut harbor = task("");
        harbor.harbor = Some(Harbor::default());
        let taken = harbor.with_image_settings(&ImageSettings::default());
        assert_eq!((taken.cwd(), taken.workdir.as_str()), ("/", "/root"));
        harbor.harbor = Some(Harbor { workdir: Some("/".into()), ..Harbor::default() });
        let image = ImageSettings { workdir: Some("/app".into()), ..ImageSettings::default() };
        assert_eq!(
            harbor.with_image_settings(&image).cwd(),
            "/",
            "the task's own work directory takes precedence"
        );
    }
}
