//! Finds compressed streams and packs that other bytes precede, as in Git bundles, self-extracting
//! programs, documents and dumps.

use std::io::Read;

use flate2::{Decompress, FlushDecompress, bufread};
use memchr::{memchr3_iter, memmem};

use crate::{
    expand::{Expansion, Method, expand},
    pack,
};

/// Minimum expanded length in bytes. A shorter stream is too short for a copy, and most false
/// matches fail before this length.
const MIN_STREAM_BYTES: usize = 60;

/// Formats with reliable magic bytes, each with the magic bytes' offset.
const FORMAT_MAGICS: [(&[u8], usize, Method); 4] = [
    (b"\x1f\x8b\x08", 0, Method::Gzip),
    (b"1AY&SY", 4, Method::Bzip2),
    (b"\xfd7zXZ\0", 0, Method::Xz),
    (b"\x28\xb5\x2f\xfd", 0, Method::Zstd),
];

/// Image formats to skip, because their streams contain pixels. Expanding them would cost more than
/// the rest of the scan and find nothing.
const SKIPPED_IMAGE_MAGICS: [&[u8]; 2] = [b"\x89PNG", b"\xff\xd8\xff"];

/// A pack or stream that was found in the content.
pub enum EmbeddedData<'a> {
    /// A Git pack and the bytes after it.
    Pack(&'a [u8]),
    /// An expanded stream, and whether it was truncated at the limit.
    Stream(Vec<u8>, bool),
}

/// Calls `visit` with each pack and stream that starts after the content's first byte. Expands at
/// most `limit` bytes in total.
pub fn find_embedded(bytes: &[u8], limit: u64, visit: &mut dyn FnMut(EmbeddedData<'_>)) {
    // Valid UTF-8 contains no streams. This check is the fastest, so it comes first.
    if str::from_utf8(bytes).is_ok()
        || SKIPPED_IMAGE_MAGICS.iter().any(|image| bytes.starts_with(image))
    {
        return;
    }
    for at in memmem::find_iter(bytes, pack::MAGIC).filter(|at| *at > 0) {
        visit(EmbeddedData::Pack(&bytes[at..]));
    }
    let mut left = limit;
    for (mark, ahead, method) in FORMAT_MAGICS {
        let mut end = 0;
        for found in memmem::find_iter(bytes, mark) {
            let Some(at) = found.checked_sub(ahead).filter(|at| *at > 0 && *at >= end) else {
                continue;
            };
            if Method::detect(&bytes[at..]) == Some(method) {
                end = at + expand_stream(&bytes[at..], method, &mut left, visit);
            }
        }
    }
    find_zlib(bytes, &mut left, visit);
}

/// Finds zlib streams. Their header has only two bytes, the first of which is `x` for the usual
/// window size. It occurs by chance every few kilobytes, so the bytes after it must expand too.
fn find_zlib(bytes: &[u8], bytes_left: &mut u64, visit: &mut dyn FnMut(EmbeddedData<'_>)) {
    // Search for the second byte, which contains the compression level. Leave out its fourth
    // possible value: it is a common letter and would cause most of the work.
    let second = memchr3_iter(0x01, 0x9c, 0xda, bytes).filter_map(|at| at.checked_sub(1));
    let fast = memmem::find_iter(bytes, b"x\x5e");
    let mut places: Vec<usize> =
        second.filter(|&at| bytes[at] == b'x').chain(fast).filter(|at| *at > 0).collect();
    if places.is_empty() {
        return;
    }
    places.sort_unstable();
    let mut inflater = Decompress::new(true);
    let mut probe = [0; 4 * MIN_STREAM_BYTES];
    let mut end = 0;
    for at in places {
        if at < end {
            continue;
        }
        inflater.reset(true);
        let status = inflater.decompress(&bytes[at..], &mut probe, FlushDecompress::None);
        if status.is_ok() && inflater.total_out() >= MIN_STREAM_BYTES as u64 {
            end = at + expand_stream(&bytes[at..], Method::Zlib, bytes_left, visit);
        }
    }
}

/// Expands the stream at the start of `bytes`. Returns the stream's length, or the length of
/// `bytes` if it is unknown.
fn expand_stream(
    bytes: &[u8],
    method: Method,
    bytes_left: &mut u64,
    visit: &mut dyn FnMut(EmbeddedData<'_>),
) -> usize {
    let mut content = Vec::new();
    let rest = match method {
        Method::Gzip => {
            let mut decoder = bufread::GzDecoder::new(bytes);
            read_stream(&mut decoder, *bytes_left, &mut content);
            decoder.into_inner().len()
        }
        Method::Zlib => {
            let mut decoder = bufread::ZlibDecoder::new(bytes);
            read_stream(&mut decoder, *bytes_left, &mut content);
            decoder.into_inner().len()
        }
        // The length of these streams is unknown. Streams after this one in the content are found
        // separately.
        Method::Bzip2 | Method::Xz | Method::Zstd | Method::Deflate => {
            let expanded = expand(method, bytes, *bytes_left);
            if let Expansion::Whole(expanded) | Expansion::Truncated(expanded) = expanded {
                content = expanded;
            }
            bytes.len()
        }
    };
    let is_cut = content.len() as u64 >= *bytes_left;
    *bytes_left -= (content.len() as u64).min(*bytes_left);
    if content.len() >= MIN_STREAM_BYTES {
        visit(EmbeddedData::Stream(content, is_cut));
    }
    bytes.len() - rest
}

/// Reads a stream. If it is corrupt, keeps the bytes before the error.
fn read_stream(decoder: &mut impl Read, limit: u64, content: &mut Vec<u8>) {
    let _ = decoder.take(limit).read_to_end(content);
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write};

    use super::*;

    fn find_all(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        find_embedded(bytes, 1 << 20, &mut |piece| {
            all.push(match piece {
                EmbeddedData::Pack(bytes) => bytes.to_vec(),
                EmbeddedData::Stream(bytes, _) => bytes,
            });
        });
        all
    }

    #[test]
    fn consecutive_streams_are_found_after_other_bytes() {
        let text = b"a line of text that stands for a program\n".repeat(9);
        let mut file = b"#!/bin/sh\ntail -c +40 $0\nexit\n".to_vec();
        for level in [1, 6, 9] {
            let mut zlib = write::ZlibEncoder::new(&mut file, Compression::new(level));
            zlib.write_all(&text).unwrap();
            zlib.finish().unwrap();
            file.extend_from_slice(b"between");
        }
        let mut gzip = write::GzEncoder::new(&mut file, Compression::fast());
        gzip.write_all(&text).unwrap();
        gzip.finish().unwrap();
        file.extend_from_slice(b"the end");
        assert_eq!(find_all(&file), vec![text.clone(); 4]);
        // The last stream is now incomplete.
        assert_eq!(find_all(&file[..file.len() - 12]).len(), 4);
        assert_eq!(find_all(&[b"\x89PNG\r\n", &file[..]].concat()), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn limit_applies_to_all_streams_together() {
        let mut file = b"head".to_vec();
        for _ in 0..4 {
            let mut zlib = write::ZlibEncoder::new(&mut file, Compression::best());
            zlib.write_all(&[b'a'; 1000]).unwrap();
            zlib.finish().unwrap();
        }
        let mut sizes = Vec::new();
        find_embedded(&file, 2500, &mut |piece| {
            if let EmbeddedData::Stream(bytes, is_cut) = piece {
                sizes.push((bytes.len(), is_cut));
            }
        });
        assert_eq!(sizes, [(1000, false), (1000, false), (500, true)]);
    }

    #[test]
    fn random_bytes_contain_few_streams() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let noise: Vec<u8> = (0..4 << 20).map(|_| next()).collect();
        let found = find_all(&noise);
        assert!(found.len() < 4, "{} streams in noise", found.len());
    }
}
