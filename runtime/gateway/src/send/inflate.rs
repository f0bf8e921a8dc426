//! Decompresses responses.

use std::io::Write as _;

use bytes::Bytes;
use http::{HeaderMap, header};

use super::attempt::{BODY_LIMIT, BrokenResponse};

/// Decompresses a response that a proxy compressed although the request does not accept
/// compression.
pub(super) enum Decompressor {
    Plain,
    Gzip(Box<flate2::write::MultiGzDecoder<Vec<u8>>>),
    Deflate(Box<flate2::write::ZlibDecoder<Vec<u8>>>),
}

impl Decompressor {
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, BrokenResponse> {
        let coding = headers.get(header::CONTENT_ENCODING).and_then(|coding| coding.to_str().ok());
        match coding.map(|coding| coding.trim().to_ascii_lowercase()).as_deref() {
            None | Some("" | "identity") => Ok(Self::Plain),
            Some("gzip" | "x-gzip") => {
                Ok(Self::Gzip(Box::new(flate2::write::MultiGzDecoder::new(Vec::new()))))
            }
            Some("deflate") => {
                Ok(Self::Deflate(Box::new(flate2::write::ZlibDecoder::new(Vec::new()))))
            }
            Some(other) => Err(BrokenResponse::new(format!(
                "the response is compressed with {other:?}, which the request does not accept"
            ))),
        }
    }

    /// Returns the decompressed bytes of a chunk. Pass `None` at the end of the response.
    pub(super) fn decompress(
        &mut self,
        chunk: Option<Bytes>,
    ) -> Result<Option<Bytes>, BrokenResponse> {
        let wrong = |error: std::io::Error| {
            BrokenResponse::new(format!("the compressed response is corrupted: {error}"))
        };
        let (Some(bytes), decoder) = (chunk, self) else { return Ok(None) };
        let out = match decoder {
            Self::Plain => return Ok(Some(bytes)),
            Self::Gzip(decoder) => {
                decoder.write_all(&bytes).and_then(|()| decoder.flush()).map_err(wrong)?;
                decoder.get_mut()
            }
            Self::Deflate(decoder) => {
                decoder.write_all(&bytes).and_then(|()| decoder.flush()).map_err(wrong)?;
                decoder.get_mut()
            }
        };
        if out.len() > BODY_LIMIT {
            return Err(BrokenResponse::new(format!(
                "the response is longer than {BODY_LIMIT} bytes"
            )));
        }
        Ok(Some(std::mem::take(out).into()))
    }
}
