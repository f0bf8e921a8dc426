//! Reads names and contents from tar archives. Ignores attributes, links and sparse files, because
//! they do not matter for a scan.

const BLOCK_BYTES: usize = 512;

/// Returns whether the bytes start like a tar archive. Checks the magic bytes or the header's
/// checksum.
pub fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(..BLOCK_BYTES).is_some_and(|header| {
        header[257..262] == *b"ustar"
            || (header[0] != 0 && parse_octal(&header[148..156]) == Some(header_checksum(header)))
    })
}

/// The files of an archive, up to the first corrupt header.
pub struct Entries<'a> {
    rest: &'a [u8],
    /// The name of the next entry, if a GNU long name entry precedes it.
    long_name: Option<Vec<u8>>,
}

pub fn entries(bytes: &[u8]) -> Entries<'_> {
    Entries { rest: bytes, long_name: None }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Vec<u8>, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let header = self.rest.get(..BLOCK_BYTES)?;
            if header.iter().all(|&byte| byte == 0) {
                // Skip empty blocks: another archive may follow, because archives can be
                // concatenated.
                self.rest = &self.rest[BLOCK_BYTES..];
                continue;
            }
            let size = parse_octal(&header[124..136])? as usize;
            let body = &self.rest[BLOCK_BYTES..];
            // If the archive is truncated, scan the part that exists.
            let content = &body[..size.min(body.len())];
            let padded = size.checked_next_multiple_of(BLOCK_BYTES)?;
            self.rest = body.get(padded..).unwrap_or_default();
            match header[156] {
                b'L' => self.long_name = Some(trim_at_nul(content).to_vec()),
                b'0' | 0 | b'7' => {
                    let name = self.long_name.take().unwrap_or_else(|| parse_name(header));
                    return Some((name, content));
                }
                // Skip extended headers.
                b'x' | b'g' => {}
                _ => self.long_name = None,
            }
        }
    }
}

fn parse_name(header: &[u8]) -> Vec<u8> {
    let name = trim_at_nul(&header[..100]);
    let prefix = if header[257..263] == *b"ustar\0" { trim_at_nul(&header[345..500]) } else { &[] };
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

fn trim_at_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn parse_octal(field: &[u8]) -> Option<u64> {
    // Sizes above 8 GiB are written in binary, but no file of that size is scanned.
    let text = field.trim_ascii_start();
    let digits = text.iter().take_while(|byte| (b'0'..=b'7').contains(byte));
    let mut value: u64 = 0;
    let mut any = false;
    for digit in digits {
        value = value.checked_mul(8)?.checked_add(u64::from(digit - b'0'))?;
        any = true;
    }
    any.then_some(value)
}

fn header_checksum(header: &[u8]) -> u64 {
    let field = |at: usize| (148..156).contains(&at);
    header
        .iter()
        .enumerate()
        .map(|(at, &byte)| if field(at) { u64::from(b' ') } else { u64::from(byte) })
        .sum()
}
