//! Records the owner of a container in its labels.

use std::{
    collections::HashMap,
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::Path,
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use proctor_host::{Liveness, LockIdentity, RuntimeLock, check_liveness};

/// The label on everything that Proctor creates.
pub const MARK_LABEL: &str = "proctor";
const HOST_LABEL: &str = "proctor.host";
/// The runtime's name: `<pid>-<start time>-<random>`.
const RUNTIME_LABEL: &str = "proctor.runtime";
const PURPOSE_LABEL: &str = "proctor.purpose";
/// Path of the runtime's lock file on the runtime's machine.
const LOCK_LABEL: &str = "proctor.lock";
/// Identity of the lock file: `<boot> <device> <inode>`.
const IDENTITY_LABEL: &str = "proctor.lock.identity";

static CONTAINER_COUNT: AtomicU64 = AtomicU64::new(0);

/// Name prefix of the sockets that processes use to announce themselves.
const SOCKET_PREFIX: &str = "proctor-docker-";

/// Shows all processes on this machine that this one is alive and uses an engine. Uses a socket
/// with an abstract name, which the kernel removes whenever the process ends.
pub struct LivenessSocket {
    name: String,
    _socket: Option<UnixListener>,
}

impl LivenessSocket {
    pub fn announce() -> Self {
        let count = CONTAINER_COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{SOCKET_PREFIX}{}-{count}", process::id());
        let socket = SocketAddr::from_abstract_name(&name);
        let socket = socket.and_then(|address| UnixListener::bind_addr(&address)).ok();
        Self { name, _socket: socket }
    }

    /// Returns the ids of other live processes that use an engine.
    pub fn other_processes(&self) -> Vec<String> {
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let names = sockets.lines().filter_map(|line| line.rsplit_once('@').map(|(_, at)| at));
        names
            .filter(|name| *name != self.name)
            .filter_map(|name| name.strip_prefix(SOCKET_PREFIX)?.split('-').next())
            .map(str::to_owned)
            .collect()
    }
}

/// Returns a unique container name, made of this host, this runtime and a number.
pub fn container_name(lock: &RuntimeLock) -> String {
    let count = CONTAINER_COUNT.fetch_add(1, Ordering::Relaxed);
    format!("proctor-{}-{}-{count}", &host_id()[..8], lock.name())
}

/// Returns the labels for a container that this runtime creates.
pub fn labels(lock: &RuntimeLock, purpose: &str) -> HashMap<String, String> {
    [
        (MARK_LABEL, "1".to_owned()),
        (HOST_LABEL, host_id()),
        (RUNTIME_LABEL, lock.name().to_owned()),
        (LOCK_LABEL, lock.path().display().to_string()),
        (IDENTITY_LABEL, lock.identity().to_string()),
        (PURPOSE_LABEL, purpose.to_owned()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

/// Returns whether the runtime that created the container is certainly dead. Several machines may
/// share an engine. If the runtime's lock is on another machine, the container never counts as an
/// orphan.
pub fn is_orphan(labels: &HashMap<String, String>) -> bool {
    let label = |key: &str| labels.get(key).map(String::as_str);
    if label(MARK_LABEL) != Some("1") || label(HOST_LABEL) != Some(&host_id()) {
        return false;
    }
    let (Some(path), Some(identity)) = (label(LOCK_LABEL), label(IDENTITY_LABEL)) else {
        return false;
    };
    let Ok(identity) = identity.parse::<LockIdentity>() else { return false };
    match check_liveness(Path::new(path), Some(&identity)) {
        Liveness::Dead(_) => true,
        Liveness::Alive => false,
        Liveness::Unknown(why) => {
            tracing::debug!(why, path, "keeping a container, because its runtime may be alive");
            false
        }
    }
}

/// Returns the name of the runtime that created the container.
pub fn runtime_name(labels: &HashMap<String, String>) -> Option<String> {
    labels.get(RUNTIME_LABEL).cloned()
}

/// Returns an id of this machine.
fn host_id() -> String {
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    proctor_types::sha256_hex(format!("{machine} {name}").as_bytes())[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_is_orphan_only_after_its_lock_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let lock = RuntimeLock::acquire(folder.path()).unwrap();
        let own = labels(&lock, "test");
        assert!(!is_orphan(&own));
        let copy = folder.path().join("copy");
        fs::copy(lock.path(), &copy).unwrap();
        let with = |key: &str, value: &str| {
            let mut labels = own.clone();
            labels.insert(key.to_owned(), value.to_owned());
            labels
        };
        // Labels from another machine with the same name, or from a machine whose cache was copied
        // to this machine.
        let mut elsewhere: Vec<_> = own[IDENTITY_LABEL].split(' ').collect();
        elsewhere[0] = "another-boot";
        let cases = [
            with(IDENTITY_LABEL, &elsewhere.join(" ")),
            with(LOCK_LABEL, copy.to_str().unwrap()),
            with(LOCK_LABEL, "/nowhere/lock"),
            with(RUNTIME_LABEL, "4194999-1-0"),
            with(HOST_LABEL, "elsewhere"),
            with(IDENTITY_LABEL, "nonsense"),
        ];
        for labels in &cases {
            assert!(!is_orphan(labels), "alive: {labels:?}");
        }
        drop(lock);
        assert!(is_orphan(&own));
        for labels in cases.iter().skip(1).take(2).chain(&cases[4..]) {
            assert!(!is_orphan(labels), "not proven: {labels:?}");
        }
        assert!(!is_orphan(&HashMap::new()));
    }
}
