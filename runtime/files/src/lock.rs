//! Waits for a file lock without blocking a thread.

use std::{
    fs::{File, TryLockError},
    io,
    time::Duration,
};

/// The first pause between two attempts.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(2);
/// The longest pause between two attempts.
const MAX_RETRY_DELAY: Duration = Duration::from_millis(250);

/// Acquires an exclusive lock on a file. Waits while another process or task holds it.
///
/// The task sleeps between attempts. A blocking `flock` would occupy a thread of tokio's blocking
/// pool. Once 512 tasks wait, the lock's owner could not get a thread to finish its work, so it
/// would never release the lock.
///
/// # Errors
/// Returns an error if the file system does not support locks.
pub async fn lock(file: &File) -> io::Result<()> {
    let mut wait = MIN_RETRY_DELAY;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(wait).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        wait = (wait * 2).min(MAX_RETRY_DELAY);
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
        assert!(waiting.is_err(), "the lock is still held");
        holder.unlock().unwrap();
        lock(&waiter).await.unwrap();
        assert!(holder.try_lock().is_err());
    }
}
