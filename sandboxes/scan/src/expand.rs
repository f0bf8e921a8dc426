//! Expands compressed streams up to a byte limit.

use std::io::{self, Read, Write};

use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// A compression method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Deflate,
    Gzip,
    Zlib,
    Bzip2,
    Xz,
    Zstd,
}

/// The result of expanding a stream.
pub enum Expansion {
    Whole(Vec<u8>),
    /// The start of a stream that exceeds the limit or is corrupt. It is still worth scanning.
    Truncated(Vec<u8>),
    Damaged,
}

impl Method {
    /// Detects the method from the first bytes. zlib is tested last and only in the form that
    /// repositories use, because its header has only two bytes.
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(Self::Bzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [first, second, ..]
                if first & 0x8f == 8
                    && (u16::from(*first) << 8 | u16::from(*second)).is_multiple_of(31) =>
            {
                Some(Self::Zlib)
            }
            _ => None,
        }
    }
}

pub fn expand(method: Method, bytes: &[u8], limit: u64) -> Expansion {
    match method {
        Method::Deflate => read_limited(DeflateDecoder::new(bytes), limit),
        Method::Gzip => read_limited(MultiGzDecoder::new(bytes), limit),
        Method::Zlib => read_limited(ZlibDecoder::new(bytes), limit),
        Method::Bzip2 => read_limited(bzip2_rs::DecoderReader::new(bytes), limit),
        Method::Zstd => match ruzstd::decoding::StreamingDecoder::new(bytes) {
            Ok(decoder) => read_limited(decoder, limit),
            Err(_) => Expansion::Damaged,
        },
        Method::Xz => {
            let mut sink = LimitedBuffer { bytes: Vec::new(), limit };
            let done = lzma_rs::xz_decompress(&mut &bytes[..], &mut sink);
            match done {
                Ok(()) => Expansion::Whole(sink.bytes),
                // Keep the start of a corrupt stream, as `read_limited` does.
                Err(_) if !sink.bytes.is_empty() => Expansion::Truncated(sink.bytes),
                Err(_) => Expansion::Damaged,
            }
        }
    }
}

fn read_limited(reader: impl Read, limit: u64) -> Expansion {
    let mut bytes = Vec::new();
    let done = reader.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    if bytes.len() as u64 > limit {
        bytes.truncate(limit as usize);
        return Expansion::Truncated(bytes);
    }
    match done {
        Ok(_) => Expansion::Whole(bytes),
        // The start of an incomplete stream is still usable.
        Err(_) if !bytes.is_empty() => Expansion::Truncated(bytes),
        Err(_) => Expansion::Damaged,
    }
}

struct LimitedBuffer {
    bytes: Vec<u8>,
    limit: u64,
}

impl Write for LimitedBuffer {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        let isolate = (self.limit as usize).saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&chunk[..chunk.len().min(isolate)]);
        if chunk.len() > isolate {
            return Err(io::Error::other("the expansion limit is reached"));
        }
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
