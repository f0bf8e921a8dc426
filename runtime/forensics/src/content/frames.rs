//! Parses Git's pkt-line frames. Each frame has a length of four hexadecimal digits, a channel, and
//! data.

/// Returns the data on the first channel if this is a response in Git's smart protocol.
pub(super) fn reassemble_pack(response: &[u8]) -> Option<Vec<u8>> {
    const PACK_CHANNEL: u8 = 1;
    let (mut rest, mut content, mut any) = (response, Vec::new(), false);
    while rest.len() >= 4 {
        let digits = std::str::from_utf8(&rest[..4]).ok()?;
        let length = usize::from_str_radix(digits, 16).ok()?;
        // Frames with lengths 0 to 3 contain no data. They mark the end of a list or response.
        let end = length.max(4).min(rest.len());
        if let Some((&PACK_CHANNEL, piece)) = rest[4..end].split_first() {
            content.extend_from_slice(piece);
            any = true;
        }
        rest = &rest[end..];
    }
    any.then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reassemble_pack_returns_git_packs_only() {
        assert_eq!(
            reassemble_pack(b"0008NAK\n0009\x01PACK0008\x02so 0006\x01!0000"),
            Some(b"PACK!".to_vec())
        );
        // This input was truncated by a size limit.
        assert_eq!(reassemble_pack(b"0009\x01PACK00ff\x01tail"), Some(b"PACKtail".to_vec()));
        for other in [&b"def f():\n    return 1\n"[..], b"", b"0008NAK\n0000", b"{\"a\": 1}"] {
            assert_eq!(reassemble_pack(other), None);
        }
    }
}
