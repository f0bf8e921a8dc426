//! Scans the content of one file in any format.

use std::collections::BTreeSet;

use proctor_wire::{Finding, Found, RawPath, ScanLimits, ScanReply, whole};

use crate::{
    ar, bytecode,
    embedded::{self, Piece},
    encoded,
    expand::{Expanded, Method, expand},
    modules, pack,
    secrets::{Index, Tally},
    tar, text, zip,
};

/// Scans contents and collects the findings.
pub struct Scanner<'a> {
    pub index: &'a Index,
    pub limits: ScanLimits,
    pub reply: ScanReply,
    /// Numbers of all windows found in a text, even if there are too few for a finding.
    pub met: BTreeSet<u32>,
    /// Packages and repositories with a finding. One finding is enough for each.
    wholes: Vec<Vec<u8>>,
}

/// The location of some content: the file and the path through archives.
#[derive(Clone)]
pub struct Location {
    pub path: RawPath,
    pub inside: Vec<RawPath>,
}

impl Location {
    fn name(&self) -> &[u8] {
        self.inside.last().unwrap_or(&self.path).as_bytes()
    }

    fn within(&self, name: &[u8]) -> Self {
        let mut inside = self.inside.clone();
        inside.push(RawPath::new(name));
        Self { path: self.path.clone(), inside }
    }
}

impl<'a> Scanner<'a> {
    pub fn new(index: &'a Index, limits: ScanLimits) -> Self {
        let (reply, met, wholes) = Default::default();
        Self { index, limits, reply, met, wholes }
    }

    /// Returns whether the path is part of a package or repository that already has a finding.
    pub fn is_covered(&self, path: &[u8]) -> bool {
        let below =
            |whole: &Vec<u8>| path.strip_prefix(&whole[..]).is_some_and(|r| r.starts_with(b"/"));
        self.wholes.iter().any(below)
    }

    /// Scans bytes in a format detected by content only, because a copy may have any name.
    pub fn content(&mut self, place: &Location, bytes: &[u8], depth: u32) {
        if bytes.starts_with(b"\x7fELF") && zip::end(bytes).is_none() {
            return;
        }
        if let Some(end) = zip::end(bytes) {
            return self.zip(place, bytes, end, depth);
        }
        if pack::is(bytes) {
            return self.pack(place, bytes, depth);
        }
        if let Some(method) = Method::of(bytes) {
            return self.compressed(place, bytes, method, depth);
        }
        if tar::is(bytes) {
            return self.members(place, tar::entries(bytes), depth);
        }
        if ar::is(bytes) {
            return self.members(place, ar::entries(bytes), depth);
        }
        if bytecode::is(bytes) {
            let mut tally = Tally::default();
            let found = bytecode::find(self.index, place.name(), bytes, &mut tally);
            return self.keep(place, found);
        }
        self.plain(place, bytes, depth);
    }

    /// Scans content that is not an archive as a whole: text in some encoding, or something with an
    /// embedded stream.
    fn plain(&mut self, place: &Location, bytes: &[u8], depth: u32) {
        let known = self.reply.findings.len();
        let narrowed = text::narrowed(bytes);
        let bytes = narrowed.as_deref().unwrap_or(bytes);
        let mut tally = Tally::default();
        text::lines(self.index, bytes, &mut tally);
        let suffix = place.name().rsplit(|&byte| byte == b'.').next().unwrap_or_default();
        if bytes.starts_with(b"b0VIM") || matches!(suffix, b"swp" | b"swo" | b"swn") {
            text::reversed(self.index, bytes, &mut tally);
        }
        self.met.extend(tally.windows());
        let found = tally.text(self.index);
        self.keep(place, found);
        if self.reply.findings.len() > known {
            return;
        }
        let limit = self.limits.expanded_bytes;
        embedded::pieces(bytes, limit, &mut |piece| match piece {
            Piece::Pack(bytes) => self.pack(place, bytes, depth),
            Piece::Stream(bytes, is_cut) => {
                self.reply.too_large += u64::from(is_cut);
                self.inner(place, &bytes, depth);
            }
        });
        encoded::pieces(bytes, &mut |bytes| self.inner(place, &bytes, depth));
    }

    fn inner(&mut self, place: &Location, bytes: &[u8], depth: u32) {
        let Some(depth) = self.deeper(depth) else { return };
        self.content(place, bytes, depth);
    }

    /// Checks whether the package under test could be imported from a path.
    pub fn path(&mut self, place: &Location) {
        let module = modules::find(&self.index.secrets, place.name(), !place.inside.is_empty());
        self.keep(place, module.map(|module| Found::Module { module }));
    }

    fn keep(&mut self, place: &Location, found: Option<Found>) {
        let Some(what) = found else { return };
        if self.reply.findings.len() >= self.limits.findings as usize {
            self.reply.more = true;
            return;
        }
        // One finding per file is enough, even if its archive contains more.
        if self.reply.findings.last().is_some_and(|last| last.path == place.path) {
            return;
        }
        let path = place.path.as_bytes();
        let modules = &self.index.secrets.modules;
        let whole = match what {
            Found::Module { module } if place.inside.is_empty() => {
                modules.get(module as usize).map(|module| whole::package(path, module))
            }
            _ => whole::repository(path),
        };
        self.wholes.extend(whole.filter(|whole| whole.len() < path.len()).map(<[u8]>::to_vec));
        let Location { path, inside } = place.clone();
        self.reply.findings.push(Finding { path, inside, what });
    }

    fn deeper(&mut self, depth: u32) -> Option<u32> {
        if depth >= self.limits.depth {
            self.reply.too_deep += 1;
            return None;
        }
        Some(depth + 1)
    }

    fn compressed(&mut self, place: &Location, bytes: &[u8], method: Method, depth: u32) {
        match expand(method, bytes, self.limits.expanded_bytes) {
            // Two magic bytes prove nothing: scan it as plain content instead.
            Expanded::Damaged if method == Method::Zlib => self.plain(place, bytes, depth),
            Expanded::Damaged => self.reply.unreadable += 1,
            expanded => {
                let Some(depth) = self.deeper(depth) else { return };
                let bytes = self.opened(expanded);
                self.content(place, &bytes, depth);
            }
        }
    }

    fn opened(&mut self, expanded: Expanded) -> Vec<u8> {
        match expanded {
            Expanded::Whole(bytes) => bytes,
            Expanded::Cut(bytes) => {
                self.reply.too_large += 1;
                bytes
            }
            Expanded::Damaged => {
                self.reply.unreadable += 1;
                Vec::new()
            }
        }
    }

    fn zip(&mut self, place: &Location, bytes: &[u8], end: usize, depth: u32) {
        let Some(depth) = self.deeper(depth) else { return };
        let mut left = self.limits.expanded_bytes;
        for entry in zip::entries(bytes, end) {
            let inner = place.within(entry.name);
            self.path(&inner);
            let content = entry.content(left);
            let content = self.opened(content);
            left = left.saturating_sub(content.len() as u64);
            self.content(&inner, &content, depth);
            if left == 0 {
                break;
            }
        }
    }

    /// Scans the members of an archive under their names.
    fn members<'b, N: AsRef<[u8]>>(
        &mut self,
        place: &Location,
        members: impl Iterator<Item = (N, &'b [u8])>,
        depth: u32,
    ) {
        let Some(depth) = self.deeper(depth) else { return };
        for (name, content) in members {
            let inner = place.within(name.as_ref());
            self.path(&inner);
            self.content(&inner, content, depth);
        }
    }

    /// Scans the objects of a pack like files: a wheel that was once committed is opened too.
    fn pack(&mut self, place: &Location, bytes: &[u8], depth: u32) {
        let Some(depth) = self.deeper(depth) else { return };
        let limit = self.limits.expanded_bytes;
        let whole = pack::objects(bytes, limit, &mut |object| {
            self.content(place, object, depth);
        });
        self.reply.too_large += u64::from(!whole);
    }
}
