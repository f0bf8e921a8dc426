//! The workers of a run. Each worker has a file in the run's directory, and updates the file's
//! modification time as a heartbeat.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use serde::{Deserialize, Serialize};

use crate::{
    CLAIMS_DIR, SHARES_DIR, WORKERS_DIR,
    claim_chain::{FINISHED_KEYS_DIR, HeldClaim},
    clock::{self, Clock},
    disk, files,
    process::Process,
};

/// The file that the first worker creates. At least one worker has always been alive since this
/// file's modification time.
const ALIVE_SINCE_FILE: &str = "since";

/// Number of heartbeats per lease. Some may be late before the worker is presumed dead.
const HEARTBEATS_PER_LEASE: u32 = 4;

/// A worker, as described in its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub id: String,
    /// The name of the machine, as reported by the engine.
    pub host: String,
    /// The worker's Proctor version.
    pub version: String,
    /// The id that the engine assigned to the worker's job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// How many times the engine has restarted the job.
    #[serde(default)]
    pub restarts: u32,
    /// Seconds without a heartbeat after which other workers presume this one dead.
    pub lease_seconds: f64,
    process: Process,
}

impl Member {
    /// Describes this process as a worker.
    pub fn current(host: &str, version: &str, job: Option<String>, lease: Duration) -> Self {
        let process = Process::current();
        let id = format!("{}-{}-{:08x}", sanitize_host(host), process.pid, fastrand::u32(..));
        let (host, version) = (host.to_owned(), version.to_owned());
        Self { id, host, version, job, restarts: 0, lease_seconds: lease.as_secs_f64(), process }
    }

    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    fn lease_duration(&self) -> Duration {
        Duration::try_from_secs_f64(self.lease_seconds).unwrap_or(Duration::MAX)
    }

    fn is_live_at(&self, last_heartbeat: SystemTime, now: SystemTime) -> bool {
        let silent = now.duration_since(last_heartbeat).unwrap_or_default();
        self.process.is_running() != Some(false) && silent <= self.lease_duration()
    }
}

fn sanitize_host(host: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    host.chars().take(40).map(plain).collect()
}

/// Returns every worker with a file in a run's directory and the time of its last heartbeat. A
/// missing directory means no workers.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub fn read_members(run_dir: &Path) -> io::Result<Vec<(Member, SystemTime)>> {
    let folder = run_dir.join(WORKERS_DIR);
    let entries = match disk::list(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(files::add_path(&folder, error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        // Skip files that cannot be read: their workers may be deregistering right now.
        if let Ok(Some((member, file))) = files::read::<Member>(&path) {
            found.push((member, disk::modified(&file)?));
        }
    }
    found.sort_by(|one, other| one.0.id.cmp(&other.0.id));
    Ok(found)
}

/// Returns the live workers of a run.
///
/// # Errors
/// Returns an error if the directory cannot be read or written.
pub fn find_live_members(run_dir: &Path) -> io::Result<Vec<Member>> {
    let all = read_members(run_dir)?;
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let now = clock::server_time(&run_dir.join(WORKERS_DIR))?;
    let live = all.into_iter().filter(|(member, beat)| member.is_live_at(*beat, now));
    Ok(live.map(|(member, _)| member).collect())
}

/// Returns any live worker other than `own_id`. The search stops at the first one. Otherwise, each
/// of a thousand workers would read the files of all others when it joins and when it leaves.
///
/// # Errors
/// Returns an error if the folder cannot be read or written.
pub fn find_live_member(run_dir: &Path, own_id: Option<&str>) -> io::Result<Option<Member>> {
    let folder = run_dir.join(WORKERS_DIR);
    let entries = match disk::list(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(files::add_path(&folder, error)),
    };
    let mut now = None;
    for entry in entries {
        let path = entry?.path();
        let is_worker = path.extension().is_some_and(|extension| extension == "json");
        if !is_worker || own_id.is_some_and(|own| path.file_stem().is_some_and(|stem| stem == own))
        {
            continue;
        }
        let Ok(Some((member, file))) = files::read::<Member>(&path) else { continue };
        let now = match now {
            Some(now) => now,
            None => *now.insert(clock::server_time(&folder)?),
        };
        if member.is_live_at(disk::modified(&file)?, now) {
            return Ok(Some(member));
        }
    }
    Ok(None)
}

/// This process's registration as a worker. Dropping it deregisters the worker.
#[derive(Debug)]
pub struct Membership {
    inner: Arc<MembershipInner>,
    alive_since: SystemTime,
    /// Dropping the sender ends the heartbeat thread.
    stop_sender: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct MembershipInner {
    run_dir: PathBuf,
    member: Member,
    path: PathBuf,
    clock: Clock,
    /// When the last heartbeat was written, by the local clock.
    last_heartbeat_time: Mutex<Instant>,
    is_file_lost: AtomicBool,
    claims: Mutex<Vec<Weak<HeldClaim>>>,
}

impl Membership {
    /// Registers this process and starts its heartbeat.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be written.
    pub fn join(run_dir: &Path, member: Member) -> io::Result<Self> {
        let folder = run_dir.join(WORKERS_DIR);
        disk::create_folder(&folder).map_err(|error| files::add_path(&folder, error))?;
        let path = folder.join(format!("{}.json", member.id));
        if !files::create_file(&path, &member)? {
            let taken =
                io::Error::new(ErrorKind::AlreadyExists, "another worker already has this id");
            return Err(files::add_path(&path, taken));
        }
        let began = Instant::now();
        let joined = disk::touch(&path).map_err(|error| files::add_path(&path, error))?;
        let clock = Clock::new(&folder);
        clock.set_time(joined);
        let every = member.lease_duration() / HEARTBEATS_PER_LEASE;
        let shared = Arc::new(MembershipInner {
            run_dir: run_dir.to_owned(),
            member,
            path,
            clock,
            last_heartbeat_time: Mutex::new(began),
            is_file_lost: AtomicBool::new(false),
            claims: Mutex::default(),
        });
        let beginning = folder.join(ALIVE_SINCE_FILE);
        let since = match shared.is_alone() {
            true => {
                // Remove the shared limits of earlier workers. All of these workers have ended, so
                // the journals contain their spending.
                files::remove_folder(&run_dir.join(SHARES_DIR));
                // Remove marks of finished work, so that the work can be repeated.
                files::remove_folder(&run_dir.join(CLAIMS_DIR).join(FINISHED_KEYS_DIR));
                files::write_file(&beginning, &()).and_then(|()| disk::touch(&beginning))?
            }
            false => disk::metadata(&beginning).and_then(|it| it.modified()).unwrap_or(joined),
        };
        let (stop, stopped) = mpsc::channel::<()>();
        let beating = Arc::clone(&shared);
        let thread = thread::Builder::new().name("heartbeat".into()).spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                beating.send_heartbeat();
            }
        })?;
        Ok(Self {
            inner: shared,
            alive_since: since,
            stop_sender: Some(stop),
            thread: Some(thread),
        })
    }

    pub fn member(&self) -> &Member {
        &self.inner.member
    }

    /// Returns the run's directory.
    pub fn run_dir(&self) -> &Path {
        &self.inner.run_dir
    }

    /// Returns the time since which at least one worker has always been alive, by the file server's
    /// clock.
    pub(crate) fn alive_since(&self) -> SystemTime {
        self.alive_since
    }

    /// Returns whether other workers may have taken over this worker's claims because no heartbeat
    /// could be written for one lease. A process that was only suspended may continue: its next
    /// heartbeat checks which claims it still owns.
    pub fn is_presumed_dead(&self) -> bool {
        if self.inner.is_presumed_dead() {
            self.inner.send_heartbeat();
        }
        self.inner.is_presumed_dead()
    }

    /// Returns whether a worker with this id is alive.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read or written.
    pub fn is_live(&self, id: &str) -> io::Result<bool> {
        if id == self.inner.member.id {
            return Ok(!self.is_presumed_dead());
        }
        let path = self.inner.run_dir.join(WORKERS_DIR).join(format!("{id}.json"));
        let Some((member, file)) = files::read::<Member>(&path)? else { return Ok(false) };
        let beat = disk::modified(&file)?;
        Ok(member.is_live_at(beat, self.inner.clock.now()?))
    }

    /// Returns the time by the file server's clock.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be written.
    pub fn server_time(&self) -> io::Result<SystemTime> {
        self.inner.clock.now()
    }

    pub(crate) fn track_claim(&self, claim: &Arc<HeldClaim>) {
        let mut all = self.inner.claims.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(claim));
    }
}

impl MembershipInner {
    fn is_presumed_dead(&self) -> bool {
        let last = *self.last_heartbeat_time.lock().unwrap_or_else(PoisonError::into_inner);
        // Also check the elapsed time, because after a suspension this code may run before the
        // heartbeat thread does.
        self.is_file_lost.load(Ordering::Relaxed) || last.elapsed() > self.member.lease_duration()
    }

    fn send_heartbeat(&self) {
        let began = Instant::now();
        match disk::touch(&self.path) {
            Ok(time) => {
                self.clock.set_time(time);
                *self.last_heartbeat_time.lock().unwrap_or_else(PoisonError::into_inner) = began;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.is_file_lost.store(true, Ordering::Relaxed);
            }
            // Ignore the error, because the server may respond to the next heartbeat. If no
            // heartbeat succeeds before the lease expires, this worker is presumed dead.
            Err(_) => {}
        }
        let held = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<_> = held.iter().filter_map(Weak::upgrade).collect();
        drop(held);
        for one in all {
            if self.is_presumed_dead() || !one.is_still_owned() {
                one.mark_lost();
            }
        }
    }

    /// Returns whether no other worker is alive.
    fn is_alone(&self) -> bool {
        find_live_member(&self.run_dir, Some(&self.member.id)).is_ok_and(|other| other.is_none())
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        drop(self.stop_sender.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = disk::remove(&self.inner.path);
        // Check this after this worker's own file has been removed. Then, if two workers leave at
        // the same time, at least one of them finds no other worker.
        if self.inner.is_alone() {
            // The last worker removes everything, including files of dead workers.
            for folder in [CLAIMS_DIR, SHARES_DIR, WORKERS_DIR] {
                files::remove_folder(&self.inner.run_dir.join(folder));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn test_member(lease: Duration) -> Member {
        Member::current("node one", "0.1.0", None, lease)
    }

    #[test]
    fn member_is_live_until_it_leaves_and_last_member_removes_the_folder() {
        let run = tempfile::tempdir().unwrap();
        let lease = Duration::from_secs(10);
        let one = Membership::join(run.path(), test_member(lease)).unwrap();
        let other = Membership::join(run.path(), test_member(lease)).unwrap();
        assert!(one.is_live(&other.member().id).unwrap());
        assert_eq!(find_live_members(run.path()).unwrap().len(), 2);
        let id = other.member().id.clone();
        drop(other);
        assert!(!one.is_live(&id).unwrap());
        assert!(run.path().join(WORKERS_DIR).exists());
        drop(one);
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0);
    }

    #[test]
    fn silent_member_is_dead_after_its_lease() {
        let run = tempfile::tempdir().unwrap();
        let one = Membership::join(run.path(), test_member(Duration::from_secs(20))).unwrap();
        let other = Membership::join(run.path(), test_member(Duration::from_secs(20))).unwrap();
        let path = &other.inner.path;
        let old = SystemTime::now() - Duration::from_secs(60);
        File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        assert!(!one.is_live(&other.member().id).unwrap());
        fs::remove_file(path).unwrap();
        other.inner.send_heartbeat();
        assert!(other.is_presumed_dead() && !one.is_presumed_dead());
    }

    #[test]
    fn find_live_member_skips_dead_workers_and_itself() {
        let run = tempfile::tempdir().unwrap();
        assert!(find_live_member(run.path(), None).unwrap().is_none(), "no folder");
        let lease = Duration::from_secs(20);
        let one = Membership::join(run.path(), test_member(lease)).unwrap();
        let (own, dead) =
            (one.member().id.clone(), Member { id: "dead".into(), ..test_member(lease) });
        let path = run.path().join(WORKERS_DIR).join("dead.json");
        assert!(files::create_file(&path, &dead).unwrap());
        let old = SystemTime::now() - Duration::from_secs(60);
        File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        assert!(find_live_member(run.path(), Some(&own)).unwrap().is_none());
        assert_eq!(find_live_member(run.path(), None).unwrap().unwrap().id, own);
    }

    #[test]
    fn suspended_member_continues() {
        let run = tempfile::tempdir().unwrap();
        let one = Membership::join(run.path(), test_member(Duration::from_secs(20))).unwrap();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        *one.inner.last_heartbeat_time.lock().unwrap() = long_ago;
        assert!(
            one.inner.is_presumed_dead()
                && !one.is_presumed_dead()
                && !one.inner.is_presumed_dead()
        );
    }

    #[test]
    fn heartbeats_keep_a_member_alive_past_its_lease() {
        let run = tempfile::tempdir().unwrap();
        let lease = Duration::from_secs(1);
        let one = Membership::join(run.path(), test_member(Duration::from_secs(20))).unwrap();
        let other = Membership::join(run.path(), test_member(lease)).unwrap();
        thread::sleep(lease * 3);
        one.inner.clock.set_time(clock::server_time(&run.path().join(WORKERS_DIR)).unwrap());
        assert!(one.is_live(&other.member().id).unwrap());
    }
}
