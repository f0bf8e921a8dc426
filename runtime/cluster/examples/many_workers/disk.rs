//! Replaces the functions of `src/disk.rs` with variants that simulate a file server. Each call is
//! counted, and waits for the network latency and for the server to become free.
//!
//! Nothing is cached. A real NFS client needs fewer calls because of its cache, but adds calls to
//! revalidate it.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions, ReadDir},
    io::{self, Read as _, Write as _},
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    path::Path,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use tempfile::TempPath;

/// The kinds of calls, in the order of [`Server::counts`].
#[derive(Debug, Clone, Copy)]
enum CallKind {
    Open,
    Create,
    Read,
    /// Sends data, when a file is closed or synced.
    Write,
    Attributes,
    Link,
    Rename,
    Remove,
    List,
    CreateFolder,
}

const CALL_NAMES: [&str; 10] =
    ["open", "create", "read", "write", "getattr", "link", "rename", "remove", "readdir", "mkdir"];

struct Server {
    latency: Duration,
    /// Service time of one call. The server handles one call at a time.
    service_time: Duration,
    /// When the server becomes free.
    free_at: Mutex<Instant>,
    call_counts: [AtomicU64; CALL_NAMES.len()],
}

static SERVER: OnceLock<Server> = OnceLock::new();

/// Sets the server's latency and the number of calls it handles per second.
pub(crate) fn start_server(latency: Duration, calls_per_second: f64) {
    let each = Duration::from_secs_f64(1.0 / calls_per_second);
    let (free, counts) = (Mutex::new(Instant::now()), Default::default());
    SERVER.get_or_init(|| Server {
        latency,
        service_time: each,
        free_at: free,
        call_counts: counts,
    });
}

/// Returns the number of calls by kind and resets the counts.
pub(crate) fn take_counts() -> Vec<(&'static str, u64)> {
    let Some(server) = SERVER.get() else { return Vec::new() };
    let counts = server.call_counts.iter().map(|count| count.swap(0, Ordering::Relaxed));
    CALL_NAMES.into_iter().zip(counts).collect()
}

fn call(call: CallKind) {
    let Some(server) = SERVER.get() else { return };
    if let Some(count) = server.call_counts.get(call as usize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
    let now = Instant::now();
    let done = {
        let mut free = server.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free = (*free).max(now) + server.service_time;
        *free
    };
    thread::sleep((done + server.latency).saturating_duration_since(now));
}

pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    call(CallKind::CreateFolder);
    fs::create_dir_all(path)
}

pub(crate) fn list(path: &Path) -> io::Result<ReadDir> {
    call(CallKind::List);
    fs::read_dir(path)
}

pub(crate) fn metadata(path: &Path) -> io::Result<Metadata> {
    call(CallKind::Attributes);
    fs::metadata(path)
}

pub(crate) fn link(original: &Path, link_path: &Path) -> io::Result<()> {
    call(CallKind::Link);
    fs::hard_link(original, link_path)
}

pub(crate) fn rename(source: &Path, destination: &Path) -> io::Result<()> {
    call(CallKind::Rename);
    fs::rename(source, destination)
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    call(CallKind::Remove);
    fs::remove_file(path)
}

pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    // Don't count this call: the last worker's cleanup is not part of the measurement.
    fs::remove_dir_all(path)
}

pub(crate) fn read(path: &Path) -> io::Result<(Vec<u8>, File)> {
    call(CallKind::Open);
    let mut file = File::open(path)?;
    call(CallKind::Read);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok((bytes, file))
}

/// Not counted as a call: the client already has the attributes of a file that it just opened.
pub(crate) fn modified(file: &File) -> io::Result<SystemTime> {
    file.metadata()?.modified()
}

pub(crate) fn write_temporary(folder: &Path, prefix: &str, bytes: &[u8]) -> io::Result<TempPath> {
    call(CallKind::Create);
    let mut builder = tempfile::Builder::new();
    let mode = Permissions::from_mode(0o666);
    let mut file = builder.prefix(prefix).permissions(mode).tempfile_in(folder)?;
    call(CallKind::Write);
    file.write_all(bytes)?;
    Ok(file.into_temp_path())
}

pub(crate) fn persist(file: TempPath, path: &Path) -> io::Result<()> {
    call(CallKind::Rename);
    file.persist(path).map_err(|error| error.error)
}

pub(crate) fn discard(file: TempPath) {
    call(CallKind::Remove);
    let _ = file.close();
}

pub(crate) fn probe_server_time(folder: &Path, prefix: &str) -> io::Result<SystemTime> {
    call(CallKind::Create);
    let mut file = tempfile::Builder::new().prefix(prefix).tempfile_in(folder)?;
    call(CallKind::Write);
    file.write_all(b".")?;
    call(CallKind::Attributes);
    let time = modified(file.as_file())?;
    call(CallKind::Remove);
    Ok(time)
}

pub(crate) fn touch(path: &Path) -> io::Result<SystemTime> {
    call(CallKind::Open);
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    call(CallKind::Read);
    let mut first = [0];
    file.read_exact_at(&mut first, 0)?;
    call(CallKind::Write);
    file.write_all_at(&first, 0)?;
    call(CallKind::Attributes);
    modified(&file)
}
