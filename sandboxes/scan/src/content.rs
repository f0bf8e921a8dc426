//! Scans the content of one file, whatever its format.

use std::collections::BTreeSet;

use proctor_wire::{Finding, FindingKind, RawPath, ScanLimits, ScanReply, roots};

use crate::{
    ar, bytecode,
    embedded::{self, EmbeddedData},
    encoded,
    expand::{Expansion, Method, expand},
    modules, pack,
    secrets::{SecretIndex, Tally},
    tar, text, zip,
};

/// Scans the contents of files and collects findings.
pub struct Scanner<'a> {
    pub index: &'a SecretIndex,
    pub limits: ScanLimits,
    pub reply: ScanReply,
    /// Numbers of all windows that were found in text, even if there are too few for a finding.
    pub found_windows: BTreeSet<u32>,
    /// Packages and repositories that already have a finding. One finding each is enough.
    covered_roots: Vec<Vec<u8>>,
}

/// Where some content is: the file, and the path inside nested archives.
#[derive(Clone)]
pub struct Location {
    pub path: RawPath,
    pub inner_paths: Vec<RawPath>,
}

impl Location {
    fn name(&self) -> &[u8] {
        self.inner_paths.last().unwrap_or(&self.path).as_bytes()
    }

    fn inner_location(&self, name: &[u8]) -> Self {
        let mut inside = self.inner_paths.clone();
        inside.push(RawPath::new(name));
        Self { path: self.path.clone(), inner_paths: inside }
    }
}

impl<'a> Scanner<'a> {
    pub fn new(index: &'a SecretIndex, limits: ScanLimits) -> Self {
        let (reply, found_windows, covered_roots) = Default::default();
        Self { index, limits, reply, found_windows, covered_roots }
    }

    /// Returns whether the path is in a package or repository that already has a finding.
    pub fn is_covered(&self, path: &[u8]) -> bool {
        let below =
            |whole: &Vec<u8>| path.strip_prefix(&whole[..]).is_some_and(|r| r.starts_with(b"/"));
        self.covered_roots.iter().any(below)
    }

    /// Scans bytes. Detects their format by the content alone, because a copy may have any name.
    pub fn scan_content(&mut self, location: &Location, bytes: &[u8], depth: u32) {
        if bytes.starts_with(b"\x7fELF") && zip::find_end_record(bytes).is_none() {
            return;
        }
        if let Some(end) = zip::find_end_record(bytes) {
            return self.scan_zip(location, bytes, end, depth);
        }
        if pack::is_pack(bytes) {
            return self.scan_pack(location, bytes, depth);
        }
        if let Some(method) = Method::detect(bytes) {
            return self.scan_compressed(location, bytes, method, depth);
        }
        if tar::is_tar(bytes) {
            return self.scan_members(location, tar::entries(bytes), depth);
        }
        if ar::is_archive(bytes) {
            return self.scan_members(location, ar::entries(bytes), depth);
        }
        if bytecode::is_bytecode(bytes) {
            let mut tally = Tally::default();
            let found = bytecode::scan_bytecode(self.index, location.name(), bytes, &mut tally);
            return self.add_finding(location, found);
        }
        self.scan_plain(location, bytes, depth);
    }

    /// Scans content that is not an archive: text in some encoding, or bytes with an embedded
    /// stream.
    fn scan_plain(&mut self, location: &Location, bytes: &[u8], depth: u32) {
        let known = self.reply.findings.len();
        let narrowed = text::narrow_utf16(bytes);
        let bytes = narrowed.as_deref().unwrap_or(bytes);
        let mut tally = Tally::default();
        text::count_windows(self.index, bytes, &mut tally);
        let suffix = location.name().rsplit(|&byte| byte == b'.').next().unwrap_or_default();
        if bytes.starts_with(b"b0VIM") || matches!(suffix, b"swp" | b"swo" | b"swn") {
            text::count_reversed_windows(self.index, bytes, &mut tally);
        }
        self.found_windows.extend(tally.windows());
        let found = tally.best_text_match(self.index);
        self.add_finding(location, found);
        if self.reply.findings.len() > known {
            return;
        }
        let limit = self.limits.expanded_bytes;
        embedded::find_embedded(bytes, limit, &mut |piece| match piece {
            EmbeddedData::Pack(bytes) => self.scan_pack(location, bytes, depth),
            EmbeddedData::Stream(bytes, is_cut) => {
                self.reply.too_large += u64::from(is_cut);
                self.scan_inner(location, &bytes, depth);
            }
        });
        encoded::find_encoded(bytes, &mut |bytes| self.scan_inner(location, &bytes, depth));
    }

    fn scan_inner(&mut self, location: &Location, bytes: &[u8], depth: u32) {
        let Some(depth) = self.next_depth(depth) else { return };
        self.scan_content(location, bytes, depth);
    }

    /// Checks whether a path is a hidden module that could be imported.
    pub fn check_path(&mut self, location: &Location) {
        let module = modules::find_module(
            &self.index.secrets,
            location.name(),
            !location.inner_paths.is_empty(),
        );
        self.add_finding(location, module.map(|module| FindingKind::Module { module }));
    }

    fn add_finding(&mut self, location: &Location, kind: Option<FindingKind>) {
        let Some(what) = kind else { return };
        if self.reply.findings.len() >= self.limits.findings as usize {
            self.reply.more = true;
            return;
        }
        // One finding per file is enough, even if the archive contains more.
        if self.reply.findings.last().is_some_and(|last| last.path == location.path) {
            return;
        }
        let path = location.path.as_bytes();
        let modules = &self.index.secrets.modules;
        let whole = match what {
            FindingKind::Module { module } if location.inner_paths.is_empty() => {
                modules.get(module as usize).map(|module| roots::package_root(path, module))
            }
            _ => roots::repository_root(path),
        };
        self.covered_roots
            .extend(whole.filter(|whole| whole.len() < path.len()).map(<[u8]>::to_vec));
        let Location { path, inner_paths: inside } = location.clone();
        self.reply.findings.push(Finding { path, inside, what });
    }

    fn next_depth(&mut self, depth: u32) -> Option<u32> {
        if depth >= self.limits.depth {
            self.reply.too_deep += 1;
            return None;
        }
        Some(depth + 1)
    }

    fn scan_compressed(&mut self, location: &Location, bytes: &[u8], method: Method, depth: u32) {
        match expand(method, bytes, self.limits.expanded_bytes) {
            // The two magic bytes can occur by chance, so scan the bytes as plain content instead.
            Expansion::Damaged if method == Method::Zlib => self.scan_plain(location, bytes, depth),
            Expansion::Damaged => self.reply.unreadable += 1,
            expanded => {
                let Some(depth) = self.next_depth(depth) else { return };
                let bytes = self.unwrap_expansion(expanded);
                self.scan_content(location, &bytes, depth);
            }
        }
    }

    fn unwrap_expansion(&mut self, expansion: Expansion) -> Vec<u8> {
        match expansion {
            Expansion::Whole(bytes) => bytes,
            Expansion::Truncated(bytes) => {
                self.reply.too_large += 1;
                bytes
            }
            Expansion::Damaged => {
                self.reply.unreadable += 1;
                Vec::new()
            }
        }
    }

    fn scan_zip(&mut self, location: &Location, bytes: &[u8], end: usize, depth: u32) {
        let Some(depth) = self.next_depth(depth) else { return };
        let mut left = self.limits.expanded_bytes;
        for entry in zip::entries(bytes, end) {
            let inner = location.inner_location(entry.name);
            self.check_path(&inner);
            let content = entry.expand_content(left);
            let content = self.unwrap_expansion(content);
            left = left.saturating_sub(content.len() as u64);
            self.scan_content(&inner, &content, depth);
            if left == 0 {
                break;
            }
        }
    }

    /// Scans each member of an archive under its name.
    fn scan_members<'b, N: AsRef<[u8]>>(
        &mut self,
        location: &Location,
        members: impl Iterator<Item = (N, &'b [u8])>,
        depth: u32,
    ) {
        let Some(depth) = self.next_depth(depth) else { return };
        for (name, content) in members {
            let inner = location.inner_location(name.as_ref());
            self.check_path(&inner);
            self.scan_content(&inner, content, depth);
        }
    }

    /// Scans each object in a pack like a file: for example, a wheel that was once committed is
    /// opened too.
    fn scan_pack(&mut self, location: &Location, bytes: &[u8], depth: u32) {
        let Some(depth) = self.next_depth(depth) else { return };
        let limit = self.limits.expanded_bytes;
        let whole = pack::visit_objects(bytes, limit, &mut |object| {
            self.scan_content(location, object, depth);
        });
        self.reply.too_large += u64::from(!whole);
    }
}
