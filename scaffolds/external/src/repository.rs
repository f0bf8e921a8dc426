//! Hides settings files for the agent in the task's repository, because they would override the
//! manifest.

use std::sync::Arc;

use proctor_sandbox_api::{Command, CommandOutput, SandboxHandle};
use proctor_scaffold_api::{Session, Stop};
use proctor_types::{Fault, FaultCause, FaultLayer, RepositorySettings};
use serde_json::json;

use crate::{RepositoryFiles, time_limits::HELPER_TIMEOUT};

/// Shell code that prints the paths that exist in the work directory (`$1`). If the work directory
/// is in a Git repository, also checks each parent up to the repository's root.
const FIND_SCRIPT: &str = r#"cd -- "$1" || exit 1
shift
dir=$PWD top=$PWD
while [ ! -e "$top/.git" ] && [ -n "$top" ]; do top=${top%/*}; done
[ -n "$top" ] || top=$dir
while :; do
    for path do
        if [ -e "$dir/$path" ] || [ -L "$dir/$path" ]; then printf '%s\n' "$dir/$path"; fi
    done
    [ "$dir" = "$top" ] && break
    dir=${dir%/*}
done
:"#;

/// Shell code that moves the paths into the directory `$1`, with numbers as names. Only root can
/// read that directory.
const HIDE_SCRIPT: &str = r#"aside=$1 n=0
shift
umask 077 && mkdir -p "$aside" || exit 1
for path do n=$((n + 1)); mv -- "$path" "$aside/$n" || exit 1; done"#;

/// Shell code that moves the paths back, unless the agent has created something at the same path.
const RESTORE_SCRIPT: &str = r#"aside=$1 n=0
shift
for path do
    n=$((n + 1))
    if [ -e "$path" ] || [ -L "$path" ]; then continue; fi
    mkdir -p "${path%/*}" && mv -- "$aside/$n" "$path" || exit 1
done
rm -rf "$aside""#;

/// The settings files in one trial's repository that are hidden from the agent.
pub struct HiddenFiles {
    handle: Arc<SandboxHandle>,
    /// The directory that contains the hidden files while the agent runs.
    hidden_folder: String,
    hidden_paths: Vec<String>,
}

impl HiddenFiles {
    /// Records which of the files exist. If the arm ignores settings files, hides them.
    pub async fn prepare(
        files: &RepositoryFiles,
        settings: RepositorySettings,
        home: &str,
        session: &mut dyn Session,
    ) -> Result<Self, Stop> {
        let handle = Arc::clone(session.sandbox());
        let mut repository =
            Self { handle, hidden_folder: format!("{home}-aside"), hidden_paths: Vec::new() };
        let workdir = session.brief().workdir.clone();
        let found = repository.find_existing(&workdir, &files.settings).await?;
        let knowledge = repository.find_existing(&workdir, &files.knowledge).await?;
        if !found.is_empty() || !knowledge.is_empty() {
            let note = json!({
                RepositorySettings::KEY: settings.name(),
                "settings_files": found,
                "knowledge_files": knowledge,
            });
            session.note(note.as_object().cloned().unwrap_or_default()).await?;
        }
        if settings.is_ignore() && !found.is_empty() {
            session.hide(&found).await?;
            repository.hide_paths(found).await?;
        }
        Ok(repository)
    }

    /// Moves hidden files back. If this fails, it is only noted, because snapshots contain the
    /// files anyway.
    pub async fn restore(self, session: &mut dyn Session) -> Result<(), Stop> {
        if self.hidden_paths.is_empty() {
            return Ok(());
        }
        let done =
            self.run_as_root(RESTORE_SCRIPT, &self.hidden_folder, &self.hidden_paths).await?;
        if !done.success() {
            let note = json!({ "settings_files_not_restored": done.stderr.text().trim() });
            session.note(note.as_object().cloned().unwrap_or_default()).await?;
        }
        Ok(())
    }

    async fn find_existing(&self, workdir: &str, paths: &[String]) -> Result<Vec<String>, Stop> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let done = self.run_as_root(FIND_SCRIPT, workdir, paths).await?;
        Ok(done.stdout.text().lines().map(str::to_owned).collect())
    }

    async fn hide_paths(&mut self, paths: Vec<String>) -> Result<(), Stop> {
        let done = self.run_as_root(HIDE_SCRIPT, &self.hidden_folder, &paths).await?;
        if !done.success() {
            let said = done.stderr.text();
            let what =
                format!("the repository's settings files could not be hidden: {}", said.trim());
            let hint = "to leave them in place, set repository_settings = \"use\" in the arm";
            return Err(Fault::new(FaultLayer::Setup, what)
                .cause(FaultCause::Invalid)
                .hint(hint)
                .into());
        }
        self.hidden_paths = paths;
        Ok(())
    }

    /// Runs a command as root in the sandbox, because the files may belong to another user.
    async fn run_as_root(
        &self,
        line: &str,
        folder: &str,
        paths: &[String],
    ) -> Result<CommandOutput, Stop> {
        let fixed = ["/bin/sh", "-c", line, "sh", folder].into_iter();
        let argv = fixed.chain(paths.iter().map(String::as_str));
        let done = self.handle.run(Command::new(argv).time_limit(HELPER_TIMEOUT)).await;
        done.map_err(|error| error.to_fault("looking for settings in the repository").into())
    }
}
