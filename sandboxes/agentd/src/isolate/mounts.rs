//! Builds the sandbox's root file system.
//!
//! Every tree from the host is first opened as a detached mount. Then the root is changed, the old
//! root is detached, and the trees are attached. So paths in the sandbox, which may contain
//! untrusted links, are never resolved while the host's files are accessible.

use std::{
    ffi::{CString, OsStr},
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{PermissionsExt, symlink},
        },
    },
    path::{Path, PathBuf},
};

use proctor_wire::{Defense, RawPath, SandboxLayout, UpperLayer};
use rustix::{
    fs::{CWD, Mode, OFlags},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags,
        MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create, fsmount, fsopen, mount,
        mount_change, move_mount, open_tree, unmount,
    },
};

use super::failure::{Failure, FailureContext};
use crate::sys;

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Paths that are covered because they reveal information about the whole machine.
const COVERED_PATHS: &str = include_str!("../../../../configs/sandbox/covered-paths.txt");

/// Settings of the sandbox's own namespaces:
///
/// - no user namespaces inside, because their creator would have all capabilities there;
/// - limits for inotify watches, which the kernel counts per user of the machine, so all sandboxes
///   share them.
const NAMESPACE_LIMITS: [(&str, &str); 4] = [
    ("/proc/sys/user/max_user_namespaces", "0"),
    ("/proc/sys/user/max_inotify_instances", "32"),
    ("/proc/sys/user/max_inotify_watches", "65536"),
    ("/proc/sys/user/max_fanotify_groups", "0"),
];

/// Limits for shared memory and message queues. These objects belong to no process: they outlive
/// the process that filled them, and killing processes does not free their memory.
const SHARED_MEMORY: [(&str, &str); 2] =
    [("/proc/sys/kernel/shm_rmid_forced", "1"), ("/proc/sys/kernel/msgmni", "32")];

const OVERLAY_HINT: &str = "native sandboxes need Linux 5.12 or newer with overlayfs in user \
                            namespaces; otherwise use sandbox.kind=docker";

pub(super) fn as_path(raw: &RawPath) -> &Path {
    Path::new(OsStr::from_bytes(raw.as_bytes()))
}

/// Builds the sandbox's root and moves this process into it.
pub(super) fn build_root(layout: &SandboxLayout) -> Result<(), Failure> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("make mounts private")?;
    let mut shown = Vec::with_capacity(layout.binds.len());
    for bind in &layout.binds {
        let from = as_path(&bind.from);
        let is_dir = fs::metadata(from).context(format_args!("mount {}", from.display()))?.is_dir();
        let tree = match &bind.marks {
            None => clone_read_only(from, libc::MOUNT_ATTR_NODEV)
                .context(format_args!("mount {}", from.display()))?,
            Some(marks) => open_with_whiteouts(from, as_path(marks), as_path(&layout.stage))?,
        };
        shown.push((tree, is_dir, as_path(&bind.to)));
    }
    let mut devices = Vec::with_capacity(DEVICES.len());
    for name in DEVICES {
        // Mount the device read-only. Programs can still write to the device, but cannot change its
        // mode.
        let tree = clone_read_only(&Path::new("/dev").join(name), 0)
            .context(format_args!("mount /dev/{name}"))?;
        devices.push((tree, name));
    }
    // Mount /proc while the host's own /proc is still visible, as the kernel requires.
    let proc = create_proc().context("mount /proc").map_err(|failure| {
        failure.with_hint("native sandboxes do not work in a container that hides parts of /proc; use sandbox.kind=docker")
    })?;
    let root = mount_overlay(layout)?;

    std::env::set_current_dir(&root).context("enter the new root")?;
    rustix::process::pivot_root(".", ".").context("change the root")?;
    unmount(".", UnmountFlags::DETACH).context("unmount the old root")?;
    std::env::set_current_dir("/").context("enter the new root")?;

    for (tree, is_dir, to) in shown {
        mount_at(&tree, is_dir, to).context(format_args!("mount {}", to.display()))?;
    }
    create_folder("/proc").context("create /proc")?;
    attach(&proc, Path::new("/proc")).context("mount /proc")?;
    make_dev(&devices, layout).context("create /dev")?;
    write_namespace_settings(layout)?;
    if !layout.without.contains(&Defense::AgentIdentity) {
        // Make the agent's own settings read-only: a user who owns the file of the agent's OOM
        // score can change the score.
        clone_read_only(Path::new("/proc/1"), 0)
            .and_then(|own| attach(&own, Path::new("/proc/1")))
            .context("protect /proc/1")?;
    }
    let covered = !layout.without.contains(&Defense::CoveredProc);
    protect_proc(covered).context("protect /proc")?;
    let lines = COVERED_PATHS.lines().filter(|line| covered && line.starts_with('/'));
    for entry in lines.map(Path::new).chain(layout.covers.iter().map(as_path)) {
        cover(entry).context(format_args!("cover {}", entry.display()))?;
    }
    for (entry, mode) in [("/tmp", 0o1777), ("/root", 0o700)] {
        if fs::symlink_metadata(entry).is_err() {
            create_folder(entry).context(format_args!("create {entry}"))?;
            fs::set_permissions(entry, fs::Permissions::from_mode(mode))
                .context(format_args!("create {entry}"))?;
        }
    }
    Ok(())
}

/// Opens a host directory without the entries that whiteouts in `whiteouts` hide. The directory is
/// briefly mounted on `stage`, which is a path on the host and is never visible in the sandbox.
fn open_with_whiteouts(source: &Path, whiteouts: &Path, stage: &Path) -> Result<OwnedFd, Failure> {
    let step = || format!("hide entries of {}", source.display());
    let (marks, lower) = (open_layer(whiteouts)?, open_layer(source)?);
    // Pass descriptors, as for the root, so that the mount list contains no host paths.
    let text =
        mount_options(&format!("userxattr,lowerdir={}:{}", fd_path(&marks), fd_path(&lower)))?;
    mount("proctor", stage, "overlay", MountFlags::NODEV | MountFlags::RDONLY, &*text)
        .context(step())
        .map_err(|failure| failure.with_hint(OVERLAY_HINT))?;
    let tree = clone_read_only(stage, libc::MOUNT_ATTR_NODEV).context(step())?;
    unmount(stage, UnmountFlags::DETACH).context(step())?;
    Ok(tree)
}

fn open_layer(folder: &Path) -> Result<OwnedFd, Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::empty())
        .context(format_args!("open the layer {}", folder.display()))
}

fn fd_path(folder: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", folder.as_raw_fd())
}

fn mount_overlay(layout: &SandboxLayout) -> Result<PathBuf, Failure> {
    let stage = as_path(&layout.stage);
    let (root, upper, work) = match &layout.upper {
        UpperLayer::Memory { bytes, inodes } => {
            let options = mount_options(&format!("size={bytes},nr_inodes={inodes},mode=755"))?;
            mount("proctor", stage, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, &*options)
                .context("mount a tmpfs for the sandbox's writes")?;
            let folders = ["root", "upper", "work"].map(|name| stage.join(name));
            for folder in &folders {
                fs::create_dir(folder).context("create the upper folders")?;
            }
            let [root, upper, work] = folders;
            (root, upper, work)
        }
        UpperLayer::Folder { upper, work } => {
            (stage.to_owned(), as_path(upper).to_owned(), as_path(work).to_owned())
        }
    };
    // The sandbox can read these options in its mount list, so pass descriptors. Unlike paths, they
    // reveal nothing about the host, need no escaping, and fit in one page, however deep the
    // directories are.
    let lower = layout
        .lower
        .iter()
        .map(|folder| open_layer(as_path(folder)))
        .collect::<Result<Vec<_>, _>>()?;
    let (upper, work) = (open_layer(&upper)?, open_layer(&work)?);
    let below: Vec<_> = lower.iter().map(fd_path).collect();
    let text = mount_options(&format!(
        "userxattr,lowerdir={},upperdir={},workdir={}",
        below.join(":"),
        fd_path(&upper),
        fd_path(&work)
    ))?;
    mount("proctor", &root, "overlay", MountFlags::NODEV, &*text)
        .context("mount the overlay")
        .map_err(|failure| failure.with_hint(OVERLAY_HINT))?;
    if matches!(layout.upper, UpperLayer::Memory { .. }) {
        // This exposes no host files: no path in the sandbox leads to this directory, and it
        // contains only what the sandbox wrote.
        crate::serve::remember_upper(upper);
    }
    Ok(root)
}

fn mount_options(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(io::Error::from).context("write mount options")
}

fn clone_read_only(source: &Path, extra_attributes: u64) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, source, flags)?;
    sys::set_mount_attributes(
        tree.as_fd(),
        libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | extra_attributes,
    )?;
    Ok(tree)
}

/// Covers every writable file in `/proc` that does not belong to a process. With
/// `covers_root_only_files`, also covers files that only root can read. If ids are mapped to
/// themselves, the sandbox's root has the same id as the machine's root, and for many of these
/// files the kernel checks only the id. Searches `/proc` instead of using a list, because kernels
/// differ.
fn protect_proc(covers_root_only_files: bool) -> io::Result<()> {
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            attach(&clone_read_only(&entry.path(), 0)?, &entry.path())?;
        } else if found.is_file() {
            let mode = found.permissions().mode();
            if mode & 0o222 != 0 || covers_root_only_files && mode & 0o004 == 0 {
                cover(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// Writes the namespace settings before their files become read-only.
fn write_namespace_settings(layout: &SandboxLayout) -> Result<(), Failure> {
    let up = |defense| !layout.without.contains(&defense);
    let (namespaces, watches) = NAMESPACE_LIMITS.split_at(1);
    let lists = [
        (true, namespaces),
        (up(Defense::Rations), watches),
        (up(Defense::SharedMemory), &SHARED_MEMORY[..]),
    ];
    for (file, value) in lists.iter().filter(|(up, _)| *up).flat_map(|(_, list)| *list) {
        match fs::write(file, value) {
            // The kernel does not have this setting or was built without it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.context(format_args!("set {file}"))?,
        }
    }
    Ok(())
}

fn attach(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    Ok(move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Attaches a tree at a path in the sandbox. Creates the path if it is missing.
fn mount_at(tree: &OwnedFd, is_dir: bool, target: &Path) -> io::Result<()> {
    if fs::metadata(target).is_err() {
        // A dangling link cannot be a mount point, so remove it.
        if fs::symlink_metadata(target).is_ok() {
            fs::remove_file(target)?;
        }
        if is_dir {
            fs::create_dir_all(target)?;
        } else {
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::File::create(target)?;
        }
    }
    attach(tree, &fs::canonicalize(target)?)
}

fn create_folder(path: &str) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn cover(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    if found.is_dir() {
        let flags =
            MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        Ok(mount("proctor", path, "tmpfs", flags, c"size=4k,mode=755")?)
    } else {
        attach(&clone_read_only(Path::new("/dev/null"), 0)?, path)
    }
}

fn create_proc() -> io::Result<OwnedFd> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn make_dev(devices: &[(OwnedFd, &str)], layout: &SandboxLayout) -> io::Result<()> {
    create_folder("/dev")?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("proctor", "/dev", "tmpfs", flags, c"size=64k,nr_inodes=64,mode=755")?;
    for (tree, name) in devices {
        let at = Path::new("/dev").join(name);
        fs::File::create(&at)?;
        attach(tree, &at)?;
    }
    fs::create_dir("/dev/pts")?;
    // Limit the number of terminals, because the whole machine has only a few thousand.
    let terminals = match layout.without.contains(&Defense::Rations) {
        true => c"newinstance,ptmxmode=0666,mode=0620",
        false => c"newinstance,ptmxmode=0666,mode=0620,max=64",
    };
    mount("proctor", "/dev/pts", "devpts", flags, terminals)?;
    fs::create_dir("/dev/shm")?;
    let size = CString::new(format!("size={},nr_inodes=4096,mode=1777", layout.shm_bytes))
        .map_err(io::Error::from)?;
    mount("proctor", "/dev/shm", "tmpfs", flags | MountFlags::NODEV, &*size)?;
    let links = [
        ("pts/ptmx", "ptmx"),
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ];
    for (target, name) in links {
        symlink(target, Path::new("/dev").join(name))?;
    }
    Ok(())
}
