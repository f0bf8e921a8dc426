//! What changed outside the work directory since the agent started.
//!
//! The walk of a whole root would take longer than a step. Only what was written is looked at: the upper
//! folder of a native sandbox's overlay, or the paths that an engine lists; and the other writable mounts,
//! such as `/dev/shm`, which hold little.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs,
    os::fd::OwnedFd,
    sync::{OnceLock, PoisonError},
};

use proctor_wire::{
    EntryKind, Layer, LayerEntry, LayerReply, LayerRequest, RawPath, Refusal, RefusalKind, Reply,
    SnapshotRequest, Written, channel,
};
use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fgetxattr, fstat, openat,
        openat2, statat,
    },
    io::Errno,
};

use super::{
    ahead::Ahead,
    table::{Seen, Sent, Table, Witness},
    walk::{Walk, push},
};
use crate::serve::{
    dispatch::Server,
    entries, processes,
    refusal::{describe, refuse},
    stream::Stream,
};

/// The longest list of an engine, in bytes.
const WRITTEN_LIMIT: usize = 64 << 20;

/// An overlay's mark of a folder that hides the one below it.
const OPAQUE: &str = "user.overlay.opaque";

/// File systems that show the kernel's own state.
const OF_THE_KERNEL: [&str; 11] = [
    "bpf",
    "cgroup",
    "cgroup2",
    "debugfs",
    "devpts",
    "devtmpfs",
    "proc",
    "pstore",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// Objects that outlive their processes, each a file of `/proc/sysvipc` with a line of headings.
const SYSTEM_V: [&str; 3] = ["msg", "sem", "shm"];

/// All paths and targets of links together, in bytes: what the agent holds, and sends as JSON.
const PATHS_LIMIT: u64 = 8 << 20;

/// Processes that a reason names.
const NAMED: usize = 3;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const PARENT: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

static UPPER: OnceLock<OwnedFd> = OnceLock::new();

/// Keeps the upper folder of this sandbox's overlay.
pub fn remember_upper(upper: OwnedFd) {
    // A sandbox has one root.
    let _ = UPPER.set(upper);
}

/// What is remembered between looks.
#[derive(Default)]
pub struct LayerState {
    /// What was there when the agent started. Absent: nobody looked.
    base: Option<Listed>,
    beside: Beside,
    /// Contents that were read, by path.
    read: HashMap<Vec<u8>, Seen>,
    /// The hash of the last answer.
    told: Option<[u8; 32]>,
}

/// Entries by their path, relative to `/`.
type Listed = BTreeMap<Vec<u8>, Found>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the upper folder of the overlay.
    Upper,
    /// Below `/`.
    Root,
}

#[derive(Clone, Copy)]
struct Found {
    /// Absent: an entry of a lower layer was deleted.
    witness: Option<Witness>,
    owner: (u32, u32),
    place: Place,
    /// A folder that shows nothing of a lower layer.
    replaced: bool,
}

impl Found {
    const GONE: Self = Self { witness: None, owner: (0, 0), place: Place::Root, replaced: false };

    fn of(stat: &Stat, place: Place) -> Self {
        let owner = (stat.st_uid, stat.st_gid);
        Self { witness: Some(Witness::new(stat)), owner, place, replaced: false }
    }

    /// Whether nothing happened to the entry. What happened in a folder is told by its entries.
    fn same_as(&self, now: &Self) -> bool {
        let (Some(before), Some(after)) = (&self.witness, &now.witness) else { return false };
        let same = (self.owner, self.replaced) == (now.owner, now.replaced);
        same && match after.kind {
            EntryKind::File | EntryKind::Link => before.same_as(after),
            EntryKind::Dir | EntryKind::Other => {
                (before.kind, before.mode) == (after.kind, after.mode)
            }
        }
    }
}

/// Answers with the state outside the work directory, or with the reason why it cannot be kept.
pub fn layer(server: &Server, stream: &Stream, request: &LayerRequest) -> Result<Reply, Refusal> {
    let written = if request.listed { Some(written(server, stream)?) } else { None };
    // One look at a time, and none beside a snapshot: both say which contents were sent.
    let mut sent = server.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
    let listed = list(request, written.as_ref());
    if request.fresh {
        sent.layer =
            LayerState { base: listed.ok(), beside: Beside::now(), ..LayerState::default() };
        end(server, stream);
        return Ok(Reply::Layer(LayerReply::default()));
    }
    let Sent { hashes, layer: state, .. } = &mut *sent;
    let unkept = match (&state.base, listed) {
        (None, _) => Err("the state at the agent's start is unknown".to_owned()),
        (_, Err(why)) => Err(why),
        (Some(base), Ok(listed)) => match Beside::now().since(&state.beside) {
            Some(why) => Err(why),
            None => changes(base, &listed, request).map(|changes| (listed, changes)),
        },
    };
    let mut found = Layer::default();
    let unkept = match unkept {
        Err(why) => Some(why),
        Ok((listed, changes)) => {
            let mut new_hashes = HashSet::new();
            let known = (&*hashes, &state.read);
            let read = contents(server, stream, request, &listed, &changes, known, &mut new_hashes);
            hashes.extend(new_hashes);
            match read? {
                Err(why) => Some(why),
                Ok(read) => {
                    for path in &changes.changed {
                        let (Some(seen), Some(found_at)) = (read.get(path), listed.get(path))
                        else {
                            continue;
                        };
                        let (uid, gid) = found_at.owner;
                        found.changed.push(LayerEntry {
                            entry: seen.entry(path.clone()),
                            uid,
                            gid,
                        });
                    }
                    found.removed = changes.removed.into_iter().map(RawPath::new).collect();
                    state.read = read;
                    None
                }
            }
        }
    };
    let json = serde_json::to_vec(&(&found, &unkept))
        .map_err(|error| refuse(RefusalKind::Io, format!("the layer: {error}")))?;
    let digest = *blake3::hash(&json).as_bytes();
    let same = state.told == Some(digest);
    if !same {
        let json = serde_json::to_vec(&found)
            .map_err(|error| refuse(RefusalKind::Io, format!("the layer: {error}")))?;
        stream.send_all(&server.outbox, channel::RESULTS, &json)?;
    }
    state.told = Some(digest);
    end(server, stream);
    Ok(Reply::Layer(LayerReply { same, unkept }))
}

fn end(server: &Server, stream: &Stream) {
    stream.send_end(&server.outbox, channel::STDOUT);
    stream.send_end(&server.outbox, channel::RESULTS);
}

fn written(server: &Server, stream: &Stream) -> Result<Written, Refusal> {
    let mut text = Vec::new();
    while let Some(piece) = stream.next_input(&server.outbox)? {
        if text.len() + piece.len() > WRITTEN_LIMIT {
            let what = format!("a list of more than {WRITTEN_LIMIT} bytes");
            return Err(refuse(RefusalKind::TooLarge, what));
        }
        text.extend_from_slice(&piece);
    }
    serde_json::from_slice(&text)
        .map_err(|error| refuse(RefusalKind::BadRequest, format!("what was written: {error}")))
}

/// Paths that differ from the start.
#[derive(Default)]
struct Changes {
    changed: Vec<Vec<u8>>,
    removed: BTreeSet<Vec<u8>>,
}

/// What differs; `Err` where it cannot be kept.
fn changes(base: &Listed, listed: &Listed, request: &LayerRequest) -> Result<Changes, String> {
    let mut found = Changes::default();
    let mut replaced: HashSet<&[u8]> = HashSet::new();
    let mut bytes: u64 = 0;
    for (path, now) in listed {
        let before = base.get(path);
        let Some(witness) = &now.witness else {
            if before.is_none_or(|before| before.witness.is_some()) {
                found.removed.insert(path.clone());
            }
            continue;
        };
        // What is below a folder that is made anew has to be made, too.
        let is_below = || above(path).any(|folder| replaced.contains(folder));
        if before.is_some_and(|before| before.same_as(now)) && !is_below() {
            continue;
        }
        if now.replaced && before.is_none_or(|before| !before.replaced) {
            found.removed.insert(path.clone());
            replaced.insert(path);
        }
        match witness.kind {
            EntryKind::Other => {
                return Err(format!("{} is a socket, a pipe or a device", shown(path)));
            }
            EntryKind::File if witness.size > request.file_limit => {
                let limit = request.file_limit >> 20;
                return Err(format!("{} is larger than {limit} MiB", shown(path)));
            }
            EntryKind::File => bytes = bytes.saturating_add(witness.size),
            EntryKind::Dir | EntryKind::Link => {}
        }
        found.changed.push(path.clone());
    }
    if bytes > request.content_limit {
        let limit = request.content_limit >> 20;
        return Err(format!("files outside the work directory are larger than {limit} MiB"));
    }
    let there = base.iter().filter(|(_, before)| before.witness.is_some());
    let lost = there.filter(|(path, _)| !listed.contains_key(*path));
    found.removed.extend(lost.map(|(path, _)| path.clone()));
    Ok(found)
}

/// The folders above a path, topmost first.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    ends.map(move |(at, _)| &path[..at])
}

fn shown(path: &[u8]) -> String {
    format!("/{}", RawPath::new(path))
}

/// Reads what changed, and sends what the connection has not sent. The inner error is a reason why the state cannot be
/// kept.
fn contents(
    server: &Server,
    stream: &Stream,
    request: &LayerRequest,
    listed: &Listed,
    changes: &Changes,
    (hashes, before): (&HashSet<[u8; 32]>, &HashMap<Vec<u8>, Seen>),
    new_hashes: &mut HashSet<[u8; 32]>,
) -> Result<Result<HashMap<Vec<u8>, Seen>, String>, Refusal> {
    let as_snapshot = SnapshotRequest {
        root: RawPath::from("/"),
        fresh: false,
        skip: Vec::new(),
        file_limit: request.file_limit,
        // Checked before anything is read.
        content_limit: 0,
        entry_limit: request.entry_limit,
    };
    let (empty, ahead) = (Table::default(), Ahead::default());
    let mut walk = Walk {
        server,
        stream,
        request: &as_snapshot,
        before: &empty,
        ahead: &ahead,
        hashes,
        seen: Table::default(),
        entries: 0,
        unwalked: Vec::new(),
        new_hashes: HashSet::new(),
        path_bytes: 0,
        content_bytes: 0,
        reads: true,
    };
    let root = match openat(CWD, "/", FOLDER, Mode::empty()) {
        Ok(root) => root,
        Err(error) => return Ok(Err(cannot(b"", error))),
    };
    let mut read = HashMap::with_capacity(changes.changed.len());
    let mut why = None;
    for path in &changes.changed {
        let Some(Found { witness: Some(witness), place, .. }) = listed.get(path) else { continue };
        let known = before.get(path).filter(|old| old.still_holds(witness) && !old.lacks_content());
        let seen = match (known, witness.kind) {
            (Some(known), _) => Some(known.clone()),
            (None, EntryKind::Dir) => Some(Seen::new(*witness, None, None)),
            (None, _) => {
                let top = match (place, UPPER.get()) {
                    (Place::Upper, Some(upper)) => upper,
                    _ => &root,
                };
                let (parent, name) = split(path);
                match open(top, parent, PARENT) {
                    Ok(folder) => walk.one(&folder, name, *witness)?,
                    Err(_) => None,
                }
            }
        };
        match seen.filter(|seen| !seen.lacks_content()) {
            Some(seen) => drop(read.insert(path.clone(), seen)),
            None => {
                why = Some(format!("{} could not be read", shown(path)));
                break;
            }
        }
    }
    new_hashes.extend(walk.new_hashes);
    Ok(why.map_or(Ok(read), Err))
}

/// What was written, with the reason where that cannot be told.
fn list(request: &LayerRequest, written: Option<&Written>) -> Result<Listed, String> {
    let root = openat(CWD, "/", FOLDER, Mode::empty()).map_err(|error| cannot(b"", error))?;
    let mut list = List::new(request);
    match (written, UPPER.get()) {
        (Some(written), _) => list.named(&root, written)?,
        (None, Some(upper)) => {
            list.walk(upper, b"", Place::Upper)?;
            for repository in list.repositories.clone() {
                list.walk(upper, &repository, Place::Upper)?;
            }
        }
        (None, None) => return Err("the back end cannot list what a sandbox wrote".to_owned()),
    }
    for mount in writable_mounts(&fs::read("/proc/self/mountinfo").unwrap_or_default()) {
        list.mount(&root, &mount)?;
    }
    Ok(list.listed)
}

struct List {
    workdir: Vec<u8>,
    repositories: Vec<Vec<u8>>,
    limit: u64,
    listed: Listed,
    path_bytes: u64,
}

impl List {
    fn new(request: &LayerRequest) -> Self {
        let repositories = request.repositories.iter();
        Self {
            workdir: relative(request.workdir.as_bytes()).to_vec(),
            repositories: repositories.map(|path| relative(path.as_bytes()).to_vec()).collect(),
            limit: request.entry_limit,
            listed: Listed::new(),
            path_bytes: 0,
        }
    }

    /// Whether a path is not covered by the snapshots of the work directory.
    fn takes(&self, path: &[u8]) -> bool {
        !is_within(path, &self.workdir)
            || self.repositories.iter().any(|repository| is_within(path, repository))
    }

    fn add(&mut self, path: Vec<u8>, found: Found) -> Result<(), String> {
        let target = found.witness.filter(|witness| witness.kind == EntryKind::Link);
        self.path_bytes += path.len() as u64 + target.map_or(0, |link| link.size);
        self.listed.insert(path, found);
        if self.listed.len() as u64 > self.limit {
            return Err(format!("more than {} entries were written", self.limit));
        }
        if self.path_bytes > PATHS_LIMIT {
            return Err("the paths of what was written are too long".to_owned());
        }
        Ok(())
    }

    /// Everything below a folder of `top`, on its own file system.
    fn walk(&mut self, top: &OwnedFd, start: &[u8], place: Place) -> Result<(), String> {
        let most = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let mut folders = vec![start.to_vec()];
        let mut device = None;
        while let Some(path) = folders.pop() {
            let folder = match open(top, &path, FOLDER) {
                Ok(folder) => folder,
                // Removed since it was listed, or a work directory's repository that nobody wrote to.
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(error) => return Err(cannot(&path, error)),
            };
            let stat = fstat(&folder).map_err(|error| cannot(&path, error))?;
            let device = *device.get_or_insert(stat.st_dev);
            if stat.st_dev != device {
                continue;
            }
            if path == start && !start.is_empty() {
                self.add(path.clone(), Found::of(&stat, place))?;
            }
            if place == Place::Upper
                && is_opaque(&folder)
                && let Some(found) = self.listed.get_mut(&path)
            {
                found.replaced = true;
            }
            let names =
                entries::names_up_to(&folder, most).map_err(|error| cannot(&path, error))?;
            let names =
                names.ok_or_else(|| format!("{} has more than {most} entries", shown(&path)))?;
            for name in names {
                let mut full = path.clone();
                push(&mut full, &name);
                if !self.takes(&full) {
                    continue;
                }
                let stat = match statat(&folder, &name[..], AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => stat,
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(cannot(&full, error)),
                };
                // Something is mounted there.
                if stat.st_dev != device {
                    continue;
                }
                if place == Place::Upper && is_whiteout(&stat) {
                    self.add(full, Found::GONE)?;
                    continue;
                }
                if entries::kind(&stat) == EntryKind::Dir {
                    folders.push(full.clone());
                }
                self.add(full, Found::of(&stat, place))?;
            }
        }
        Ok(())
    }

    /// What an engine lists.
    fn named(&mut self, root: &OwnedFd, written: &Written) -> Result<(), String> {
        let gone: HashSet<&[u8]> =
            written.gone.iter().map(|path| relative(path.as_bytes())).collect();
        for path in &gone {
            if self.takes(path) {
                self.add(path.to_vec(), Found::GONE)?;
            }
        }
        let mut opened: Option<(&[u8], OwnedFd)> = None;
        for path in written.paths.iter().chain(&written.gone) {
            let path = relative(path.as_bytes());
            if path.is_empty() || !self.takes(path) {
                continue;
            }
            let (parent, name) = split(path);
            if opened.as_ref().is_none_or(|(at, _)| *at != parent) {
                opened = match open(root, parent, PARENT) {
                    Ok(folder) => Some((parent, folder)),
                    Err(Errno::NOENT | Errno::NOTDIR) => None,
                    Err(error) => return Err(cannot(parent, error)),
                };
            }
            let Some((_, folder)) = &opened else { continue };
            match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    let replaced = gone.contains(path) && entries::kind(&stat) == EntryKind::Dir;
                    self.add(path.to_vec(), Found { replaced, ..Found::of(&stat, Place::Root) })?;
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => return Err(cannot(path, error)),
            }
        }
        Ok(())
    }

    /// A file system of its own, or a file that is one.
    fn mount(&mut self, root: &OwnedFd, at: &[u8]) -> Result<(), String> {
        if at.is_empty() || !self.takes(at) {
            return Ok(());
        }
        let (parent, name) = split(at);
        // Covered by another mount.
        let Ok(folder) = open(root, parent, PARENT) else { return Ok(()) };
        let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
        match entries::kind(&stat) {
            EntryKind::Dir => self.walk(root, at, Place::Root),
            EntryKind::File => self.add(at.to_vec(), Found::of(&stat, Place::Root)),
            EntryKind::Link | EntryKind::Other => Ok(()),
        }
    }
}

/// The places of mounts that can be written to, the root left out.
fn writable_mounts(mountinfo: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for line in mountinfo.split(|&byte| byte == b'\n') {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let Some(dash) = fields.iter().position(|field| *field == b"-") else { continue };
        let (Some(&at), Some(&own), Some(&kind), Some(&whole)) =
            (fields.get(4), fields.get(5), fields.get(dash + 1), fields.get(dash + 3))
        else {
            continue;
        };
        let is_writable =
            |options: &[u8]| options.split(|&byte| byte == b',').any(|option| option == b"rw");
        let of_the_kernel = OF_THE_KERNEL.iter().any(|name| name.as_bytes() == kind);
        let at = unescaped(at);
        let at = relative(&at);
        if !at.is_empty() && is_writable(own) && is_writable(whole) && !of_the_kernel {
            found.push(at.to_vec());
        }
    }
    found
}

/// A path of `mountinfo`, which writes blanks and backslashes as three octal digits.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, more)) = rest.split_first() {
        let digits = more.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) if byte == b'\\' => {
                out.push(code);
                rest = &more[3..];
            }
            _ => {
                out.push(byte);
                rest = more;
            }
        }
    }
    out
}

/// What no file tells.
#[derive(Default)]
struct Beside {
    processes: BTreeSet<i32>,
    mounts: Vec<u8>,
    objects: [usize; 3],
}

impl Beside {
    fn now() -> Self {
        let lines = |name: &str| {
            let text = fs::read(format!("/proc/sysvipc/{name}")).unwrap_or_default();
            text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count()
        };
        Self {
            processes: processes::left_behind().iter().map(|process| process.pid).collect(),
            mounts: fs::read("/proc/self/mountinfo").unwrap_or_default(),
            objects: SYSTEM_V.map(lines),
        }
    }

    /// What cannot be made again, as a reason.
    fn since(&self, start: &Self) -> Option<String> {
        let new: Vec<i32> = self.processes.difference(&start.processes).copied().collect();
        if !new.is_empty() {
            let named = |pid: &i32| {
                let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
                String::from_utf8_lossy(&name).trim().to_owned()
            };
            let mut names: Vec<String> = new.iter().take(NAMED).map(named).collect();
            if new.len() > NAMED {
                names.push("others".to_owned());
            }
            return Some(format!("processes of the agent were running: {}", names.join(", ")));
        }
        if self.mounts != start.mounts {
            return Some("the agent changed what is mounted".to_owned());
        }
        let more = self.objects.iter().zip(&start.objects).any(|(now, before)| now > before);
        more.then(|| "System V queues, semaphores or shared memory existed".to_owned())
    }
}

fn open(top: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(top, path, flags, Mode::empty(), beneath)
}

fn is_opaque(folder: &OwnedFd) -> bool {
    let mut value = [0; 4];
    fgetxattr(folder, OPAQUE, &mut value[..]) == Ok(1) && value[0] == b'y'
}

/// How an overlay says that an entry of a lower layer is deleted.
fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

fn cannot(path: &[u8], error: Errno) -> String {
    format!("{} cannot be looked at: {}", shown(path), describe(error))
}

fn relative(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(start, |at| at + 1);
    &path[start..end.max(start)]
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    }
}

fn is_within(path: &[u8], folder: &[u8]) -> bool {
    let rest = path.strip_prefix(folder);
    folder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(file_limit: u64, content_limit: u64) -> LayerRequest {
        LayerRequest {
            fresh: false,
            workdir: "/testbed".into(),
            repositories: vec!["/testbed/.git".into()],
            listed: false,
            file_limit,
            content_limit,
            entry_limit: 100,
        }
    }

    fn found(path: &std::path::Path) -> Found {
        let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        Found::of(&stat, Place::Root)
    }

    fn paths(found: &Changes) -> (Vec<String>, Vec<String>) {
        let text = |path: &Vec<u8>| String::from_utf8(path.clone()).unwrap();
        (found.changed.iter().map(text).collect(), found.removed.iter().map(text).collect())
    }

    #[test]
    fn only_what_the_snapshots_of_the_work_directory_leave_out_is_taken() {
        let list = List::new(&request(1, 1));
        for taken in ["tmp/a", "testbed2/a", "root/.cache", "testbed/.git", "testbed/.git/HEAD"] {
            assert!(list.takes(taken.as_bytes()), "{taken}");
        }
        for left in ["testbed", "testbed/a", "testbed/.gitignore"] {
            assert!(!list.takes(left.as_bytes()), "{left}");
        }
    }

    #[test]
    fn changes_are_told_from_what_the_agent_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["kept", "edited", "new"] {
            fs::write(at(name), name).unwrap();
        }
        fs::create_dir(at("made")).unwrap();
        let (kept, edited, made) = (found(&at("kept")), found(&at("edited")), found(&at("made")));
        let base = Listed::from([
            (b"kept".to_vec(), kept),
            (b"edited".to_vec(), edited),
            (b"lost".to_vec(), kept),
            (b"was-gone".to_vec(), Found::GONE),
            (b"again".to_vec(), made),
            (b"again/below".to_vec(), kept),
        ]);
        fs::write(at("edited"), "longer than before").unwrap();
        let now = Listed::from([
            (b"kept".to_vec(), kept),
            (b"edited".to_vec(), found(&at("edited"))),
            (b"new".to_vec(), found(&at("new"))),
            (b"is-gone".to_vec(), Found::GONE),
            (b"was-gone".to_vec(), Found::GONE),
            (b"again".to_vec(), Found { replaced: true, ..made }),
            (b"again/below".to_vec(), kept),
        ]);
        let (changed, removed) = paths(&changes(&base, &now, &request(100, 100)).unwrap());
        assert_eq!(changed, ["again", "again/below", "edited", "new"]);
        assert_eq!(removed, ["again", "is-gone", "lost"]);
        assert_eq!(paths(&changes(&base, &base, &request(0, 0)).unwrap()), (vec![], vec![]));

        let why = |file, content| changes(&base, &now, &request(file, content)).err().unwrap();
        assert_eq!(why(10, 100), "/edited is larger than 0 MiB");
        assert_eq!(why(100, 20), "files outside the work directory are larger than 0 MiB");
    }

    #[test]
    fn writable_mounts_are_found_and_those_of_the_kernel_left_out() {
        let mountinfo = b"1 0 0:1 / / rw - overlay proctor rw\n\
            2 1 0:2 / /proc rw,nosuid - proc proctor rw\n\
            3 1 0:3 / /dev/shm rw,nosuid - tmpfs proctor rw,size=4k\n\
            4 1 0:4 / /usr ro - ext4 /dev/vda rw\n\
            5 1 0:5 / /opt rw - overlay overlay ro,lowerdir=/a\n\
            6 1 0:6 /v /my\\040data rw shared:2 - ext4 /dev/vda rw\n";
        assert_eq!(writable_mounts(mountinfo), [&b"dev/shm"[..], b"my data"]);
    }

    #[test]
    fn processes_of_the_start_are_no_reason() {
        let start = Beside { processes: BTreeSet::from([1, 7]), ..Beside::default() };
        assert_eq!(
            Beside { processes: BTreeSet::from([7]), ..Beside::default() }.since(&start),
            None
        );
        let more = Beside { processes: BTreeSet::from([7, 0]), ..Beside::default() };
        assert!(more.since(&start).is_some_and(|why| why.contains("processes of the agent")));
        let queue = Beside { objects: [2, 1, 1], ..Beside::default() };
        let before = Beside { objects: [1, 1, 1], ..Beside::default() };
        assert!(queue.since(&before).is_some() && before.since(&before).is_none());
    }
}
