//! The content of a sandbox with `base: "host"`, the same for all back ends.
//!
//! The host's programs and libraries are bind-mounted read-only. Everything about a person or this
//! machine (homes, `/etc`, sockets, `/var`) is left out, and the small skeleton below replaces it.
//! `dist-packages` directories are hidden: distributions install the libraries of their own tools
//! there, which differ between hosts and would be importable in every sandbox.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use proctor_types::{Fault, FaultLayer, sha256_hex};

/// One entry of the skeleton. Its path has no leading slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkeletonEntry {
    pub path: PathBuf,
    pub kind: SkeletonEntryKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkeletonEntryKind {
    /// A directory with its permission bits.
    Dir(u32),
    File(u32, Vec<u8>),
    Link(PathBuf),
}

/// Directories at the top level, which are links into `/usr` if the host has a merged `/usr`, and
/// real directories otherwise.
const TOP_FOLDERS: &[&str] = &["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Empty directories of the skeleton.
const EMPTY_FOLDERS: &[(&str, u32)] = &[
    ("dev", 0o755),
    ("etc", 0o755),
    ("etc/alternatives", 0o755),
    ("etc/ssl", 0o755),
    ("etc/ssl/certs", 0o755),
    ("home", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("srv", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("var", 0o755),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/tmp", 0o1777),
];

/// Files in `/etc` that are the same in every sandbox.
const FIXED_FILES: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\ndaemon:x:1:\ntty:x:5:\nstaff:x:50:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"),
    ("etc/hostname", "sandbox\n"),
    ("etc/resolv.conf", ""),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"),
    ("etc/shells", "/bin/sh\n/bin/bash\n"),
];

/// Files in the host's `/etc` that are copied if they exist. Programs need them to start, and they
/// contain no personal data.
const COPIED_FILES: &[&str] = &[
    "etc/ld.so.cache",
    "etc/ld.so.conf",
    "etc/protocols",
    "etc/services",
    "etc/mime.types",
    "etc/ssl/openssl.cnf",
    "etc/ssl/certs/ca-certificates.crt",
];

/// Name prefixes of directories in `/etc` that are also copied. Debian's Java needs them to start.
const COPIED_FOLDER_PREFIXES: &[&str] = &["java-"];

/// Environment variables that configure this machine's proxies.
pub const PROXY_VARS: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
];

/// Other environment variables that configure this machine's access to package registries. Only
/// setup commands get them.
const SETUP_VARS: &[&str] = &[
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
];

/// Returns the host directories that are bind-mounted read-only. Each has the same path in the
/// sandbox.
pub fn visible_folders() -> Vec<PathBuf> {
    let mut out = vec![PathBuf::from("/usr")];
    let top = TOP_FOLDERS.iter().map(|name| Path::new("/").join(name)).filter(|path| is_dir(path));
    out.extend(top);
    out.extend(Some(PathBuf::from("/opt")).filter(|path| is_dir(path)));
    out
}

/// Returns the directories below [`visible_folders`] that an empty read-only directory covers.
pub fn hidden_folders() -> Vec<PathBuf> {
    let mut out = vec![PathBuf::from("/usr/lib/python3/dist-packages")];
    for parent in ["/usr/lib", "/usr/local/lib"] {
        let Ok(entries) = fs::read_dir(parent) else { continue };
        for entry in entries.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b"python3.") {
                out.push(entry.path().join("dist-packages"));
            }
        }
    }
    // Cover this directory, because it contains the state of container engines and no programs.
    out.push(PathBuf::from("/opt/containerd"));
    out.retain(|path| is_dir(path));
    out.sort();
    out
}

/// Returns all entries of the root that are not bind-mounted. Directories come first and are
/// sorted, so each comes after its parent.
pub fn skeleton() -> io::Result<Vec<SkeletonEntry>> {
    let mut out = Vec::new();
    for (path, mode) in EMPTY_FOLDERS {
        out.push(SkeletonEntry { path: path.into(), kind: SkeletonEntryKind::Dir(*mode) });
    }
    for name in TOP_FOLDERS {
        let host = Path::new("/").join(name);
        match fs::symlink_metadata(&host) {
            Ok(meta) if meta.is_symlink() => {
                out.push(SkeletonEntry {
                    path: name.into(),
                    kind: SkeletonEntryKind::Link(fs::read_link(&host)?),
                });
            }
            Ok(meta) if meta.is_dir() => {
                out.push(SkeletonEntry { path: name.into(), kind: SkeletonEntryKind::Dir(0o755) });
            }
            _ => {}
        }
    }
    for (path, text) in FIXED_FILES {
        let what = SkeletonEntryKind::File(0o644, text.as_bytes().to_vec());
        out.push(SkeletonEntry { path: path.into(), kind: what });
    }
    for path in COPIED_FILES {
        if let Ok(bytes) = fs::read(Path::new("/").join(path)) {
            out.push(SkeletonEntry {
                path: path.into(),
                kind: SkeletonEntryKind::File(0o644, bytes),
            });
        }
    }
    for entry in fs::read_dir("/etc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if COPIED_FOLDER_PREFIXES.iter().any(|start| name.starts_with(start)) {
            copy_folder(&Path::new("etc").join(name.as_ref()), &mut out)?;
        }
    }
    for link in ["etc/localtime", "etc/os-release"] {
        if let Ok(target) = fs::read_link(Path::new("/").join(link)) {
            out.push(SkeletonEntry { path: link.into(), kind: SkeletonEntryKind::Link(target) });
        }
    }
    // Programs such as `/usr/bin/awk` are links into this directory. Keep only the links that lead
    // into visible directories.
    for entry in fs::read_dir("/etc/alternatives").into_iter().flatten().flatten() {
        if let Ok(target) = fs::read_link(entry.path())
            && (target.starts_with("/usr") || target.starts_with("/opt"))
        {
            let path = Path::new("etc/alternatives").join(entry.file_name());
            out.push(SkeletonEntry { path, kind: SkeletonEntryKind::Link(target) });
        }
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(out)
}

/// Copies a host directory and everything in it that is world-readable.
fn copy_folder(folder: &Path, entries: &mut Vec<SkeletonEntry>) -> io::Result<()> {
    entries.push(SkeletonEntry { path: folder.into(), kind: SkeletonEntryKind::Dir(0o755) });
    for entry in fs::read_dir(Path::new("/").join(folder))? {
        let entry = entry?;
        let (path, meta) = (folder.join(entry.file_name()), entry.metadata()?);
        if meta.is_dir() {
            copy_folder(&path, entries)?;
        } else if meta.is_file() && meta.permissions().mode() & 0o004 != 0 {
            let what = SkeletonEntryKind::File(0o644, fs::read(entry.path())?);
            entries.push(SkeletonEntry { path, kind: what });
        }
    }
    Ok(())
}

/// Writes the skeleton below `root`, which must exist. Keeps existing entries.
pub fn write_skeleton(root: &Path) -> io::Result<()> {
    for piece in skeleton()? {
        let path = root.join(&piece.path);
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        match piece.kind {
            SkeletonEntryKind::Dir(mode) => {
                fs::create_dir(&path)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
            SkeletonEntryKind::File(mode, bytes) => {
                fs::write(&path, bytes)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
            SkeletonEntryKind::Link(target) => symlink(target, &path)?,
        }
    }
    Ok(())
}

/// Returns environment variables that give setup commands access to this machine's registries.
pub fn setup_env() -> Vec<(String, String)> {
    let is_named = |key: &str| SETUP_VARS.contains(&key) || PROXY_VARS.contains(&key);
    std::env::vars().filter(|(key, _)| key.starts_with("PIP_") || is_named(key)).collect()
}

/// Returns files that only setup commands see and that must not remain in the layer: the resolver's
/// configuration, the registry settings, and the certificates that these settings refer to.
pub fn setup_files() -> Vec<(PathBuf, Vec<u8>)> {
    let mut wanted: Vec<(PathBuf, PathBuf)> = ["/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"]
        .iter()
        .map(|path| (PathBuf::from(path), PathBuf::from(path)))
        .collect();
    if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
        // If both files exist, the first, newer location takes precedence, as in pip.
        for name in [".config/pip/pip.conf", ".pip/pip.conf"] {
            wanted.push((home.join(name), Path::new("/root").join(name)));
        }
    }
    for (key, value) in setup_env() {
        let names_a_file =
            key.contains("CERT") || key.contains("CA_BUNDLE") || key.contains("CAINFO");
        if names_a_file && value.starts_with('/') {
            wanted.push((PathBuf::from(&value), PathBuf::from(value)));
        }
    }
    let bundle = PathBuf::from("/etc/ssl/certs/ca-certificates.crt");
    wanted.push((bundle.clone(), bundle));
    wanted.sort_by(|a, b| a.1.cmp(&b.1));
    wanted.dedup_by(|a, b| a.1 == b.1);
    wanted
        .into_iter()
        .filter(|(from, _)| from.is_file())
        .filter_map(|(from, to)| Some((to, fs::read(from).ok()?)))
        .collect()
}

/// Returns the path of the Python interpreter in a host base, which is also its path in the
/// sandbox.
///
/// # Errors
/// Fails if the host's only Python is below a home directory or another hidden path. The fault has
/// a hint.
pub fn host_python() -> Result<PathBuf, Fault> {
    let mut candidates: Vec<PathBuf> =
        ["/usr/bin/python3", "/usr/local/bin/python3"].map(PathBuf::from).to_vec();
    for entry in fs::read_dir("/opt").into_iter().flatten().flatten() {
        candidates.push(entry.path().join("bin/python3"));
    }
    candidates
        .into_iter()
        .find(|path| {
            fs::canonicalize(path)
                .is_ok_and(|real| real.starts_with("/usr") || real.starts_with("/opt"))
        })
        .ok_or_else(|| {
            Fault::new(FaultLayer::Environment, "the host base needs Python 3 in /usr or /opt")
                .hint("install the distribution's python3 (and python3-venv), or use an image")
        })
}

/// Returns a digest that changes when the host's programs change, so that layers built before the
/// change are not reused. It covers the distribution's release, and the size and modification time
/// of directories that package managers change.
pub fn host_digest() -> String {
    let mut text = fs::read_to_string("/usr/lib/os-release").unwrap_or_default();
    let mut watched = vec![PathBuf::from("/usr/bin"), PathBuf::from("/usr/lib")];
    watched.extend(host_python().ok().and_then(|path| fs::canonicalize(path).ok()));
    watched.push(PathBuf::from("/usr/local/bin"));
    for path in watched {
        if let Ok(meta) = fs::metadata(&path) {
            text.push_str(&format!("{} {} {}\n", path.display(), meta.size(), meta.mtime()));
        }
    }
    sha256_hex(text.as_bytes())
}

fn is_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_base_has_no_personal_files() {
        let pieces = skeleton().unwrap();
        let passwd = pieces.iter().find(|piece| piece.path == Path::new("etc/passwd")).unwrap();
        let SkeletonEntryKind::File(_, bytes) = &passwd.kind else { panic!("passwd is a file") };
        assert!(!String::from_utf8_lossy(bytes).contains("/home"));
        assert!(!pieces.iter().any(|piece| piece.path.ends_with("shadow")));
        assert!(
            visible_folders()
                .iter()
                .all(|path| !path.starts_with("/home") && !path.starts_with("/root"))
        );
        assert!(!pieces.iter().any(|piece| piece.path.ends_with("jmxremote.password")));
    }

    #[test]
    fn host_base_lists_parents_first() {
        let root = tempfile::tempdir().unwrap();
        write_skeleton(root.path()).unwrap();
        assert_eq!(fs::read(root.path().join("etc/resolv.conf")).unwrap(), b"");
        let mode = fs::metadata(root.path().join("tmp")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
    }
}
