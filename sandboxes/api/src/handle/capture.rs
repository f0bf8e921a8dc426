//! Captures one output stream of a command: its head, its tail, and a spill file with the complete
//! stream.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

use tokio::{fs::File, io::AsyncWriteExt};

use crate::CapturedOutput;

pub struct OutputCapture {
    head_cap: usize,
    tail_cap: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total_bytes: u64,
    spill: SpillFile,
    spill_bytes_left: u64,
}

enum SpillFile {
    Disabled,
    /// Not yet opened, because the output has not exceeded the cap.
    Unopened(PathBuf),
    Open(PathBuf, File),
}

impl OutputCapture {
    /// Creates a capture. The first argument is the number of bytes to keep from the start and from
    /// the end of the stream.
    pub fn new(
        (head_cap, tail_cap): (usize, usize),
        spill: Option<&Path>,
        suffix: &str,
        spill_cap: u64,
    ) -> Self {
        let spill = spill.map_or(SpillFile::Disabled, |path| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            SpillFile::Unopened(name.into())
        });
        Self {
            head_cap,
            tail_cap,
            head: Vec::new(),
            tail: VecDeque::new(),
            total_bytes: 0,
            spill,
            spill_bytes_left: spill_cap,
        }
    }

    pub async fn append(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let handle = self.head_cap.saturating_sub(self.head.len());
        let (head, rest) = bytes.split_at(handle.min(bytes.len()));
        self.head.extend_from_slice(head);
        if rest.is_empty() {
            return;
        }
        self.tail.extend(&rest[rest.len().saturating_sub(self.tail_cap)..]);
        let over = self.tail.len().saturating_sub(self.tail_cap);
        self.tail.drain(..over);
        // If the host's disk is full, let the command continue without storing its complete output.
        if let Err(error) = self.write_spill(rest).await {
            tracing::warn!(%error, "cannot store a command's complete output");
            self.spill = SpillFile::Disabled;
        }
    }

    async fn write_spill(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if let SpillFile::Unopened(path) = &self.spill {
            let mut file = File::create(path).await?;
            let kept =
                self.head.len().min(usize::try_from(self.spill_bytes_left).unwrap_or(usize::MAX));
            file.write_all(&self.head[..kept]).await?;
            self.spill_bytes_left -= kept as u64;
            self.spill = SpillFile::Open(path.clone(), file);
        }
        if let SpillFile::Open(_, file) = &mut self.spill {
            let kept =
                bytes.len().min(usize::try_from(self.spill_bytes_left).unwrap_or(usize::MAX));
            file.write_all(&bytes[..kept]).await?;
            self.spill_bytes_left -= kept as u64;
        }
        Ok(())
    }

    pub async fn finish(mut self) -> CapturedOutput {
        let mut spill = None;
        if let SpillFile::Open(path, mut file) =
            std::mem::replace(&mut self.spill, SpillFile::Disabled)
        {
            match file.flush().await {
                Ok(()) => spill = Some(path),
                Err(error) => tracing::warn!(%error, "cannot store a command's complete output"),
            }
        }
        CapturedOutput {
            head: self.head,
            total_bytes: self.total_bytes,
            tail: self.tail.into(),
            spill_file: spill,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL_BYTES: usize = 64 << 10;

    #[tokio::test]
    async fn capture_head_tail_and_file_agree() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut capture = OutputCapture::new((10, TAIL_BYTES), Some(&path), ".stdout", 1 << 20);
        let all: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        for piece in all.chunks(7777) {
            capture.append(piece).await;
        }
        let captured = capture.finish().await;
        assert_eq!(captured.head, all[..10]);
        assert_eq!(captured.tail, all[all.len() - TAIL_BYTES..]);
        assert_eq!(captured.total_bytes, all.len() as u64);
        assert_eq!(std::fs::read(captured.spill_file.unwrap()).unwrap(), all);
    }

    #[tokio::test]
    async fn capture_tail_never_repeats_the_head() {
        let mut capture = OutputCapture::new((4, TAIL_BYTES), None, "", 0);
        capture.append(b"abcdef").await;
        let captured = capture.finish().await;
        assert_eq!((&captured.head[..], &captured.tail[..]), (&b"abcd"[..], &b"ef"[..]));
        assert!(!captured.is_complete());
    }
}
