//! `proctor clean`: frees disk space by removing files that can be recreated.
//!
//! The cache directory may contain unrelated files, so `clean` removes only files with names that
//! Proctor creates. It never removes run directories or files that a live run may be using.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime},
};

use proctor_sandbox_api::{Backend, CacheEntry};
use proctor_types::{SandboxKind, count_with_noun};

use crate::{assemble, cache_dir, error::CommandError, print::print_result};

/// Returns whether Proctor creates cache entries with names of this form.
type NameCheck = fn(&str) -> bool;

/// Caches that do not belong to a back end: path, label, and a check for the names of their
/// entries.
const CACHE_DIRS: &[(&str, &str, NameCheck)] = &[
    ("sources/archives", "source archive", |name| {
        name.strip_suffix(".tar.gz").is_some_and(|digest| is_hex(digest, 64))
    }),
    ("sources/trees", "source", |name| is_hex(name, 64)),
    ("leak-checks/native", "leak check", is_result_file_name),
    ("leak-checks/docker", "leak check", is_result_file_name),
    ("native/absent", "whiteouts", |name| is_hex(name, 32)),
    ("docker", "whiteouts", |name| is_hex(name, 32)),
    ("frozen", "frozen tests", is_result_file_name),
    ("verdicts", "verdict", |name| is_hex(name, 64)),
    ("bundles/built", "bundle", |name| {
        let name = name.strip_suffix(".building").unwrap_or(name);
        name.rsplit_once('-').is_some_and(|(_, key)| is_hex(key, 16))
    }),
    ("bundles/downloads", "bundle package", |name| match name.split_once('-') {
        Some(("sha256", digest)) => is_hex(digest, 64),
        Some(("sha512", digest)) => is_hex(digest, 128),
        _ => false,
    }),
    ("programs", "arm program", |name| is_hex(name, 64) || name.starts_with(".making-")),
    ("tasks", "built task", |name| {
        let stem = name.strip_suffix(".json").and_then(|stem| stem.rsplit_once('-'));
        stem.is_some_and(|(_, digest)| is_hex(digest, 16))
    }),
];

/// Minimum size of an entry that is listed separately. There are too many smaller entries, so each
/// cache has one line with their total.
const MIN_LISTED_BYTES: u64 = 1 << 20;

pub async fn clean(dry_run: bool, older_than: Option<Duration>) -> Result<ExitCode, CommandError> {
    let cache = cache_dir::default_cache_dir()?;
    let mut sum = CacheCleaner { dry_run, older_than, item_count: 0, byte_count: 0 };
    if cache.is_dir() {
        // Hold the lock until `clean` has finished. A run that starts in the meantime waits for the
        // lock.
        match cache_dir::try_lock_exclusive(&cache)? {
            None => tell!("skipped {}: a live run uses it", cache.display()),
            Some(_alone) => {
                if cache.join("native").is_dir() {
                    let native = assemble::connect_backend(SandboxKind::Native, &cache).await?;
                    sum.clean_backend(&native).await?;
                }
                sum.clean_files(&cache)?;
            }
        }
    }
    match assemble::connect_backend(SandboxKind::Docker, &cache).await {
        Err(_) => tell!("note: cannot connect to Docker, so its images were not checked"),
        Ok(docker) => match docker.other_cache_user().await? {
            Some(who) => tell!("skipped the Docker images: a live run uses them ({who})"),
            None => sum.clean_backend(&docker).await?,
        },
    }
    let (items, size) = (count_with_noun(sum.item_count, "item"), format_size(sum.byte_count));
    print_result(&match (dry_run, sum.item_count) {
        (_, 0) => "nothing to remove\n".to_owned(),
        (true, _) => format!("would remove {items}, {size}\n"),
        (false, _) => format!("removed {items}, {size}\n"),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Removes cache entries, or only lists them in a dry run, and adds up their number and size.
struct CacheCleaner {
    dry_run: bool,
    older_than: Option<Duration>,
    item_count: u64,
    byte_count: u64,
}

impl CacheCleaner {
    fn is_old_enough(&self, created_at: Option<SystemTime>) -> bool {
        let Some(least) = self.older_than else { return true };
        // An entry of unknown age may be new, so keep it.
        created_at.and_then(|made| made.elapsed().ok()).is_some_and(|age| age >= least)
    }

    async fn clean_backend(&mut self, backend: &Arc<dyn Backend>) -> Result<(), CommandError> {
        if !self.dry_run {
            for removed in backend.sweep().await? {
                tell!("removed leftovers from a crashed run: {removed}");
            }
        }
        for kept in backend.cache_entries().await? {
            if !self.is_old_enough(kept.created_at) {
                continue;
            }
            if self.dry_run || backend.discard(&kept).await? {
                self.report_removed(&kept)?;
            } else {
                tell!("skipped {}: still in use", kept.description);
            }
        }
        Ok(())
    }

    fn clean_files(&mut self, cache: &Path) -> Result<(), CommandError> {
        let mut folders: Vec<(String, &str, NameCheck)> = CACHE_DIRS
            .iter()
            .map(|(folder, kind, is_made)| ((*folder).to_owned(), *kind, *is_made))
            .collect();
        // Hugging Face datasets are stored as `hub/NAME/COMMIT`.
        for (name, _) in list_entries(&cache.join("hub"))? {
            folders.push((format!("hub/{name}"), "dataset", |name| is_hex(name, 40)));
        }
        for (folder, kind, is_made) in folders {
            let (mut small, mut bytes) = (0_u64, 0);
            for (name, path) in list_entries(&cache.join(&folder))? {
                // Never remove a run directory, even if its name looks like that of a cache entry.
                if !is_made(&name) || path.join("run.json").exists() {
                    continue;
                }
                let made = fs::symlink_metadata(&path)?.modified().ok();
                if !self.is_old_enough(made) {
                    continue;
                }
                let size = disk_usage(&path);
                if !self.dry_run {
                    remove_path(&path)?;
                }
                if size < MIN_LISTED_BYTES {
                    small += 1;
                    bytes += size;
                    continue;
                }
                let (what, handle) = (format!("{kind} {name:.40}"), String::new());
                self.report_removed(&CacheEntry {
                    description: what,
                    bytes: size,
                    created_at: made,
                    backend_id: handle,
                })?;
            }
            if small > 0 {
                self.item_count += small - 1;
                let (what, handle) =
                    (format!("{folder}: {}", count_with_noun(small, "item")), String::new());
                self.report_removed(&CacheEntry {
                    description: what,
                    bytes,
                    created_at: None,
                    backend_id: handle,
                })?;
            }
        }
        Ok(())
    }

    fn report_removed(&mut self, entry: &CacheEntry) -> io::Result<()> {
        self.item_count += 1;
        self.byte_count += entry.bytes;
        let age = entry.created_at.and_then(|made| made.elapsed().ok());
        let age = age.map_or(String::new(), |age| {
            let hours = age.as_secs() / 3_600;
            match hours {
                0 => "less than an hour old".to_owned(),
                1..=47 => format!("{} old", count_with_noun(hours, "hour")),
                _ => format!("{} old", count_with_noun(hours / 24, "day")),
            }
        });
        let line = format!("{:>10}  {:<18}  {}", format_size(entry.bytes), age, entry.description);
        print_result(&format!("{}\n", line.trim_end()))
    }
}

fn is_result_file_name(name: &str) -> bool {
    name.strip_suffix(".json").is_some_and(|digest| is_hex(digest, 64))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the sorted names and paths of a directory's entries. Empty if the directory does not
/// exist.
fn list_entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let named = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.path()))
    };
    let mut all: Vec<_> = entries.map(named).collect::<io::Result<_>>()?;
    all.sort();
    Ok(all)
}

/// Returns the total size, in bytes, of all files below a path. Symlinks are not followed, and
/// unreadable entries count as zero.
fn disk_usage(path: &Path) -> u64 {
    let Ok(found) = fs::symlink_metadata(path) else { return 0 };
    if !found.is_dir() {
        return found.len();
    }
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| disk_usage(&entry.path())).sum()
}

/// Removes a file, a symlink or a directory. Read-only subdirectories, which extracted sources may
/// contain, are made writable first.
fn remove_path(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path)?.is_dir() {
        false => fs::remove_file(path),
        true => fs::remove_dir_all(path).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                make_writable(path)?;
                fs::remove_dir_all(path)
            }
            _ => Err(error),
        }),
    };
    removed.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn make_writable(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

/// Formats a size: `950 B`, `12.3 MiB`.
fn format_size(bytes: u64) -> String {
    const SIZE_UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut size, mut unit) = (bytes as f64 / 1024.0, 0);
    while size >= 1024.0 && unit + 1 < SIZE_UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", SIZE_UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_size_uses_binary_units() {
        assert_eq!(format_size(950), "950 B");
        assert_eq!(format_size(1 << 20), "1.0 MiB");
        assert_eq!(format_size(3 << 40), "3.0 TiB");
    }

    #[test]
    fn clean_keeps_files_that_are_not_cache_entries() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path();
        let own = cache.join("verdicts").join("ab".repeat(32));
        let theirs = [
            cache.join("tasks/my-tasks.jsonl"),
            cache.join("sources/notes.txt"),
            cache.join("runs/demo/run.json"),
            cache.join("verdicts").join("cd".repeat(32)).join("run.json"),
            cache.join("bundles/built/notes"),
            cache.join("bundles/downloads/sha256-notes"),
        ];
        let bundles = [
            cache.join(format!("bundles/built/my-cli-1.0-{}/tree/bin/x", "ab".repeat(8))),
            cache.join(format!("bundles/built/my-cli-2.0-{}.building/tree/x", "ab".repeat(8))),
            cache.join(format!("bundles/downloads/sha512-{}", "ab".repeat(64))),
        ];
        for file in theirs.iter().chain(&bundles).chain([&own.join("verdict.json")]) {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "x").unwrap();
        }
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "x").unwrap();
        let link = cache.join("sources/trees").join("ef".repeat(32));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();

        let mut sum =
            CacheCleaner { dry_run: true, older_than: None, item_count: 0, byte_count: 0 };
        sum.clean_files(cache).unwrap();
        assert_eq!(sum.item_count, 5);
        assert!(own.exists());
        sum = CacheCleaner { older_than: Some(Duration::from_secs(3_600)), ..sum };
        sum.item_count = 0;
        sum.clean_files(cache).unwrap();
        assert_eq!(sum.item_count, 0, "no entry is that old");
        sum = CacheCleaner { dry_run: false, older_than: None, item_count: 0, byte_count: 0 };
        sum.clean_files(cache).unwrap();
        assert!(bundles.iter().all(|file| !file.exists()));
        assert!(!own.exists() && fs::symlink_metadata(&link).is_err());
        assert!(outside.path().join("kept").exists(), "symlinks are not followed");
        assert!(theirs.iter().all(|file| file.exists()));
    }
}
