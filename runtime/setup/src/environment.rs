//! Converts a task's environment to the specification from which a back end builds a layer.

use std::{path::Path, time::Duration};

use proctor_sandbox_api::{Base, LayerSpec, wire::RawPath};
use proctor_types::{Fault, FaultCause, FaultLayer, Source, Task, quote_shell_word};

use crate::Sources;

/// Time limit for all setup commands of one layer together.
const SETUP_TIME_LIMIT: Duration = Duration::from_secs(1800);

/// Resolves a task's environment: fetches its source and makes its paths absolute. Relative paths
/// are resolved against `base_dir`.
///
/// # Errors
/// Returns an environment fault that names the path or package.
pub async fn resolve_layer_spec(
    task: &Task,
    sources: &Sources,
    base_dir: &Path,
) -> Result<LayerSpec, Fault> {
    let base = sandbox_base(task, base_dir)?;
    let workdir = RawPath::from(task.workdir.as_str());
    let source = match &task.source {
        None => None,
        Some(source) => {
            let mut tree = sources
                .fetch(source, base_dir)
                .await
                .map_err(|fault| fault.context(format!("source of {}", task.id)))?;
            tree.destination = workdir.clone();
            Some(tree)
        }
    };
    Ok(LayerSpec {
        base,
        source,
        setup: task.environment.setup.iter().cloned().chain(owner_setup_command(task)).collect(),
        workdir,
        env: task.env.clone().into_iter().collect(),
        time_limit: SETUP_TIME_LIMIT,
    })
}

/// Returns a setup command that makes the task's user the owner of the work directory and the home
/// directory. It runs after the task's own setup commands. It is part of the environment, because
/// changing the owners in each sandbox would copy every file. If the image defines the user, the
/// command only creates a missing home directory.
fn owner_setup_command(task: &Task) -> Option<String> {
    let (user, home) = (task.user.as_deref()?, task.user_home()?);
    let values = [("user", user), ("home", home.as_str()), ("work", task.workdir.as_str())];
    let values = values.map(|(name, value)| format!("{name}={}", quote_shell_word(value)));
    let then = if task.should_chown_folders() { CHOWN_DIRS_SCRIPT } else { CREATE_HOME_SCRIPT };
    Some(format!("{}; {FIND_USER_SCRIPT}{then}", values.join("; ")))
}

/// Shell code that looks up the user's group, number and home directory in `/etc/passwd`. If the
/// user has an entry, its group is used, and the home directory that commands use becomes a link to
/// the user's own. A number without an entry is also used as the group, as when commands run. For a
/// name without an entry, nothing is done here: the check of the task's user reports the error.
const FIND_USER_SCRIPT: &str = r#"name="${user%%:*}"; group="$name"; number=; own=; \
if [ -f /etc/passwd ]; then while IFS=: read -r login _ uid gid _ dir _; do \
if [ "$login" = "$name" ] || [ "$uid" = "$name" ]; then group="$gid"; number="$uid"; own="$dir"; break; fi; \
done </etc/passwd; fi; \
case "$name" in *[!0-9]*) [ -n "$number" ] || exit 0 ;; esac; \
case "$user" in *:*) group="${user#*:}" ;; esac; \
"#;

/// Shell code that gives the directories to the user. It also makes them writable, because a source
/// on a read-only share may contain directories that only root can write to.
const CHOWN_DIRS_SCRIPT: &str = r#"of() { ls -ldn "$1" 2>/dev/null | { read -r _ _ owner _; echo "$owner"; }; }; \
mkdir -p "$work" && \
if [ -n "$number" ] && [ -d "$own/." ] && [ "$(of "$own/.")" = "$number" ] && [ ! -e "$home" ]; \
then mkdir -p "${home%/*}" && ln -s "$own" "$home"; \
else mkdir -p "$home" && chown -R -h "$name:$group" "$home"; fi && \
chown -R -h "$name:$group" "$work" && chmod -R u+rwX "$work""#;

/// Shell code that creates missing directories. Existing ones stay as they are in the image.
const CREATE_HOME_SCRIPT: &str = r#"mkdir -p "$work"; [ -e "$home" ] || \
if [ -n "$number" ] && [ -d "$own/." ]; then mkdir -p "${home%/*}" && ln -s "$own" "$home"; \
else mkdir -p "$home" && chown -h "$name:$group" "$home"; fi"#;

/// Checks that the local files of a task's source exist. Does not read the files, so that the check
/// of a plan can use this function.
///
/// # Errors
/// Returns an environment fault that names the missing path.
pub fn check_source(task: &Task, base_dir: &Path) -> Result<(), Fault> {
    let (path, is_there, what): (_, fn(&Path) -> bool, _) = match &task.source {
        Some(Source::Path { path }) => (path, Path::is_dir, "folder"),
        Some(Source::Archive { archive, .. }) => (archive, Path::is_file, "file"),
        Some(Source::Pypi { .. } | Source::Git { .. }) | None => return Ok(()),
    };
    let path = base_dir.join(path);
    if is_there(&path) {
        return Ok(());
    }
    let what = format!("source {} is not a {what}", path.display());
    Err(Fault::new(FaultLayer::Environment, what)
        .cause(FaultCause::Invalid)
        .hint("relative paths are resolved against the folder of the task's file")
        .context(&task.id))
}

/// Returns the base of a task's sandboxes. Fetches and builds nothing, so that the check of a plan
/// can use this function.
///
/// # Errors
/// Returns an environment fault if an archive or directory is missing.
pub fn sandbox_base(task: &Task, base_dir: &Path) -> Result<Base, Fault> {
    let fault = |what: String| {
        Fault::new(FaultLayer::Environment, what).cause(FaultCause::Invalid).context(&task.id)
    };
    let environment = &task.environment;
    if let Some(dockerfile) = &environment.dockerfile {
        if environment.image.is_some() || environment.base.is_some() {
            return Err(fault(
                "the environment needs exactly one of `image`, `dockerfile` and `base`".into(),
            ));
        }
        let folder = base_dir.join(dockerfile);
        if !folder.join("Dockerfile").is_file() {
            return Err(fault(format!("{} does not contain a `Dockerfile`", folder.display()))
                .hint(
                    "set `environment.dockerfile` to the folder of the build context, relative \
                       to the folder of the task's file",
                ));
        }
        let folder = std::fs::canonicalize(&folder);
        return folder
            .map(Base::Dockerfile)
            .map_err(|error| fault(format!("{dockerfile}: {error}")));
    }
    match (&environment.image, &environment.base) {
        (Some(image), None) => {
            // Reject a mistyped path here. Otherwise, Proctor would treat the path as an image
            // name, and the pull from a registry would fail later.
            let file = base_dir.join(image);
            if file.is_file() {
                return std::fs::canonicalize(&file)
                    .map(Base::Archive)
                    .map_err(|error| fault(format!("image {}: {error}", file.display())));
            }
            if image.starts_with(['/', '.']) || image.ends_with(".tar") {
                return Err(fault(format!("no such image archive: {}", file.display())));
            }
            Ok(Base::Image(image.clone()))
        }
        (None, Some(base)) if base == "host" => Ok(Base::Host),
        (None, Some(base)) => {
            let folder = base_dir.join(base);
            match std::fs::canonicalize(&folder) {
                Ok(folder) if folder.is_dir() => Ok(Base::Folder(folder)),
                _ => Err(fault(format!("base {} is not a folder", folder.display()))
                    .hint("set `base` to \"host\" or to the folder of a root file system")),
            }
        }
        _ => Err(fault(
            "the environment needs exactly one of `image`, `dockerfile` and `base`".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
        process::Command,
    };

    use super::*;

    fn task(user: Option<&str>) -> Task {
        let mut task: Task = serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {"base": "host", "setup": ["true"]},
            "workdir": "/it's here", "fail_to_pass": [], "test_command": []
        }))
        .unwrap();
        task.user = user.map(str::to_owned);
        task
    }

    /// Returns a task with the given directories, and the ID of the task's user.
    fn task_with_folders(workdir: &Path, home_dir: &Path) -> (u32, Task) {
        let me = fs::metadata(workdir).unwrap().uid();
        // Only root can change a file's owner, so a normal user must test with its own ID.
        let user = if me == 0 { 54321 } else { me };
        let mut task = task(Some(&user.to_string()));
        task.workdir = workdir.display().to_string();
        task.env.insert("HOME".into(), home_dir.display().to_string());
        (user, task)
    }

    fn run_owner_setup_command(task: &Task) {
        let line = owner_setup_command(task).unwrap();
        assert!(Command::new("/bin/sh").args(["-c", &line]).status().unwrap().success(), "{line}");
    }

    #[test]
    fn owner_command_exists_only_for_tasks_with_a_user() {
        assert_eq!(owner_setup_command(&task(None)), None);
        assert_eq!(owner_setup_command(&task(Some("root"))), None);
        let line = owner_setup_command(&task(Some("1000"))).unwrap();
        assert!(
            line.starts_with(r"user='1000'; home='/home/1000'; work='/it'\''s here'; "),
            "{line}"
        );
    }

    #[test]
    fn owner_command_makes_a_read_only_source_writable() {
        let folder = tempfile::tempdir().unwrap();
        let (work, home) = (folder.path().join("work"), folder.path().join("home/1234"));
        let file = work.join("part/file");
        fs::create_dir_all(work.join("part")).unwrap();
        fs::write(&file, "x").unwrap();
        for (path, mode) in [(&file, 0o444), (&work.join("part"), 0o555), (&work, 0o555)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let (user, task) = task_with_folders(&work, &home);
        run_owner_setup_command(&task);
        for (path, mode) in [(&file, 0o644), (&work.join("part"), 0o755), (&work, 0o755)] {
            let found = fs::metadata(path).unwrap();
            assert_eq!((found.uid(), found.mode() & 0o777), (user, mode), "{}", path.display());
        }
    }

    #[test]
    fn owner_command_gives_an_image_user_only_the_home_directory() {
        let folder = tempfile::tempdir().unwrap();
        let (work, home) = (folder.path().join("work"), folder.path().join("home/1234"));
        fs::create_dir_all(&work).unwrap();
        let me = fs::metadata(&work).unwrap().uid();
        let (user, mut task) = task_with_folders(&work, &home);
        task.from_image.is_user_inherited = true;
        run_owner_setup_command(&task);
        assert_eq!(fs::metadata(&work).unwrap().uid(), me, "the image's own");
        assert_eq!(fs::metadata(&home).unwrap().uid(), user);
    }

    #[test]
    fn sandbox_base_accepts_a_dockerfile() {
        let folder = tempfile::tempdir().unwrap();
        let mut task = task(None);
        task.environment.base = None;
        task.environment.dockerfile = Some("context".into());
        let missing = sandbox_base(&task, folder.path()).unwrap_err();
        assert!(missing.what.contains("does not contain a `Dockerfile`"), "{missing}");
        std::fs::create_dir(folder.path().join("context")).unwrap();
        std::fs::write(folder.path().join("context/Dockerfile"), "FROM scratch\n").unwrap();
        let found = sandbox_base(&task, folder.path()).unwrap();
        let context = std::fs::canonicalize(folder.path().join("context")).unwrap();
        assert_eq!(found, Base::Dockerfile(context));
        task.environment.image = Some("debian:12".into());
        assert!(sandbox_base(&task, folder.path()).unwrap_err().what.contains("exactly one of"));
    }

    #[test]
    fn owner_command_gives_both_folders_to_the_user() {
        let folder = tempfile::tempdir().unwrap();
        let (work, home) = (folder.path().join("work"), folder.path().join("home/1234"));
        fs::create_dir_all(work.join("inner")).unwrap();
        fs::write(work.join("inner/file"), "").unwrap();
        let (user, mut task) = task_with_folders(&work, &home);
        run_owner_setup_command(&task);
        for path in [work.clone(), work.join("inner/file"), home] {
            assert_eq!(fs::metadata(&path).unwrap().uid(), user, "{}", path.display());
        }
        task.user = Some("nobody-knows".into());
        run_owner_setup_command(&task);
        assert_eq!(fs::metadata(&work).unwrap().uid(), user);
    }
}
