//! Unpacks an archive into a directory in the cache.

use std::{
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use proctor_types::{ImageSettings, hex, sha256_hex};
use sha2::{Digest, Sha256};

use super::{image_archive::ImageArchive, root::Root};
use crate::{ids, tree};

/// Name prefix of directories with an unpacked archive.
pub(super) const ARCHIVE_PREFIX: &str = "archive-";

/// Unpacks an archive unless this was already done. Returns its name and its root directory.
/// Blocking.
///
/// Unpacks all layers into one directory. If each layer had its own directory, images could share
/// layers. But that requires whiteouts, which unprivileged users can create only on some kernels.
pub(crate) fn unpack(cache: &Path, archive: &Path) -> io::Result<(String, PathBuf)> {
    let bases = cache.join("bases");
    fs::create_dir_all(&bases)?;
    let digest = archive_digest(&bases, archive)?;
    let name = ids::cache_name(&digest);
    let folder = bases.join(format!("{ARCHIVE_PREFIX}{name}"));
    let kept = bases.join(format!("settings-{name}"));
    if folder.is_dir() && kept.is_file() {
        return Ok((digest, folder));
    }
    let outer = ImageArchive::open(archive)?;
    let mut file = tempfile::NamedTempFile::new_in(&bases)?;
    serde_json::to_writer(&mut file, &outer.settings()?)?;
    file.persist(&kept).map_err(|error| error.error)?;
    if folder.is_dir() {
        return Ok((digest, folder));
    }
    let temporary =
        tempfile::Builder::new().prefix(&unfinished_prefix(archive)).tempdir_in(&bases)?;
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755))?;
    let mut root = Root::open(temporary.path())?;
    for layer in outer.layers()? {
        root.apply_layer(outer.open_layer(&layer)?)
            .map_err(|error| io::Error::new(error.kind(), format!("layer {layer}: {error}")))?;
    }
    root.set_final_modes()?;
    debug_assert_eq!(root.folder(), temporary.path());
    tree::publish(&temporary.keep(), &folder)?;
    Ok((digest, folder))
}

/// Waits for the lock on unpacking this archive, without blocking a thread. Other processes wait
/// until the returned file is closed.
pub(crate) async fn lock_archive(cache: &Path, archive: &Path) -> io::Result<fs::File> {
    let bases = cache.join("bases");
    fs::create_dir_all(&bases)?;
    let file = fs::File::create(bases.join(format!(".unpacking-{}.lock", archive_key(archive))))?;
    proctor_files::lock(&file).await?;
    Ok(file)
}

/// Removes what processes left behind that were killed while they unpacked this archive. The caller
/// must hold the lock.
pub(crate) fn sweep(cache: &Path, archive: &Path) -> io::Result<()> {
    let prefix = unfinished_prefix(archive);
    for entry in fs::read_dir(cache.join("bases"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            tree::remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Returns the name prefix of directories into which the archive is currently being unpacked.
fn unfinished_prefix(archive: &Path) -> String {
    format!(".archive-{}-", archive_key(archive))
}

fn archive_key(archive: &Path) -> String {
    sha256_hex(archive.as_os_str().as_bytes()).chars().take(32).collect()
}

/// Returns whether an archive is unpacked and has not changed since. Does not read the archive.
pub(crate) fn is_unpacked(cache: &Path, archive: &Path) -> bool {
    let bases = cache.join("bases");
    let Some(name) = cached_name(cache, archive) else { return false };
    bases.join(format!("{ARCHIVE_PREFIX}{name}")).is_dir()
        && bases.join(format!("settings-{name}")).is_file()
}

/// If an archive was read before and has not changed since, returns the name of its unpacked
/// directory. Does not read the archive.
pub(crate) fn cached_name(cache: &Path, archive: &Path) -> Option<String> {
    let memory = digest_cache_path(&cache.join("bases"), archive).ok()?;
    read_cached_digest(&memory).map(|digest| ids::cache_name(&digest))
}

/// Returns the name for an archive's unpacked directory. Blocking: reads the whole archive the
/// first time.
pub(crate) fn archive_name(cache: &Path, archive: &Path) -> io::Result<String> {
    let bases = cache.join("bases");
    fs::create_dir_all(&bases)?;
    archive_digest(&bases, archive).map(|digest| ids::cache_name(&digest))
}

/// Returns the name of the archive that was unpacked into `folder`; `None` if the base is not an
/// archive.
pub(crate) fn name_from_folder(folder: &Path) -> Option<&str> {
    folder.file_name()?.to_str()?.strip_prefix(ARCHIVE_PREFIX)
}

/// Returns the container settings of the image that was unpacked into `folder`, or the defaults if
/// `folder` was not unpacked from an archive.
pub(crate) fn image_settings(folder: &Path) -> ImageSettings {
    let kept =
        name_from_folder(folder).map(|digest| folder.with_file_name(format!("settings-{digest}")));
    let text = kept.and_then(|kept| fs::read(kept).ok());
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Returns the archive's SHA-256. It is cached as long as the archive's path, size and times stay
/// the same.
fn archive_digest(bases: &Path, archive: &Path) -> io::Result<String> {
    let memory = digest_cache_path(bases, archive)?;
    if let Some(known) = read_cached_digest(&memory) {
        return Ok(known);
    }
    let mut hasher = Sha256::new();
    io::copy(&mut fs::File::open(archive)?, &mut hasher)?;
    let digest = hex(&hasher.finalize());
    fs::write(memory, &digest)?;
    Ok(digest)
}

fn read_cached_digest(cache_path: &Path) -> Option<String> {
    fs::read_to_string(cache_path).ok().filter(|known| known.len() == 64)
}

/// Returns the path of the file that caches an archive's digest.
fn digest_cache_path(bases: &Path, archive: &Path) -> io::Result<PathBuf> {
    let found = fs::metadata(archive)?;
    let state = format!(
        "{} {} {} {}.{}",
        fs::canonicalize(archive)?.display(),
        found.ino(),
        found.len(),
        found.mtime(),
        found.mtime_nsec()
    );
    Ok(bases.join(format!("digest-{}", &sha256_hex(state.as_bytes())[..32])))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn build_tar(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut out = tar::Builder::new(Vec::new());
        for (path, content) in entries {
            let mut header = tar::Header::new_gnu();
            if let Some(target) = content.strip_prefix("-> ") {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                header.set_mode(0o777);
                out.append_link(&mut header, path, target).unwrap();
            } else {
                header.set_size(content.len() as u64);
                header.set_mode(0o644);
                header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
                header.set_cksum();
                out.append(&header, content.as_bytes()).unwrap();
            }
        }
        out.into_inner().unwrap()
    }

    fn save_archive(folder: &Path, layers: &[Vec<u8>]) -> PathBuf {
        let mut out = tar::Builder::new(Vec::new());
        let mut put = |name: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            out.append_data(&mut header, name, bytes).unwrap();
        };
        let names: Vec<_> = (0..layers.len()).map(|n| format!("{n}/layer.tar")).collect();
        for (name, bytes) in names.iter().zip(layers) {
            put(name, bytes);
        }
        let config = serde_json::json!({ "config": {
            "Env": ["PATH=/opt/bin:/bin", "A=b=c"], "WorkingDir": "/app", "User": "dev",
            "Entrypoint": ["/start"], "Cmd": null,
        } });
        put("config.json", config.to_string().as_bytes());
        let manifest = serde_json::json!([{ "Layers": names, "Config": "config.json" }]);
        put("manifest.json", manifest.to_string().as_bytes());
        let path = folder.join("image.tar");
        fs::write(&path, out.into_inner().unwrap()).unwrap();
        path
    }

    #[test]
    fn later_layers_override_and_whiteouts_remove() {
        let folder = tempfile::tempdir().unwrap();
        let first = build_tar(&[
            ("etc/a", "1"),
            ("etc/gone", "x"),
            ("old/below", "x"),
            ("usr/lib/x", "1"),
            ("lib", "-> usr/lib"),
        ]);
        let second = build_tar(&[
            ("etc/a", "2"),
            ("etc/.wh.gone", ""),
            ("old/new", "y"),
            ("old/.wh..wh..opq", ""),
            ("lib/y", "2"),
        ]);
        let archive = save_archive(folder.path(), &[first, second]);
        assert!(!is_unpacked(folder.path(), &archive));
        let (digest, root) = unpack(folder.path(), &archive).unwrap();
        assert!(is_unpacked(folder.path(), &archive));
        assert_eq!(fs::read_to_string(root.join("etc/a")).unwrap(), "2");
        assert!(!root.join("etc/gone").exists());
        assert!(!root.join("old/below").exists());
        assert_eq!(fs::read_to_string(root.join("old/new")).unwrap(), "y");
        assert_eq!(fs::read_to_string(root.join("usr/lib/y")).unwrap(), "2");
        let found = image_settings(&root);
        let expected = [("A", "b=c"), ("PATH", "/opt/bin:/bin")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found.env, BTreeMap::from(expected));
        assert_eq!((found.workdir.as_deref(), found.user.as_deref()), (Some("/app"), Some("dev")));
        assert_eq!((found.entrypoint, found.cmd), (vec!["/start".to_owned()], Vec::new()));
        assert_eq!(unpack(folder.path(), &archive).unwrap(), (digest, root));
    }

    #[test]
    fn unpack_never_writes_outside_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        // A link to a path outside resolves to the same path in the image if it exists there.
        // Otherwise the link is dangling.
        let link = format!("-> {}", outside.display());
        let inner = format!("{}/kept", outside.display());
        let inner = inner.trim_start_matches('/');
        let layer = build_tar(&[(inner, "x"), ("proxy", &link), ("proxy/evil", "x")]);
        let (_, root) = unpack(folder.path(), &save_archive(folder.path(), &[layer])).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(root.join(inner).with_file_name("evil").exists());
        let archive =
            save_archive(folder.path(), &[build_tar(&[("proxy", &link), ("proxy/evil", "x")])]);
        unpack(folder.path(), &archive).unwrap_err();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);

        let other = tempfile::tempdir().unwrap();
        let archive = save_archive(other.path(), &[build_tar(&[("../evil", "x")])]);
        let error = unpack(other.path(), &archive).unwrap_err().to_string();
        assert!(error.contains("leads outside the image"), "{error}");
        assert!(!other.path().join("evil").exists());
    }
}
