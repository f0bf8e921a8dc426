//! Handles `read`, `write` and `folder` requests.

use std::{
    os::fd::OwnedFd,
    sync::atomic::{AtomicU64, Ordering},
};

use proctor_wire::{
    CreateDirRequest, EntryKind, RawPath, Refusal, RefusalKind, Reply, WriteRequest, channel,
};
use rustix::{
    fs::{
        AtFlags, CWD, Gid, Mode, OFlags, Stat, Uid, chownat, fchmod, fchown, fstat, mkdirat,
        openat, renameat, statat, symlinkat, unlinkat,
    },
    io::Errno,
};

use super::{
    beneath::{AnchoredPath, Parents, locate, locate_target},
    entries,
    refusal::{from_errno, new_refusal},
    server::Server,
    stream::{CHUNK_BYTES, Stream},
    users,
};

/// Maximum length of a link target, in bytes.
const LINK_LIMIT: usize = 4095;

static TEMPORARY_COUNTER: AtomicU64 = AtomicU64::new(0);

/// Sends the file's content from `offset` to the end. Rejects the request if more than `limit`
/// bytes remain, so that no caller mistakes part of a file for the whole file. Only regular files
/// are read: a pipe could block forever, and a device has no end.
pub fn read(
    server: &Server,
    stream: &Stream,
    path: &RawPath,
    offset: u64,
    limit: u64,
) -> Result<Reply, Refusal> {
    let refused = |error| from_errno(error, path);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path.as_bytes(), flags, Mode::empty()).map_err(refused)?;
    let stat = fstat(&file).map_err(refused)?;
    expect_regular(&stat, path)?;
    let end = offset.saturating_add(limit);
    let too_large = || {
        let what = format!("{path}: more than {limit} bytes after byte {offset}");
        Err(new_refusal(RefusalKind::TooLarge, what))
    };
    if stat.st_size as u64 > end {
        return too_large();
    }
    let mut at = offset;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let read = match rustix::io::pread(&file, &mut buffer[..], at) {
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(refused(error)),
        };
        if read == 0 {
            break;
        }
        // Check the limit again: the file may have grown, or its size may be 0 because it is in
        // /proc.
        if at + read as u64 > end {
            return too_large();
        }
        stream.send_all(&server.outbox, channel::STDOUT, &buffer[..read])?;
        at += read as u64;
    }
    stream.send_end(&server.outbox, channel::STDOUT);
    let size = (stat.st_size as u64).max(if at > offset { at } else { 0 });
    Ok(Reply::File { size, mode: entries::permission_bits(&stat) })
}

fn expect_regular(stat: &Stat, path: &RawPath) -> Result<(), Refusal> {
    match entries::entry_kind(stat) {
        EntryKind::File => Ok(()),
        EntryKind::Dir => Err(from_errno(Errno::ISDIR, path)),
        _ => Err(new_refusal(RefusalKind::BadRequest, format!("{path}: not a regular file"))),
    }
}

pub fn write(server: &Server, stream: &Stream, request: &WriteRequest) -> Result<Reply, Refusal> {
    let (path, beneath) = (&request.path, request.beneath.as_ref());
    let parents = match request.parents {
        true => Parents::Create(resolve_owner(request.owner.as_deref())?),
        false => Parents::MustExist,
    };
    if request.symlink {
        let place = locate(path, beneath, parents)?;
        return write_link(server, stream, request, &place);
    }
    let place = locate_target(path, beneath, parents)?;
    let existing = match statat(&place.folder, &place.name[..], AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(from_errno(error, path)),
    };
    if let Some(stat) = &existing {
        // Reject devices and pipes, because a rename would replace them for every process.
        expect_regular(stat, path)?;
    }
    if request.append {
        append(server, stream, request, &place)
    } else {
        replace(server, stream, request, &place, existing.as_ref())
    }
}

fn append(
    server: &Server,
    stream: &Stream,
    request: &WriteRequest,
    anchored_path: &AnchoredPath,
) -> Result<Reply, Refusal> {
    let refused = |error| from_errno(error, &request.path);
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(request.mode.unwrap_or(0o644));
    let file =
        openat(&anchored_path.folder, &anchored_path.name[..], flags, mode).map_err(refused)?;
    expect_regular(&fstat(&file).map_err(refused)?, &request.path)?;
    receive(server, stream, &file, &request.path)?;
    if let Some(mode) = request.mode {
        fchmod(&file, Mode::from_raw_mode(mode)).map_err(refused)?;
    }
    Ok(Reply::Done)
}

/// Writes a temporary file and renames it, so that no reader sees a partial file. Other hard links
/// to the old file keep its content.
fn replace(
    server: &Server,
    stream: &Stream,
    request: &WriteRequest,
    anchored_path: &AnchoredPath,
    existing: Option<&Stat>,
) -> Result<Reply, Refusal> {
    let refused = |error| from_errno(error, &request.path);
    let temporary = temporary_name();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&anchored_path.folder, &temporary[..], flags, Mode::from_raw_mode(0o600));
    let file = file.map_err(refused)?;
    let mode = request.mode.or(existing.map(entries::permission_bits)).unwrap_or(0o644);
    let done = receive(server, stream, &file, &request.path).and_then(|()| {
        let owner = existing.is_none().then_some(request.owner.as_deref()).flatten();
        if let Some((user, group)) = resolve_owner(owner)? {
            fchown(&file, Some(user), Some(group)).map_err(refused)?;
        }
        if let Some(stat) = existing {
            // Keep the owner if the agent is permitted to set it. Otherwise, still replace the
            // content.
            let (user, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            let _ = fchown(&file, Some(user), Some(group));
        }
        fchmod(&file, Mode::from_raw_mode(mode)).map_err(refused)?;
        renameat(
            &anchored_path.folder,
            &temporary[..],
            &anchored_path.folder,
            &anchored_path.name[..],
        )
        .map_err(refused)
    });
    finish_write(anchored_path, &temporary, done)
}

fn write_link(
    server: &Server,
    stream: &Stream,
    request: &WriteRequest,
    anchored_path: &AnchoredPath,
) -> Result<Reply, Refusal> {
    let refused = |error| from_errno(error, &request.path);
    let mut target = Vec::new();
    while let Some(bytes) = stream.next_input(&server.outbox)? {
        target.extend_from_slice(&bytes);
        if target.len() > LINK_LIMIT {
            return Err(refused(Errno::NAMETOOLONG));
        }
    }
    let temporary = temporary_name();
    let owner = resolve_owner(request.owner.as_deref())?;
    symlinkat(&target[..], &anchored_path.folder, &temporary[..]).map_err(refused)?;
    if let Some((user, group)) = owner {
        let (folder, name) = (&anchored_path.folder, &temporary[..]);
        // Ignore errors: a link's owner matters only for who may remove the link.
        let _ = chownat(folder, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW);
    }
    let done = renameat(
        &anchored_path.folder,
        &temporary[..],
        &anchored_path.folder,
        &anchored_path.name[..],
    );
    finish_write(anchored_path, &temporary, done.map_err(refused))
}

/// Returns the user and group id of the owner in a request.
fn resolve_owner(owner: Option<&str>) -> Result<Option<(Uid, Gid)>, Refusal> {
    let found = owner.map(users::find).transpose()?;
    Ok(found.map(|found| (Uid::from_raw(found.user), Gid::from_raw(found.group))))
}

/// Creates a directory, or sets an existing one's mode. Rejects a link at the path, because a link
/// is not a directory.
pub fn create_folder(request: &CreateDirRequest) -> Result<Reply, Refusal> {
    let refused = |error| from_errno(error, &request.path);
    let owner = resolve_owner(request.owner.as_deref())?;
    let parents = Parents::Create(owner);
    let place = locate(&request.path, request.beneath.as_ref(), parents)?;
    let made = match mkdirat(&place.folder, &place.name[..], Mode::from_raw_mode(0o700)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(refused(error)),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(&place.folder, &place.name[..], flags, Mode::empty()).map_err(refused)?;
    if let Some((user, group)) = owner.filter(|_| made) {
        fchown(&folder, Some(user), Some(group)).map_err(refused)?;
    }
    fchmod(&folder, Mode::from_raw_mode(request.mode)).map_err(refused)?;
    Ok(Reply::Done)
}

fn finish_write(
    anchored_path: &AnchoredPath,
    temporary: &[u8],
    result: Result<(), Refusal>,
) -> Result<Reply, Refusal> {
    if result.is_err() {
        let _ = unlinkat(&anchored_path.folder, temporary, AtFlags::empty());
    }
    result.map(|()| Reply::Done)
}

/// Returns a unique name for a temporary file, which the caller creates with `O_EXCL`.
fn temporary_name() -> Vec<u8> {
    let number = TEMPORARY_COUNTER.fetch_add(1, Ordering::Relaxed);
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    format!(".proctor-{now:x}-{number}").into_bytes()
}

fn receive(
    server: &Server,
    stream: &Stream,
    file: &OwnedFd,
    path: &RawPath,
) -> Result<(), Refusal> {
    while let Some(bytes) = stream.next_input(&server.outbox)? {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match rustix::io::write(file, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(from_errno(error, path)),
            }
        }
    }
    Ok(())
}
