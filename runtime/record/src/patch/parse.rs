//! Reads a patch into one value a file. Nothing is looked up and nothing is guessed.

use super::{
    PatchError, base85,
    binary::{WHOLE_LIMIT, inflate},
    files::{Body, Data, FilePatch, How},
    header, hunk,
    lines::{Lines, bare},
};

type Parsed<T> = Result<T, String>;

/// Reads every file of the patch. Text before the first file and between files (a mail's head, a
/// commit message) is passed over; a patch with no file at all, though not empty, is an error.
pub(super) fn parse(patch: &[u8]) -> Result<Vec<FilePatch>, PatchError> {
    files(patch).map_err(|why| PatchError::Malformed { why })
}

fn unpacked_size(file: &FilePatch) -> usize {
    let size = |data: &Data| match data {
        Data::Literal(bytes) | Data::Delta(bytes) => bytes.len(),
    };
    match &file.body {
        Body::Binary { forward, backward } => size(forward) + backward.as_ref().map_or(0, size),
        _ => 0,
    }
}

fn files(patch: &[u8]) -> Parsed<Vec<FilePatch>> {
    let mut lines = Lines::new(patch);
    let mut files = Vec::new();
    let mut unpacked = 0;
    while let Some(line) = lines.peek() {
        let line = bare(line);
        if let Some(names) = line.strip_prefix(b"diff --git ") {
            let file = git_file(&mut lines, names)?;
            unpacked += unpacked_size(&file);
            if unpacked > WHOLE_LIMIT {
                return Err(format!("its binary data is over the limit of {WHOLE_LIMIT} bytes"));
            }
            files.push(file);
        } else if line.starts_with(b"--- ") && second_names_a_file(&lines) {
            files.push(plain_file(&mut lines)?);
        } else if line.starts_with(b"@@ -") {
            return Err(format!(
                "line {}: a hunk without a file: the lines `--- a/...` and `+++ b/...` are missing",
                lines.number
            ));
        } else {
            lines.advance();
        }
    }
    if files.is_empty() && !patch.trim_ascii().is_empty() {
        return Err("no file in it: neither `diff --git` nor `---` and `+++` lines".into());
    }
    Ok(files)
}

fn second_names_a_file(lines: &Lines<'_>) -> bool {
    lines.second().is_some_and(|line| line.starts_with(b"+++ "))
}

/// `--- a/x`, `+++ b/x`, hunks.
fn plain_file(lines: &mut Lines<'_>) -> Parsed<FilePatch> {
    let at = lines.number;
    let (old, new) = side_lines(lines)?;
    let (old, new) = (old.path(), new.path());
    let name = match (&new, &old) {
        (Some(name), _) | (None, Some(name)) => name.clone(),
        (None, None) => return Err(format!("line {at}: both sides are /dev/null")),
    };
    let hunks = hunk::read(lines, &name.to_string())?;
    if hunks.is_empty() {
        return Err(format!("line {at}: {name}: no hunk follows its names"));
    }
    // Two names without a git header are a backup's name, not a rename.
    let old = old.map(|_| name.clone());
    Ok(FilePatch {
        old,
        new: new.map(|_| name),
        how: How::Change,
        old_mode: None,
        new_mode: None,
        index: None,
        body: Body::Text(hunks),
        plain: true,
    })
}

fn side_lines(lines: &mut Lines<'_>) -> Parsed<(header::Name, header::Name)> {
    let mut one = |mark: &[u8]| {
        let at = lines.number;
        let line = bare(lines.next().unwrap_or_default());
        line.strip_prefix(mark).and_then(header::side).ok_or_else(|| {
            let text = String::from_utf8_lossy(line).into_owned();
            format!("line {at}: no name with the prefix `a/` or `b/`: {text:?}")
        })
    };
    Ok((one(b"--- ")?, one(b"+++ ")?))
}

fn git_file(lines: &mut Lines<'_>, names: &[u8]) -> Parsed<FilePatch> {
    let at = lines.number;
    let pair = header::pair(names);
    lines.advance();
    let (mut old, mut new) = pair.map_or((None, None), |(old, new)| (Some(old), Some(new)));
    let mut file = FilePatch {
        old: None,
        new: None,
        how: How::Change,
        old_mode: None,
        new_mode: None,
        index: None,
        body: Body::Empty,
        plain: false,
    };
    let (mut created, mut removed) = (false, false);
    while let Some(line) = lines.peek() {
        let line = bare(line);
        let number = lines.number;
        let mode = |text: &[u8]| {
            let digits = std::str::from_utf8(text).ok();
            digits.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).ok_or_else(|| {
                format!("line {number}: the mode {:?} is not octal", String::from_utf8_lossy(text))
            })
        };
        if let Some(rest) = line.strip_prefix(b"old mode ") {
            file.old_mode = Some(mode(rest)?);
        } else if let Some(rest) = line.strip_prefix(b"new mode ") {
            file.new_mode = Some(mode(rest)?);
        } else if let Some(rest) = line.strip_prefix(b"new file mode ") {
            file.new_mode = Some(mode(rest)?);
            created = true;
        } else if let Some(rest) = line.strip_prefix(b"deleted file mode ") {
            file.old_mode = Some(mode(rest)?);
            removed = true;
        } else if let Some(rest) = line.strip_prefix(b"rename from ") {
            old = Some(header::whole(rest));
            file.how = How::Rename;
        } else if let Some(rest) = line.strip_prefix(b"copy from ") {
            old = Some(header::whole(rest));
            file.how = How::Copy;
        } else if let Some(rest) =
            line.strip_prefix(b"rename to ").or_else(|| line.strip_prefix(b"copy to "))
        {
            new = Some(header::whole(rest));
        } else if let Some(rest) = line.strip_prefix(b"index ") {
            index(rest, &mut file, &mode)?;
        } else if line.starts_with(b"--- ") && second_names_a_file(lines) {
            let sides = side_lines(lines)?;
            // A side that is /dev/null says the same as `new file mode`, which models forget.
            created |= sides.0 == header::Name::Nothing;
            removed |= sides.1 == header::Name::Nothing;
            if file.how == How::Change {
                old = sides.0.path().or(old);
                new = sides.1.path().or(new);
            }
            let name = new.as_ref().or(old.as_ref()).map(ToString::to_string).unwrap_or_default();
            file.body = Body::Text(hunk::read(lines, &name)?);
            break;
        } else if line == b"GIT binary patch" {
            lines.advance();
            let name = new.as_ref().or(old.as_ref()).map(ToString::to_string).unwrap_or_default();
            let forward = data(lines)?
                .ok_or_else(|| format!("line {}: {name}: no binary data", lines.number))?;
            file.body = Body::Binary { forward, backward: data(lines)? };
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
    let unnamed = || {
        let text = String::from_utf8_lossy(names).into_owned();
        format!("line {at}: no two names with the prefixes `a/` and `b/`: {text:?}")
    };
    if created && removed {
        return Err(format!("line {at}: the file is both created and deleted"));
    }
    if !created {
        file.old = Some(old.clone().ok_or_else(unnamed)?);
    }
    if !removed {
        file.new = Some(new.clone().ok_or_else(unnamed)?);
    }
    if file.how == How::Change
        && let (Some(old), Some(new)) = (&file.old, &file.new)
        && old != new
    {
        return Err(format!("line {at}: {old} and {new}: two names and no `rename` lines"));
    }
    Ok(file)
}

/// `index 1234..5678 100644`: the mode is that of a file whose mode stays.
fn index(text: &[u8], file: &mut FilePatch, mode: &impl Fn(&[u8]) -> Parsed<u32>) -> Parsed<()> {
    let text = String::from_utf8_lossy(text).into_owned();
    let (ids, stays) = match text.split_once(' ') {
        Some((ids, stays)) => (ids, Some(stays)),
        None => (text.as_str(), None),
    };
    if let Some((old, new)) = ids.split_once("..") {
        file.index = Some((old.to_owned(), new.to_owned()));
    }
    if let Some(stays) = stays {
        let stays = mode(stays.as_bytes())?;
        file.old_mode = file.old_mode.or(Some(stays));
        file.new_mode = file.new_mode.or(Some(stays));
    }
    Ok(())
}

/// `literal 12` or `delta 12`, lines of base85, an empty line. `None` where none follows.
fn data(lines: &mut Lines<'_>) -> Parsed<Option<Data>> {
    let at = lines.number;
    let Some(line) = lines.peek().map(bare) else { return Ok(None) };
    let (delta, size) = match (line.strip_prefix(b"literal "), line.strip_prefix(b"delta ")) {
        (Some(size), _) => (false, size),
        (_, Some(size)) => (true, size),
        _ => return Ok(None),
    };
    let size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
    let size: usize = size.ok_or_else(|| format!("line {at}: the size is not a number"))?;
    lines.advance();
    let mut packed = Vec::new();
    while let Some(line) = lines.peek().map(bare).filter(|line| !line.is_empty()) {
        if base85::decode_line(line, &mut packed).is_none() {
            return Err(format!("line {}: this is not git's base85", lines.number));
        }
        lines.advance();
    }
    lines.advance();
    let bytes = inflate(&packed, size).map_err(|why| format!("line {at}: {why}"))?;
    Ok(Some(if delta { Data::Delta(bytes) } else { Data::Literal(bytes) }))
}
