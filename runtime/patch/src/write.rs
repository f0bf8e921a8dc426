//! Writes a patch in Git's format, with full blob ids.

use crate::{
    base85, binary,
    patch::{BinaryData, Body, ChangeKind, FilePatch, Hunk, MODE_FILE, Patch, Side},
    quote::quote,
};

impl Patch {
    /// Returns the patch as Git would write it, without the text between files. A file that was
    /// parsed without a `diff --git` line is also written without one.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut header_only = false;
        for file in &self.files {
            // Without a separating line, the file would be parsed as the body of the previous
            // header.
            if header_only && file.is_plain {
                out.push(b'\n');
            }
            file.write(&mut out);
            header_only = file.is_header_only();
        }
        out
    }
}

impl FilePatch {
    /// Returns whether the file has only a header. File names without a hunk count as a header.
    fn is_header_only(&self) -> bool {
        match &self.body {
            Body::Empty => true,
            Body::Text(hunks) => hunks.is_empty(),
            Body::Binary { .. } | Body::Withheld => false,
        }
    }

    /// Appends the file's text to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let old = self.old_path.as_ref().or(self.new_path.as_ref()).map(|path| path.as_bytes());
        let new = self.new_path.as_ref().or(self.old_path.as_ref()).map(|path| path.as_bytes());
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let (a, b) = (quote(&[b"a/", old].concat()), quote(&[b"b/", new].concat()));
        // Don't write this line for a plain patch: the line would say whether the file exists,
        // which the original text did not.
        if !self.is_plain {
            write_line(out, &[b"diff --git ", &a, b" ", &b]);
        }
        let octal = |mode: u32| format!("{mode:06o}").into_bytes();
        let index = self.blob_ids.as_ref().filter(|_| !self.is_header_only());
        // If the mode does not change, the `index` line contains it.
        let stays = self.old_mode.filter(|_| self.old_mode == self.new_mode && index.is_some());
        match (&self.old_path, &self.new_path) {
            _ if self.is_plain => {}
            (None, _) => {
                let mode = self.new_mode.unwrap_or(MODE_FILE);
                write_line(out, &[b"new file mode ", &octal(mode)]);
            }
            (_, None) => {
                let mode = self.old_mode.unwrap_or(MODE_FILE);
                write_line(out, &[b"deleted file mode ", &octal(mode)]);
            }
            _ => {
                let changes = |mode: Option<u32>| mode.filter(|_| stays.is_none());
                if let Some(before) = changes(self.old_mode) {
                    write_line(out, &[b"old mode ", &octal(before)]);
                }
                // A model may write only `new mode`, which has the same effect as both lines.
                if let Some(after) = changes(self.new_mode) {
                    write_line(out, &[b"new mode ", &octal(after)]);
                }
            }
        }
        let verb: Option<&[u8]> = match self.kind {
            ChangeKind::Change => None,
            ChangeKind::Rename => Some(b"rename"),
            ChangeKind::Copy => Some(b"copy"),
        };
        if let Some(verb) = verb {
            write_line(out, &[verb, b" from ", &quote(old)]);
            write_line(out, &[verb, b" to ", &quote(new)]);
        }
        if let Some((before, after)) = index {
            let both = self.old_path.is_some() && self.new_path.is_some();
            let mode = stays.filter(|_| both).map(|mode| [b" ", &octal(mode)[..]].concat());
            let mode = mode.unwrap_or_default();
            write_line(out, &[b"index ", before.as_bytes(), b"..", after.as_bytes(), &mode]);
        }
        match &self.body {
            _ if self.is_header_only() => {}
            Body::Empty => {}
            Body::Text(hunks) => {
                write_file_name(out, b"--- ", self.old_path.as_ref().map(|_| &a[..]));
                write_file_name(out, b"+++ ", self.new_path.as_ref().map(|_| &b[..]));
                hunks.iter().for_each(|one| write_hunk(one, out));
            }
            Body::Binary { forward, backward } => {
                write_line(out, &[b"GIT binary patch"]);
                write_data(forward, out);
                if let Some(backward) = backward {
                    write_data(backward, out);
                }
            }
            Body::Withheld => write_line(out, &[b"Binary files ", &a, b" and ", &b, b" differ"]),
        }
    }
}

fn write_line(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.push(b'\n');
}

/// Writes a file name line. As in Git, a tab follows a name with spaces, so that no part of the
/// name is parsed as a timestamp.
fn write_file_name(out: &mut Vec<u8>, marker: &[u8], name: Option<&[u8]>) {
    let name = name.unwrap_or(b"/dev/null");
    let tab: &[u8] = if name.contains(&b' ') && !name.starts_with(b"\"") { b"\t" } else { b"" };
    write_line(out, &[marker, name, tab]);
}

fn write_hunk(hunk: &Hunk, out: &mut Vec<u8>) {
    let range = |start: usize, count: usize| match count {
        1 => start.to_string(),
        _ => format!("{start},{count}"),
    };
    let old = range(hunk.old_start, hunk.old_lines().count());
    let kept = hunk.lines.iter().filter(|line| line.side != Side::Old);
    let new = range(hunk.new_start, kept.count());
    write_line(out, &[format!("@@ -{old} +{new} @@").as_bytes(), &hunk.section]);
    for one in &hunk.lines {
        out.push(match one.side {
            Side::Both => b' ',
            Side::Old => b'-',
            Side::New => b'+',
        });
        out.extend_from_slice(&one.bytes);
        if !one.bytes.ends_with(b"\n") {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}

fn write_data(data: &BinaryData, out: &mut Vec<u8>) {
    let (kind, bytes) = match data {
        BinaryData::Literal(bytes) => ("literal", bytes),
        BinaryData::Delta(bytes) => ("delta", bytes),
    };
    write_line(out, &[format!("{kind} {}", bytes.len()).as_bytes()]);
    base85::encode(&binary::deflate(bytes), out);
    out.push(b'\n');
}
