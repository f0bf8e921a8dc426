//! Assigns work to workers. Each piece of work has a key, and at most one worker owns a key at a
//! time.

use std::{
    collections::HashSet,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::watch;

use crate::{
    CLAIMS_DIR, Membership,
    claim_chain::{ChainHead, ClaimChain, ClaimFile, FINISHED_KEYS_DIR, HeldClaim, Status},
    disk, files,
};

/// Maximum number of attempts to claim a key. An attempt fails if another worker creates the
/// chain's next file first.
const MAX_LOST_RACES: usize = 3;

/// A worker's access to the claims of a run.
#[derive(Debug, Clone)]
pub struct Claims {
    folder: PathBuf,
    membership: Arc<Membership>,
}

/// The result of an attempt to claim a key.
#[derive(Debug)]
pub enum ClaimResult {
    Claimed(Claim),
    /// A live worker owns the key.
    OwnedBy(String),
    /// A worker finished the work for this key, and at least one worker has been alive ever since.
    Finished,
}

impl Claims {
    pub fn new(membership: &Arc<Membership>) -> Self {
        let folder = membership.run_dir().join(CLAIMS_DIR);
        Self { folder, membership: Arc::clone(membership) }
    }

    /// Claims a key, which must be ASCII and a valid file name.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read or written, or if other workers presume
    /// this one dead.
    pub fn claim(&self, key: &str) -> io::Result<ClaimResult> {
        if self.membership.is_presumed_dead() {
            let lost = "this worker's heartbeat is late, so other workers may have taken over this worker's trials";
            return Err(io::Error::other(lost));
        }
        let chain = ClaimChain::new(&self.folder, key);
        let own = &self.membership.member().id;
        for _ in 0..MAX_LOST_RACES {
            let top = chain.head()?;
            let mut dead = None;
            if let Some(ChainHead {
                file: ClaimFile { worker, status }, modified: written, ..
            }) = &top
            {
                match status {
                    Status::Ended if *written >= self.membership.alive_since() => {
                        return Ok(ClaimResult::Finished);
                    }
                    Status::Held if self.membership.is_live(worker)? => {
                        return Ok(ClaimResult::OwnedBy(worker.clone()));
                    }
                    Status::Held => dead = Some(worker.clone()),
                    Status::Free | Status::Ended => {}
                }
            }
            let generation = top.map_or(1, |top| top.generation.saturating_add(1));
            let token = ClaimFile { worker: own.clone(), status: Status::Held };
            if chain.append(generation, &token)? {
                let (chain, lost) = (chain.clone(), watch::Sender::new(false));
                let held = Arc::new(HeldClaim {
                    chain,
                    generation,
                    worker: own.clone(),
                    lost_sender: lost,
                });
                self.membership.track_claim(&held);
                return Ok(ClaimResult::Claimed(Claim {
                    shared: held,
                    dead_worker: dead,
                    is_finished: false,
                }));
            }
        }
        // Other workers were faster on every attempt, so the owner is unknown.
        Ok(ClaimResult::OwnedBy(String::new()))
    }

    /// Returns the keys that are marked as finished. The set may be incomplete.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub fn finished_keys(&self) -> io::Result<HashSet<String>> {
        let mut keys = HashSet::new();
        for folder in list_names(&self.folder.join(FINISHED_KEYS_DIR))? {
            keys.extend(list_names(&self.folder.join(FINISHED_KEYS_DIR).join(folder))?);
        }
        Ok(keys)
    }
}

/// Returns the names in a folder. A missing folder counts as empty.
fn list_names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match disk::list(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(files::add_path(folder, error)),
    };
    let name = |entry: io::Result<std::fs::DirEntry>| entry.map(|it| it.file_name().into_string());
    let names: Vec<_> = entries.map(name).collect::<io::Result<_>>()?;
    // Skip names that are not UTF-8. They cannot be keys, because keys are ASCII.
    Ok(names.into_iter().flatten().collect())
}

/// A key owned by this worker. Dropping the claim frees the key.
#[derive(Debug)]
pub struct Claim {
    shared: Arc<HeldClaim>,
    dead_worker: Option<String>,
    is_finished: bool,
}

impl Claim {
    /// Returns the dead worker that owned the key before.
    pub fn dead_owner(&self) -> Option<&str> {
        self.dead_worker.as_deref()
    }

    /// Returns the number of claims on this key so far, including this one.
    pub fn generation(&self) -> u32 {
        self.shared.generation
    }

    /// Waits until another worker has taken over the key.
    pub async fn wait_until_lost(&self) {
        let _ = self.shared.lost_sender.subscribe().wait_for(|lost| *lost).await;
    }

    /// Returns whether another worker has taken over the key, as of the last heartbeat.
    pub fn is_lost(&self) -> bool {
        *self.shared.lost_sender.borrow()
    }

    /// Marks the key as finished.
    pub fn mark_finished(&mut self) {
        self.is_finished = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let held = &self.shared;
        if *held.lost_sender.borrow() || !held.is_still_owned() {
            return;
        }
        let status = if self.is_finished { Status::Ended } else { Status::Free };
        let token = ClaimFile { worker: held.worker.clone(), status };
        let path = held.chain.path(held.generation);
        // If this write fails, the key becomes free when this worker has ended.
        if files::write_file(&path, &token).is_ok() && self.is_finished {
            // Ignore errors: without the mark, other workers read the chain instead.
            let _ = held.chain.mark_finished(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        time::{Duration, SystemTime},
    };

    use super::*;
    use crate::{Member, WORKERS_DIR};

    fn join_worker(run_dir: &Path) -> (Arc<Membership>, Claims) {
        let member = Member::current("node", "0.1.0", None, Duration::from_secs(30));
        let membership = Arc::new(Membership::join(run_dir, member).unwrap());
        let claims = Claims::new(&membership);
        (membership, claims)
    }

    fn expect_claim(result: io::Result<ClaimResult>) -> Claim {
        match result.unwrap() {
            ClaimResult::Claimed(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn claim_has_one_owner_until_it_is_released() {
        let run = tempfile::tempdir().unwrap();
        let ((a, one), (b, other)) = (join_worker(run.path()), join_worker(run.path()));
        let claim = expect_claim(one.claim("ab12"));
        assert!(matches!(other.claim("ab12").unwrap(), ClaimResult::OwnedBy(_)));
        assert!(
            matches!(one.claim("ab12").unwrap(), ClaimResult::OwnedBy(_)),
            "its owner cannot claim it again"
        );
        drop(claim);
        let mut claim = expect_claim(other.claim("ab12"));
        assert_eq!((claim.generation(), claim.dead_owner()), (2, None));
        assert!(one.finished_keys().unwrap().is_empty());
        claim.mark_finished();
        drop(claim);
        assert!(matches!(one.claim("ab12").unwrap(), ClaimResult::Finished));
        assert_eq!(one.finished_keys().unwrap(), HashSet::from(["ab12".to_owned()]));
        let (late, claims) = join_worker(run.path());
        assert!(
            matches!(claims.claim("ab12").unwrap(), ClaimResult::Finished),
            "another worker was still alive"
        );
        drop((a, one, b, other, late, claims));
        let (_c, next) = join_worker(run.path());
        expect_claim(next.claim("ab12"));
    }

    #[test]
    fn work_finished_before_all_workers_died_may_be_repeated() {
        let run = tempfile::tempdir().unwrap();
        let (_a, one) = join_worker(run.path());
        let mut claim = expect_claim(one.claim("ab12"));
        claim.mark_finished();
        drop(claim);
        // Simulate the state after a power failure: the claim is older than the boot, so its worker
        // no longer exists.
        let begun = SystemTime::now() + Duration::from_secs(60);
        let since = run.path().join(WORKERS_DIR).join("since");
        File::options().write(true).open(since).unwrap().set_modified(begun).unwrap();
        let (_b, other) = join_worker(run.path());
        assert_eq!(expect_claim(other.claim("ab12")).generation(), 2);
    }

    #[test]
    fn marks_of_finished_work_are_removed_by_the_first_worker() {
        let run = tempfile::tempdir().unwrap();
        // Create the state that a power failure leaves behind.
        let marks = run.path().join(CLAIMS_DIR).join(FINISHED_KEYS_DIR).join("a");
        std::fs::create_dir_all(&marks).unwrap();
        std::fs::write(marks.join("ab12"), "").unwrap();
        let (_a, one) = join_worker(run.path());
        assert!(one.finished_keys().unwrap().is_empty());
        let mut claim = expect_claim(one.claim("ab12"));
        claim.mark_finished();
        drop(claim);
        let (_b, other) = join_worker(run.path());
        assert_eq!(other.finished_keys().unwrap().len(), 1, "later workers keep the marks");
    }

    #[test]
    fn claim_of_a_dead_worker_passes_to_one_successor() {
        let run = tempfile::tempdir().unwrap();
        let ((dead, one), (_b, other)) = (join_worker(run.path()), join_worker(run.path()));
        let claim = expect_claim(one.claim("ab12"));
        let path = run.path().join(WORKERS_DIR).join(format!("{}.json", dead.member().id));
        let old = SystemTime::now() - Duration::from_secs(60);
        File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        let next = expect_claim(other.claim("ab12"));
        assert_eq!(next.dead_owner(), Some(dead.member().id.as_str()));
        assert!(!claim.shared.is_still_owned() && next.shared.is_still_owned());
        drop(claim);
        assert!(next.shared.is_still_owned(), "a late release changes nothing");
    }

    #[test]
    fn concurrent_claims_have_one_winner_each() {
        let run = tempfile::tempdir().unwrap();
        let workers: Vec<_> = (0..6).map(|_| join_worker(run.path())).collect();
        let won: Vec<usize> = std::thread::scope(|scope| {
            let one = |claims: Claims| {
                move || {
                    let key = |number: usize| format!("{number:02}-key");
                    let taken = (0..40).map(|number| claims.claim(&key(number)).unwrap());
                    let mine = taken.filter_map(|taken| match taken {
                        ClaimResult::Claimed(claim) => Some(claim),
                        _ => None,
                    });
                    // Keep all claims until every worker has tried.
                    mine.collect::<Vec<_>>()
                }
            };
            let all: Vec<_> =
                workers.iter().map(|(_, claims)| scope.spawn(one(claims.clone()))).collect();
            let all: Vec<_> = all.into_iter().map(|one| one.join().unwrap()).collect();
            all.iter().map(Vec::len).collect()
        });
        assert_eq!(won.iter().sum::<usize>(), 40, "{won:?}");
    }
}
