//! Ends the process if the async runtime is stuck.

use std::{
    io, process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
    time::{sleep, timeout},
};

/// How long sandboxes may take to close after the second interrupt. The next run removes those that
/// are still open.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the process may take to exit after [`CLOSE_TIMEOUT`].
const EXIT_TIMEOUT: Duration = Duration::from_secs(7);

/// Handles the same interrupts as the run, but on its own thread. If every worker thread of the
/// async runtime is stuck in a system call, the run itself receives no signals.
pub struct Watchdog {
    is_dismissed: Arc<AtomicBool>,
}

impl Watchdog {
    /// Starts the thread. `status` is the exit status to use if the watchdog ends the process.
    pub fn start(status: u8) -> Self {
        let is_dismissed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_dismissed);
        let work = move || match wait_until_exit_is_overdue() {
            Ok(()) if seen.load(Ordering::Acquire) => {}
            Ok(()) => process::exit(status.into()),
            Err(error) => {
                tracing::warn!(%error, "watchdog not running; only the run itself handles interrupts")
            }
        };
        if let Err(error) = thread::Builder::new().name("interrupts".to_owned()).spawn(work) {
            tracing::warn!(%error, "watchdog not running; only the run itself handles interrupts");
        }
        Self { is_dismissed }
    }

    /// Stops the watchdog, because the run ended by itself and the remaining work is short.
    pub fn dismiss(self) {
        self.is_dismissed.store(true, Ordering::Release);
    }
}

/// Blocks until the process should have ended: the second Ctrl-C or the first SIGTERM, plus the
/// time that the run has to close its sandboxes. Another Ctrl-C shortens that time.
fn wait_until_exit_is_overdue() -> io::Result<()> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut keys = signal(SignalKind::interrupt())?;
        let mut end = signal(SignalKind::terminate())?;
        let twice = async {
            keys.recv().await;
            keys.recv().await;
        };
        tokio::select! {
            () = twice => {}
            _ = end.recv() => {}
        }
        let _ = timeout(CLOSE_TIMEOUT, keys.recv()).await;
        sleep(EXIT_TIMEOUT).await;
        Ok(())
    })
}
