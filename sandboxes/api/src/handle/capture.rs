//! Captures one output stream of a command: its head, its tail, and a spill file with the complete
//! stream.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

use tokio::{fs::File, io::AsyncWriteExt};

use crate::CapturedOutput;

pub struct Capture {
    cap: usize,
    tail_cap: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    spill: Spill,
    spill_left: u64,
}

enum Spill {
    Never,
    /// Not yet opened, because the output has not exceeded the cap.
    At(PathBuf),
    Open(PathBuf, File),
}

impl Capture {
    /// Creates a capture. The first argument contains how many bytes to keep from the head and the
    /// tail.
    pub fn new(
        (cap, tail_cap): (usize, usize),
        spill: Option<&Path>,
        suffix: &str,
        spill_cap: u64,
    ) -> Self {
        let spill = spill.map_or(Spill::Never, |path| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            Spill::At(name.into())
        });
        Self {
            cap,
            tail_cap,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
            spill,
            spill_left: spill_cap,
        }
    }

    pub async fn append(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let handle = self.cap.saturating_sub(self.head.len());
        let (head, rest) = bytes.split_at(handle.min(bytes.len()));
        self.head.extend_from_slice(head);
        if rest.is_empty() {
            return;
        }
        self.tail.extend(&rest[rest.len().saturating_sub(self.tail_cap)..]);
        let over = self.tail.len().saturating_sub(self.tail_cap);
        self.tail.drain(..over);
        // If the host's disk is full, let the command continue: its output is only evidence.
        if let Err(error) = self.spill(rest).await {
            tracing::warn!(%error, "cannot store a command's complete output");
            self.spill = Spill::Never;
        }
    }

    async fn spill(&mut self, rest: &[u8]) -> std::io::Result<()> {
        if let Spill::At(path) = &self.spill {
            let mut file = File::create(path).await?;
            let kept = self.head.len().min(usize::try_from(self.spill_left).unwrap_or(usize::MAX));
            file.write_all(&self.head[..kept]).await?;
            self.spill_left -= kept as u64;
            self.spill = Spill::Open(path.clone(), file);
        }
        if let Spill::Open(_, file) = &mut self.spill {
            let kept = rest.len().min(usize::try_from(self.spill_left).unwrap_or(usize::MAX));
            file.write_all(&rest[..kept]).await?;
            self.spill_left -= kept as u64;
        }
        Ok(())
    }

    pub async fn finish(mut self) -> CapturedOutput {
        let mut spill = None;
        if let Spill::Open(path, mut file) = std::mem::replace(&mut self.spill, Spill::Never) {
            match file.flush().await {
                Ok(()) => spill = Some(path),
                Err(error) => tracing::warn!(%error, "cannot store a command's complete output"),
            }
        }
        CapturedOutput { head: self.head, total: self.total, tail: self.tail.into(), spill }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: usize = 64 << 10;

    #[tokio::test]
    async fn capture_head_tail_and_file_agree() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut capture = Capture::new((10, TAIL), Some(&path), ".stdout", 1 << 20);
        let all: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        for piece in all.chunks(7777) {
            capture.append(piece).await;
        }
        let captured = capture.finish().await;
        assert_eq!(captured.head, all[..10]);
        assert_eq!(captured.tail, all[all.len() - TAIL..]);
        assert_eq!(captured.total, all.len() as u64);
        assert_eq!(std::fs::read(captured.spill.unwrap()).unwrap(), all);
    }

    #[tokio::test]
    async fn capture_tail_never_repeats_the_head() {
        let mut capture = Capture::new((4, TAIL), None, "", 0);
        capture.append(b"abcdef").await;
        let captured = capture.finish().await;
        assert_eq!((&captured.head[..], &captured.tail[..]), (&b"abcd"[..], &b"ef"[..]));
        assert!(!captured.is_complete());
    }
}
