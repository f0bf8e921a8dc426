//! Waiting for a file's lock without holding a thread.

use std::{
    fs::{File, TryLockError},
    io,
    time::Duration,
};

/// The first pause between two attempts.
const SHORTEST: Duration = Duration::from_millis(2);
/// The longest pause between two attempts.
const LONGEST: Duration = Duration::from_millis(250);

/// Takes the exclusive lock of a file. Waits as long as someone else holds it.
///
/// The task sleeps between two attempts. A blocking `flock` on tokio's blocking pool would hold one
/// of its threads: once 512 tasks wait, whoever holds the lock can't get a thread to finish its
/// work and release it.
///
/// # Errors
/// The file system doesn't support locks.
pub async fn lock(file: &File) -> io::Result<()> {
    let mut wait = SHORTEST;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(wait).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        wait = (wait * 2).min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lock_waits_until_released() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (holder, waiter) = (File::create(&path).unwrap(), File::create(&path).unwrap());
        lock(&holder).await.unwrap();
        let waiting = tokio::time::timeout(Duration::from_secs(3600), lock(&waiter)).await;
        assert!(waiting.is_err(), "the holder still has it");
        holder.unlock().unwrap();
        lock(&waiter).await.unwrap();
        assert!(holder.try_lock().is_err());
    }
}
