//! A second pair of eyes: looks at the entries of folders that the walk has still to reach.
//!
//! After the first snapshot a walk does little but `stat`, five thousand times. On two cores it waits half as long
//! where another thread begins at the other end.

use std::{
    collections::{HashMap, HashSet},
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, ResolveFlags, fstat, openat2, statat},
    io::Errno,
};

use super::table::{Table, Witness};
use crate::serve::entries;

/// Entries of the last snapshot from which a thread is worth its start.
const MANY: usize = 1000;

/// Entries looked at ahead of the walk, at most: each is held until the walk comes.
const HELD: usize = 100_000;

const STACK: usize = 128 << 10;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What a folder was when it was looked at, and its entries by name.
struct Looked {
    identity: (u64, u64),
    entries: HashMap<Vec<u8>, Witness>,
}

#[derive(Default)]
struct State {
    looked: HashMap<Vec<u8>, Looked>,
    /// Folders that the walk has reached: nobody needs to look at them any more.
    reached: HashSet<Vec<u8>>,
    over: bool,
}

#[derive(Default)]
pub struct Ahead(Mutex<State>);

impl Ahead {
    /// Does the work of a walk, with a thread that looks ahead where the tree is large. A thread that cannot be
    /// had is done without.
    pub fn during<T>(&self, root: Option<&OwnedFd>, before: &Table, walk: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            if let Some(root) = root
                && before.folders().map(|(_, listing)| listing.len()).sum::<usize>() >= MANY
            {
                let builder = thread::Builder::new().stack_size(STACK);
                drop(builder.spawn_scoped(scope, || self.stat_ahead(root, before)));
            }
            let done = walk();
            self.state().over = true;
            done
        })
    }

    /// The entries of a folder that the walk has reached, if they were looked at; the folder is the one that was.
    pub fn reach(&self, path: &[u8], identity: (u64, u64)) -> HashMap<Vec<u8>, Witness> {
        let mut state = self.state();
        state.reached.insert(path.to_vec());
        let looked = state.looked.remove(path).filter(|looked| looked.identity == identity);
        looked.map(|looked| looked.entries).unwrap_or_default()
    }

    /// The walk goes from the last name to the first.
    fn stat_ahead(&self, root: &OwnedFd, before: &Table) {
        let mut held = 0;
        for (path, listing) in before.folders() {
            {
                let state = self.state();
                if state.over || held > HELD {
                    return;
                }
                if state.reached.contains(path) {
                    continue;
                }
            }
            // What goes wrong here, the walk will meet and say.
            let Ok(looked) = listed(root, path) else { continue };
            held += listing.len();
            let mut state = self.state();
            if !state.reached.contains(path) {
                state.looked.insert(path.to_vec(), looked);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listed(root: &OwnedFd, path: &[u8]) -> Result<Looked, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let path = if path.is_empty() { b"." } else { path };
    let folder = openat2(root, path, FOLDER, Mode::empty(), beneath)?;
    let stat = fstat(&folder)?;
    let mut seen = HashMap::new();
    for name in entries::names_up_to(&folder, HELD)?.ok_or(Errno::TOOBIG)? {
        if let Ok(stat) = statat(&folder, &name[..], AtFlags::SYMLINK_NOFOLLOW) {
            seen.insert(name, Witness::new(&stat));
        }
    }
    Ok(Looked { identity: (stat.st_dev, stat.st_ino), entries: seen })
}
