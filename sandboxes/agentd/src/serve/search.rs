//! Searches files without the programs in the image.

use std::{fs::File, os::unix::ffi::OsStrExt, path::Path};

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::WalkBuilder;
use proctor_wire::{Match, RawPath, Refusal, RefusalKind, Reply, SearchRequest};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::{
    refusal::{cancelled_refusal, from_errno, new_refusal},
    stream::Stream,
};

/// Maximum length of a line in the reply, in bytes. Longer lines are truncated.
const LINE_LIMIT: usize = 500;

/// Maximum total size of all matches in bytes, well below the frame size.
const TEXT_LIMIT: usize = 256 << 10;

/// Maximum line length in bytes. Files with a longer line are skipped.
const HEAP_LIMIT: usize = 4 << 20;

/// Maximum directory depth.
const DEPTH_LIMIT: usize = 512;

/// Searches `root`. Paths in the matches are relative to the root. If the root is a file, its path
/// is just its name. Links are not followed, and `.git` and binary files are skipped.
pub fn search(stream: &Stream, request: &SearchRequest) -> Result<Reply, Refusal> {
    let pattern = request.pattern.as_deref().map(|p| build_matcher(p, request)).transpose()?;
    let glob = request.glob.as_deref().map(compile_glob).transpose()?;
    let root = Path::new(std::ffi::OsStr::from_bytes(request.root.as_bytes()));
    if let Err(error) = rustix::fs::stat(root) {
        return Err(from_errno(error, &request.root));
    }
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .heap_limit(Some(HEAP_LIMIT))
        .build();
    let mut found = MatchCollector { limit: request.limit as usize, ..MatchCollector::default() };
    let walk = WalkBuilder::new(root)
        .standard_filters(false)
        .parents(request.honour_ignore)
        .ignore(request.honour_ignore)
        .git_ignore(request.honour_ignore)
        // An unpacked source tree has a .gitignore but no repository.
        .require_git(false)
        .max_depth(Some(DEPTH_LIMIT))
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .build();
    // Skip unreadable entries, as every search tool does.
    for entry in walk.flatten() {
        if stream.is_cancelled() {
            return Err(cancelled_refusal());
        }
        if !entry.file_type().is_some_and(|kind| kind.is_file() || entry.depth() == 0) {
            continue;
        }
        let path = match entry.path().strip_prefix(root) {
            Ok(path) if !path.as_os_str().is_empty() => path,
            _ => Path::new(entry.file_name()),
        };
        if glob.as_ref().is_some_and(|glob| !glob.is_match(path)) {
            continue;
        }
        let shown = RawPath::new(path.as_os_str().as_bytes());
        match &pattern {
            None if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                found.add(shown, 0, String::new());
            }
            None => {}
            Some(pattern) => {
                let Some(file) = open_regular_file(entry.path()) else { continue };
                let sink = LineSink { collector: &mut found, stream, path: shown };
                // An error in one file, such as a line above the limit, does not end the search.
                let _ = searcher.search_file(pattern, &file, sink);
            }
        }
        if found.has_more {
            break;
        }
    }
    if stream.is_cancelled() {
        return Err(cancelled_refusal());
    }
    Ok(Reply::Matches { matches: found.matches, more: found.has_more })
}

fn build_matcher(pattern: &str, request: &SearchRequest) -> Result<RegexMatcher, Refusal> {
    RegexMatcherBuilder::new()
        .case_insensitive(request.ignore_case)
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|error| new_refusal(RefusalKind::BadRequest, format!("pattern: {error}")))
}

/// Compiles a glob. Without a slash it matches names at any depth; with a slash it matches relative
/// paths.
fn compile_glob(glob: &str) -> Result<GlobMatcher, Refusal> {
    let anchored = match glob.strip_prefix('/') {
        Some(rest) => rest.to_owned(),
        None if glob.contains('/') => glob.to_owned(),
        None => format!("**/{glob}"),
    };
    GlobBuilder::new(&anchored)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| new_refusal(RefusalKind::BadRequest, format!("glob: {error}")))
}

/// Opens a regular file. After the directory was read, the name may have become a pipe, and opening
/// a pipe would block.
fn open_regular_file(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty()).ok()?;
    let kind = fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode));
    (kind == Ok(FileType::RegularFile)).then(|| File::from(file))
}

#[derive(Default)]
struct MatchCollector {
    matches: Vec<Match>,
    bytes: usize,
    limit: usize,
    has_more: bool,
}

impl MatchCollector {
    /// Adds the match. If the limit is reached, records that there are more matches.
    fn add(&mut self, path: RawPath, line: u64, text: String) {
        // In JSON, an escaped byte takes up to six bytes.
        let bytes = 3 * path.as_bytes().len() + text.len() + 64;
        if self.matches.len() >= self.limit || self.bytes + bytes > TEXT_LIMIT {
            self.has_more = true;
        } else {
            self.bytes += bytes;
            self.matches.push(Match { path, line, text });
        }
    }
}

struct LineSink<'a> {
    collector: &'a mut MatchCollector,
    stream: &'a Stream,
    path: RawPath,
}

impl Sink for LineSink<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        let bytes = line.bytes().trim_ascii_end();
        let shown = &bytes[..bytes.len().min(LINE_LIMIT)];
        let mut text = String::from_utf8_lossy(shown).into_owned();
        if bytes.len() > LINE_LIMIT {
            text.push_str(" [...]");
        }
        self.collector.add(self.path.clone(), line.line_number().unwrap_or(0), text);
        Ok(!self.collector.has_more && !self.stream.is_cancelled())
    }
}
