//! Zstandard by `ruzstd`: what `parquet` calls of the crate `zstd`, which is a binding to the library in C.
//!
//! Proctor has `ruzstd` for archives already. The library in C beside it took 0.35 MB of the program, and was the
//! longest compilation of C in a build. Packing is here for tests, which write the Parquet files that they read.

#![warn(missing_docs)]

/// Whole pieces, from memory to memory.
pub mod bulk {
    use std::{
        io::{self, Cursor, Write},
        marker::PhantomData,
    };

    use ruzstd::{
        decoding::{DEFAULT_MAX_WINDOW_SIZE, FrameDecoder},
        encoding::{CompressionLevel, compress_to_vec},
    };

    /// Packs, at one level only.
    #[derive(Debug)]
    pub struct Compressor<'a>(PhantomData<&'a ()>);

    impl Compressor<'static> {
        /// One for any level.
        ///
        /// # Errors
        /// None: parquet expects a result.
        pub fn new(_level: i32) -> io::Result<Self> {
            Ok(Self(PhantomData))
        }
    }

    impl Compressor<'_> {
        /// Puts the packed source where the cursor stands, and says how many bytes it takes.
        ///
        /// # Errors
        /// None: a vector takes it all.
        pub fn compress_to_buffer(
            &mut self,
            source: &[u8],
            destination: &mut Cursor<&mut Vec<u8>>,
        ) -> io::Result<usize> {
            let packed = compress_to_vec(source, CompressionLevel::Fastest);
            destination.write_all(&packed)?;
            Ok(packed.len())
        }
    }

    /// Unpacks.
    pub struct Decompressor<'a>(FrameDecoder, PhantomData<&'a ()>);

    impl Decompressor<'static> {
        /// One without a dictionary.
        ///
        /// # Errors
        /// None: parquet expects a result.
        pub fn new() -> io::Result<Self> {
            Ok(Self(FrameDecoder::new(), PhantomData))
        }
    }

    impl Decompressor<'_> {
        /// Puts what the frames of the source hold where the cursor stands, and says how many bytes it takes.
        ///
        /// # Errors
        /// The source is damaged, or holds more than the vector has reserved.
        pub fn decompress_to_buffer(
            &mut self,
            source: &[u8],
            destination: &mut Cursor<&mut Vec<u8>>,
        ) -> io::Result<usize> {
            let at = usize::try_from(destination.position()).map_err(io::Error::other)?;
            let buffer = destination.get_mut();
            buffer.resize(buffer.capacity().max(at), 0);
            // A page is one window where its writer made it so.
            let window = DEFAULT_MAX_WINDOW_SIZE.max(buffer.len() as u64);
            self.0.set_max_window_size(window);
            let count = self.0.decode_all(source, &mut buffer[at..]).map_err(io::Error::other);
            buffer.truncate(at + count.as_ref().copied().unwrap_or(0));
            let end = buffer.len() as u64;
            destination.set_position(end);
            count
        }
    }
}

/// By this name the crate `zstd` hands on what lies below it.
pub mod zstd_safe {
    use ruzstd::decoding::{FrameDecoder, errors::FrameDecoderError};

    /// The length that the first frame says it has unpacked, where it says one.
    ///
    /// # Errors
    /// The source does not begin with a frame.
    pub fn get_frame_content_size(source: &[u8]) -> Result<Option<u64>, FrameDecoderError> {
        let mut frame = FrameDecoder::new();
        frame.reset(source)?;
        Ok(Some(frame.content_size()).filter(|size| *size > 0))
    }

    /// The most that so many bytes take, packed.
    pub fn compress_bound(size: usize) -> usize {
        size + (size >> 8) + 1024
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::{bulk, zstd_safe};

    fn unpacked(packed: &[u8], reserved: usize) -> std::io::Result<Vec<u8>> {
        let mut out = b"before".to_vec();
        out.reserve_exact(reserved);
        let mut cursor = Cursor::new(&mut out);
        cursor.set_position(6);
        let count = bulk::Decompressor::new()?.decompress_to_buffer(packed, &mut cursor)?;
        assert_eq!(out.len(), 6 + count);
        assert_eq!(&out[..6], b"before");
        Ok(out.split_off(6))
    }

    #[test]
    fn what_is_packed_comes_back_and_damage_is_told() {
        for text in [String::new(), "word ".repeat(100_000), "x".into()] {
            let mut packed = Vec::new();
            let count = bulk::Compressor::new(3)
                .unwrap()
                .compress_to_buffer(text.as_bytes(), &mut Cursor::new(&mut packed))
                .unwrap();
            assert_eq!(count, packed.len());
            assert!(count <= zstd_safe::compress_bound(text.len()));
            assert_eq!(unpacked(&packed, text.len()).unwrap(), text.as_bytes());
            // Two frames, one behind the other.
            let twice = [&packed[..], &packed[..]].concat();
            assert_eq!(unpacked(&twice, 2 * text.len()).unwrap().len(), 2 * text.len());
            assert!(unpacked(&packed[..packed.len() - 1], text.len()).is_err());
        }
        assert!(unpacked(b"no frame", 100).is_err());
        assert!(zstd_safe::get_frame_content_size(b"no frame").is_err());
    }

    /// As the library in C packs: with its length in the head.
    #[test]
    fn a_frame_of_the_library_in_c_is_read() {
        let packed = b"\x28\xb5\x2f\xfd\x20\x05\x29\x00\x00hello";
        assert_eq!(unpacked(packed, 5).unwrap(), b"hello");
        assert_eq!(zstd_safe::get_frame_content_size(packed).unwrap(), Some(5));
        assert!(unpacked(packed, 0).is_err(), "there was no space for it");
    }
}
