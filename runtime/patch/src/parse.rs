//! Parses a patch into one value per file. Reads no files and never guesses.

use proctor_wire::RawPath;

use crate::{
    base85,
    binary::{MAX_PATCH_BYTES, inflate},
    header, hunk,
    lines::{Lines, trim_carriage_returns},
    patch::{BinaryData, Body, ChangeKind, FilePatch, Patch},
};

impl Patch {
    /// Parses every file of the patch. Text before and between files is skipped, such as a mail
    /// header or a commit message. Parts that cannot be parsed are skipped too, but operations that
    /// need the whole patch then fail. Non-empty text without any file is an error.
    pub fn parse(patch: &[u8]) -> Self {
        let mut lines = Lines::new(patch);
        let mut files: Vec<FilePatch> = Vec::new();
        let mut unpacked = 0;
        while let Some(line) = lines.peek() {
            let start = lines.offset();
            let crlf = line.ends_with(b"\r");
            let line = trim_carriage_returns(line);
            let file = if let Some(names) = line.strip_prefix(b"diff --git ") {
                Some(parse_git_file(&mut lines, names))
            } else if line.starts_with(b"--- ") && is_followed_by_new_name(&lines) {
                parse_plain_file(&mut lines)
            } else {
                if line.starts_with(b"@@ -") {
                    let at = lines.number;
                    lines.record_error(format!(
                        "line {at}: a hunk without a file: the lines `--- a/...` and `+++ b/...` \
                         are missing"
                    ));
                }
                lines.advance();
                None
            };
            let Some(mut file) = file else { continue };
            unpacked += unpacked_size(&file);
            if unpacked > MAX_PATCH_BYTES {
                lines.record_error(format!(
                    "the binary data exceeds the limit of {MAX_PATCH_BYTES} bytes"
                ));
                break;
            }
            if let Some(last) = files.last_mut() {
                last.text_range.end = start;
            }
            file.text_range = start..patch.len();
            file.has_crlf = crlf;
            files.push(file);
        }
        if files.is_empty() && !patch.trim_ascii().is_empty() {
            lines.record_error(
                "no files found: expected a `diff --git` line, or `---` and `+++` lines".into(),
            );
        }
        Self { files, first_error: lines.first_error, repairs: lines.repairs }
    }
}

fn unpacked_size(file: &FilePatch) -> usize {
    let size = |data: &BinaryData| match data {
        BinaryData::Literal(bytes) | BinaryData::Delta(bytes) => bytes.len(),
    };
    match &file.body {
        Body::Binary { forward, backward } => size(forward) + backward.as_ref().map_or(0, size),
        _ => 0,
    }
}

fn is_followed_by_new_name(lines: &Lines<'_>) -> bool {
    lines.peek_second().is_some_and(|line| line.starts_with(b"+++ "))
}

/// Parses `--- a/x`, `+++ b/x` and hunks.
fn parse_plain_file(lines: &mut Lines<'_>) -> Option<FilePatch> {
    let at = lines.number;
    let [old, new] = parse_side_lines(lines);
    let Some(name) = new.as_ref().or(old.as_ref()).cloned() else {
        lines.record_error(format!("line {at}: both sides are /dev/null"));
        return None;
    };
    let hunks = hunk::parse_hunks(lines, &name.to_string());
    if hunks.is_empty() {
        lines.record_error(format!("line {at}: {name}: no hunk after the file names"));
    }
    Some(FilePatch {
        // Without a Git header, two different names are not a rename: the old one is the name of a
        // backup.
        old_path: old.map(|_| name.clone()),
        new_path: new.map(|_| name),
        body: Body::Text(hunks),
        is_plain: true,
        ..FilePatch::default()
    })
}

/// Parses the names of both sides. `None` is /dev/null.
fn parse_side_lines(lines: &mut Lines<'_>) -> [Option<RawPath>; 2] {
    [b"--- ", b"+++ "].map(|mark| {
        let at = lines.number;
        let line = trim_carriage_returns(lines.next().unwrap_or_default());
        let text = line.strip_prefix(mark).unwrap_or_default();
        header::parse_side_name(text).unwrap_or_else(|| {
            let shown = String::from_utf8_lossy(line);
            lines.record_error(format!(
                "line {at}: expected a file name with the prefix `a/` or `b/`, but found {shown:?}"
            ));
            Some(RawPath::new(text))
        })
    })
}

fn parse_git_file(lines: &mut Lines<'_>, names: &[u8]) -> FilePatch {
    let at = lines.number;
    let pair = header::parse_name_pair(names);
    lines.advance();
    let (mut old, mut new) = pair.map_or((None, None), |(old, new)| (Some(old), Some(new)));
    let mut file = FilePatch::default();
    let (mut created, mut removed) = (false, false);
    while let Some(line) = lines.peek() {
        let line = trim_carriage_returns(line);
        if let Some(rest) = line.strip_prefix(b"old mode ") {
            file.old_mode = parse_mode(lines, rest);
        } else if let Some(rest) = line.strip_prefix(b"new mode ") {
            file.new_mode = parse_mode(lines, rest);
        } else if let Some(rest) = line.strip_prefix(b"new file mode ") {
            file.new_mode = parse_mode(lines, rest);
            created = true;
        } else if let Some(rest) = line.strip_prefix(b"deleted file mode ") {
            file.old_mode = parse_mode(lines, rest);
            removed = true;
        } else if let Some(rest) = line.strip_prefix(b"rename from ") {
            old = Some(header::parse_unprefixed_name(rest));
            file.kind = ChangeKind::Rename;
        } else if let Some(rest) = line.strip_prefix(b"copy from ") {
            old = Some(header::parse_unprefixed_name(rest));
            file.kind = ChangeKind::Copy;
        } else if let Some(rest) =
            line.strip_prefix(b"rename to ").or_else(|| line.strip_prefix(b"copy to "))
        {
            new = Some(header::parse_unprefixed_name(rest));
        } else if let Some(rest) = line.strip_prefix(b"index ") {
            parse_index(lines, rest, &mut file);
        } else if line.starts_with(b"--- ") && is_followed_by_new_name(lines) {
            let sides = parse_side_lines(lines);
            // /dev/null as the old name means the same as `new file mode`, which models often omit.
            created |= sides[0].is_none();
            removed |= sides[1].is_none();
            if file.kind == ChangeKind::Change {
                let [before, after] = sides;
                old = before.or(old);
                new = after.or(new);
            }
            file.body = Body::Text(hunk::parse_hunks(lines, &display_name(&old, &new)));
            break;
        } else if line == b"GIT binary patch" {
            lines.advance();
            file.body = parse_binary(lines, &display_name(&old, &new)).unwrap_or_else(|why| {
                lines.record_error(why);
                Body::Withheld
            });
            break;
        } else if line.starts_with(b"Binary files ") {
            file.body = Body::Withheld;
            lines.advance();
            break;
        } else if !line.starts_with(b"similarity index ")
            && !line.starts_with(b"dissimilarity index ")
        {
            break;
        }
        lines.advance();
    }
    if created && removed {
        lines.record_error(format!("line {at}: the file is both created and deleted"));
    }
    if (!created && old.is_none()) || (!removed && new.is_none()) {
        let text = String::from_utf8_lossy(names).into_owned();
        lines.record_error(format!(
            "line {at}: expected two file names, prefixed with `a/` and `b/`, but found {text:?}"
        ));
    }
    file.old_path = old.filter(|_| !created);
    file.new_path = new.filter(|_| !removed);
    if file.kind == ChangeKind::Change
        && let (Some(old), Some(new)) = (&file.old_path, &file.new_path)
        && old != new
    {
        lines.record_error(format!(
            "line {at}: {old} and {new} differ, but no `rename` lines follow"
        ));
    }
    file
}

fn display_name(old: &Option<RawPath>, new: &Option<RawPath>) -> String {
    new.as_ref().or(old.as_ref()).map(ToString::to_string).unwrap_or_default()
}

fn parse_mode(lines: &mut Lines<'_>, text: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(text).ok();
    let mode = digits.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok());
    if mode.is_none() {
        let (at, text) = (lines.number, String::from_utf8_lossy(text));
        lines.record_error(format!("line {at}: the mode {text:?} is not octal"));
    }
    mode
}

/// Parses `index 1234..5678 100644`. The mode is present only if it does not change.
fn parse_index(lines: &mut Lines<'_>, text: &[u8], file: &mut FilePatch) {
    let text = String::from_utf8_lossy(text).into_owned();
    let (ids, stays) = match text.split_once(' ') {
        Some((ids, stays)) => (ids, parse_mode(lines, stays.as_bytes())),
        None => (text.as_str(), None),
    };
    // Text patches don't need the ids. As in Git, ignore invalid ids, which are not written back.
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some((old, new)) = ids.split_once("..")
        && is_id(old)
        && is_id(new)
    {
        file.blob_ids = Some((old.to_owned(), new.to_owned()));
    }
    file.old_mode = file.old_mode.or(stays);
    file.new_mode = file.new_mode.or(stays);
}

fn parse_binary(lines: &mut Lines<'_>, name: &str) -> Result<Body, String> {
    let at = lines.number;
    let forward = parse_data(lines)?.ok_or_else(|| format!("line {at}: {name}: no binary data"))?;
    Ok(Body::Binary { forward, backward: parse_data(lines)? })
}

/// Parses `literal 12` or `delta 12`, base85 lines and an empty line. Returns `None` if there is no
/// data.
fn parse_data(lines: &mut Lines<'_>) -> Result<Option<BinaryData>, String> {
    let at = lines.number;
    let Some(line) = lines.peek().map(trim_carriage_returns) else { return Ok(None) };
    let (delta, size) = match (line.strip_prefix(b"literal "), line.strip_prefix(b"delta ")) {
        (Some(size), _) => (false, size),
        (_, Some(size)) => (true, size),
        _ => return Ok(None),
    };
    let size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
    let size: usize = size.ok_or_else(|| format!("line {at}: the size is not a number"))?;
    lines.advance();
    let mut packed = Vec::new();
    while let Some(line) = lines.peek().map(trim_carriage_returns).filter(|line| !line.is_empty()) {
        if base85::decode_line(line, &mut packed).is_none() {
            return Err(format!("line {}: not valid base85", lines.number));
        }
        lines.advance();
    }
    lines.advance();
    let bytes = inflate(&packed, size).map_err(|why| format!("line {at}: {why}"))?;
    Ok(Some(if delta { BinaryData::Delta(bytes) } else { BinaryData::Literal(bytes) }))
}
