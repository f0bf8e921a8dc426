//! Decompresses gzip and Zstandard streams with any number of members.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Decompresses the stream. Returns it unchanged if its first bytes match no known compression
/// format.
pub(super) fn decompress<'a>(mut stream: impl Read + 'a) -> io::Result<DecompressedStream<'a>> {
    let mut magic = Vec::new();
    stream.by_ref().take(4).read_to_end(&mut magic)?;
    let gzip = magic.starts_with(&GZIP_MAGIC);
    let zstd = magic == ZSTD_MAGIC;
    let whole = BufReader::new(Cursor::new(magic).chain(stream));
    Ok(match (gzip, zstd) {
        (true, _) => {
            DecompressedStream { stream: Box::new(MultiGzDecoder::new(whole)), is_compressed: true }
        }
        (_, true) => DecompressedStream {
            stream: Box::new(ZstdFrames::BetweenFrames(whole)),
            is_compressed: true,
        },
        _ => DecompressedStream { stream: Box::new(whole), is_compressed: false },
    })
}

pub(super) struct DecompressedStream<'a> {
    pub(super) stream: Box<dyn Read + 'a>,
    pub(super) is_compressed: bool,
}

/// Consecutive Zstandard frames, because one decoder reads only one frame.
enum ZstdFrames<R: BufRead> {
    BetweenFrames(R),
    InFrame(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
    /// The stream has ended or failed.
    Ended,
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(self, Self::Ended) {
                Self::Ended => return Ok(0),
                Self::BetweenFrames(mut rest) => {
                    if rest.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let decoder = StreamingDecoder::new(rest).map_err(io::Error::other)?;
                    *self = Self::InFrame(Box::new(decoder));
                }
                Self::InFrame(mut decoder) => match decoder.read(buffer)? {
                    0 if !buffer.is_empty() => *self = Self::BetweenFrames(decoder.into_inner()),
                    read => {
                        *self = Self::InFrame(decoder);
                        return Ok(read);
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `hello ` and `world` as two frames with checksums, written by the zstd command.
    const FRAMES: &[u8] = include_bytes!("hello-world.zst");

    #[test]
    fn decompress_reads_consecutive_zstd_frames() {
        let mut text = String::new();
        decompress(FRAMES).unwrap().stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello world\n");
    }

    #[test]
    fn truncated_zstd_frame_is_an_error() {
        let cut = &FRAMES[..FRAMES.len() - 6];
        let mut text = String::new();
        decompress(cut).unwrap().stream.read_to_string(&mut text).unwrap_err();
    }

    #[test]
    fn decompress_keeps_short_and_uncompressed_streams() {
        for text in ["", "x", "plain text"] {
            let mut read = String::new();
            let mut seen = decompress(text.as_bytes()).unwrap();
            seen.stream.read_to_string(&mut read).unwrap();
            assert_eq!((&*read, seen.is_compressed), (text, false));
        }
    }
}
