//! Reads `ar` archives, such as Debian packages and static libraries.

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER_BYTES: usize = 60;

/// Returns whether the bytes are an `ar` archive. Besides the magic bytes, there must be a first
/// entry.
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.strip_prefix(MAGIC).is_some_and(|rest| parse_size(rest).is_some())
}

/// Returns the name and content of each entry up to the first invalid header. The remaining bytes
/// are the last entry, which has the name `rest`.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = bytes.strip_prefix(MAGIC).unwrap_or_default();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(size) = parse_size(rest) else {
            return Some((&b"rest"[..], std::mem::take(&mut rest)));
        };
        let (header, body) = rest.split_at(HEADER_BYTES);
        // If the archive is truncated, scan the part that exists.
        let content = &body[..size.min(body.len())];
        // Contents start at even offsets.
        rest = body.get(size.saturating_add(size & 1)..).unwrap_or_default();
        let name = header[..16].trim_ascii_end();
        Some((name.strip_suffix(b"/").unwrap_or(name), content))
    })
}

fn parse_size(header: &[u8]) -> Option<usize> {
    let header = header.get(..HEADER_BYTES).filter(|header| header[58..] == *b"`\n")?;
    std::str::from_utf8(header[48..58].trim_ascii()).ok()?.parse().ok()
}
