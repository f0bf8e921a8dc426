//! Walks directories without following links or opening special files.

use std::{
    fs::{self, File, Metadata},
    io::Read,
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use proctor_wire::{RawPath, Refusal, RefusalKind, ScanReply, ScanRequest};
use rustix::fs::OFlags;

use crate::{
    content::{Location, Scanner},
    secrets::SecretIndex,
};

/// Number of bytes at the start of a file that identify a program or library, which is not scanned.
const HEAD_BYTES: usize = 4;

pub struct Walk<'a> {
    is_cancelled: &'a dyn Fn() -> bool,
    request: &'a ScanRequest,
    scanner: Scanner<'a>,
    entries: u64,
}

impl<'a> Walk<'a> {
    pub fn new(
        is_cancelled: &'a dyn Fn() -> bool,
        request: &'a ScanRequest,
        index: &'a SecretIndex,
    ) -> Self {
        Self { is_cancelled, request, scanner: Scanner::new(index, request.limits), entries: 0 }
    }

    pub fn finish(self) -> ScanReply {
        self.scanner.reply
    }

    pub fn walk_root(&mut self, root: &RawPath) -> Result<(), Refusal> {
        let mut left = vec![PathBuf::from(std::ffi::OsStr::from_bytes(root.as_bytes()))];
        while let Some(path) = left.pop() {
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            self.entries += 1;
            if self.entries > self.request.limits.entries {
                let what = format!("{root}: more than {} entries", self.request.limits.entries);
                return Err(Refusal { why: RefusalKind::TooLarge, what });
            }
            if (self.is_cancelled)() {
                return Err(Refusal { why: RefusalKind::Cancelled, what: "cancelled".into() });
            }
            if meta.is_dir() {
                self.list_folder(&path, &mut left);
            } else if meta.is_file() {
                self.scan_file(&path, &meta);
            }
        }
        Ok(())
    }

    fn list_folder(&mut self, path: &Path, pending_paths: &mut Vec<PathBuf>) {
        let bytes = path.as_os_str().as_bytes();
        if self.request.skip.iter().any(|skip| skip.as_bytes() == bytes) {
            return;
        }
        let Ok(entries) = fs::read_dir(path) else {
            self.scanner.reply.unreadable += 1;
            return;
        };
        let mut inner: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        // Entries are popped from the end, so sort in reverse to visit the first name first.
        inner.sort_unstable_by(|a, b| b.cmp(a));
        pending_paths.append(&mut inner);
    }

    fn scan_file(&mut self, path: &Path, metadata: &Metadata) {
        let bytes = path.as_os_str().as_bytes();
        if self.request.skip.iter().any(|skip| skip.as_bytes() == bytes) {
            return;
        }
        if self.scanner.is_covered(bytes) {
            return;
        }
        let place = Location { path: RawPath::new(bytes), inner_paths: Vec::new() };
        self.scanner.check_path(&place);
        if metadata.len() == 0 || !self.should_scan(path) {
            return;
        }
        match read_content(path, self.request.limits.file_bytes) {
            Ok(Content::Bytes(content)) => {
                self.scanner.reply.files += 1;
                self.scanner.reply.bytes += content.len() as u64;
                self.scanner.scan_content(&place, &content, 0);
            }
            Ok(Content::Program) => {}
            Ok(Content::TooLarge) => self.scanner.reply.too_large += 1,
            Err(_) => self.scanner.reply.unreadable += 1,
        }
    }

    fn should_scan(&self, path: &Path) -> bool {
        let Some(suffixes) = &self.request.suffixes else { return true };
        let suffix = path.extension().map(OsStrExt::as_bytes).unwrap_or_default();
        suffixes.iter().any(|wanted| wanted.as_bytes() == suffix)
    }
}

enum Content {
    Bytes(Vec<u8>),
    /// Machine code without an appended archive.
    Program,
    TooLarge,
}

fn read_content(path: &Path, limit: u64) -> std::io::Result<Content> {
    // Do not block: the name may have become a pipe since the directory was read.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let mut file = File::options().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(Content::Program);
    }
    let mut bytes = vec![0; HEAD_BYTES];
    let mut filled = 0;
    while filled < HEAD_BYTES {
        match file.read(&mut bytes[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    if bytes == b"\x7fELF" && !ends_as_zip(&file, meta.len()) {
        return Ok(Content::Program);
    }
    if meta.len() > limit {
        return Ok(Content::TooLarge);
    }
    bytes.reserve(meta.len() as usize);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(if bytes.len() as u64 > limit { Content::TooLarge } else { Content::Bytes(bytes) })
}

/// Returns whether a zip archive is appended to a program. Python can import from such a file.
fn ends_as_zip(file: &File, length: u64) -> bool {
    use std::os::unix::fs::FileExt;
    let mut end = [0; 4];
    length.checked_sub(22).is_some_and(|at| file.read_exact_at(&mut end, at).is_ok())
        && end == *b"PK\x05\x06"
}
