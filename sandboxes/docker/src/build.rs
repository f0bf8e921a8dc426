//! Builds images from a Dockerfile and a build context on this machine.

use std::{
    collections::HashMap,
    fs,
    io::{self, Write},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use bollard::{body_try_stream, query_parameters::BuildImageOptionsBuilder};
use futures_util::StreamExt;
use proctor_host::host_base;
use proctor_types::{Fault, FaultCause, FaultLayer, hex};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};
use tokio::task::spawn_blocking;

use crate::{
    engine::Engine,
    fault,
    ignore::IgnoreRules,
    image,
    tarball::{self, Body},
};

/// Repository of built images. The tag is the digest of the build context.
pub const REPOSITORY: &str = "proctor-build";

/// Part of every tag. Change it when an edit to this code changes what a tag means, so that older
/// images are rebuilt.
const FORMAT: &str = "proctor build 1";

const DOCKERFILE: &str = "Dockerfile";
const IGNORE_FILE: &str = ".dockerignore";

/// Maximum number of characters to quote from a failed build's output.
const MAX_QUOTED_CHARS: usize = 4_000;

/// One entry of a build context.
#[derive(Debug, Clone)]
struct Entry {
    /// Path relative to the context.
    path: PathBuf,
    kind: EntryType,
    mode: u32,
    size: u64,
    modified: u64,
    /// The target of a link.
    target: Option<PathBuf>,
}

/// Returns the id of a build context's image. Builds the image if the engine does not have it.
pub async fn ensure_image(engine: &Engine, folder: &Path) -> Result<String, Fault> {
    let walked = folder.to_owned();
    let collected = spawn_blocking(move || -> io::Result<(Vec<Entry>, String)> {
        let entries = collect_context(&walked)?;
        let digest = context_digest(&walked, &entries)?;
        Ok((entries, digest))
    });
    let collected = collected.await.map_err(io::Error::other).and_then(|collected| collected);
    let (entries, digest) = collected.map_err(|error| {
        let what = format!("cannot read the build context {}: {error}", folder.display());
        let fault =
            Fault::new(FaultLayer::Environment, what).cause(FaultCause::from_io_error(&error));
        match error.kind() {
            io::ErrorKind::NotFound => {
                fault.hint("`environment.dockerfile` must be a folder with a `Dockerfile`")
            }
            _ => fault,
        }
    })?;
    let name = format!("{REPOSITORY}:{}", &digest[..32]);
    if let Some(id) = image::find_id(engine, &name).await? {
        return Ok(id);
    }
    build(engine, folder, entries, &name).await?;
    image::find_id(engine, &name).await?.ok_or_else(|| {
        let what = format!("the engine built {} but does not have the image", folder.display());
        Fault::new(FaultLayer::Environment, what)
    })
}

async fn build(
    engine: &Engine,
    folder: &Path,
    entries: Vec<Entry>,
    name: &str,
) -> Result<(), Fault> {
    let proxies: HashMap<String, String> = host_base::setup_env()
        .into_iter()
        .filter(|(key, _)| host_base::PROXY_VARS.contains(&&**key))
        .collect();
    let options = BuildImageOptionsBuilder::new()
        .dockerfile(DOCKERFILE)
        .t(name)
        .rm(true)
        .forcerm(true)
        // Like setup commands, use this machine's network, so that registries are reachable.
        .networkmode("host")
        .buildargs(&proxies)
        .build();
    let body = body_try_stream(context_archive(folder.to_owned(), entries));
    let mut steps = std::pin::pin!(engine.slow_client.build_image(options, None, Some(body)));
    let mut said = String::new();
    while let Some(step) = steps.next().await {
        let error = match step {
            Ok(info) => {
                said.push_str(&info.stream.unwrap_or_default());
                match info.error_detail.and_then(|detail| detail.message) {
                    None => continue,
                    Some(message) => message,
                }
            }
            Err(error) => fault::engine_message(&error),
        };
        return Err(build_fault(folder, &error, &said));
    }
    Ok(())
}

fn build_fault(folder: &Path, error: &str, output: &str) -> Fault {
    let tail: Vec<char> = output.trim_end().chars().collect();
    let tail: String = tail[tail.len().saturating_sub(MAX_QUOTED_CHARS)..].iter().collect();
    let what = format!("cannot build {}: {error}\n{tail}", folder.join(DOCKERFILE).display());
    let cause = match FaultCause::from_output(&tail) {
        // As with a setup command, building the same Dockerfile again would fail again.
        FaultCause::Other => FaultCause::SetupLine,
        known => known,
    };
    let fault = Fault::new(FaultLayer::Environment, what).cause(cause);
    let words = format!("{error}\n{tail}").to_lowercase();
    match ["buildkit", "unknown flag: mount", "unknown instruction: <<", "heredoc"]
        .iter()
        .any(|sign| words.contains(sign))
    {
        true => fault.hint(
            "the engine's API builds without BuildKit; rewrite the step without `RUN --mount` or \
             heredocs, or build the image yourself and set `image`",
        ),
        false => fault.hint("fix the Dockerfile; `docker build` shows the full output"),
    }
}

/// Returns the sorted entries to send, without those that `.dockerignore` excludes. Blocking.
fn collect_context(folder: &Path) -> io::Result<Vec<Entry>> {
    if !folder.join(DOCKERFILE).is_file() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no file `Dockerfile` in it"));
    }
    let ignore = match fs::read(folder.join(IGNORE_FILE)) {
        Ok(bytes) => IgnoreRules::parse(&String::from_utf8_lossy(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => IgnoreRules::default(),
        Err(error) => return Err(error),
    };
    let mut entries = Vec::new();
    walk_context(folder, Path::new(""), &ignore, &mut entries)?;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

fn walk_context(
    folder: &Path,
    relative_path: &Path,
    ignore: &IgnoreRules,
    entries: &mut Vec<Entry>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(relative_path))? {
        let entry = entry?;
        let path = relative_path.join(entry.file_name());
        let meta = entry.metadata()?;
        // The engine needs these two files even if the rules exclude them.
        let needed = relative_path.as_os_str().is_empty()
            && (entry.file_name() == DOCKERFILE || entry.file_name() == IGNORE_FILE);
        let excluded = !needed && ignore.excludes(&path.to_string_lossy());
        let kind = if meta.is_symlink() {
            EntryType::Symlink
        } else if meta.is_dir() {
            EntryType::Directory
        } else if meta.is_file() {
            EntryType::Regular
        } else {
            // An archive cannot contain sockets or pipes.
            continue;
        };
        if !excluded {
            let target = match kind {
                EntryType::Symlink => Some(fs::read_link(entry.path())?),
                _ => None,
            };
            let modified =
                meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            entries.push(Entry {
                path: path.clone(),
                kind,
                mode: meta.permissions().mode() & 0o7777,
                size: if kind == EntryType::Regular { meta.len() } else { 0 },
                modified: modified.map_or(0, |time| time.as_secs()),
                target,
            });
        }
        // A later rule may include entries below an excluded directory, so walk it.
        if kind == EntryType::Directory && (!excluded || ignore.has_exceptions()) {
            walk_context(folder, &path, ignore, entries)?;
        }
    }
    Ok(())
}

/// Returns a digest of a build context's paths, types, modes and contents. Blocking.
fn context_digest(folder: &Path, entries: &[Entry]) -> io::Result<String> {
    let mut whole = Sha256::new();
    whole.update(FORMAT);
    for entry in entries {
        whole.update(entry.path.as_os_str().as_bytes());
        whole.update([0u8, entry.kind.as_byte()]);
        whole.update(format!("{:o}", entry.mode));
        let mut content = Sha256::new();
        match (&entry.kind, &entry.target) {
            (EntryType::Regular, _) => {
                let mut file = fs::File::open(folder.join(&entry.path))?;
                io::copy(&mut file, &mut HashWriter(&mut content))?;
            }
            (_, Some(target)) => content.update(target.as_os_str().as_bytes()),
            _ => {}
        }
        whole.update([0u8]);
        whole.update(content.finalize());
    }
    Ok(hex(&whole.finalize()))
}

/// Adds written bytes to a hash.
struct HashWriter<'a>(&'a mut Sha256);

impl Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the build context as a tar stream. Root owns all entries, as with the Docker client.
fn context_archive(folder: PathBuf, entries: Vec<Entry>) -> Body {
    tarball::stream_writer(move |out| {
        let mut builder = Builder::new(out);
        for entry in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(entry.kind);
            header.set_mode(entry.mode);
            header.set_mtime(entry.modified);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(entry.size);
            match (&entry.kind, &entry.target) {
                (_, Some(target)) => builder.append_link(&mut header, &entry.path, target)?,
                (EntryType::Regular, None) => {
                    let file = fs::File::open(folder.join(&entry.path))?;
                    // If the file grows while it is read, the additional bytes must not become part
                    // of the next entry.
                    let content = io::Read::take(file, entry.size);
                    builder.append_data(&mut header, &entry.path, content)?;
                }
                _ => builder.append_data(&mut header, &entry.path, io::empty())?,
            }
        }
        builder.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create_context(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn tag_digest(folder: &Path) -> String {
        context_digest(folder, &collect_context(folder).unwrap()).unwrap()
    }

    #[test]
    fn build_tag_depends_only_on_sent_content() {
        let files = [("Dockerfile", "FROM scratch\n"), ("a/b", "1"), (".dockerignore", "*.log\n")];
        let (one, other) = (create_context(&files), create_context(&files));
        assert_eq!(tag_digest(one.path()), tag_digest(other.path()));
        fs::write(other.path().join("x.log"), "noise").unwrap();
        assert_eq!(tag_digest(one.path()), tag_digest(other.path()), "an ignored file is not sent");
        fs::write(other.path().join("a/b"), "2").unwrap();
        assert_ne!(tag_digest(one.path()), tag_digest(other.path()));
        fs::write(other.path().join("a/b"), "1").unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(other.path().join("a/b"), mode).unwrap();
        assert_ne!(tag_digest(one.path()), tag_digest(other.path()), "COPY keeps modes");
    }

    #[test]
    fn build_sends_the_dockerfile_and_rejects_folders_without_one() {
        let folder = create_context(&[
            ("Dockerfile", "FROM scratch\n"),
            (".dockerignore", "*\n!keep\n"),
            ("keep/a", ""),
            ("x", ""),
        ]);
        let sent: Vec<_> =
            collect_context(folder.path()).unwrap().into_iter().map(|one| one.path).collect();
        let expected = [".dockerignore", "Dockerfile", "keep", "keep/a"].map(PathBuf::from);
        assert_eq!(sent, expected);
        let empty = tempfile::tempdir().unwrap();
        assert!(collect_context(empty.path()).unwrap_err().to_string().contains("Dockerfile"));
    }

    #[test]
    fn failed_build_quotes_output_and_mentions_buildkit() {
        let fault = build_fault(Path::new("/t"), "The command returned 1", "Step 1/1\nboom\n");
        assert!(
            fault.what.contains("/t/Dockerfile") && fault.what.ends_with("boom"),
            "{}",
            fault.what
        );
        assert_eq!(fault.cause, FaultCause::SetupLine);
        let mount = build_fault(Path::new("/t"), "the --mount option requires BuildKit", "");
        assert!(mount.hint.unwrap().contains("BuildKit"));
    }
}
