//! Downloads Debian packages from a mirror, verifies them, and extracts the files that a bundle
//! needs.

use std::{io::Cursor, path::Path};

use proctor_packages::HttpClient;
use proctor_types::{Fault, FaultCause, FaultLayer};
use reqwest::Url;

use crate::{
    BundleError,
    downloads::{Checksum, DownloadCache},
    elf::{LIBRARY_FOLDER, LOADER_NAME, isolate_loader},
    parts::{Debian, DebianPackage, Part},
    unpack::{self, ArchiveEntry},
};

/// Maximum size of a package, in bytes.
const MAX_PACKAGE_BYTES: usize = 64 << 20;

/// Debian's library directory for this architecture.
const MULTIARCH_LIBRARY_FOLDER: &str = "usr/lib/x86_64-linux-gnu";

/// Files of Python's standard library to leave out. The first would disable pip, and the second
/// needs a library that no agent uses.
const EXCLUDED_FILES: [&str; 2] = ["EXTERNALLY-MANAGED", "lib-dynload/_dbm"];

/// Returns the content of a package. Tries the cache first, then the mirrors, then the archive of
/// all Debian packages.
pub(crate) async fn fetch_package(
    debian: &Debian,
    package: &DebianPackage,
    http: &HttpClient,
    downloads: &DownloadCache,
) -> Result<Vec<u8>, BundleError> {
    let what = format!("{} {} from Debian", package.name, package.version);
    let own = std::env::var("PROCTOR_DEBIAN_MIRROR").ok().filter(|mirror| !mirror.is_empty());
    let from_a_mirror = async {
        let mut tried = Vec::new();
        for mirror in own.iter().chain(&debian.mirrors).chain([&debian.archive]) {
            let url = format!("{}/{}", mirror.trim_end_matches('/'), package.path);
            let url = match Url::parse(&url) {
                Ok(url) => url,
                Err(error) => {
                    tried.push(format!("{mirror}: {error}"));
                    continue;
                }
            };
            match http.download(&url, MAX_PACKAGE_BYTES).await {
                Ok(bytes) => return Ok(bytes),
                Err(fault) => tried.push(fault.what),
            }
        }
        Err(Fault::new(FaultLayer::Environment, tried.join("; "))
            .cause(FaultCause::Unreachable)
            .hint("check the network, or set PROCTOR_DEBIAN_MIRROR to a mirror of Debian trixie"))
    };
    downloads.get_or_download(&what, &Checksum::Sha256(package.sha256.clone()), from_a_mirror).await
}

/// Extracts those files of a package that a bundle needs.
pub(crate) fn extract_package(
    package: &DebianPackage,
    bytes: &[u8],
    tree: &Path,
) -> Result<(), BundleError> {
    let context = |error: BundleError| error.context(&package.name);
    let content = extract_data_tar(bytes).map_err(context)?;
    let mut certificates = Vec::new();
    let laid =
        unpack::for_each_tar_entry(Cursor::new(content), &mut |path, entry| match package.part {
            Part::Libraries => extract_library(path, entry, tree),
            Part::Python => extract_python(path, entry, tree),
            Part::Shell => extract_shell(path, entry, tree),
            Part::Certificates => {
                if let (true, ArchiveEntry::File { content, .. }) =
                    (path.extension().is_some_and(|end| end == "crt"), entry)
                {
                    let mut text = String::new();
                    let read = content.read_to_string(&mut text);
                    read.map_err(|error| BundleError::io(path, &error))?;
                    certificates.push((path.to_owned(), text));
                }
                Ok(())
            }
        });
    laid.map_err(context)?;
    if package.part == Part::Certificates {
        certificates.sort();
        let all: String = certificates.iter().map(|(_, text)| text.as_str()).collect();
        unpack::write_file(&tree.join("etc/ca.pem"), &mut all.as_bytes(), false)?;
    }
    Ok(())
}

/// Extracts a shared library, or a link to one, into the bundle's library directory.
fn extract_library(path: &Path, entry: ArchiveEntry<'_>, tree: &Path) -> Result<(), BundleError> {
    let Some(name) = path.strip_prefix(MULTIARCH_LIBRARY_FOLDER).ok().and_then(Path::to_str) else {
        return Ok(());
    };
    if name.contains('/') || !name.contains(".so") {
        return Ok(());
    }
    let to = tree.join(LIBRARY_FOLDER).join(name);
    match entry {
        ArchiveEntry::File { content, .. } if name == LOADER_NAME => {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes).map_err(|error| BundleError::io(path, &error))?;
            unpack::write_file(&to, &mut &*isolate_loader(bytes)?, true)
        }
        ArchiveEntry::File { content, .. } => unpack::write_file(&to, content, false),
        ArchiveEntry::Link(target) if target.components().count() == 1 => {
            unpack::create_symlink(&target, &to)
        }
        ArchiveEntry::Link(_) => Ok(()),
    }
}

fn extract_python(path: &Path, entry: ArchiveEntry<'_>, tree: &Path) -> Result<(), BundleError> {
    if path == Path::new("usr/bin/python3.13") {
        if let ArchiveEntry::File { content, .. } = entry {
            return unpack::write_file(&tree.join(crate::python::INTERPRETER_PATH), content, true);
        }
        return Ok(());
    }
    let Ok(below) = path.strip_prefix("usr/lib/python3.13") else {
        return extract_library(path, entry, tree);
    };
    let name = below.to_string_lossy();
    match entry {
        ArchiveEntry::File { content, is_executable: executable }
            if !EXCLUDED_FILES.iter().any(|no| name.starts_with(no)) =>
        {
            unpack::write_file(&tree.join("lib/python3.13").join(below), content, executable)
        }
        // Skip symlinks. The only one points to a configuration file outside the archive.
        ArchiveEntry::File { .. } | ArchiveEntry::Link(_) => Ok(()),
    }
}

fn extract_shell(path: &Path, entry: ArchiveEntry<'_>, tree: &Path) -> Result<(), BundleError> {
    if !path.ends_with("bin/bash-static") {
        return Ok(());
    }
    let ArchiveEntry::File { content, .. } = entry else { return Ok(()) };
    unpack::write_file(&tree.join("sh/bash"), content, true)?;
    unpack::create_symlink(Path::new("bash"), &tree.join("sh/sh"))
}

/// Returns the tar archive in a `.deb` file. That file is an `ar` archive, and one of its members
/// is a compressed tar archive.
fn extract_data_tar(bytes: &[u8]) -> Result<Vec<u8>, BundleError> {
    let broken = || BundleError::new("not a Debian package");
    let mut rest = bytes.strip_prefix(b"!<arch>\n").ok_or_else(broken)?;
    while rest.len() >= 60 {
        let (head, body) = rest.split_at(60);
        let word =
            |at: std::ops::Range<usize>| String::from_utf8_lossy(&head[at]).trim().to_owned();
        let size: usize = word(48..58).parse().map_err(|_| broken())?;
        let (name, member) = (word(0..16), body.get(..size).ok_or_else(broken)?);
        match name.trim_end_matches('/') {
            "data.tar.xz" => {
                let mut out = Vec::new();
                lzma_rs::xz_decompress(&mut Cursor::new(member), &mut out)
                    .map_err(|error| BundleError::new(format!("data.tar.xz: {error:?}")))?;
                return Ok(out);
            }
            "data.tar" => return Ok(member.to_owned()),
            other if other.starts_with("data.tar") => {
                return Err(BundleError::new(format!("{other}: only xz compression is supported")));
            }
            _ => {}
        }
        rest = body.get(size + size % 2..).unwrap_or_default();
    }
    Err(broken())
}
